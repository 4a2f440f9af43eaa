"""walhouse beside Debezium's own engine: the same WAL, the same machine, one run."""
