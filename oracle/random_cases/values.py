"""Random values of the types, as PostgreSQL reads them.

Invariant: the same random numbers make the same value, and the type takes every one of them.
"""

from __future__ import annotations

import json
import math
import struct
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    Maker = Callable[[Random], str]
    """The text of a value, without SQL's quotes."""

BEYOND_UTF16: Final = "𐍈"
"""The one character here that Java's strings count twice."""

_CHARACTERS: Final = (
    "aaabcxyzAZ019     .,:;-_+*/%&|~^$#@!?()[]{}<>='\"\\\t\n\x01\x7f\u00a0äßžŁ€漢\u0301\u202e\ufffd" + BEYOND_UTF16
)
_NOW: Final = datetime(2000, 1, 1)  # noqa: DTZ001  (zones are added as text)
_YEAR: Final = timedelta(days=365.2425)


def literal(text: str) -> str:
    """A text as SQL."""
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{quoted}'" if "\\" in text else f"'{quoted}'"


def _integer(bits: int) -> Maker:
    return lambda random: str(random.getrandbits(random.randint(1, bits - 1)) * random.choice((1, -1)))


def _natural(bits: int) -> Maker:
    return lambda random: str(random.getrandbits(random.randint(1, bits)))


def _float(code: str, digits: int) -> Maker:
    def make(random: Random) -> str:
        if random.random() < 0.5:
            return f"{random.uniform(-1, 1) * 10 ** random.randint(-5, 12):.{random.randint(1, digits)}g}"
        while not math.isfinite(value := struct.unpack(code, random.randbytes(struct.calcsize(code)))[0]):
            pass
        return repr(value)

    return make


def _digits(random: Random, most: int) -> str:
    return "".join(random.choices("00123456789", k=random.randint(0, most)))


def _numeric(whole: int, scale: int) -> Maker:
    def make(random: Random) -> str:
        fraction = _digits(random, scale)
        return f"{random.choice(('', '-'))}{_digits(random, whole) or '0'}{f'.{fraction}' if fraction else ''}"

    return make


def _text(most: int) -> Maker:
    return lambda random: "".join(random.choices(_CHARACTERS, k=random.randint(0, most)))


def _document(random: Random, depth: int = 0) -> Any:
    kind = random.randint(0, 7 if depth < 3 else 5)
    if kind == 6:
        return [_document(random, depth + 1) for _ in range(random.randint(0, 3))]
    if kind == 7:
        return {_text(5)(random): _document(random, depth + 1) for _ in range(random.randint(0, 3))}
    return (None, True, False, random.uniform(-1e6, 1e6), random.getrandbits(60), _text(10)(random))[kind]


def _json(random: Random) -> str:
    return json.dumps(_document(random), ensure_ascii=random.random() < 0.5, indent=random.choice((None, None, 2)))


def _bits(fewest: int, most: int) -> Maker:
    return lambda random: "".join(random.choices("01", k=random.randint(fewest, most)))


def _hex(octets: int, separator: str) -> Maker:
    return lambda random: separator.join(f"{octet:02x}" for octet in random.randbytes(octets))


