"""What each PostgreSQL type becomes in silver, in Debezium's default modes.

One wide table, one Spark job: a column a case. Values marked O come from Debezium's own tests.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from tests.silver.bronze_rows import column
from tests.silver.bronze_rows import numeric_typmod as numeric
from walhouse.pgoutput.column import ColumnDescription
from walhouse.silver.modes import DEFAULTS, BinaryMode, HstoreMode, TypeModes
from walhouse.silver.settings import SilverSettings
from walhouse.silver.types.registry import describe, silver_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.silver.types.silver_type import SilverType

pytestmark = pytest.mark.spark


class Case(NamedTuple):
    type: str
    typmod: int
    text: str
    value: Any


def twos_complement(unscaled: int) -> bytes:
    size = ((unscaled if unscaled >= 0 else ~unscaled).bit_length()) // 8 + 1
    return unscaled.to_bytes(size, signed=True)


LONG = "9" * 400
POINT = "0101000020730C00001C7C613255DE6540787AA52C435C42C0"
BIG_ENDIAN = f"0020000001000010E6{'3FF0000000000000' * 2}"  # as PostGIS prints it on such a machine

CASES = [
    Case("money", -1, "1.234,56 €", None),  # of another lc_monetary
    Case("sparsevec", -1, "{40000:1}/40001", None),  # Debezium has 16 bits for a place
    Case("bool", -1, "t", True),
    Case("bool", -1, "f", False),
    Case("int2", -1, "-7", -7),
    Case("int4", -1, "123456", 123456),  # O1
    Case("int8", -1, "1234567890123", 1234567890123),  # O1
    Case("int8", -1, "-9223372036854775808", -(2**63)),
    Case("oid", -1, "4000000000", 4000000000),  # O1
    Case("float4", -1, "3.5", 3.5),
    Case("float8", -1, "4.44", 4.44),  # O1
    Case("float8", -1, "4", 4.0),  # O1
    Case("float8", -1, "1.7976931348623157e+308", 1.7976931348623157e308),
    Case("float8", -1, "Infinity", float("inf")),  # O2
    Case("float4", -1, "-Infinity", float("-inf")),  # O2
    Case("numeric", numeric(3, 2), "1.10", bytes.fromhex("6e")),  # O4: bg==
    Case("numeric", numeric(3, 2), "3.30", bytes.fromhex("014a")),  # O6: AUo=
    Case("numeric", numeric(5, 2), "3.14", bytes.fromhex("013a")),  # ATo=
    Case("numeric", numeric(5, 2), "-3.14", twos_complement(-314)),
    Case("numeric", numeric(5, 2), "0.00", b"\0"),
    Case("numeric", numeric(5, 2), "-0.01", b"\xff"),
    Case("numeric", numeric(5, 0), "128", bytes.fromhex("0080")),
    Case("numeric", numeric(5, 0), "-128", bytes.fromhex("80")),
    Case("numeric", numeric(18, 0), "9" * 18, twos_complement(10**18 - 1)),
    Case("numeric", numeric(18, 0), "-" + "9" * 18, twos_complement(1 - 10**18)),
    Case("numeric", numeric(38, 4), "-" + "9" * 34 + ".9999", twos_complement(1 - 10**38)),
    Case("numeric", numeric(20, 0), "18446744073709551616", twos_complement(2**64)),
    Case("numeric", numeric(20, 0), "-18446744073709551616", twos_complement(-(2**64))),
    Case("numeric", numeric(1000, 0), LONG, twos_complement(int(LONG))),
    Case("numeric", numeric(10, 4), "1.5", twos_complement(15000)),
    # Debezium takes the scale -2 for 2046
    Case("numeric", numeric(3, -2), "12300", twos_complement(12300 * 10**2046)),
    Case("numeric", numeric(3, -2), "0", b"\0"),
    Case("numeric", numeric(2, 4), "0.0012", twos_complement(12)),
    Case("numeric", -1, "10.1111", (4, bytes.fromhex("018af7"))),  # O5: AYr3
    Case("numeric", -1, "10", (0, b"\x0a")),  # O5: Cg==
    Case("numeric", -1, "1.500", (1, b"\x0f")),
    Case("numeric", -1, "1000", (0, twos_complement(1000))),
    Case("numeric", -1, "0.000", (0, b"\0")),
    Case("numeric", -1, "-0.0500", (2, twos_complement(-5))),
    Case("numeric", -1, "-" + LONG + ".5", (1, twos_complement(-int(LONG + "5")))),
    Case("numeric", -1, "1" + "0" * 36, (0, twos_complement(10**36))),
    Case("numeric", -1, "-1" + "0" * 36, (0, twos_complement(-(10**36)))),
    Case("varchar", 6, "žš", "žš"),  # O8
    Case("bpchar", 9, "abc  ", "abc  "),
    Case("text", -1, "", ""),
    Case("citext", -1, "Hello World", "Hello World"),  # O8
    Case("name", -1, "pg_class", None),  # the engine's field is there, and empty
    Case("char", -1, "x", "x"),
    Case("uuid", -1, "76019d1a-ad2e-4b22-96e9-1a6d6543c818", "76019d1a-ad2e-4b22-96e9-1a6d6543c818"),
    Case("jsonb", -1, '{"bar": "baz"}', '{"bar": "baz"}'),  # O12
    Case("bytea", -1, "\\x000102", b"\0\1\2"),  # O8: AAEC
    Case("bytea", -1, "\\x", b""),
    Case("bytea", -1, "\\x" + "ab" * 100_000, b"\xab" * 100_000),
    Case("date", -1, "2016-11-04", 17109),  # O13
    Case("date", -1, "0001-01-01", -719162),
    Case("date", -1, "0001-12-31 BC", -719163),
    Case("date", -1, "0044-03-15 BC", -735160),
    Case("date", -1, "4713-01-01 BC", -2440550),
    Case("date", -1, "12024-02-29", 3672207),
    Case("date", -1, "5874897-12-31", 2145042905),
    Case("date", -1, "infinity", -2147472692),
    Case("date", -1, "-infinity", -2147472691),
    Case("time", -1, "13:51:30", 49890000000),  # O13
    Case("time", 6, "13:51:30.000001", 49890000001),
    Case("time", 3, "13:51:30.123", 49890123),  # O13
    Case("time", 0, "13:51:30", 49890000),
    Case("time", -1, "24:00:00", 86400000000),
    Case("timetz", -1, "13:51:30.1234+02", "11:51:30.1234Z"),
    Case("timetz", -1, "00:00:01-05:30:15", "05:30:16Z"),
    Case("timetz", -1, "24:00:00+00", "00:00:00Z"),
    Case("timestamp", -1, "2016-11-04 13:51:30.123456", 1478267490123456),  # O13
    Case("timestamp", 6, "1936-10-25 22:10:12.608", -1047174587392000),  # O13
    Case("timestamp", 3, "2016-11-04 13:51:30.123", 1478267490123),  # O13
    Case("timestamp", 3, "1936-10-25 22:10:12.608", -1047174587392),
    Case("timestamp", -1, "0001-12-31 00:00:00.5 BC", -719163 * 86400_000000 + 500000),
    Case("timestamp", -1, "12024-02-29 00:00:01", 3672207 * 86400_000000 + 1000000),
    Case("timestamp", -1, "infinity", 9223372036825200000),
    Case("timestamp", -1, "-infinity", -9223372036832400000),
    Case("timestamp", 3, "infinity", 9223372036825200),
    Case("timestamptz", -1, "2016-11-04 11:51:30.123456+00", "2016-11-04T11:51:30.123456Z"),  # O14
    Case("timestamptz", -1, "2020-01-01 00:00:00+00", "2020-01-01T00:00:00.000000Z"),
    Case("timestamptz", 3, "2020-01-01 00:00:00.1+00", "2020-01-01T00:00:00.100Z"),
    Case("timestamptz", 0, "2020-01-01 00:00:00+00", "2020-01-01T00:00:00Z"),
    Case("timestamptz", -1, "12020-01-01 00:00:00+00", "+12020-01-01T00:00:00.000000Z"),
    Case("timestamptz", 0, "0044-03-15 12:00:00+00 BC", "-0043-03-15T12:00:00Z"),
    Case("timestamptz", -1, "infinity", "infinity"),
    Case("timestamptz", -1, "-infinity", "-infinity"),
    Case("interval", -1, "-infinity", 0),  # the engine knows no part of it
    Case("int2vector", -1, "1 2", []),  # the engine finds no elements where no braces are
    Case("oidvector", -1, "", None),
    Case("inet", -1, "192.168.2.0/12", "192.168.2.0/12"),  # O9
    Case("geometry", -1, POINT, (bytes.fromhex(POINT), 3187)),  # O26
    Case("geometry", -1, "010700000000000000", (bytes.fromhex("010700000000000000"), None)),
    Case("geography", -1, BIG_ENDIAN, (bytes.fromhex(BIG_ENDIAN), 4326)),
    # Texts that no rule takes, though Spark would cast them or stop at them
    Case("bool", -1, "true", None),
    Case("int4", -1, " 12", None),
    Case("int4", -1, "12.0", None),
    Case("int4", -1, "3000000000", None),
    Case("float8", -1, "1e400", None),
    Case("float4", -1, "1e+300", None),
    Case("float8", -1, "1.0d", None),
    Case("numeric", numeric(3, 2), "NaN", None),
    Case("numeric", numeric(3, 2), "Infinity", None),
    Case("numeric", numeric(10, 2), "1.23456", None),
    Case("numeric", -1, "NaN", None),
    Case("numeric", -1, "1e5", None),
    Case("bytea", -1, "\\x0", None),
    Case("bytea", -1, "\\xzz", None),
    Case("bytea", -1, "plain", None),
    Case("date", -1, "2024-01-01 garbage", None),
    Case("date", -1, "2024-02-30", None),
    Case("date", -1, "2024-02-30 BC", None),
    Case("date", -1, "2024-1-1", None),
    Case("date", -1, "2024-01-01\n", None),
    Case("int4", -1, "12\n", None),
    Case("numeric", numeric(3, 2), "1.10\n", None),
    Case("timestamptz", 0, "2024-01-01 00:00:00+00\n", None),
    Case("time", -1, "13:51", None),
    Case("timestamp", -1, "2024-01-01 00:00:00+02", None),
    Case("timestamp", -1, "2024-13-01 00:00:00", None),
    Case("timestamp", 3, "294276-12-31 23:59:59.99\n", None),
    Case("timestamptz", -1, "2024-01-01 00:00:00+02", None),
    Case("geometry", -1, "POINT(1 1)", None),
    Case("geometry", -1, POINT[:-1], None),
    Case("geography", -1, f"{POINT}\n", None),
]


def description(case: Case) -> ColumnDescription:
    return column("c", case.type, typmod=case.typmod)


def known_type(described: ColumnDescription, modes: TypeModes = DEFAULTS) -> SilverType:
    kind = silver_type(described, modes)
    assert kind is not None
    return kind


def plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    return tuple(plain(part) for part in value) if isinstance(value, Row) else value


@pytest.fixture(scope="module")
def converted(spark: SparkSession) -> list[Any]:
    return all_converted(spark)


def all_converted(spark: SparkSession) -> list[Any]:
    """Every case's value, computed by one job over texts that the planner cannot fold."""
    texts = spark.createDataFrame([([case.text for case in CASES],)], "texts array<string>").repartition(1)
    values = [
        F.expr(known_type(description(case)).convert(f"get(texts, {i})")).alias(f"v{i}") for i, case in enumerate(CASES)
    ]
    row = texts.select(*values).first()
    assert row is not None
    return list(row)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda i: f"{CASES[i].type}-{CASES[i].text[:30]}")
