"""The description of a relation: what the Relation message says, and what the catalog knows beside it.

Invariant: ``version`` depends on the Relation message and the kept columns alone, so that any reader computes the same
version from the same message; but where bronze knows the catalog's facts of that message as others, they have a version
of their own (``retold``). A fact of the catalog is None where it is unknown.
Source: PostgreSQL documentation, "Logical Replication Message Formats", Relation; ``replica_identity`` is
``pg_class.relreplident``: d (primary key), n (nothing), f (full), i (index); YugabyteDB documentation, "Logical
replication", for its own c (change): as d, and a new row has only the columns that changed, the others as not sent.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.column_default import default_is_read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from walhouse.pgoutput.type_facts import TypeFacts

BY_KEY: Final = frozenset("dic")
"""Replica identities under which an old tuple holds the identity's columns and no others."""


@dataclass(frozen=True, slots=True)
class RelationDescription:
    """One version of one relation."""

    version: int
    oid: int
    schema: str
    table: str
    replica_identity: str
    columns: tuple[ColumnDescription, ...]
    positions: tuple[int, ...]
    """Where each kept column stands among the message's columns."""

    primary_key: tuple[str, ...] | None = None
    """Columns in the key's order; empty if there is none; None if unknown."""
    key_is_deferrable: bool | None = None
    """Whether two rows may have the same primary key before their statement or transaction ends; None if unknown."""
    identity_is_whole: bool | None = None
    """Whether all columns of a replica identity that is a key are sent: a column list may leave some out, and generated
    ones are not published by default; None if unknown."""
    unique_keys: tuple[tuple[str, ...], ...] | None = None
    """Columns of each further unique index without expressions, in index-name order, also those that it includes: the
    first one's are the key of events where there is no primary one, and none are if the relation lacks all of them."""
    comment: str | None = None
    partitioned: bool | None = None
    catalog_lsn: int | None = None
    """The LSN at which the catalog facts were read."""
    message_version: int | None = None
    """What the message alone gives, if ``version`` is that of other facts than the first ones; else None."""

    @property
    def of_message(self) -> int:
        """The version that the message alone gives."""
        return self.version if self.message_version is None else self.message_version

    @property
    def said(self) -> tuple[object, ...]:
        """What events say that no message does. Not an enum's labels: Debezium's engine reads each type once."""
        return self.own_key, *((column.nullable, column.default, column.comment) for column in self.columns)

    @property
    def name(self) -> TableName:
        """The relation's name on the source."""
        return TableName(self.schema, self.table)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the kept columns, by position."""
        return tuple(column.name for column in self.columns)

    @property
    def is_without_columns(self) -> bool:
        """Whether the message had no columns at all, which is something else than that none of them are kept."""
        return self.of_message == relation_version(self.oid, self.name, self.replica_identity, (), ())

    @property
    def identity_columns(self) -> tuple[str, ...]:
        """Names of the kept columns of the replica identity, by position."""
        return tuple(column.name for column in self.columns if column.identity)

    @property
    def own_key(self) -> tuple[str, ...]:
        """The columns that identify a row to Debezium: the primary key, else the first unique key, else none."""
        if self.primary_key:
            return self.primary_key
        return self.unique_keys[0] if self.unique_keys else ()

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns by which changes tell rows apart, in the key's order, never NULL; empty for a bag of rows.

        Identity default or an index: the identity columns, in the primary key's order where they are the primary key.
        Identity full or nothing: the primary key, else the table is a bag (with nothing, only inserts ever come). It is
        one, too, if the key is deferrable: an update that shifts all keys comes row by row, each onto the next one; and
        if a part of the identity is not sent, by which many rows may be the same (here, too, only inserts come).
        """
        primary = self.primary_key or ()
        if self.identity_is_whole is False:
            return ()
        if self.replica_identity in BY_KEY:
            identity = self.identity_columns
            return primary if set(primary) == set(identity) else identity
        return () if self.key_is_deferrable else primary

    def event_key(self, chosen: Sequence[str]) -> tuple[str, ...]:
        """The key of events: those of its columns that are chosen, else its own."""
        return tuple(chosen) or self.own_key

    def keys(self, chosen: Sequence[str]) -> frozenset[str]:
        """Columns of the primary key and of the key of events."""
        return frozenset(self.primary_key or ()) | frozenset(self.event_key(chosen))

    def position(self, column: str) -> int | None:
        """The place of a column in images, or None if this version does not have it."""
        names = self.column_names
        return names.index(column) if column in names else None

    def to_json(self) -> str:
        """The text that bronze keeps."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what ``to_json`` wrote."""
        raw: dict[str, Any] = json.loads(text)
        columns = tuple(
            ColumnDescription(**{**column, "enum_labels": _tuple(column["enum_labels"])}) for column in raw["columns"]
        )
        unique = raw["unique_keys"]
        return cls(
            **{
                **raw,
                "columns": columns,
                "positions": tuple(raw["positions"]),
                "primary_key": _tuple(raw["primary_key"]),
                "unique_keys": None if unique is None else tuple(tuple(key) for key in unique),
            }
        )


