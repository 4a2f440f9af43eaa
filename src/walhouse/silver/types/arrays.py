"""Arrays: an element's rule, for each element of the text.

Invariant: only arrays of one dimension convert. Of deeper ones Debezium keeps the number of elements and makes each
NULL (of some it makes the names of Java objects, and this makes the array NULL); bronze and gold have the whole text.
Lower bounds are lost, as they are in Debezium. Where it takes no NULL as an element, one makes the whole array NULL.
Source: Debezium documentation, PostgreSQL connector, "Basic types"; PostgreSQL documentation, "Array Input and Output".
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, StringType

from walhouse.names import string_literal
from walhouse.silver.types.quoted import escaped, unescaped
from walhouse.silver.types.silver_type import SilverType, let

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes
    from walhouse.silver.settings import SilverSettings
    from walhouse.silver.types.silver_type import Rule

WITHOUT_SCHEMA: Final = frozenset({"money", "name", "interval", "varbit", "xml", "point", "refcursor"})
"""Elements whose arrays Debezium leaves out, whatever the modes."""

_NAMED_BY_JAVA: Final = frozenset(
    {
        *("text", "varchar", "bpchar", "json", "jsonb", "uuid", "inet", "cidr", "macaddr", "macaddr8", "ltree"),
        *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    }
)
"""Elements whose deeper arrays are names of Java objects in Debezium; so are those that are required."""

REQUIRED: Final = frozenset({"tsvector", "isbn"})
"""Elements that may not be NULL in Debezium's schema, as labels of enums may not."""

_NEVER_NULL: Final = frozenset({"ltree"})
"""Elements that may be NULL in Debezium's schema, but not in its converter."""

_NO_NUMBER: Final = "NaN|Infinity"
"""What makes an array of numeric NULL, however deep it is in it."""

_DELIMITERS: Final[Mapping[str, str]] = {"box": ";", "geometry": ":", "geography": ":"}
"""Elements between which another character than a comma stands (``pg_type.typdelim``)."""


def is_array(column: ColumnDescription) -> bool:
    """True for an array of a type that is no domain: Debezium does not look into arrays of domains."""
    return column.element_type is not None and column.base_type == f"_{column.element_type}"


def array(column: ColumnDescription, modes: TypeModes, rule: Rule, *, required: bool = False) -> SilverType | None:
    """An array whose elements follow ``rule``. ``required``: Debezium's schema does not let them be NULL."""
    element = rule(_element(column), modes)
    if element is None:
        return None
    delimiter = _DELIMITERS.get(str(column.element_type), ",")
    may_be_deeper = not required and column.element_type not in _NAMED_BY_JAVA

    def convert(text: str) -> str:
        tokens = _tokens("body", delimiter)
        inner = unescaped("substring(token, 2, length(token) - 2)")
        value = f"CASE WHEN startswith(token, '\"') THEN {inner} WHEN token <> 'NULL' THEN token END"
        texts = f"transform({tokens}, token -> {value})"
        values = _each(texts, element, takes_null=not required and column.element_type not in _NEVER_NULL)
        kept = f" AND NOT body RLIKE '{_NO_NUMBER}'" if column.element_type == "numeric" else ""
        deeper = f" WHEN startswith(body, '{{{{'){kept} THEN {_nulls(delimiter)}"
        flat = f"WHEN startswith(body, '{{') AND NOT startswith(body, '{{{{') THEN {values}"
        return let("body", _without_bounds(text), f"CASE {flat}{deeper if may_be_deeper else ''} END")

    def in_part(text: str, value: str) -> str:
        sent = f"size(filter({_tokens(text, delimiter)}, token -> token = 'NULL'))"
        more = f"size(filter({value}, item -> item IS NULL)) > {sent}"
        is_deeper = f"startswith({_without_bounds(text)}, '{{{{')"
        return f"(exists({value}, item -> item IS NULL) AND ({is_deeper} OR {more}))"

    return SilverType(
        ArrayType(element.spark),
        "array",
        convert,
        f"CAST(array() AS {ArrayType(element.spark).simpleString()})",
        unavailable=None if column.is_of_domain else _unavailable(str(column.element_type), element),
        element=element,
        optional_elements=not required,
        in_part=in_part if may_be_deeper else None,
    )


def without_braces(rule: Rule) -> Rule:
    """int2vector and oidvector: the engine finds no elements, where no braces are around them, and none at all in none.

    ``rule``: their numbers'.
    """

    def vector(column: ColumnDescription, modes: TypeModes) -> SilverType | None:
        element = rule(column, modes)
        return element and _of_no_elements(element, lambda text: f"{text} <> ''", lacks="true")

    return vector


