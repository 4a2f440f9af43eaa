"""The lake itself: Spark session, table names and folders, Delta versions, the writer's lock.

Knows nothing of PostgreSQL.
"""
