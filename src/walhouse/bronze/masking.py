"""Values that are hidden before they become rows of bronze.

Invariant: the plain value of a masked column is in no row of bronze. Excepted are the columns of a key, as they are in
Debezium, and types that are no texts, whose values Debezium does not touch.
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

from walhouse.config.masks import MaskRule, first_matching
from walhouse.pgoutput.row import ROW

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walhouse.pgoutput.relation import ColumnDescription, RelationDescription

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
            return pc.utf8_slice_codeunits(texts, 0, rule.length)
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

    def __init__(self, rules: Iterable[MaskRule]) -> None:
        self._rules = tuple(rules)
        self._known: dict[int, dict[int, Masking]] = {}

    def of(self, relation: RelationDescription) -> dict[int, Masking]:
        """By position of the column."""
        if relation.version not in self._known:
            self._known[relation.version] = dict(self._find(relation))
        return self._known[relation.version]

    def _find(self, relation: RelationDescription) -> Iterable[tuple[int, Masking]]:
        for position, column in enumerate(relation.columns):
            rule = first_matching(self._rules, f"{relation.name}.{column.name}")
            if rule is not None and column.is_text and column.name not in (relation.primary_key or ()):
                yield position, Masking(rule, _length(column))

    def masked_text(self, relation: RelationDescription, column: str, text: str) -> str:
        """What becomes of one text of a column."""
        position = relation.position(column)
        masking = None if position is None else self.of(relation).get(position)
        return text if masking is None else str(masking.apply(pa.array([text]))[0])

    def masked(self, rows: pa.RecordBatch, relations: dict[int, RelationDescription]) -> pa.RecordBatch:
        """Rows of bronze with hidden values; ``relations``: the versions that they may have."""
        if not self._rules or not rows.num_rows:
            return rows
        versions = rows["relation_version"].fill_null(0).to_numpy(zero_copy_only=False)
        for version in pc.unique(rows["relation_version"].drop_null()).to_pylist():
            for position, masking in self.of(relations[version]).items():
                for image in ("before", "after"):
                    lists = _replaced(rows[image], versions == version, position, masking)
                    rows = rows.set_column(ROW.get_field_index(image), ROW.field(image), lists)
        return rows


def _replaced(lists: pa.ListArray, of_version: np.ndarray, position: int, masking: Masking) -> pa.ListArray:
    """The lists with the element at ``position`` replaced in these rows."""
    offsets = lists.offsets.to_numpy()
    present = of_version & lists.is_valid().to_numpy(zero_copy_only=False) & (np.diff(offsets) > position)
    places = np.zeros(int(offsets[-1]), np.bool_)
    places[offsets[:-1][present] + position] = True
    values = lists.values.slice(0, int(offsets[-1]))
    hidden = masking.apply(values.filter(pa.array(places)))
    changed = pc.replace_with_mask(values, pa.array(places), hidden)
    return pa.ListArray.from_arrays(lists.offsets, changed, type=lists.type, mask=lists.is_null())


def _length(column: ColumnDescription) -> int:
    typmod = column.typmod if column.base_typmod is None else column.base_typmod
    return typmod - 4 if column.base_type in _LIMITED and typmod >= 4 else 0


def _modified_utf8(text: str) -> bytes:
    """As Java writes strings: U+0000 in two bytes, each half of a surrogate pair in three."""
    units = np.frombuffer(text.encode("utf-16-be"), ">u2").tolist()
    return b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units)