def array_of_vectors(element: SilverType) -> SilverType:
    """Of int2vector or oidvector: NULL unless it is empty."""
    return _of_no_elements(element, lambda text: f"{text} = '{{}}'", lacks="false")


def _of_no_elements(element: SilverType, is_one: Callable[[str], str], *, lacks: str) -> SilverType:
    kind = ArrayType(element.spark)
    empty = f"CAST(array() AS {kind.simpleString()})"
    return SilverType(
        kind,
        "array",
        lambda text: f"CASE WHEN {is_one(text)} THEN {empty} END",
        empty,
        element=element,
        optional_elements=False,
        in_part=lambda _, __: lacks,
    )


def _element(column: ColumnDescription) -> ColumnDescription:
    kind = "e" if column.enum_labels is not None else "b"
    return replace(column, base_type=column.element_type, element_type=None, kind=kind)


def _each(texts: str, element: SilverType, *, takes_null: bool) -> str:
    """The converted elements; NULL if one of them that is not NULL does not convert, or is NULL and may not be."""
    if element.total and takes_null:
        return texts if element.convert("item") == "item" else f"transform({texts}, item -> {element.convert('item')})"
    pairs = f"transform({texts}, item -> named_struct('text', item, 'value', {element.convert('item')}))"
    failed = f"exists(pairs, pair -> {'pair.text IS NOT NULL AND ' if takes_null else ''}pair.value IS NULL)"
    return let("pairs", pairs, f"CASE WHEN NOT {failed} THEN transform(pairs, pair -> pair.value) END")


def _tokens(text: str, delimiter: str) -> str:
    """The elements of a flat array as they stand in its text, bounds and all."""
    return f'regexp_extract_all({escaped(text)}, r\'"[^"]*"|[^{delimiter}{{}}"]+\', 0)'


def _without_bounds(text: str) -> str:
    return f"CASE WHEN startswith({text}, '[') THEN substring({text}, locate('=', {text}) + 1) ELSE {text} END"


def _nulls(delimiter: str) -> str:
    """As many NULLs as a deeper ``body`` has elements: between two of them stand as many braces as open the first."""
    bare = f"regexp_replace({escaped('body')}, r'\"[^\"]*\"', '')"
    depth = "(length(bare) - length(ltrim('{', bare)) - 1)"
    between = f"concat(repeat('}}', {depth}), '{delimiter}', repeat('{{', {depth}))"
    count = "int((length(bare) - length(replace(bare, between, ''))) / length(between)) + 1"
    return let("bare", bare, let("between", between, f"array_repeat(NULL, {count})"))


def _one_text(settings: SilverSettings) -> str:
    return f"array({string_literal(settings.placeholder_text)})"


def _one_of_bytes(settings: SilverSettings) -> str:
    return f"array(X'{settings.placeholder_bytes.hex()}')"


def _numbers(kind: str) -> Callable[[SilverSettings], str]:
    def placeholder(settings: SilverSettings) -> str:
        # Java's bytes are signed
        numbers = ", ".join(str(octet - 256 * (octet > 127)) for octet in settings.placeholder_bytes)
        return f"CAST(array({numbers}) AS array<{kind}>)"

    return placeholder


def _one_uuid(settings: SilverSettings) -> str:
    """The name-based UUID of the placeholder's bytes, without a name space."""
    digest = bytearray(hashlib.md5(settings.placeholder_bytes, usedforsecurity=False).digest())
    digest[6] = digest[6] & 0x0F | 0x30
    digest[8] = digest[8] & 0x3F | 0x80
    digits = digest.hex()
    groups = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return f"array('{'-'.join(groups)}')"


_UNAVAILABLE: Final[Mapping[str, tuple[DataType, Callable[[SilverSettings], str]]]] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "json", "jsonb"), (StringType(), _one_text)),
    "bytea": (BinaryType(), _one_of_bytes),
    "int4": (IntegerType(), _numbers("int")),
    "date": (IntegerType(), _numbers("int")),
    "int8": (LongType(), _numbers("bigint")),
    "uuid": (StringType(), _one_uuid),
}
"""How an array that was not sent looks, where its elements have this type. All others, and domains over these, cannot
show it: they are NULL."""


def _unavailable(element_type: str, element: SilverType) -> Callable[[SilverSettings], str] | None:
    kind, placeholder = _UNAVAILABLE.get(element_type, (None, None))
    return placeholder if element.spark == kind else None