def describe(
    oid: int,
    name: TableName,
    replica_identity: str,
    columns: Sequence[ColumnDescription],
    kept: Sequence[int] | None = None,
) -> RelationDescription:
    """What the message alone gives: ``columns`` are all of the message's, ``kept`` the kept positions (None: all)."""
    positions = tuple(range(len(columns)) if kept is None else kept)
    version = relation_version(oid, name, replica_identity, columns, positions)
    return RelationDescription(
        version=version,
        oid=oid,
        schema=name.schema,
        table=name.table,
        replica_identity=replica_identity,
        columns=tuple(columns[position] for position in positions),
        positions=positions,
    )


def relation_version(
    oid: int,
    name: TableName,
    replica_identity: str,
    columns: Sequence[ColumnDescription],
    positions: Sequence[int],
) -> int:
    """A positive 63-bit number that is equal exactly for equal messages with equal kept columns."""
    facts = [
        oid,
        *name,
        replica_identity,
        [[column.name, column.type_oid, column.typmod, column.identity] for column in columns],
        list(positions),
    ]
    digest = hashlib.sha256(json.dumps(facts).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def with_catalog(
    message: RelationDescription, catalog: RelationDescription | None, types: Mapping[int, TypeFacts]
) -> RelationDescription:
    """Add the catalog's facts to a message's description, column by column, where both agree.

    The catalog is that of now, the message that of the change: what is told of a column counts only where its name,
    type and modifier are the same in both, else what is told of its type does (``types``, by OID). Whether it may be
    NULL, and its default, count by name, as Debezium takes them, the latter only where the type of now is one whose
    defaults it reads. A primary key counts only with all of its columns.
    """
    if catalog is None or catalog.oid != message.oid:
        return replace(message, columns=tuple(_by_type(column, types) for column in message.columns))
    known = {(column.name, column.type_oid, column.typmod): column for column in catalog.columns}
    by_name = {column.name: column for column in catalog.columns}

    def told(column: ColumnDescription) -> ColumnDescription:
        now = known.get((column.name, column.type_oid, column.typmod))
        if now is not None:
            return replace(now, identity=column.identity)
        column, now = _by_type(column, types), by_name.get(column.name)
        if now is None:
            return column
        return replace(column, nullable=now.nullable, default=now.default if default_is_read(now) else None)

    columns = tuple(told(column) for column in message.columns)
    names = set(message.column_names)
    key = catalog.primary_key
    is_as_now = catalog.of_message == message.version
    return replace(
        message,
        version=catalog.version if is_as_now else message.version,
        message_version=catalog.message_version if is_as_now else None,
        columns=columns,
        primary_key=key if key is not None and names.issuperset(key) else None,
        key_is_deferrable=catalog.key_is_deferrable,
        identity_is_whole=catalog.identity_is_whole if catalog.replica_identity == message.replica_identity else None,
        unique_keys=known_parts(catalog.unique_keys or (), names),
        comment=catalog.comment,
        partitioned=catalog.partitioned,
        catalog_lsn=catalog.catalog_lsn,
    )


def retold(relation: RelationDescription) -> RelationDescription:
    """The same under a version of its facts, of which the message's own one is another."""
    digest = hashlib.sha256(json.dumps([relation.of_message, relation.said]).encode()).digest()
    return replace(relation, version=int.from_bytes(digest[:8]) >> 1, message_version=relation.of_message)


def known_parts(keys: Iterable[Sequence[str]], names: Set[str]) -> tuple[tuple[str, ...], ...]:
    """Of each key the columns that there are: Debezium takes the first one, whatever is left of it."""
    return tuple(tuple(name for name in key if name in names) for key in keys)


def _by_type(column: ColumnDescription, types: Mapping[int, TypeFacts]) -> ColumnDescription:
    facts = types.get(column.type_oid)
    return column if facts is None else facts.told_of(column)


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
