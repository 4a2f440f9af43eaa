"""Which PostgreSQL type becomes what in silver, and the SQL that makes it: one rule a type and mode.

``registry`` finds a column's rule; the other modules hold the rules, by family.
"""
