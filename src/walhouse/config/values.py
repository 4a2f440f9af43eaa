"""The types of a property's value: what Debezium's text for it means, and what is refused.

Invariant: a value that is given is of one of these types or is refused, with a message that names no secret.
Source: Debezium 3.6, "Connector properties".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, StringConstraints

from walhouse.config.columns import KeyEntry, parse_keys
from walhouse.config.filters import split_list
from walhouse.config.java_regex import require_pattern
from walhouse.config.masks import MaskRule, in_order, parse_mask
from walhouse.config.replica_identity import IdentityEntry, parse_identities
from walhouse.config.secrets import Secret, SecretReference, parse_secret


class SnapshotMode(StrEnum):
    """``snapshot.mode``: when whole tables are read, see ``walhouse.bronze.snapshots.modes``."""

    ALWAYS = "always"
    INITIAL = "initial"
    INITIAL_ONLY = "initial_only"
    NO_DATA = "no_data"
    WHEN_NEEDED = "when_needed"
    CONFIGURATION_BASED = "configuration_based"
    CUSTOM = "custom"


class AutocreateMode(StrEnum):
    """``publication.autocreate.mode``: what to do about the publication."""

    ALL_TABLES = "all_tables"
    FILTERED = "filtered"
    DISABLED = "disabled"
    NO_TABLES = "no_tables"


_OLD_SNAPSHOT_MODES: Final = {"never": "no_data", "schema_only": "no_data", "exported": "initial"}


def _secret(value: object) -> object:
    if isinstance(value, list):
        raise ValueError("must be one text, not a list")  # noqa: TRY004  (pydantic takes a ValueError)
    return parse_secret(value) if isinstance(value, str) else value


def _patterns(value: object) -> object:
    """A list of patterns out of Debezium's text, or a list as it is; each pattern is compiled once, to be sure."""
    patterns = split_list(value) if isinstance(value, str) else value
    if not isinstance(patterns, list | tuple):
        return value
    return tuple(require_pattern(str(pattern)) for pattern in patterns)


def _mask(value: object) -> object:
    return parse_mask(*value) if isinstance(value, tuple) else value


def _keys(value: object) -> object:
    entries = ";".join(value) if isinstance(value, list) else value
    return parse_keys(entries) if isinstance(entries, str) else value


def _identities(value: object) -> object:
    entries = ",".join(value) if isinstance(value, list) else value
    return parse_identities(entries) if isinstance(entries, str) else value


def _snapshot_mode(value: object) -> object:
    name = _in_any_case(value)
    if name == "recovery":
        raise ValueError(
            "recovery is for connectors with a schema history, which PostgreSQL's has not: use when_needed"
        )
    return _OLD_SNAPSHOT_MODES.get(str(name), name)


def _plugin(value: object) -> object:
    if (name := _in_any_case(value)) != "pgoutput":
        raise ValueError("only pgoutput can be read, PostgreSQL's own; leave plugin.name out or set it to pgoutput")
    return name


def _items(value: object) -> object:
    return split_list(value) if isinstance(value, str) else value


def _in_any_case(value: object) -> object:
    """The name of an enumeration's value: Debezium tells none by their case, or by blanks around them."""
    return value.strip().lower() if isinstance(value, str) else value


_AnyCase: Final = BeforeValidator(_in_any_case)
Text = Annotated[str, StringConstraints(min_length=1)]
SecretValue = Annotated[SecretReference | Secret, BeforeValidator(_secret), PlainSerializer(str, return_type=str)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(_patterns)]
Items = Annotated[tuple[str, ...], BeforeValidator(_items)]
Milliseconds = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
PluginName = Annotated[Literal["pgoutput"], BeforeValidator(_plugin)]
SlotName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,63}$")]
PublicationName = Annotated[str, StringConstraints(min_length=1, max_length=63)]
TopicPrefix = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$")]
TwoPartName = Annotated[str, StringConstraints(pattern=r"^[^.]+\.[^.]+$")]
AutocreateModeName = Annotated[AutocreateMode, _AnyCase]
SslMode = Annotated[Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"], _AnyCase]
ConversionFailure = Annotated[Literal["warn", "fail", "skip"], _AnyCase]
NameAdjustment = Annotated[Literal["none", "avro", "avro_unicode"], _AnyCase]
DecimalHandling = Annotated[Literal["precise", "double", "string", "native"], _AnyCase]
TimePrecision = Annotated[
    Literal["adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds", "native"],
    _AnyCase,
]
BinaryHandling = Annotated[Literal["bytes", "base64", "base64-url-safe", "hex"], _AnyCase]
IntervalHandling = Annotated[Literal["numeric", "string", "native"], _AnyCase]
HstoreHandling = Annotated[Literal["json", "map", "native"], _AnyCase]
SnapshotModeName = Annotated[SnapshotMode, BeforeValidator(_snapshot_mode)]
Watermarking = Annotated[Literal["insert_insert", "insert_delete"], _AnyCase]
Identities = Annotated[tuple[IdentityEntry, ...], BeforeValidator(_identities)]
KeyColumns = Annotated[tuple[KeyEntry, ...], BeforeValidator(_keys)]
MaskRules = Annotated[tuple[Annotated[MaskRule, BeforeValidator(_mask)], ...], AfterValidator(in_order)]
