"""The configuration that `walhouse init` writes: an example, or one made of a Kafka Connect connector.

Invariant: what is written says what the connector said, under names of today, and can be loaded once its CHANGE_ME
values are filled in, unless the connector asks for what there is not here. It holds no secret: a password becomes a
reference, and of a property that is not taken only the name is kept.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final

import yaml

from walhouse.config.connector import Connector, debezium_name
from walhouse.config.masks import without_salt
from walhouse.config.properties import NEW_NAMES, State, find
from walhouse.config.secrets import SecretReference, has_reference
from walhouse.config.sections import TO_BE_FILLED_IN
from walhouse.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONNECTOR_CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
_OTHER_NAMES: Final = frozenset({"PostgresConnector", "Postgres", "PostgresCdcSource", "PostgresCdcSourceV2"})
"""Kafka Connect takes a class by its simple name, too; Confluent Cloud has names of its own for this connector."""
VARIABLES: Final = {"database.password": "PGPASSWORD", "database.sslpassword": "PGSSLPASSWORD"}
"""Where a secret is expected that was written out."""
_PLAIN: Final = re.compile(r"(?!(?i:null)$)[A-Za-z0-9_][A-Za-z0-9_./-]*")

_CONNECTOR_EXAMPLE: Final = """\
# walhouse: a PostgreSQL database into a lakehouse. docs/CONFIGURATION.md lists every key.

connector:                                # Debezium's property names, with Debezium's defaults
  topic.prefix: shop                      # the source's logical name: events go to shop.<schema>.<table>

  database.hostname: 127.0.0.1
  database.port: 5432
  database.user: walhouse                 # needs REPLICATION, and SELECT on the captured tables
  database.password: ${env:PGPASSWORD}    # or ${file:PATH}, or ${secret:scope/key} for a Databricks secret scope
  database.dbname: shop
  # database.sslmode: verify-full
  # database.sslrootcert: root.crt        # relative to this file

  slot.name: walhouse                     # made by the first capture, removed by `walhouse drop`
  publication.name: walhouse
  publication.autocreate.mode: filtered   # made for the captured tables; disabled: it must exist

  snapshot.mode: initial                  # the rows that are there, then the changes; no_data: the changes only

  # Regular expressions that match whole names, separated by commas. Give the include or the exclude list of a kind.
  schema.include.list: public
  # table.include.list: public\\.(customers|orders)
  # column.exclude.list: public\\.customers\\.(phone|birthday)
"""

_LAKE_EXAMPLE: Final = """
lake:
  path: walhouse-lake                     # a local folder, relative to this file
  # catalog: main                         # instead of path: a catalog of Databricks
  # bronze: bronze                        # the schemas of the layers
  # silver: silver
  # gold: gold
  # ops: ops
  # table_name: "{schema}_{table}"        # a source table's name in silver and gold
  # max_pass_bytes: 1GiB                  # WAL that one capture pass reads at most
  # local_memory: 2GiB                    # heap of a local Spark: more for rows of many megabytes