def _moment(random: Random) -> datetime:
    """Of the years 3 to 9997, most of them near ours."""
    years = random.uniform(-60, 80) if random.random() < 0.7 else random.uniform(-1997, 7997)
    moment = _NOW + years * _YEAR
    return moment.replace(microsecond=random.choice((0, moment.microsecond // 1000 * 1000, moment.microsecond)))


def _date(random: Random) -> str:
    chance = random.random()
    if chance < 0.04:
        return f"{random.randint(1, 4700):04}-02-28 BC"
    if chance < 0.08:
        return f"{random.randint(10000, 5_800_000)}-12-31"
    return _moment(random).date().isoformat()


def _time(random: Random) -> str:
    return _moment(random).time().isoformat()


def _zone(random: Random) -> str:
    return f"{random.choice('+-')}{random.randint(0, 13):02}:{random.choice((0, 0, 0, 30, 45)):02}"


def _timestamp(random: Random, zone: str = "") -> str:
    moment, chance = _moment(random), random.random()
    if chance < 0.04:
        early = moment.replace(year=random.randint(1, 4700), day=min(moment.day, 28))
        return f"{early.isoformat(' ')}{zone} BC"
    if chance < 0.08:
        return f"{random.randint(10000, 290_000)}-{moment:%m}-28 {moment.time().isoformat()}{zone}"
    return f"{moment.isoformat(' ')}{zone}"


def _timestamptz(random: Random) -> str:
    return _timestamp(random, _zone(random))


def _interval(random: Random) -> str:
    units = ("years", "mons", "days", "hours", "mins", "secs")
    parts = [f"{random.randint(-2000, 2000)} {unit}" for unit in units if random.random() < 0.4]
    return " ".join([*parts, f"{random.randint(-999_999, 999_999)} us"])


def _address(random: Random) -> str:
    if random.random() < 0.5:
        return f"{'.'.join(str(octet) for octet in random.randbytes(4))}/{random.randint(0, 32)}"
    groups = (f"{random.choice((0, 0, random.getrandbits(16))):x}" for _ in range(8))
    return f"{':'.join(groups)}/{random.randint(0, 128)}"


def _range(of: Maker, order: Callable[[str], Any]) -> Maker:
    def make(random: Random) -> str:
        lower, upper = sorted((of(random), of(random)), key=order)
        lower, upper = (random.choice((end, end, end, "")) for end in (f'"{lower}"', f'"{upper}"'))
        return f"{random.choice('[(')}{lower},{upper}{random.choice('])')}"

    return make


def _words(separator: str, quote: str = "") -> Maker:
    def make(random: Random) -> str:
        words = ("".join(random.choices("abcXYZ019_", k=random.randint(1, 8))) for _ in range(random.randint(1, 4)))
        return separator.join(f"{quote}{word}{quote}" for word in words)

    return make


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pairs(random: Random) -> str:
    """An hstore."""
    text = _text(6)
    return ", ".join(
        f"{_quoted(text(random))}=>{random.choice(('NULL', _quoted(text(random))))}"
        for _ in range(random.randint(0, 5))
    )


def _points(random: Random, count: int) -> str:
    number = _float("<d", 10)
    return ",".join(f"({number(random)},{number(random)})" for _ in range(count))


def _shape(before: str, fewest: int, most: int, after: str) -> Maker:
    return lambda random: f"{before}{_points(random, random.randint(fewest, most))}{after}"


def _multirange(of: Maker) -> Maker:
    return lambda random: f"{{{','.join(of(random) for _ in range(random.randint(0, 3)))}}}"


def _pair(random: Random) -> str:
    """A composite of an int4 and a text."""
    number, text = _integer(32)(random), _text(8)(random)
    return f"({random.choice(('', number))},{random.choice(('', _quoted(text)))})"


def _array(of: Maker, *, can_be_deeper: bool) -> Maker:
    def flat(random: Random, length: int) -> str:
        items = ("NULL" if random.random() < 0.15 else _quoted(of(random)) for _ in range(length))
        return f"{{{','.join(items)}}}"

    def make(random: Random) -> str:
        if not can_be_deeper or random.random() < 0.85:
            return flat(random, random.randint(0, 4))
        length = random.randint(1, 3)
        return f"{{{','.join(flat(random, length) for _ in range(random.randint(1, 3)))}}}"

    return make


_ONE: Final[Mapping[str, Maker]] = {
    "bool": lambda random: random.choice("tf"),
    "int2": _integer(16),
    "int4": _integer(32),
    "int8": _integer(64),
    "oid": _natural(32),
    "float4": _float("<f", 6),
    "float8": _float("<d", 15),
    "numeric(8,2)": _numeric(6, 4),
    "numeric(30,10)": _numeric(20, 12),
    "numeric(5,0)": _numeric(4, 1),
    "numeric": _numeric(40, 30),
    "money": _numeric(15, 2),
    "text": _text(30),
    "varchar(40)": _text(40),
    "char(12)": _text(12),
    "citext": _text(20),
    "name": _text(15),
    "uuid": lambda random: str(UUID(int=random.getrandbits(128))),
    "json": _json,
    "jsonb": _json,
    "bytea": lambda random: f"\\x{random.randbytes(random.randint(0, 20)).hex()}",
    "bit(1)": _bits(1, 1),
    "bit(11)": _bits(11, 11),
    "varbit(9)": _bits(0, 9),
    "mood": lambda random: random.choice(("sad", "ok", "happy, or so")),
    "price": _numeric(6, 4),
    "code": _text(12),
    "date": _date,
    "time": _time,
    "time(3)": _time,
    "timetz": lambda random: _time(random) + _zone(random),
    "timestamp": _timestamp,
    "timestamp(3)": _timestamp,
    "timestamptz": _timestamptz,
    "timestamptz(0)": _timestamptz,
    "interval": _interval,
    "inet": _address,
    "macaddr": _hex(6, ":"),
    "macaddr8": _hex(8, ":"),
    "int4range": _range(_integer(32), int),
    "int8range": _range(_integer(64), int),
    "numrange": _range(_numeric(10, 5), float),
    "daterange": _range(lambda random: _moment(random).date().isoformat(), str),
    "tsrange": _range(lambda random: _moment(random).isoformat(" "), str),
    "tstzrange": _range(lambda random: _moment(random).isoformat(" ") + "+00", str),
    "tsvector": _words(" "),
    "tsquery": _words(" | ", "'"),
    "ltree": _words("."),
    "hstore": _pairs,
    "point": _shape("", 1, 1, ""),
    "box": _shape("", 2, 2, ""),
    "lseg": _shape("[", 2, 2, "]"),
    "path": _shape("[", 1, 4, "]"),
    "polygon": _shape("(", 1, 4, ")"),
    "circle": lambda random: f"<{_points(random, 1)},{random.randint(0, 9)}.5>",
    "line": lambda random: f"{{{random.randint(1, 9)},{_float('<d', 10)(random)},{_float('<d', 10)(random)}}}",
    '"char"': lambda random: random.choice("aZ1 $"),
    "pair": _pair,
    "int4multirange": _multirange(_range(_integer(32), int)),
    "xid8": _natural(64),
    "numeric(5,-2)": _numeric(6, 2),
    "numeric(2,4)": lambda random: f"0.00{random.randint(0, 99):02}",
    "varchar": _text(30),
    "bpchar": _text(30),
    "varbit": _bits(0, 40),
    "timestamp(0)": _timestamp,
    "time(0)": _time,
    "timetz(3)": lambda random: _time(random) + _zone(random),
    "interval(0)": _interval,
    "pg_lsn": lambda random: f"{random.getrandbits(random.randint(1, 32)):X}/{random.getrandbits(32):X}",
    "cidr": lambda random: f"{'.'.join(str(octet) for octet in random.randbytes(random.randint(1, 4)))}",
    "dear": _numeric(6, 4),
    "numbers": lambda random: f"{{{','.join(_integer(32)(random) for _ in range(random.randint(0, 4)))}}}",
    "document": _json,
    "moment": _timestamptz,
    "stay": _interval,
    "bag": _pairs,
    "must": _text(20),
    '"Kinds"."Level"': lambda random: random.choice(("low", "High", "it's")),
    '"Kinds".span': _range(_float("<d", 10), float),
    '"Kinds".span_multirange': _multirange(_range(_float("<d", 10), float)),
    "tstzmultirange": _multirange(_range(lambda random: _moment(random).isoformat(" ") + "+00", str)),
}

_FLAT: Final = (
    *("text", "varchar(40)", "char(12)", "json", "jsonb", "uuid", "mood", "inet", "macaddr", "macaddr8", "ltree"),
    *("tsvector", "int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("varchar", "bpchar", "cidr", "tsquery", "pair", "pg_lsn", "xid8", "int4multirange", '"char"', "name"),
    *("price", "code", '"Kinds"."Level"', '"Kinds".span', "timestamp(3)", "timestamptz(0)", "time(3)"),
)
"""Elements whose deeper arrays are the names of Java objects in the engine."""

_DEEP: Final = (
    *("bool", "int2", "int4", "int8", "float4", "float8", "numeric(8,2)", "numeric", "citext", "bytea", "date"),
    *("time", "timetz", "timetz(3)", "timestamp", "timestamptz", "interval", "hstore", "bit(11)", "varbit(9)"),
    *("oid", "money"),
)

MAKERS: Final[Mapping[str, Maker]] = {
    **_ONE,
    **{f"{each}[]": _array(_ONE[each], can_be_deeper=False) for each in _FLAT},
    **{f"{each}[]": _array(_ONE[each], can_be_deeper=True) for each in _DEEP},
}
"""By type."""
