"""The description of a column: what the Relation message says, and what the catalog knows beside it.

Invariant: a fact of the catalog is None where it is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXTS: Final = frozenset({"text", "varchar", "bpchar", "char", "name"})
_OF_ONE_LENGTH: Final = frozenset(
    {"bool", "int2", "int4", "int8", "float4", "float8", "oid", "uuid", "date", "time", "timetz", "timestamp"}
    | {"timestamptz", "interval", "money"}
)
_FLOATS: Final = frozenset({"float4", "float8"})
_FIRST_OWN_OID: Final = 16384
"""PostgreSQL's own types have lower OIDs."""

_BUILT_IN: Final[Mapping[int, str]] = {
    16: "bool", 17: "bytea", 18: "char", 19: "name", 20: "int8", 21: "int2", 23: "int4", 25: "text", 26: "oid",
    114: "json", 700: "float4", 701: "float8", 1042: "bpchar", 1043: "varchar", 1082: "date", 1083: "time",
    1114: "timestamp", 1184: "timestamptz", 1700: "numeric", 2950: "uuid", 3802: "jsonb",
}  # fmt: skip
"""Types whose OID is the same on every server, for a column that the catalog no longer knew when it was read."""


class NumericModifiers(NamedTuple):
    """Of ``numeric(precision, scale)``. Scales below zero exist since PostgreSQL 15."""

    precision: int
    scale: int


def numeric_modifiers(modifier: int) -> NumericModifiers | None:
    """What a numeric's type modifier holds; None if it has none."""
    if modifier < 4:
        return None
    bits = modifier - 4
    return NumericModifiers((bits >> 16) & 0xFFFF, ((bits & 0x7FF) ^ 1024) - 1024)


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One kept column, at its place in the images of the relation version."""

    name: str
    type_oid: int
    typmod: int
    identity: bool
    """Part of the replica identity, by the message's flag (with replica identity full: every column)."""

    type_name: str | None = None
    """As ``format_type`` prints it, with modifiers: ``numeric(10,2)``, ``public.mood``."""
    declared_type: str | None = None
    """``pg_type.typname`` as declared: a domain's own name, ``_text`` for text[]."""
    base_type: str | None = None
    """``pg_type.typname`` after domains are resolved: ``int4``, ``varchar``, ``_text`` for text[]."""
    base_typmod: int | None = None
    """The modifier that holds after domains are resolved; -1 if none."""
    kind: str | None = None
    """``pg_type.typtype`` of the base type: b(ase), e(num), c(omposite), r(ange), m(ultirange), p(seudo)."""
    element_type: str | None = None
    """For a true array, ``typname`` of its element's base type."""
    nullable: bool | None = None
    default: str | None = None
    """The default expression as ``pg_get_expr`` prints it."""
    enum_labels: tuple[str, ...] | None = None
    comment: str | None = None
    generated: bool | None = None

    @property
    def resolved_type(self) -> str | None:
        """The base type's name by the catalog, else by the OID of a built-in type; None if neither knows it."""
        return self.base_type or _BUILT_IN.get(self.type_oid)

    @property
    def modifier(self) -> int:
        """The modifier that holds after domains are resolved; -1 if there is none."""
        return self.typmod if self.base_typmod is None else self.base_typmod

    @property
    def is_text(self) -> bool:
        """Whether it holds characters to the JDBC driver, which alone can be masked: char, varchar, text, name, an enum
        or a domain over these. Where the catalog does not know the column, its type may be one of them, and counts."""
        if self.base_type is None and self.type_oid >= _FIRST_OWN_OID:
            return True
        return self.resolved_type in _TEXTS or self.kind == "e"

    @property
    def is_of_domain(self) -> bool:
        """Whether it is declared as a domain, as far as the catalog knows."""
        return self.declared_type is not None and self.declared_type != self.base_type

    @property
    def has_one_length(self) -> bool:
        """Whether all its values are as long as each other, so that none is stored out of line and left out."""
        return self.kind == "e" or self.base_type in _OF_ONE_LENGTH

    @property
    def is_float(self) -> bool:
        """Whether two texts, ``0`` and ``-0``, are equal to PostgreSQL."""
        return self.resolved_type in _FLOATS
