"""Values that are hidden before they become rows of bronze.

Invariant: the plain value of a masked column is in no row of bronze. Excepted are the columns of keys, which Debezium
does not hide in keys and by which gold tells rows, and types that are no texts: Debezium hides none of their values.
What events show of those is cut where it is made (``cut_to``).
What rows show of the masked columns stands behind the texts of all columns, in their order: of a key's, too.
Source: Debezium 3.6, PostgreSQL connector, ``column.mask…``, ``column.truncate…``; Java Object Serialization
Specification, for the first version of the hash.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from walhouse.config.masks import MaskRule, Masks, first_matching
from walhouse.pgoutput.image import pack, unpack
from walhouse.pgoutput.row import ROW

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walhouse.names import TableName
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.pgoutput.relation import RelationDescription

_LIMITED: Final = frozenset({"varchar", "bpchar"})

_SERIALISED: Final = bytes.fromhex("aced0005")
"""Start of a serialised object; a string has its tag, its length and its text after it."""


@dataclass(frozen=True, slots=True)
class Masking:
    """What becomes of one column's texts. ``limit``: the column's length, to which a hash is cut; 0: none."""

    rule: MaskRule
    limit: int

    def apply(self, texts: pa.Array) -> pa.Array:
        """The texts as they may be seen."""
        rule = self.rule
        if rule.kind == "mask":
            return pa.array(["*" * rule.length] * len(texts), pa.string())
        if rule.kind == "truncate":
            return _first_units(texts, rule.length)
        # each distinct text once; Arrow has no digests
        coded = texts.dictionary_encode()
        digests = [None if text is None else self._digest(text) for text in coded.dictionary.to_pylist()]
        return pa.array(digests, pa.string()).take(coded.indices)

    def _digest(self, text: str) -> str:
        octets = text.encode()
        if self.rule.of_java_object:
            octets = _modified_utf8(text)
            is_short = len(octets) < 1 << 16
            octets = _SERIALISED + (b"t" if is_short else b"|") + len(octets).to_bytes(2 if is_short else 8) + octets
        found = hashlib.new(self.rule.digest, self.rule.salt + octets, usedforsecurity=False).hexdigest()
        return found[: self.limit] if self.limit else found


class MaskBook:
    """The maskings of each relation version, found out once."""

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._known: dict[int, dict[int, Masking]] = {}

    def masked_columns(self, relation: RelationDescription) -> tuple[str, ...]:
        """The columns that are masked, in the order of what rows show of them."""
        return tuple(relation.columns[position].name for position in self._of(relation))

    def masked_text(self, relation: RelationDescription, column: str, text: str) -> str:
        """What rows show of one text of a column."""
        position = relation.position(column)
        masking = None if position is None else self._of(relation).get(position)
        return text if masking is None else str(masking.apply(pa.array([text]))[0])

    def hides_all(self, relation: RelationDescription, column: str) -> bool:
        """Whether rows show the same of every text of a column, also where there is none."""
        position = relation.position(column)
        masking = None if position is None else self._of(relation).get(position)
        return masking is not None and masking.rule.kind == "mask"

    def cut_to(self, table: TableName, column: ColumnDescription) -> int | None:
        """The length that a column's values are cut to where they are made of its text, which lands as it is."""
        rule = first_matching(self._masks.rules, f"{table}.{column.name}")
        return rule.length if rule is not None and rule.kind == "truncate" and not column.is_text else None

    def masked(
        self, rows: pa.RecordBatch, relations: dict[int, RelationDescription], *, for_events: bool = True
    ) -> pa.RecordBatch:
        """Rows of bronze with hidden values; ``relations``: the versions that they may have.

        ``for_events``: with what rows of events show, behind the texts of all columns.
        """
        if not self._masks.rules or not rows.num_rows:
            return rows
        versions = rows["relation_version"].fill_null(0).to_numpy(zero_copy_only=False)
        for version in pc.unique(rows["relation_version"].drop_null()).to_pylist():
            for image in ("before", "after"):
                lists = unpack(rows[image])
                lists = self._hidden(lists, versions == version, relations[version], for_events=for_events)
                rows = rows.set_column(ROW.get_field_index(image), ROW.field(image), pack(lists))
        return rows

    def _hidden(
        self, lists: pa.ListArray, of_version: np.ndarray, relation: RelationDescription, *, for_events: bool
    ) -> pa.ListArray:
        maskings = self._of(relation)
        if for_events:
            for position, masking in maskings.items():
                lists = _appended(lists, of_version, position, masking)
        keys = relation.keys(self._masks.columns.key_of(relation.name, relation.column_names))
        for position, masking in maskings.items():
            if relation.columns[position].name not in keys:
                lists = _replaced(lists, of_version, position, masking)
        return lists

    def _of(self, relation: RelationDescription) -> dict[int, Masking]:
        """By position of the column."""
        if relation.version not in self._known:
            self._known[relation.version] = dict(self._find(relation))
        return self._known[relation.version]

    def _find(self, relation: RelationDescription) -> Iterable[tuple[int, Masking]]:
        for position, column in enumerate(relation.columns):
            rule = first_matching(self._masks.rules, f"{relation.name}.{column.name}")
            if rule is not None and column.is_text and not _is_short(column, rule):
                yield position, Masking(rule, _length(column))


