"""Silver printed as the records that Debezium would have sent.

``events`` puts all tables in order; ``lines`` makes a record of a row, ``payloads`` its key and value,
``connect_schema`` their schemas; ``places`` and ``heartbeats`` are what stands beside the changes.
"""
