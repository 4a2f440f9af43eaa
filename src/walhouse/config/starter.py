"""The configuration that `walhouse init` writes: an example, or one made of a Kafka Connect connector.

Invariant: what is written can be loaded once its CHANGE_ME values are filled in, and holds no secret: a password
becomes a reference, and of a property that is not taken only the name is kept.
"""

from __future__ import annotations

import json
import re
from typing import Final

from walhouse.config.masks import without_salt
from walhouse.config.properties import Property, State, find
from walhouse.config.secrets import SecretReference
from walhouse.errors import ConfigurationError

CONNECTOR_CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
PASSWORD_REFERENCE: Final = "${env:PGPASSWORD}"  # noqa: S105  the name of a variable, not a password
_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")

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
        record = find(name)
        if record is None:
            left.append(f"  # {without_salt(name)}: not a property of Debezium's PostgreSQL connector")
        elif record.state is State.USED:
            taken.append(f"  {_taken(record, name, value)}")
        elif record.state is State.DEFAULT_ONLY and value.strip().lower() == (record.default or "").lower():
            taken.append(f"  {name}: {_scalar(value)}")
        else:
            left.append(f"  # {name}: {record.note}")
    rest = ["", "  # Not taken over:", *left] if left else []
    head = "# Made from a Kafka Connect connector by `walhouse init --from-connector`."
    return "\n".join([head, "", "connector:", *taken, *rest, ""]) + _LAKE_EXAMPLE


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
    if found != CONNECTOR_CLASS:
        raise _refused(f"configures {found}, not {CONNECTOR_CLASS}")
    return {name: _text(value) for name, value in config.items() if value is not None}


def _refused(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"The connector's configuration {problem}.",
        todo="Give the JSON that Kafka Connect answers at /connectors/NAME, or its part config.",
    )


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool | int | float) else str(value)


def _taken(record: Property, name: str, value: str) -> str:
    if record.kind == "secret":
        if _is_reference(value):
            return f"{name}: {value}"
        return f"{name}: {PASSWORD_REFERENCE}  # was written out, or a reference of Kafka Connect's: put it there"
    if name == "plugin.name" and value != "pgoutput":
        return f"# {name}: was {value}; pgoutput is read, which every server has"
    if value.lstrip().startswith("${"):
        return f"{name}: CHANGE_ME  # was a reference of Kafka Connect's"
    return f"{name}: {_scalar(value)}"


def _is_reference(value: str) -> bool:
    """True for ``${env:NAME}`` and the like; Kafka's ``${file:PATH:KEY}`` is another thing."""
    try:
        reference = SecretReference.parse(value)
    except ValueError:
        return False
    return reference is not None and ":" not in reference.name


def _scalar(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False) if "\n" in value else "'" + value.replace("'", "''") + "'"
