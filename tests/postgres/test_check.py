"""The pre-flight check: each thing that would keep capture from working is found, and no other."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from walhouse.config.filters import NameFilter, TableFilter
from walhouse.postgres.check import Finding, Severity, check_source
from walhouse.postgres.connection import connect
from walhouse.postgres.slot import create_slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    with closing(connect(database.settings)) as opened:
        yield opened


def _check(
    settings: ConnectionSettings, *, slot: str = "walhouse_check", mode: str = "filtered", via_root: bool = False,
    selection: TableFilter | None = None,
) -> list[Finding]:  # fmt: skip
    with closing(connect(settings)) as connection:
        return check_source(
            connection,
            settings,
            slot=slot,
            publication="p",
            mode=mode,
            selection=selection or TableFilter(),
            via_root=via_root,
        )


def _faults(findings: list[Finding], severity: Severity = Severity.ERROR) -> list[str]:
    assert all(finding.todo for finding in findings if finding.severity is not Severity.OK)
    return [f"{finding.subject}: {finding.problem}" for finding in findings if finding.severity is severity]


def test_a_source_that_is_ready_has_no_error(database: Database, connection: Connection) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    assert _faults(_check(database.settings)) == []
    create_slot(connection, f"{database.name}_slot")
    findings = _check(database.settings, slot=f"{database.name}_slot")
    assert _faults(findings) == []
    assert any("stands at" in finding.problem for finding in findings)


def test_a_database_whose_text_has_no_encoding_is_an_error(database: Database) -> None:
    name = f"{database.name}_ascii"
    database.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    try:
        faults = _faults(_check(replace(database.settings, database=name)))
    finally:
        database.execute(f"DROP DATABASE {name} WITH (FORCE)")
    assert any("SQL_ASCII" in fault for fault in faults)


@pytest.mark.parametrize(
    ("ddl", "fault"),
    [
        ("CREATE TABLE t (v text)", "no primary key"),
        ("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE)", "deferrable"),
        ("CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING", "NOTHING"),
        (
            (
                "CREATE TABLE t (id int NOT NULL); CREATE UNIQUE INDEX i ON t (id);"
                " ALTER TABLE t REPLICA IDENTITY USING INDEX i; DROP INDEX i"
            ),
            "is gone",
        ),
        (
            (
                "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id);"
                " CREATE TABLE one PARTITION OF t FOR VALUES FROM (0) TO (9);"
                " CREATE TABLE two PARTITION OF t FOR VALUES FROM (9) TO (19); ALTER TABLE two REPLICA IDENTITY NOTHING"
            ),
            "public.two has no usable replica identity",
        ),
        (
            (
                "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL) PARTITION BY RANGE (id);"
                " CREATE TABLE one PARTITION OF t FOR VALUES FROM (0) TO (9);"
                " CREATE TABLE two PARTITION OF t FOR VALUES FROM (9) TO (19);"
                " CREATE UNIQUE INDEX i ON two (v); ALTER TABLE two REPLICA IDENTITY USING INDEX i"
            ),
            "different columns",
        ),
    ],
)
def test_a_table_whose_changes_cannot_be_followed_is_an_error(database: Database, ddl: str, fault: str) -> None:
    """PostgreSQL refuses the updates and deletes of a published table without identity, by each leaf's own identity."""
    database.execute(*ddl.split("; "))
    assert any(fault in found for found in _faults(_check(database.settings, via_root=True)))


def test_a_tree_of_full_and_key_identities_is_a_warning(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE one PARTITION OF t FOR VALUES FROM (0) TO (9)",
        "CREATE TABLE two PARTITION OF t FOR VALUES FROM (9) TO (19)",
        "ALTER TABLE two REPLICA IDENTITY FULL",
    )
    findings = _check(database.settings, via_root=True)
    assert _faults(findings) == []
    assert any("REPLICA IDENTITY" not in found and "FULL" in found for found in _faults(findings, Severity.WARNING))


def test_identity_full_with_an_unpublished_generated_column_is_an_error_where_the_server_refuses_updates(
    database: Database, connection: Connection
) -> None:
    """Version 18 refuses the source's own UPDATE and DELETE then; before that the column is just not sent."""
    database.execute(
        "CREATE TABLE t (id int, g int GENERATED ALWAYS AS (id) STORED)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1)",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    refused = False
    try:
        database.execute("UPDATE t SET id = 2")
    except Exception as error:  # noqa: BLE001  the refusal is what the check has to foretell
        refused = "generated" in str(error)
    found = [fault for fault in _faults(_check(database.settings)) if "generated columns" in fault]
    assert bool(found) is refused is (connection.info.server_version >= 180000)
    if refused:
        database.execute("ALTER PUBLICATION p SET (publish_generated_columns = stored)", "UPDATE t SET id = 2")
        assert _faults(_check(database.settings)) == []


def test_a_publication_that_is_missing_or_lacks_a_table_is_found(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    assert _faults(_check(database.settings)) == []
    assert _faults(_check(database.settings, mode="disabled")) == ["publication p: It does not exist."]
    database.execute("CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert')")
    assert _faults(_check(database.settings, mode="disabled")) == ["publication p: It lacks public.u."]
    findings = _check(database.settings)
    assert _faults(findings) == []
    assert any("delete, truncate, update" in found for found in _faults(findings, Severity.WARNING))
    nothing = TableFilter(tables=NameFilter(include=("none",)))
    assert any("captures no table" in found for found in _faults(_check(database.settings, selection=nothing)))


def test_missing_rights_are_found(database: Database, role: Callable[[str], ConnectionSettings]) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    found = _faults(_check(role("")))
    assert any("replication right" in fault for fault in found)
    assert any("may not make it" in fault for fault in found)
    assert any("may not read it" in fault for fault in found)
    settings = role("REPLICATION")
    database.execute("CREATE PUBLICATION p FOR TABLE t", f"GRANT SELECT ON t TO {settings.user}")
    assert _faults(_check(settings)) == []


def test_a_slot_of_another_kind_and_the_lack_of_free_slots_are_found(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    slot = f"{database.name}_slot"
    database.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput', false, true)")
    assert any("two_phase" in fault for fault in _faults(_check(database.settings, slot=slot)))
    with database.connect() as holder:
        ((free,),) = database.execute(
            "SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots"
        )
        for number in range(free):
            holder.execute("SELECT pg_create_physical_replication_slot(%s, false, true)", [f"{database.name}_{number}"])
        assert any("slots are used" in fault for fault in _faults(_check(database.settings)))
