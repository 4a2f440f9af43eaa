"""Commits to a Delta table of a local lake, of files that are there already, and what a table's log says of them.

Invariant: a commit's files become visible at once, and are on the disk before anybody is told; one that comes again
under a name and a number that the table has seen, or under a smaller number, changes nothing, as with Spark's writer.
All that is read of a table is read from its folder. ``walhouse.lakehouse.layout.LakeLayout.local`` opens one.
Delta's protocol is delta-rs's part (the package ``deltalake``), which is there wherever a lake is local.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from walhouse.errors import ForeignCommitError, LakeError
from walhouse.lakehouse.files import sync
from walhouse.lakehouse.tidying import put_together

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from walhouse.lakehouse.files import NewFile, Once

_FEW_FILES: Final = 32

_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
"""Of a column whose name in files is another one."""

_FEATURES: Final = frozenset({"appendOnly", "invariants"})

_TIDY_EVERY: Final = 256
"""Commits. Their files are small and many: putting them together takes less than a hundredth of their time."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalTable:
    """A Delta table in a folder. Each method looks at the log as it is then.

    Raises ForeignCommitError, and LakeError if the folder is gone.
    """

    folder: Path

    @property
    def is_there(self) -> bool:
        """Whether the folder holds a table."""
        return DeltaTable.is_deltatable(self.folder.as_uri())

    def append(self, files: Sequence[NewFile], once: Once | None, *, tidies: bool = False) -> None:
        """Make files part of the table, in one commit; if ``once`` is given and was seen, not.

        ``tidies``: now and then its small files are put together, by the one who writes to it.
        """
        with self._understood() as table:
            if once is not None and _has_seen(table, once):
                return
            now = int(time.time() * 1000)
            added: list[AddAction | RemoveAction] = [_added(each, now) for each in files if each.rows]
            named = CommitProperties(app_transactions=[Transaction(*once)] if once is not None else None)
            before = table.version()
            table.create_write_transaction(added, "append", table.schema(), commit_properties=named)
            self._sync_log(before)
        if tidies and (before + 1) % _TIDY_EVERY == 0:
            self._tidy()

    def _tidy(self) -> None:
        """What was appended is there, whatever becomes of this."""
        try:
            facts = self._files()
            with self._understood() as table:
                now = int(time.time() * 1000)
                for old, new in put_together(self.folder, facts):
                    changed: list[AddAction | RemoveAction] = [_added(new, now, is_new=False)]
                    changed += [_removed(line, now) for line in old]
                    before = table.version()
                    table.create_write_transaction(changed, "append", table.schema())
                    self._sync_log(before)
        except (ForeignCommitError, OSError, pa.ArrowException) as error:
            log.warning("The small files of %s were not put together: %s", self.folder.name, type(error).__name__)

    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        with self._understood() as table:
            return table.metadata().configuration

    def size(self) -> int:
        """The bytes of its files. Of a table in any form: what a deletion vector marks counts as if it were there."""
        with self._opened() as table:
            return sum(pa.table(table.get_add_actions(flatten=True))["size_bytes"].to_pylist())

    def greatest(self, columns: Sequence[str]) -> tuple[int | None, ...] | None:
        """The greatest value of each column of integers, by the log's statistics, None without any.

        None in place of all of it if a file does not tell: neither its greatest value nor that all are NULL.
        """
        facts = self._files()
        found = []
        for name in columns:
            greatest_of_files = _column(facts, f"max.{name}")
            are_null = pc.equal(_column(facts, f"null_count.{name}"), facts["num_records"])
            tells = pc.or_(greatest_of_files.is_valid(), pc.fill_null(are_null, fill_value=False))
            if not pc.all(tells, min_count=0).as_py():
                return None
            found.append(pc.max(greatest_of_files).as_py())
        return tuple(found)

    def lacks(self, columns: Sequence[str]) -> bool:
        """Whether no row has a value in any of these, by the log's statistics; False also if these do not tell.

        Of a table in any form: what a deletion vector marks is counted as if it were there.
        """
        with self._opened() as table:
            facts = pa.table(table.get_add_actions(flatten=True))
            fields = {field.name: field.metadata for field in table.schema().fields}
        stored = (fields[name].get(_PHYSICAL_NAME, name) for name in columns)
        are_null = (pc.equal(_column(facts, f"null_count.{name}"), facts["num_records"]) for name in stored)
        return all(pc.all(pc.fill_null(each, fill_value=False), min_count=0).as_py() for each in are_null)

    def find_rows(
        self, columns: Sequence[str], within: Mapping[str, tuple[Any, Any]], present: str
    ) -> list[dict[str, Any]] | None:
        """Rows whose columns lie between two values, both included, and whose column ``present`` has any.

        Of the files and row groups that their statistics do not exclude. None if these are more than a few files: a
        query by Spark reads them side by side.
        """
        facts = self._files()
        excluded = [pc.equal(facts["num_records"], 0)]
        for name, (least, greatest) in within.items():
            if f"min.{name}" in facts.column_names and f"max.{name}" in facts.column_names:
                excluded += [pc.greater(facts[f"min.{name}"], greatest), pc.less(facts[f"max.{name}"], least)]
        excluded.append(pc.equal(_column(facts, f"null_count.{present}"), facts["num_records"]))
        left = pc.invert(reduce(pc.or_, (pc.fill_null(each, fill_value=False) for each in excluded)))
        paths = facts["path"].filter(left).to_pylist()
        if len(paths) > _FEW_FILES:
            return None
        ranges = [(pc.field(name) >= low) & (pc.field(name) <= high) for name, (low, high) in within.items()]
        wanted = reduce(and_, ranges, pc.field(present).is_valid())
        return [
            row
            for path in paths
            for row in pq.read_table(
                self.folder / path, columns=list(columns), filters=wanted, partitioning=None
            ).to_pylist()
        ]

    @contextmanager
    def _understood(self) -> Iterator[DeltaTable]:
        """In a form in which columns have their names in files, too, and no row is marked deleted."""
        with self._opened() as table:
            protocol = table.protocol()
            reader, writer = protocol.min_reader_version, protocol.min_writer_version
            features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())} - _FEATURES
            if reader > 1 or writer not in {1, 2, 7} or features:
                needs = f"reader {reader}, writer {writer}, {sorted(features)}"
                raise ForeignCommitError(
                    f"{self.folder.name} needs more of Delta's protocol: {needs}.", path=str(self.folder)
                )
            yield table

    @contextmanager
    def _opened(self) -> Iterator[DeltaTable]:
        try:
            yield DeltaTable(self.folder.as_uri())
        except TableNotFoundError as error:
            raise LakeError(
                f"{self.folder} is not there: it was removed or moved, or its disk is not mounted.",
                safe="The slot was not moved, so nothing is lost.",
                todo="Bring it back to its place, then run again. In an empty folder a new lake would begin, with the"
                " slot of this one.",
                path=str(self.folder),
            ) from error
        except (DeltaError, OSError) as error:
            raise ForeignCommitError(f"{type(error).__name__}: {error}", path=str(self.folder)) from error

    def _files(self) -> pa.Table:
        """A line for each file: ``path``, ``num_records``, and statistics as ``min.x``, ``max.x``, ``null_count.x``."""
        with self._understood() as table:
            return pa.table(table.get_add_actions(flatten=True))

    def _sync_log(self, after: int) -> None:
        """Put the commits after a version on the disk, and the names of all that is new."""
        log = self.folder / "_delta_log"
        for commit in log.glob(f"{'[0-9]' * 20}.json"):
            if int(commit.stem) > after:
                sync(commit)
        sync(log)
        sync(self.folder)


def _added(file: NewFile, now: int, *, is_new: bool = True) -> AddAction:
    return AddAction(
        file.path, file.size, partition_values={}, modification_time=now, data_change=is_new, stats=file.stats
    )


def _removed(line: Mapping[str, Any], now: int) -> RemoveAction:
    """Of a file whose rows are in another one."""
    return RemoveAction(
        line["path"], data_change=False, deletion_timestamp=now, size=line["size_bytes"], partition_values={}
    )


def _has_seen(table: DeltaTable, once: Once) -> bool:
    last = table.transaction_version(once.name)
    return last is not None and last >= once.number


def _column(facts: pa.Table, name: str) -> pa.ChunkedArray:
    """A fact of all files; NULL where none of them tells it."""
    return facts[name] if name in facts.column_names else pa.chunked_array([pa.nulls(facts.num_rows, pa.int64())])