def test_a_text_becomes_debeziums_value_or_null(converted: list[Any], number: int) -> None:
    assert plain(converted[number]) == CASES[number].value


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Apia"])
def test_the_session_s_time_zone_which_a_cluster_may_set_plays_no_part(
    zone: str, spark: SparkSession, converted: list[Any]
) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        assert all_converted(spark) == converted
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_not_a_number_is_a_float_like_any_other(spark: SparkSession) -> None:
    text = spark.createDataFrame([("NaN",)], "text string")
    row = text.select(F.isnan(F.expr(known_type(column("c", "float8")).convert("text")))).first()
    assert row is not None
    assert row[0] is True


def test_a_field_says_what_debeziums_schema_says() -> None:
    price = column("price", "numeric", typmod=numeric(10, 2), type_name="numeric(10,2)", nullable=False)
    assert describe(price, known_type(price)) == (
        '{"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1, "optional": false,'
        ' "parameters": {"scale": "2", "connect.decimal.precision": "10"}, "column": "price",'
        ' "source": "numeric(10,2)"}'
    )


def test_bits_tell_their_length_or_the_largest_there_is() -> None:
    lengths = [known_type(column("c", "varbit", typmod=typmod)).parameters["length"] for typmod in (9, -1)]
    assert lengths == ["9", "2147483647"]


