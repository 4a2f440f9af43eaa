"""Random properties of the connector, and of the publication that it reads.

Invariant: what names tables and columns names those of the case, so that each of these properties has something to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from walhouse.silver.modes import TimeMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from oracle.random_cases.tables import Column, Table

MODES: Final[Mapping[str, tuple[str, ...]]] = {
    "decimal.handling.mode": ("precise", "double", "string"),
    "time.precision.mode": tuple(mode.value for mode in TimeMode if mode is not TimeMode.NATIVE),
    "binary.handling.mode": ("bytes", "base64", "base64-url-safe", "hex"),
    "interval.handling.mode": ("numeric", "string"),
    "hstore.handling.mode": ("json", "map"),
    "include.unknown.datatypes": ("false", "true"),
    "money.fraction.digits": ("2", "0", "3"),
    "skipped.operations": ("t", "none", "u", "c,d", "u,t", "c,u,d"),
    "tombstones.on.delete": ("true", "false"),
    "skip.messages.without.change": ("false", "true"),
    "provide.transaction.metadata": ("true", "false"),
    "converter.replace.null.with.default": ("false", "true"),
    "converter.schemas.enable": ("true", "false"),
}
"""Four of ten cases give each."""

RARER: Final[Mapping[str, tuple[str, ...]]] = {
    "unavailable.value.placeholder": ("gone", "hex:c5be00", ""),
    "event.converting.failure.handling.mode": ("skip",),
    "topic.delimiter": ("-", "_"),
    "schema.name.adjustment.mode": ("avro", "avro_unicode"),
    "field.name.adjustment.mode": ("avro", "avro_unicode"),
    "extended.headers.enabled": ("false",),
    "message.prefix.exclude.list": ("fo.", "outbox"),
    "column.propagate.source.type": (".*",),
    "datatype.propagate.source.type": (".*text", ".+numeric,.+int4"),
    "include.schema.comments": ("true",),
    "xmin.fetch.interval.ms": ("1",),
}
"""One of ten does."""

_CUT: Final = ("column.truncate.to.3.chars", "column.truncate.to.0.chars", "column.truncate.to.9.chars")
_HIDDEN: Final = (
    "column.mask.with.0.chars",
    "column.mask.with.5.chars",
    "column.mask.hash.SHA-256.with.salt.CzQMA0cB5K",
    "column.mask.hash.v2.SHA-256.with.salt.CzQMA0cB5K",
    "column.mask.hash.v2.MD5.with.salt.s",
)


def random_properties(random: Random, tables: list[Table], *, is_snapshot: bool) -> dict[str, str]:
    """Modes, and what names columns of the tables.

    Left out of rows are no columns of keys where the engine would then lose the key, or its change.
    """
    given = {name: random.choice(values) for name, values in MODES.items() if random.random() < 0.4}
    given |= {name: random.choice(values) for name, values in RARER.items() if random.random() < 0.1}
    keeps_keys = is_snapshot or given.get("skip.messages.without.change") == "true"
    ways: tuple[Callable[[Random, list[Table]], dict[str, str]], ...] = (
        _hidden,
        _hidden,
        _cut,
        _without_some if keeps_keys else _some_columns,
        _key_columns,
    )
    for way in ways:
        if random.random() < 0.15:
            given |= way(random, tables)
    if any("source.type" in name for name in given):  # the engine then hashes nothing
        given = {name: value for name, value in given.items() if ".hash." not in name}
    if is_snapshot and any(column.type.startswith("numeric") for table in tables for column in table.columns):
        # the length of a number without a precision is another one there
        given = {name: value for name, value in given.items() if "source.type" not in name and ".truncate." not in name}
    if given.get("skip.messages.without.change") == "true":
        given = _without_hidden_keys(given, tables)
    if keeps_keys and "column.exclude.list" in given:
        given.pop("message.key.columns", None)
    if len(tables) > 1 and random.random() < 0.1:
        given["table.exclude.list"] = _pattern(tables[0])
    return given


def random_publication(random: Random, tables: list[Table], *, is_snapshot: bool) -> str:
    """All tables, with options that these tables feel, or a list of them with some of their columns and rows.

    Generated columns are published: where they are not, the server refuses changes under identity FULL. Such lists the
    engine's snapshot does not know.
    """
    if not is_snapshot and all(_can_be_listed(table) for table in tables) and random.random() < 0.2:
        return f"FOR TABLE {', '.join(_listed(random, table) for table in tables)}"
    options = []
    if any(table.partitioned for table in tables) and random.random() < 0.5:
        options.append("publish_via_partition_root")
    if any(column.generated for table in tables for column in table.columns):
        options.append("publish_generated_columns = stored")
    if random.random() < 0.05:
        options.append(f"publish = '{random.choice(('insert, truncate', 'insert, update'))}'")
    return f"FOR ALL TABLES WITH ({', '.join(options)})" if options else "FOR ALL TABLES"


def _can_be_listed(table: Table) -> bool:
    """Whether its changes are taken if the publication has some of its columns alone."""
    return table.identity == "DEFAULT" and bool(table.key) and not table.partitioned


def _listed(random: Random, table: Table) -> str:
    key = [column for column in table.columns if column.name in table.key]
    some = [each.sql for each in table.columns if each in key or (not each.virtual and random.random() < 0.6)]
    numbers = [column.sql for column in key if column.type in {"int4", "int8"}]
    rows = f" WHERE ({random.choice(numbers)} % 2 = 0)" if numbers and random.random() < 0.4 else ""
    return f"{table.sql} ({', '.join(some)}){rows}"


def _hidden(random: Random, tables: list[Table]) -> dict[str, str]:
    return {random.choice(_HIDDEN): _columns(random, tables)}


def _cut(random: Random, tables: list[Table]) -> dict[str, str]:
    return {random.choice(_CUT): _columns(random, tables)}


def _some_columns(random: Random, tables: list[Table]) -> dict[str, str]:
    return {random.choice(("column.include.list", "column.exclude.list")): _columns(random, tables)}


def _without_hidden_keys(given: dict[str, str], tables: list[Table]) -> dict[str, str]:
    """A change of a key is none to the engine if what rows show of it stays the same."""
    keys = tuple(column.name for table in tables for column in table.columns if column not in table.free)
    shown = {
        name: value
        for name, value in given.items()
        if not name.startswith(("column.mask.", "column.truncate."))
        or not any(pattern.endswith(keys) for pattern in value.split(","))
    }
    if any(name.startswith(("column.mask.", "column.truncate.")) for name in shown):
        shown.pop("message.key.columns", None)
    return shown


def _without_some(random: Random, tables: list[Table]) -> dict[str, str]:
    table = random.choice(tables)
    some = random.sample(table.free, random.randint(0, len(table.free)))
    return {"column.exclude.list": ",".join(f"{_pattern(table)}.{each.name}" for each in some)} if some else {}


def _columns(random: Random, tables: list[Table]) -> str:
    table = random.choice(tables)
    some = random.sample(table.columns, random.randint(1, len(table.columns)))
    anywhere = random.random() < 0.3
    return ",".join(f".*{each.name}" if anywhere else f"{_pattern(table)}.{each.name}" for each in some)


def _key_columns(random: Random, tables: list[Table]) -> dict[str, str]:
    table = random.choice(tables)
    fit = [each for each in table.columns if _can_be_key(each)]
    some: list[Column] = random.sample(fit, min(random.randint(1, 2), len(fit)))
    if not some or " " in _pattern(table):
        return {}
    pattern = ".*" if random.random() < 0.3 else _pattern(table)
    return {"message.key.columns": f"{pattern}:{','.join(each.name for each in some)}"}


def _can_be_key(column: Column) -> bool:
    """Debezium takes no blanks there; the engine no NaN in a key."""
    return " " not in column.name and not column.type.startswith("numeric")


def _pattern(table: Table) -> str:
    """Of the table and its partitions."""
    return f"{table.schema}.{_escaped(table.name)}" + (".*" if table.partitioned else "")


def _escaped(name: str) -> str:
    return name.replace("$", r"\$")
