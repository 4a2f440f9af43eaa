"""PostgreSQL's write-ahead log into a Delta lakehouse, with the semantics of the Debezium PostgreSQL connector."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("walhouse")
except PackageNotFoundError:  # the package runs from a source folder without installation
    __version__ = "0+source"
