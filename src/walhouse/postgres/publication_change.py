"""What became of a publication since it was looked at last, by its fingerprints.

Invariant: where changes of a captured table may have been decoded without its entry, that is an error, or the table is
named as one to be read anew; what is no captured table's concern, as the end of an entry of another, is neither.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from walhouse.errors import PublicationChangedError
from walhouse.names import TableName
from walhouse.postgres.connection import source_errors

if TYPE_CHECKING:
    from collections.abc import Collection

    from walhouse.postgres.connection import Connection
    from walhouse.postgres.publication import CapturedTables, PublicationState

_OF_ENTRIES: Final = """
    SELECT c.oid::int8, c.relkind::text, n.nspname, c.relname
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY(%s::int8[])"""

_ATTACHED: Final = """
    WITH RECURSIVE links AS (
        SELECT i.inhrelid AS leaf, i.inhparent AS parent, i.xmin AS linked
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition WHERE i.inhrelid = ANY(%s::int8[])
        UNION ALL
        SELECT leaf, i.inhparent, i.xmin FROM links JOIN pg_inherits i ON i.inhrelid = parent
    )
    SELECT DISTINCT leaf::int8 FROM links JOIN pg_attribute ON attrelid = leaf AND attname = 'ctid'
    WHERE age(linked) < age(pg_attribute.xmin)"""
"""A system column's row is written when its table is made, and not again."""


_FILTERED: Final = """
    SELECT c.oid::int8 FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid
    WHERE r.prpubid = %s AND r.prqual IS NOT NULL AND c.relnamespace = ANY(%s::oid[])"""


def changed_behind_our_back(
    old: str, new: str, unconcerned: Collection[int] = (), readable: Collection[int] = ()
) -> str | None:
    """Why changes may be missing between two fingerprints, or None.

    An entry that was added is no fault. One that is gone is, since it can come back before the next look; unless its
    relation (by OID) is among those that are ``unconcerned``: dropped, or not captured. One that was made again is none
    either, if its relation is among those that can be read anew (``readable``).
    """
    before: dict[str, Any] = json.loads(old)
    after: dict[str, Any] = json.loads(new)
    if before["oid"] != after["oid"]:
        return "it was dropped and created again, or publication.name was another one"
    for setting in ("publishes", "via_root", "generated_columns"):
        if before[setting] != after[setting]:
            return f"its setting {setting} was {before[setting]} and is {after[setting]}"
    if _was_altered(before.get("version"), after["version"]):
        return "its settings were changed, and changed back"
    for kind, fine, mendable in (("tables", unconcerned, readable), ("schemas", (), ())):
        for oid, (entry, name) in before[kind].items():
            found = after[kind].get(oid)
            if found is None and int(oid) not in fine:
                return f"{kind.removesuffix('s')} {name} was removed from it"
            if found is not None and found[0] != entry and int(oid) not in (*fine, *mendable):
                return f"{kind.removesuffix('s')} {name} was removed from it and added again"
    return None


def is_unaltered(old: str, new: str) -> bool:
    """Whether the publication's own row, and with it its name, is what it was. Its entries may have changed."""
    before, after = json.loads(old), json.loads(new)
    return all(before.get(name) == after[name] for name in ("oid", "version"))


def _was_altered(before: tuple[str, int] | None, after: tuple[str, int]) -> bool:
    """Whether the publication's own row was written, and not for another owner. Older fingerprints do not tell."""
    if before is None:
        return False
    (version, owner), (new_version, new_owner) = before, after
    return version != new_version and owner == new_owner


def has_more_tables(old: str, new: str) -> bool:
    """Whether a fingerprint has entries, of tables or of whole schemas, that an older one lacks."""
    before, after = json.loads(old), json.loads(new)
    return any(not set(after[kind]) <= set(before[kind]) for kind in ("tables", "schemas"))


def made_again(old: str, new: str) -> frozenset[int]:
    """OIDs of the tables whose entry was removed and added again."""
    before, after = json.loads(old)["tables"], json.loads(new)["tables"]
    return frozenset(int(oid) for oid in before.keys() & after.keys() if before[oid][0] != after[oid][0])


def freed_of_filters(connection: Connection, old: str, new: str) -> frozenset[int]:
    """OIDs of the tables whose entry has a row filter that counts no more, since their whole schema was added: the rows
    that it left out were not sent."""
    before, after = json.loads(old), json.loads(new)
    added = [int(schema) for schema in after["schemas"].keys() - before["schemas"].keys()]
    if not added:
        return frozenset()
    with source_errors():
        return frozenset(oid for (oid,) in connection.execute(_FILTERED, [after["oid"], added]).fetchall())


def attached_to_published(connection: Connection, fingerprint: str, oids: Collection[int]) -> frozenset[int]:
    """Of tables those that only a partitioned table's entry publishes, and that were made before they became its
    partitions: what they held by then was not sent."""
    entries = json.loads(fingerprint)
    candidates = [oid for oid in oids if str(oid) not in entries["tables"]]
    if not candidates or entries["schemas"] or not entries["tables"]:
        return frozenset()
    with source_errors():
        return frozenset(oid for (oid,) in connection.execute(_ATTACHED, [candidates]).fetchall())


def require_unchanged(
    connection: Connection, old: str, state: PublicationState, selection: CapturedTables, *, reads: bool
) -> None:
    """Raises PublicationChangedError if changes may be missing since the fingerprint ``old`` was read.

    ``reads``: tables whose entry was made again will be read anew, so that they are no fault.
    """
    relations = {int(oid) for oid in json.loads(old)["tables"]}
    with source_errors(publication=state.name):
        rows = connection.execute(_OF_ENTRIES, [list(relations)]).fetchall()
    # changes of a partitioned table come under its partitions' names, unless they are published by their root
    named = {oid: TableName(*name) for oid, kind, *name in rows if kind == "r" or state.via_root}
    captured = {oid for oid, name in named.items() if selection.captures(name)}
    unconcerned = (relations - {oid for oid, *_ in rows}) | (named.keys() - captured)
    reason = changed_behind_our_back(old, state.fingerprint, unconcerned, captured if reads else ())
    if reason is not None:
        raise PublicationChangedError(
            f"The publication {state.name} has changed since the last pass: {reason}. Changes that were made meanwhile"
            " were not decoded and never will be.",
            safe="What bronze holds is safe; the slot was not moved.",
            todo="A table that was removed and is not back: add it again, and it will be read anew, or leave it out of"
            " the configuration. Anything else: run once with snapshot.mode when_needed, which reads all tables anew.",
            publication=state.name,
        )
