"""Random scenarios: tables of random types, keys and identities, random changes of rows and of tables, random modes.

Invariant: the same seed makes the same scenario. What Debezium's engine cannot survive (docs/CONFORMANCE.md names it)
is never made here, since it says nothing about walhouse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Final

from oracle.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SETUP: Final = (
    "CREATE EXTENSION hstore;",
    "CREATE EXTENSION ltree;",
    "CREATE EXTENSION citext;",
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy, or so');",
    "CREATE DOMAIN price AS numeric(8, 2);",
    "CREATE DOMAIN code AS varchar(12);",
)

_TEXTS: Final = (
    "''",
    "'a'",
    "'some text'",
    "'žluťoučký 😀'",
    r"E'tab\t \"quote\" \\ \n'",
    "'NULL'",
    "'{a,b}'",
    "'  x '",
)
_INTS: Final = ("0", "1", "-1", "32767", "-32768", "7")
_NUMBERS: Final = ("0", "1", "-1", "3.14", "-0.01", "100", "12345.67", "'NaN'", "1.50", "99999.99")
_LONG: Final = "repeat('long text ', {n})"

TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": ("true", "false"),
    "int2": _INTS,
    "int4": (*_INTS, "2147483647", "-2147483648"),
    "int8": (*_INTS, "9223372036854775807", "-9223372036854775808"),
    "oid": ("0", "4000000000"),
    "float4": ("0", "-0.0", "3.3", "'NaN'", "'Infinity'", "1e30", "1e-30", "123456.7"),
    "float8": ("0", "-0.0", "4.44", "'NaN'", "'-Infinity'", "1e300", "1e-300", "4", "123456789.125"),
    "numeric(8,2)": _NUMBERS,
    "numeric(30,10)": _NUMBERS,
    "numeric(5,0)": ("0", "1", "-99999", "12"),
    "numeric": (*_NUMBERS, "1000", "123456789012345678901234567890.5", "1e-20", "'Infinity'", "0.00"),
    "money": ("0", "'$1,234.56'", "'-$0.05'"),
    "text": (*_TEXTS, _LONG.format(n=10)),
    "varchar(40)": _TEXTS,
    "char(12)": ("''", "'abc'", "'žš'"),
    "citext": ("'Abc'", "''"),
    "name": ("'a'",),
    "uuid": ("'76019d1a-ad2e-4b22-96e9-1a6d6543c818'", "'00000000-0000-0000-0000-000000000000'"),
    "json": ("""'{"a":  1}'""", "'null'", "'[]'"),
    "jsonb": ("""'{"b": 1, "a": [1.50, null]}'""", "'3'"),
    "bytea": (r"'\x'", r"'\x00ff10'", r"'\xdeadbeef'"),
    "bit(1)": ("B'0'", "B'1'"),
    "bit(11)": ("B'00000000000'", "B'10000000001'", "B'11111111111'"),
    "varbit(9)": ("B''", "B'101'", "B'100000000'"),
    "mood": ("'sad'", "'happy, or so'"),
    "price": ("0", "1.5", "-3.25"),
    "code": ("'x'", "''"),
    "date": ("'2016-11-04'", "'0001-01-01'", "'0044-03-15 BC'", "'12000-01-01'", "'1582-10-10'"),
    "time": ("'00:00:00'", "'13:51:30.123456'", "'24:00:00'"),
    "time(3)": ("'00:00:00'", "'13:51:30.123'"),
    "timetz": ("'10:00:00-03'", "'23:59:59.999999+05:30'"),
    "timestamp": ("'2016-11-04 13:51:30.123456'", "'1936-10-25 22:10:12'", "'0044-03-15 12:00:00.5 BC'"),
    "timestamp(3)": ("'2016-11-04 13:51:30.123'", "'1969-12-31 23:59:59.999'"),
    "timestamptz": ("'2016-11-04 13:51:30.123456+02'", "'0900-01-01 00:00:00+00'", "'infinity'"),
    "timestamptz(0)": ("'2016-11-04 13:51:30+02'",),
    "interval": ("'1 year 2 mons -3 days 04:05:06.78'", "'0'", "'-00:00:00.000001'", "'100 hours'"),
    "inet": ("'10.0.0.1'", "'::1/64'"),
    "cidr": ("'10/8'",),
    "macaddr": ("'08:00:2b:01:02:03'",),
    "int4range": ("'[1,5]'", "'empty'", "'(,3)'"),
    "tstzrange": ("'[2017-06-05 11:29:12.5+00,)'",),
    "tsvector": ("'fat cat'", "''"),
    "ltree": ("'Top.Science'",),
    "hstore": ("'a=>1'", "''", '\'k=>NULL, "q\\""=>"{}", longer=>value, four=>4\''),
    "point": ("'(1,-2.5)'", "'(0,1e-300)'"),
    "int4[]": ("'{}'", "'{1,NULL,-3}'"),
    "int8[]": ("'{9223372036854775807}'",),
    "float8[]": ("'{1.5,NaN}'",),
    "numeric(8,2)[]": ("'{1.5,NULL}'",),
    "numeric[]": ("'{1.50,10}'",),
    "text[]": ("'{}'", """'{a,"b,c","q\\"uote",NULL,"NULL",""}'"""),
    "bool[]": ("'{t,f,NULL}'",),
    "date[]": ("'{2016-11-04,NULL}'",),
    "timestamptz[]": ("""'{"2016-11-04 13:51:30.123456+02"}'""",),
    "uuid[]": ("'{76019d1a-ad2e-4b22-96e9-1a6d6543c818}'",),
    "mood[]": ("'{sad,ok}'",),
    "bytea[]": (r"""'{"\\x0102"}'""",),
    "tsquery": ("'fat & cat'",),
    "pg_lsn": ("'0/1A2B'",),
}
"""Types and literals of them."""

_KEYS: Final = ("int4", "int8", "text", "uuid", "date", "numeric(8,2)", "varchar(40)", "mood")

_NO_DEFAULTS: Final = frozenset({"'24:00:00'"})
"""Literals whose default Java prints in its own way."""

MODES: Final[Mapping[str, tuple[str, ...]]] = {
    "decimal.handling.mode": ("precise", "double", "string"),
    "time.precision.mode": ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds"),
    "binary.handling.mode": ("bytes", "base64", "base64-url-safe", "hex"),
    "interval.handling.mode": ("numeric", "string"),
    "hstore.handling.mode": ("json", "map"),
    "include.unknown.datatypes": ("false", "true"),
    "money.fraction.digits": ("2", "0", "3"),
    "skipped.operations": ("t", "none", "u", "c,d"),
    "tombstones.on.delete": ("true", "false"),
    "skip.messages.without.change": ("false", "true"),
    "provide.transaction.metadata": ("true", "false"),
    "converter.replace.null.with.default": ("false", "true"),
    "converter.schemas.enable": ("true", "false"),
}


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    type: str
    required: bool
    default: str | None = None

    @property
    def ddl(self) -> str:
        """The column in CREATE TABLE."""
        default = "" if self.default is None else f" DEFAULT {self.default}"
        return f"{self.name} {self.type}{' NOT NULL' * self.required}{default}"


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    columns: tuple[_Column, ...]
    key: tuple[str, ...]
    identity: str

    @property
    def others(self) -> tuple[_Column, ...]:
        """The columns beside the key."""
        return tuple(column for column in self.columns if column.name not in self.key)

    @property
    def can_change(self) -> bool:
        """Whether PostgreSQL takes updates and deletes."""
        return bool(self.key) or self.identity == "FULL"


def random_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    random = Random(seed)
    tables = [_table(random, f"t{number}") for number in range(random.choice((1, 1, 2)))]
    setup = [*_SETUP, *(statement for table in tables for statement in _ddl(random, table))]
    changes: list[str] = []
    for _ in range(random.randint(3, 6)):
        changes += _transaction(random, tables)
        if random.random() < 0.25:
            altered = random.randrange(len(tables))
            statement, tables[altered] = _altered(random, tables[altered])
            changes.append(statement)
    properties = {name: random.choice(values) for name, values in MODES.items() if random.random() < 0.4}
    return Scenario(
        name=f"random_{seed}",
        title=f"Random case of seed {seed}.",
        references=("4",),
        setup=tuple(setup),
        changes=tuple(changes),
        variants={"random": properties},
        may_be_refused=True,
    )


def _table(random: Random, name: str) -> _Table:
    key = [
        _Column(f"k{number}", random.choice(_KEYS), required=True) for number in range(random.choice((0, 1, 1, 1, 2)))
    ]
    others = [
        _with_default(random, _Column(f"c{number}", random.choice(tuple(TYPES)), required=random.random() < 0.3))
        for number in range(random.randint(1, 7))
    ]
    columns = [*key, *others]
    random.shuffle(columns)
    identity = random.choice(("DEFAULT", "FULL") if key else ("DEFAULT", "FULL", "FULL"))
    return _Table(name, tuple(columns), tuple(column.name for column in key), identity)


def _with_default(random: Random, column: _Column) -> _Column:
    """Three of ten columns have one."""
    if random.random() >= 0.3:
        return column
    literals = [literal for literal in TYPES[column.type] if literal not in _NO_DEFAULTS]
    return replace(column, default=random.choice(literals or ["NULL"]))


def _ddl(random: Random, table: _Table) -> list[str]:
    columns = [column.ddl for column in table.columns]
    if table.key:
        columns.append(f"PRIMARY KEY ({', '.join(random.sample(table.key, len(table.key)))})")
    made = [f"CREATE TABLE {table.name} ({', '.join(columns)});"]
    stored = [column.name for column in table.columns if column.type in {"text", "bytea", "int4[]", "text[]", "jsonb"}]
    made += [f"ALTER TABLE {table.name} ALTER {name} SET STORAGE EXTERNAL;" for name in stored]
    if table.identity == "FULL":
        made.append(f"ALTER TABLE {table.name} REPLICA IDENTITY FULL;")
    return made


def _altered(random: Random, table: _Table) -> tuple[str, _Table]:
    """A statement that changes the table between two transactions, and the table after it."""
    ways = (_added, _dropped, _renamed, _retyped, _retyped, _made_nullable, _identified, _key_widened)
    return next(made for way in random.sample(ways, len(ways)) if (made := way(random, table)) is not None)


def _added(random: Random, table: _Table) -> tuple[str, _Table]:
    column = _with_default(random, _Column(_new_name(random, "n"), random.choice(tuple(TYPES)), required=False))
    return f"ALTER TABLE {table.name} ADD {column.ddl};", replace(table, columns=(*table.columns, column))


def _dropped(random: Random, table: _Table) -> tuple[str, _Table] | None:
    if len(table.others) < 2:
        return None
    column = random.choice(table.others)
    return f"ALTER TABLE {table.name} DROP {column.name};", _with(table, column, None)


def _renamed(random: Random, table: _Table) -> tuple[str, _Table] | None:
    if not table.others:
        return None
    column, name = random.choice(table.others), _new_name(random, "r")
    statement = f"ALTER TABLE {table.name} RENAME {column.name} TO {name};"
    return statement, _with(table, column, replace(column, name=name))


def _retyped(random: Random, table: _Table) -> tuple[str, _Table] | None:
    if not table.others:
        return None
    column = random.choice(table.others)
    other = replace(column, type=random.choice(tuple(TYPES)), default=None)
    value = f"CAST({random.choice(_literals(other))} AS {other.type})"
    change = f"ALTER {column.name} DROP DEFAULT, ALTER {column.name} TYPE {other.type} USING {value}"
    return f"ALTER TABLE {table.name} {change};", _with(table, column, other)


def _made_nullable(random: Random, table: _Table) -> tuple[str, _Table] | None:
    if not table.others:
        return None
    column = random.choice(table.others)
    statement = f"ALTER TABLE {table.name} ALTER {column.name} DROP NOT NULL;"
    return statement, _with(table, column, replace(column, required=False))


def _identified(_: Random, table: _Table) -> tuple[str, _Table] | None:
    if not table.key:
        return None
    identity = "DEFAULT" if table.identity == "FULL" else "FULL"
    return f"ALTER TABLE {table.name} REPLICA IDENTITY {identity};", replace(table, identity=identity)


def _key_widened(_: Random, table: _Table) -> tuple[str, _Table] | None:
    for column in table.columns:
        if column.name in table.key and column.type == "int4":
            statement = f"ALTER TABLE {table.name} ALTER {column.name} TYPE int8;"
            return statement, _with(table, column, replace(column, type="int8"))
    return None


def _with(table: _Table, column: _Column, other: _Column | None) -> _Table:
    """The table with another column in its place, or without it."""
    columns = (other if each is column else each for each in table.columns)
    return replace(table, columns=tuple(each for each in columns if each is not None))


def _new_name(random: Random, start: str) -> str:
    return f"{start}{random.randrange(1_000_000)}"


def _transaction(random: Random, tables: list[_Table]) -> list[str]:
    statements = [_statement(random, random.choice(tables)) for _ in range(random.choice((1, 1, 2, 3)))]
    if len(statements) == 1:
        return statements
    return ["BEGIN;", *statements, "ROLLBACK;" if random.random() < 0.1 else "COMMIT;"]


def _statement(random: Random, table: _Table) -> str:
    choice = random.random()
    if choice < 0.05:
        return f"TRUNCATE {table.name};"
    if choice < 0.45 or not table.can_change:
        names = ", ".join(column.name for column in table.columns)
        values = ", ".join(_value(random, column) for column in table.columns)
        return f"INSERT INTO {table.name} ({names}) VALUES ({values}) ON CONFLICT DO NOTHING;"
    one = f"ctid = (SELECT ctid FROM {table.name} LIMIT 1)"
    if choice < 0.85:
        column = random.choice(table.columns)
        return f"UPDATE {table.name} SET {column.name} = {_value(random, column)} WHERE {one};"
    return f"DELETE FROM {table.name} WHERE {one};"


def _literals(column: _Column) -> list[str]:
    """Of a required number NaN and infinity stop the engine."""
    unfit = {"'NaN'", "'Infinity'"} if column.required and column.type.startswith("numeric") else set()
    return [literal for literal in TYPES[column.type] if literal not in unfit]


def _value(random: Random, column: _Column) -> str:
    if not column.required and random.random() < 0.15:
        return "NULL"
    if column.type == "text" and column.name.startswith("c") and random.random() < 0.2:
        return _LONG.format(n=400)
    return random.choice(_literals(column))


def shrink(scenario: Scenario, differs: Callable[[Scenario], bool]) -> Scenario:
    """A shorter scenario that still differs: statements are left out, one at a time, as long as it does."""
    position = len(scenario.changes) - 1
    while position >= 0:
        shorter = replace(scenario, changes=scenario.changes[:position] + scenario.changes[position + 1 :])
        if _is_whole(shorter) and differs(shorter):
            scenario = shorter
        position -= 1
    return scenario


def _is_whole(scenario: Scenario) -> bool:
    """Every BEGIN has its end."""
    opened = [each.split(";")[0] for each in scenario.changes if each.split(";")[0] in {"BEGIN", "COMMIT", "ROLLBACK"}]
    return (
        bool(scenario.changes)
        and len(opened) % 2 == 0
        and all((each == "BEGIN") == (number % 2 == 0) for number, each in enumerate(opened))
    )


def as_text(scenario: Scenario) -> str:
    """The scenario as a file, to be kept under fixtures/scenarios."""
    (properties,) = scenario.variants.values()
    lines = [f"-- {scenario.title}", f"-- reference: {', '.join(scenario.references)}"]
    lines += [f"-- with: {name} = {value}" for name, value in properties.items()]
    return "\n".join([*lines, *scenario.setup, "-- changes", *scenario.changes]) + "\n"
