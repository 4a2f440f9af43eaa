"""docs/CONFIGURATION.md, made of the tables that the program itself uses: ``python -m walhouse.config.document``.

Invariant: the document says what the program does; a test keeps the file equal to this text.
"""

from __future__ import annotations

import sys
from typing import Final

from walhouse.config.lake import Lake
from walhouse.config.properties import TABLE, Property, State
from walhouse.config.starter import commented_example

_HEAD: Final = """\
# Configuration

<!-- Made by `python -m walhouse.config.document > docs/CONFIGURATION.md`. Do not edit by hand. -->

One YAML file, named by `--conf FILE` or by the environment variable `WALHOUSE_CONF`. `walhouse init` writes one to
start from, `walhouse init --from-connector FILE` makes one from the JSON of a Kafka Connect connector. A file that is
wrong is refused before anything is connected to, with all its problems at once, and exit code 2.

```yaml
{example}```

- Names may be dotted or nested: `database.hostname: h` and `database: {{hostname: h}}` are the same.
- A list may be Debezium's text (`a,b`) or a YAML list (`[a, b]`), whose items are taken as they are.
- Paths are relative to the file's folder.
- A key without a value counts as not given.

## Secrets

`database.password` and `database.sslpassword` take a reference, which is resolved when a command starts:

| reference | where the secret is |
| --- | --- |
| `${{env:NAME}}` | the environment variable NAME |
| `${{file:PATH}}` | a file |
| `${{secret:scope/key}}` | a Databricks secret scope, asked through the Databricks SDK |

One line break at a secret's end does not count. A password that is written out works, with a warning. No log line,
error or plan shows a secret.

## Lists of names

The lists hold regular expressions, as Debezium's do: separated by commas (`\\,` is a comma within one), blanks around
them do not count, and each matches a whole name (`schema`, `schema.table`, `schema.table.column`), without
regard to case (in ASCII) unless `lake.case_sensitive_filters` is true. Schemas of PostgreSQL itself are never
captured. Columns of a key are always kept.

They are Java's expressions, run by Python: named groups, `\\Q…\\E`, `\\z`, `\\Z` and `(?i)` are translated; `\\p{{…}}`,
classes within classes, `&&`, octal and control escapes, `\\R`, `\\h`, `\\v`, `\\X`, `\\G`, other inline flags and
look-behind without a fixed width are refused, since Python would read them differently or not at all.
"""

_MEANINGS: Final = {
    State.USED: ("What is used", "meaning"),
    State.DEFAULT_ONLY: ("Taken at its default only", "why"),
    State.WARNED: ("Accepted with a warning", "why it has no effect"),
    State.REFUSED: ("Refused", "why"),
}


def document() -> str:
    """The whole text."""
    parts = [_HEAD.format(example=commented_example()), "## `connector:`\n\nDebezium 3.6's properties.\n"]
    for state, (title, column) in _MEANINGS.items():
        parts.append(_properties(title, column, [record for record in TABLE if record.state is state]))
    parts.append(_lake())
    return "\n".join(parts)


def _properties(title: str, column: str, records: list[Property]) -> str:
    rows = [
        f"| `{record.name}` | {record.kind} | {_code(record.default)} | {_cell(record.note)} |" for record in records
    ]
    return "\n".join(
        [
            f"### {title}\n",
            f"| property | type | default | {column} |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _lake() -> str:
    rows = [
        f"| `{name}` | {_code(_default(key.default))} | {_cell(key.description or '')} |"
        for name, key in Lake.model_fields.items()
    ]
    return "\n".join(
        [
            "## `lake:`\n",
            "Give either `path` or `catalog`. Sizes are bytes (`536870912`) or have a unit (`512MiB`).\n",
            "| key | default | meaning |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _default(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _code(text: str | None) -> str:
    return "" if text is None else f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.stdout.write(document())
