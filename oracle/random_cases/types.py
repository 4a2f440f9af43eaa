"""The types of random columns, with literals of each.

Invariant: every literal is one that Debezium's engine survives in every mode, save those that
``random_literal`` leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oracle.random_cases.values import MAKERS, literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

SETUP: Final = (
    "CREATE EXTENSION hstore;",
    "CREATE EXTENSION ltree;",
    "CREATE EXTENSION citext;",
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy, or so');",
    "CREATE TYPE pair AS (a int4, b text);",
    "CREATE DOMAIN price AS numeric(8, 2);",
    "CREATE DOMAIN code AS varchar(12);",
    "CREATE DOMAIN dear AS price CHECK (VALUE < 1e9);",
    "CREATE DOMAIN numbers AS int4[];",
    "CREATE DOMAIN document AS jsonb;",
    "CREATE DOMAIN moment AS timestamptz(3);",
    "CREATE DOMAIN stay AS interval;",
    "CREATE DOMAIN bag AS hstore;",
    "CREATE DOMAIN must AS varchar(20) NOT NULL;",
    'CREATE SCHEMA "Kinds";',
    """CREATE TYPE "Kinds"."Level" AS ENUM ('low', 'High', 'it''s');""",
    'CREATE TYPE "Kinds".span AS RANGE (subtype = float8);',
    "CREATE SEQUENCE counted;",
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
LONG: Final = "repeat('long text ', {n})"

SPECIAL: Final[Mapping[str, tuple[str, ...]]] = {
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
    "text": (*_TEXTS, LONG.format(n=10)),
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
    "must": ("'x'", "''"),
    "dear": ("0", "2.5"),
    "numbers": ("'{}'", "'{1,NULL}'"),
    "document": ("'{}'", "'null'"),
    "moment": ("'2016-11-04 13:51:30.123456+02'", "'infinity'"),
    "stay": ("'1 mon -1 day'",),
    "bag": ("'a=>1'", "''"),
    '"Kinds"."Level"': ("'low'", "'it''s'"),
    '"Kinds".span': ("'[0.1,0.2]'", "'empty'"),
    "jsonpath": ("'$.a[*] ? (@ > 1)'",),
    "regclass": ("'pg_class'",),
    "oidvector": ("''", "'1 2'"),
    "int2vector": ("'1 -2'",),
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
"""Values at the edges of types."""

TYPES: Final = tuple(dict.fromkeys((*SPECIAL, *MAKERS)))

NEVER_REQUIRED: Final = frozenset(
    {
        *("bit(11)[]", "ltree[]", "tsvector[]", "mood[]", '"Kinds"."Level"[]', "price[]", "code[]"),
        *("pair[]", "pg_lsn[]", "xid8[]", "tsquery[]", "int4multirange[]", '"Kinds".span[]'),
        *("oidvector", "int2vector"),
    }
)
"""Arrays that the engine may give no value, which stops it in a required column."""

HASHED_KEY_TYPES: Final = ("int4", "int8", "text", "uuid", "date", "numeric(8,2)", "varchar(40)", "mood")
"""Of keys by which a table may be partitioned, too."""

KEY_TYPES: Final = (
    *HASHED_KEY_TYPES * 4,
    *("int2", "oid", "bool", "numeric(30,10)", "price", "money"),
    *("citext", "char(12)", "bpchar", "varchar", "code", "name", '"char"', "ltree", "jsonb"),
    *("bytea", "bit(1)", "bit(11)", "varbit(9)"),
    *("time", "time(3)", "timetz", "timestamp(3)", "timestamptz", "timestamptz(0)", "interval"),
    *("inet", "macaddr", "int4range", "tstzrange", "int4[]", "text[]", "uuid[]", "tsvector", "pg_lsn"),
    *("cidr", "macaddr8", "int8range", "numrange", "daterange", "tsrange", "timestamp", "timestamp(0)", "float8"),
    *("pair", "int4multirange", "tsquery", "xid8", "hstore", "date[]", "dear", "code", "document", "moment", "must"),
    *('"Kinds"."Level"', '"Kinds".span'),
)

ONLY_REQUIRED: Final = frozenset({"must"})
"""Domains that take no NULL."""

EXPRESSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "int4": ("nextval('counted')", "1 + 2", "length('abc')", "-7"),
    "int8": ("nextval('counted'::regclass)", "5::int8"),
    "text": ("CURRENT_USER", "'a' || 'b'", "upper('x')", "NULL", "concat('a', 1)"),
    "varchar(40)": ("lower('X')", "'longer text'::varchar(6)"),
    "bool": ("(NOT true)", "1 < 2"),
    "uuid": ("gen_random_uuid()",),
    "date": ("CURRENT_DATE", "now()", "'2020-02-29'::date + 1"),
    "timestamp": ("now()", "LOCALTIMESTAMP(0)", "'2020-02-29'::date"),
    "timestamptz": ("now()", "clock_timestamp()", "now() + '1 day'"),
    "numeric": ("round(1.5)", "random()"),
    "float8": ("random()", "2 * 3.5"),
    "jsonb": ("'{}'::json", "jsonb_build_object('a', 1)"),
    "int4[]": ("ARRAY[1, 2]", "'{}'::int4[]"),
    "text[]": ("ARRAY['a', 'b']::text[]",),
    "mood": ("enum_first(NULL::mood)",),
    "price": ("1 + 0.5",),
}
"""Defaults that are no literals."""

NO_DEFAULTS: Final = frozenset({"'24:00:00'"})
"""Literals whose default Java prints in its own way."""


def random_type(random: Random, *, required: bool) -> str:
    """Any type that such a column may have."""
    never = NEVER_REQUIRED if required else ONLY_REQUIRED
    return random.choice([each for each in TYPES if each not in never])


def random_literal(random: Random, type_name: str, *, required: bool = False, as_default: bool = False) -> str:
    """A literal of a type: one of those above or any. Of a required number, or a key, NaN stops the engine."""
    if as_default and type_name in EXPRESSIONS and random.random() < 0.3:
        return random.choice(EXPRESSIONS[type_name])
    some = [each for each in SPECIAL.get(type_name, ()) if not (as_default and each in NO_DEFAULTS)]
    if required and type_name.startswith("numeric"):
        some = [each for each in some if each not in {"'NaN'", "'Infinity'"}]
    make = MAKERS.get(type_name)
    if make is None or (some and random.random() < 0.4):
        return random.choice(some)
    return literal(make(random))
