"""PostgreSQL's logical replication messages (plug-in pgoutput) as Arrow: bytes in, record batches out.

Invariant: pure. Nothing here imports Spark or psycopg, opens a connection or reads a clock, so recorded frames decode
to the same rows everywhere.
"""
