"""How the reading of whole tables is cut: into tasks, and into passes that are each one Delta commit.

Invariant: pieces come in the order of the tables; a table without a key is within one pass, since rows of two snapshots
could not be told apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from walhouse.bronze.snapshots.reading import WholeTable
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.snapshot import Chunk


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk of a table, or the mark that its reading begins; and how far the table is after it."""

    relation: RelationDescription
    chunk: Chunk | None
    number: int
    """Of the chunk, or of the mark: unique in the lake, in the order of reading."""
    after: WholeTable | None
    """None: nothing is left of it."""
    can_be_cut: bool = True
    """Whether a pass may end here."""

    @property
    def pages(self) -> int:
        """How much it is to read."""
        return 0 if self.chunk is None else max(self.chunk.pages, 1)


def pieces_of(
    table: WholeTable, relation: RelationDescription, chunks: Sequence[Chunk], *, files: str, first: int
) -> list[Piece]:
    """The pieces of one table in their order, numbered from ``first``.

    A table that begins is marked, unless only a part of it is asked for: what was known of its other rows stays.
    """
    number, leaf = first, table.leaf
    pieces: list[Piece] = []
    if not table.has_begun:
        table = replace(
            table, files=files, first_chunk=number, pages=sum(chunk.pages for chunk in chunks), pages_read=0
        )
        if table.replaces:  # from here on bronze has nothing of the table but what is read now
            table = replace(table, owed=relation.oid)
            pieces.append(Piece(relation, None, number, table, can_be_cut=False))
            number += 1
    for place, chunk in enumerate(chunks):
        ends_leaf = chunk.end_page is None
        leaf += ends_leaf
        table = replace(table, leaf=leaf, page=chunk.end_page or 0, pages_read=table.pages_read + chunk.pages)
        last = place == len(chunks) - 1
        cut = last or bool(relation.row_key)
        numbered = replace(chunk, number=number)
        pieces.append(Piece(relation, numbered, number, None if last else table, can_be_cut=cut))
        number += 1
    return pieces


def passes(pieces: Iterable[Piece], pages: int) -> Iterator[list[Piece]]:
    """Pieces for one pass each, of about so many pages; there is always one, be it without pieces."""
    gathered: list[Piece] = []
    none = True
    for piece in pieces:
        gathered.append(piece)
        if piece.can_be_cut and sum(each.pages for each in gathered) >= pages:
            yield gathered
            gathered, none = [], False
    if gathered or none:
        yield gathered


def tasks(chunks: Iterable[Chunk], pages: int) -> tuple[tuple[Chunk, ...], ...]:
    """Chunks for one task each: many small tables share a task, so that a thousand of them are not a thousand tasks."""
    groups: list[list[Chunk]] = []
    size = 0
    for chunk in chunks:
        weight = max(chunk.pages, 1)
        if not groups or size + weight > pages:
            groups.append([])
            size = 0
        groups[-1].append(chunk)
        size += weight
    return tuple(tuple(group) for group in groups)