"""

_HEAD: Final = """\
# Made from a Kafka Connect connector by `walhouse init --from-connector`.
#
# The slot and the publication are the connector's (by default debezium and dbz_publication). A slot has one reader, and
# what one has taken the other does not get: stop the connector for good, or give a slot.name of its own. Set
# publication.autocreate.mode to disabled while the connector needs the publication: else `walhouse drop` drops it.
"""


def commented_example() -> str:
    """A configuration to start from."""
    return _CONNECTOR_EXAMPLE + _LAKE_EXAMPLE


def from_connector_json(text: str) -> str:
    """A configuration made of a connector's JSON: ``{"name": …, "config": {…}}`` or the ``config`` alone.

    Raises ConfigurationError if the text is no such JSON or configures another connector.
    """
    config = _read(text)
    taken: list[str] = []
    left: list[str] = []
    for name, value in config.items():
        new = NEW_NAMES.get(name)
        if new is not None and new not in config:
            taken.append(f"{_taken(new, value)}  # was {name}")
        elif _is_taken(name, value):
            taken.append(_taken(name, value))
        else:
            left.append(f"# {_on_one_line(without_salt(name))}: {_why_left(name, config)}")
    taken += (f"{name}: {TO_BE_FILLED_IN}  # the connector does not say it" for name in _required(config))
    rest = ["", "  # Not taken over:", *_indented(left)] if left else []
    return "\n".join([_HEAD, "connector:", *_indented(taken), *rest, ""]) + _LAKE_EXAMPLE


def _indented(lines: Iterable[str]) -> Iterable[str]:
    return (f"  {line}" for line in lines)


def _read(text: str) -> dict[str, str]:
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        raise _refused(f"is not JSON: {error.msg} in line {error.lineno}") from None
    config = raw.get("config", raw) if isinstance(raw, dict) else raw
    if not isinstance(config, dict):
        raise _refused("must be an object with the connector's properties")
    if nested := [name for name, value in config.items() if isinstance(value, dict | list)]:
        raise _refused(f"holds {nested[0]}, which is no plain value")
    found = config.get("connector.class", CONNECTOR_CLASS)
    if found != CONNECTOR_CLASS and found not in _OTHER_NAMES:
        raise _refused(f"configures {found}, not {CONNECTOR_CLASS}")
    return {name: _text(value) for name, value in config.items() if value is not None}


def _refused(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"The connector's configuration {problem}.",
        todo="Give the JSON that Kafka Connect answers at /connectors/NAME, or its part config.",
    )


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool | int | float) else str(value)


def _is_taken(name: str, value: str) -> bool:
    record = find(name)
    if record is None:
        return False
    is_default = value.strip().lower() == (record.default or "").lower()
    return record.state is State.USED or (record.state is State.DEFAULT_ONLY and is_default)


def _why_left(name: str, config: Mapping[str, str]) -> str:
    if (record := find(name)) is not None:
        return record.note
    alias = name.partition(".")[0]
    for owner in ("converters", "post.processors"):
        if alias in (part.strip() for part in config.get(owner, "").split(",")):
            return f"a setting of {alias}, one of {owner}"
    return "not a property of Debezium's PostgreSQL connector"


def _required(config: Mapping[str, str]) -> Iterable[str]:
    """What a connector must say and this one does not."""
    said = {NEW_NAMES.get(name, name) for name in config}
    required = (debezium_name(name) for name, field in Connector.model_fields.items() if field.is_required())
    return (name for name in required if name not in said)


def _taken(name: str, value: str) -> str:
    if name in VARIABLES:
        if _is_reference(value):
            return f"{name}: {value}"
        reference = SecretReference("env", VARIABLES[name])
        return f"{name}: {reference}  # was written out, or a reference of Kafka Connect's: put it there"
    if name == "plugin.name" and value != "pgoutput":
        return f"# {name}: was {_on_one_line(value)}; pgoutput is read, which every server has"
    if has_reference(value):
        return f"{_scalar(name)}: {TO_BE_FILLED_IN}  # was {_on_one_line(value)}, with a reference of Kafka Connect's"
    return f"{_scalar(name)}: {_scalar(value)}"


def _is_reference(value: str) -> bool:
    """True for ``${env:NAME}`` and the like; Kafka's ``${file:PATH:KEY}`` is another thing."""
    try:
        reference = SecretReference.parse(value)
    except ValueError:
        return False
    return reference is not None and ":" not in reference.name


def _on_one_line(text: str) -> str:
    """As a comment may hold it."""
    return "".join(character if character.isprintable() else " " for character in text)


def _scalar(text: str) -> str:
    """The text as a key or value that YAML reads as just this text; a salt may have any characters."""
    if _PLAIN.fullmatch(text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    quoted: str = yaml.safe_dump(text, default_style='"', width=math.inf, allow_unicode=True)
    return quoted.rstrip("\n")
