"""Rows that are read and not streamed: the initial snapshot, and tables by chunks while the stream goes on."""
