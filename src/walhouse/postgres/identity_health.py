"""What will become of replica identities that the configuration asks for, seen before capture begins.

Invariant: nothing is altered here; what is said is what ``walhouse.postgres.replica_identity`` would do now.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walhouse.config.replica_identity import AUTOSET, Identity
from walhouse.errors import ConfigurationError
from walhouse.postgres.finding import Finding, error, ok, warning
from walhouse.postgres.replica_identity import IdentityChange, identity_changes, no_index
from walhouse.postgres.standby_health import takes_no_writes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walhouse.config.replica_identity import IdentityRules
    from walhouse.names import TableName
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection

_SUBJECT = f"connector.{AUTOSET}"


def planned_identities(
    connection: Connection, tables: Sequence[TableName], rules: IdentityRules
) -> tuple[dict[TableName, Identity], list[Finding]]:
    """The identities that captured tables and their partitions will get, and what there is to say about it."""
    findings = [
        warning(_SUBJECT, f"{entry.table} matches no captured table.", "Correct the entry or take it out.")
        for entry in rules.entries
        if not any(entry in rules.matching(table) for table in tables)
    ]
    try:
        changes = identity_changes(connection, tables, rules)
    except ConfigurationError as contradiction:
        return {}, [*findings, error(_SUBJECT, contradiction.problem, contradiction.todo_text)]
    if changes and takes_no_writes(connection):
        todo = "Let its owner alter it on the primary, and take the entry out."
        return {}, [*findings, *(error(_SUBJECT, f"{each.member} cannot be altered here.", todo) for each in changes)]
    planned = {change.member: change.wanted for change in changes if change.owned and not change.has_no_index}
    return planned, [*findings, *map(_finding, changes)]


def _finding(change: IdentityChange) -> Finding:
    if change.has_no_index:
        missing = no_index(change)
        return error(_SUBJECT, missing.problem, missing.todo_text)
    if not change.owned:
        todo = f"Let its owner run ALTER TABLE {change.member.quoted} REPLICA IDENTITY {change}."
        return warning(_SUBJECT, f"The user does not own {change.member}, whose identity will stay as it is.", todo)
    return ok(f"table {change.member}", f"will get REPLICA IDENTITY {change}")


def with_planned(relation: RelationDescription, planned: Mapping[TableName, Identity]) -> RelationDescription:
    """The table as it will be. With an index all columns count as part of the identity, since each may be."""
    identity = planned.get(relation.name)
    if identity is None:
        return relation
    parts = {
        Identity.DEFAULT: relation.primary_key or (),
        Identity.NOTHING: (),
    }.get(identity, relation.column_names)
    columns = tuple(replace(column, identity=column.name in parts) for column in relation.columns)
    return replace(relation, replica_identity=str(identity), columns=columns)
