"""What is raised where layers fail: several at once, side by side, and where a table is not what the ledger says.

Invariant: one failure is raised and each other one is logged: nobody finds the second only by mending the first.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from walhouse.errors import LakeError, WalhouseError
from walhouse.lakehouse.conditions import spark_condition
from walhouse.lakehouse.refusal import refusal_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walhouse.names import LakeTable, TableName

log = logging.getLogger(__name__)


def raise_first(failures: Mapping[str, BaseException]) -> None:
    """Raise the first failure, if there is any, and log the others. The keys say what failed.

    Of an exception that is not walhouse's own, and says nothing of the lake, only the kind is logged, since its message
    may quote a row.
    """
    for what, failure in list(failures.items())[1:]:
        log.error("%s failed, too: %s", what, _told(failure))
    for failure in failures.values():
        raise failure


def _told(failure: BaseException) -> str:
    said = refusal_in(failure) if isinstance(failure, Exception) else None
    if said or isinstance(failure, WalhouseError):
        return str(said or failure)
    condition = spark_condition(failure)
    return f"{type(failure).__name__}{f' ({condition})' if condition else ''}"


def table_gone(layer: str, table: TableName, name: LakeTable, *, safe: str) -> LakeError:
    """A layer's table was applied, and is not there. ``safe``: what holds all the same."""
    problem = f"{name} is not there, and ops.epochs has it: it was dropped, or its name or schema was changed."
    return _not_ours(problem, layer, table, safe)


def table_unknown(layer: str, table: TableName, name: LakeTable, *, safe: str) -> LakeError:
    """A layer's table is there, and was never applied."""
    problem = f"{name} is there, and ops.epochs had nothing of it: that was removed, or lake.ops was changed."
    return _not_ours(problem, layer, table, safe)


def table_restored(layer: str, table: TableName, name: LakeTable, *, safe: str) -> LakeError:
    """A layer's table was set back by itself."""
    return LakeError(
        f"{name} was restored to an earlier version than ops.epochs has of it: it lacks what was applied since.",
        safe=safe,
        todo=f"Make it anew from bronze: walhouse rebuild {layer} {_named(table)}."
        " Or restore the version that it had before.",
        table=str(table),
    )


def base_gone(layer: str, table: TableName) -> LakeError:
    """An epoch that was begun needs its table as it was before, which can be read no more."""
    return LakeError(
        f"An epoch of {layer} was begun and not ended, and {table} as it was before it can be read no more: a VACUUM"
        " that keeps less than Delta's week has removed it.",
        safe="Bronze holds every change; other tables are not concerned.",
        todo=f"Make it anew from bronze: walhouse rebuild {layer} {table}.",
        table=str(table),
    )


def _not_ours(problem: str, layer: str, table: TableName, safe: str) -> LakeError:
    todo = f"Set the name back under lake, if that is it. Else: walhouse rebuild {layer} {_named(table)}."
    return LakeError(problem, safe=safe, todo=todo, table=str(table))


def _named(table: TableName) -> str:
    """As the command wants it; logical messages and transactions are of no schema."""
    return str(table) if table.schema else f"'\"\".{table.table}'"
