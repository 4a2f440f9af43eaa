"""Commits to a Delta table of a local lake, of files that are there already, and what a table's log says of them.

Invariant: a commit's files become visible at once; one that comes again under a name and a number that the table has
seen, or under a smaller number, changes nothing, as with Spark's writer. All of a table is read from its folder.
Delta's protocol is delta-rs's part (the package ``deltalake``), which is there wherever a lake is local.
"""

from __future__ import annotations

import time
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from walhouse.errors import ForeignCommitError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from walhouse.lakehouse.files import NewFile, Once


def append_files(folder: Path, files: Sequence[NewFile], once: Once | None) -> None:
    """Make files part of a table, in one commit; if ``once`` is given and was seen, not. Raises ForeignCommitError."""
    try:
        table = DeltaTable(folder.as_uri())
        if once is not None and _has_seen(table, once):
            return
        now = int(time.time() * 1000)
        added: list[AddAction | RemoveAction] = [_added(each, now) for each in files if each.rows]
        named = CommitProperties(app_transactions=[Transaction(*once)] if once is not None else None)
        table.create_write_transaction(added, "append", table.schema(), commit_properties=named)
    except DeltaError as error:
        raise ForeignCommitError(f"{type(error).__name__}: {error}", path=str(folder)) from error


def _added(file: NewFile, now: int) -> AddAction:
    return AddAction(
        file.path, file.size, partition_values={}, modification_time=now, data_change=True, stats=file.stats
    )


def _has_seen(table: DeltaTable, once: Once) -> bool:
    last = table.transaction_version(once.name)
    return last is not None and last >= once.number


def rows_where(folder: Path, column: str, value: int, *, present: str, columns: Sequence[str]) -> pa.Table:
    """Rows whose integer ``column`` has a value and whose column ``present`` has any, as log and files have them now.

    Reads the files that the two columns' statistics do not exclude, and of these the row groups.
    """
    facts = pa.table(DeltaTable(folder.as_uri()).get_add_actions(flatten=True))
    known = set(facts.column_names)
    excluded = [pc.equal(facts["num_records"], 0)]
    if {f"min.{column}", f"max.{column}"} <= known:
        excluded += [pc.greater(facts[f"min.{column}"], value), pc.less(facts[f"max.{column}"], value)]
    if f"null_count.{present}" in known:
        excluded.append(pc.equal(facts[f"null_count.{present}"], facts["num_records"]))
    left = reduce(pc.or_kleene, excluded)
    paths = facts["path"].filter(pc.invert(pc.fill_null(left, False)))  # noqa: FBT003  (Arrow's own signature)
    wanted = (pc.field(column) == value) & pc.field(present).is_valid()
    found = [
        pq.read_table(folder / path, columns=list(columns), filters=wanted, partitioning=None)
        for path in paths.to_pylist()
    ]
    return pa.concat_tables(found) if found else pa.table({name: [] for name in columns})
