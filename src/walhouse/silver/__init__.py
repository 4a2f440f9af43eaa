"""Silver: what Debezium would have emitted, one Delta table of events per source table.

``apply`` writes it; the rules are in ``types`` (which PostgreSQL type becomes what), ``keys``, ``images`` (before and
after), ``source`` and ``envelope``. ``records`` prints it.
"""