def _replaced(lists: pa.ListArray, of_version: np.ndarray, position: int, masking: Masking) -> pa.ListArray:
    """The lists with the element at ``position`` replaced in these rows."""
    offsets, values, _, places = _places(lists, of_version, position)
    hidden = masking.apply(values.filter(pa.array(places)))
    changed = pc.replace_with_mask(values, pa.array(places), hidden)
    return pa.ListArray.from_arrays(offsets, changed, type=lists.type, mask=lists.is_null())


def _appended(lists: pa.ListArray, of_version: np.ndarray, position: int, masking: Masking) -> pa.ListArray:
    """The lists with one more element in these rows: the one at ``position``, as it may be seen."""
    offsets, values, present, places = _places(lists, of_version, position)
    hidden = masking.apply(values.filter(pa.array(places)))
    longer = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(offsets) + present)])
    source = np.empty(int(longer[-1]), np.int64)
    source[np.arange(len(values)) + np.repeat(longer[:-1] - offsets[:-1], np.diff(offsets))] = np.arange(len(values))
    source[longer[1:][present] - 1] = len(values) + np.arange(len(hidden))
    texts = pa.concat_arrays([values, hidden]).take(pa.array(source))
    return pa.ListArray.from_arrays(pa.array(longer, pa.int32()), texts, type=lists.type, mask=lists.is_null())


def _places(
    lists: pa.ListArray, of_version: np.ndarray, position: int
) -> tuple[np.ndarray, pa.Array, np.ndarray, np.ndarray]:
    """Offsets and values of the lists, which lists have an element at ``position``, and where these stand."""
    offsets = lists.offsets.to_numpy()
    present = of_version & lists.is_valid().to_numpy(zero_copy_only=False) & (np.diff(offsets) > position)
    places = np.zeros(int(offsets[-1]), np.bool_)
    places[offsets[:-1][present] + position] = True
    return offsets, lists.values.slice(0, int(offsets[-1])), present, places


def _first_units(texts: pa.Array, length: int) -> pa.Array:
    """Their first characters as Java counts them, where one beyond U+FFFF counts twice; half of one is left out.

    PostgreSQL's texts have no U+0000, which is the other half meanwhile.
    """
    widened = pc.replace_substring_regex(texts, r"([\x{10000}-\x{10FFFF}])", "\0\\1")
    return pc.replace_substring(pc.utf8_slice_codeunits(widened, 0, length), "\0", "")


def _is_short(column: ColumnDescription, rule: MaskRule) -> bool:
    r"""Nothing is cut of a column whose values are no longer than the rule leaves them, by their declared length: not
    the four characters of ``\377`` in a "char", nor of a varchar(2) those that Java counts twice."""
    return rule.kind == "truncate" and 0 < _length(column) <= rule.length


def _length(column: ColumnDescription) -> int:
    if column.base_type == "char":
        return 1
    return column.modifier - 4 if column.base_type in _LIMITED and column.modifier >= 4 else 0


def _modified_utf8(text: str) -> bytes:
    """As Java writes strings: U+0000 in two bytes, each half of a surrogate pair in three."""
    units = np.frombuffer(text.encode("utf-16-be"), ">u2").tolist()
    return b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units)