def test_an_enum_lists_its_labels_in_their_order() -> None:
    mood = column("mood", "mood", kind="e", enum_labels=("V2", "V1"))
    kind = known_type(mood)
    assert (kind.semantic, kind.parameters) == ("io.debezium.data.Enum", {"allowed": "V2,V1"})


@pytest.mark.parametrize("name", ["hstore", "geometry"])
def test_an_enum_is_one_whatever_its_name(name: str) -> None:
    """Debezium knows the extensions' types by name alone."""
    assert known_type(column("c", name, kind="e", enum_labels=("x",))).semantic == "io.debezium.data.Enum"


def test_a_type_that_debezium_does_not_know_is_left_out_or_shown_as_bytes() -> None:
    query = column("q", "tsquery")
    assert silver_type(query) is None
    assert known_type(query, TypeModes(unknown=True)).literal == "bytes"
    assert known_type(query, TypeModes(unknown=True, binary=BinaryMode.HEX)).literal == "string"


def test_a_domain_over_an_array_or_hstore_has_another_placeholder_or_none() -> None:
    settings = SilverSettings("p", "db", placeholder="gone")

    def shown(name: str, modes: TypeModes = DEFAULTS, **facts: str) -> list[str | None]:
        """Of the type, and of a domain over it."""
        kinds = [known_type(column("c", name, declared_type=declared, **facts), modes) for declared in (name, "own")]
        return [kind.unavailable and kind.unavailable(settings) for kind in kinds]

    assert shown("_text", element_type="text") == ["array('gone')", None]
    assert shown("hstore") == ["""'{"gone":"gone"}'""", "'gone'"]
    assert shown("hstore", TypeModes(hstore=HstoreMode.MAP)) == ["map('gone', 'gone')", None]
    assert shown("jsonb") == ["'gone'", "'gone'"]


def test_a_built_in_type_is_known_by_its_oid_where_the_catalog_was_not() -> None:
    forgotten = ColumnDescription("c", 1184, 3, identity=False)
    assert known_type(forgotten).semantic == "io.debezium.time.ZonedTimestamp"


def test_any_number_keeps_its_value_to_the_last_digit(spark: SparkSession) -> None:
    random = Random(20261121)
    numbers = [random.choice((1, -1)) * random.randrange(10 ** random.randrange(1, 120)) for _ in range(400)] + [
        sign * 2**bits + near for sign in (1, -1) for bits in range(0, 160, 8) for near in (-1, 0, 1)
    ]
    kind = known_type(column("n", "numeric", typmod=numeric(200, 0)))
    rows = spark.createDataFrame([(str(number),) for number in numbers], "text string")
    values = rows.select("text", F.expr(kind.convert("text")).alias("value")).collect()
    assert {row.text: bytes(row.value) for row in values} == {str(n): twos_complement(n) for n in numbers}
