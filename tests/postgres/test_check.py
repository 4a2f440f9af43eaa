"""The pre-flight check: each thing that would keep capture from working is found, and no other."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.postgres.checking import checked, faults
from walhouse.config.columns import ColumnRules, parse_keys
from walhouse.config.filters import NameFilter, TableFilter
from walhouse.config.masks import parse_masks
from walhouse.config.replica_identity import IdentityRules, parse_identities
from walhouse.names import TableName
from walhouse.postgres.connection import connect
from walhouse.postgres.finding import Finding, Severity
from walhouse.postgres.slot import create_slot

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server


def test_a_source_that_is_ready_has_no_error(database: Database, connection: Connection) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    assert faults(checked(database.settings)) == []
    create_slot(connection, f"{database.name}_slot")
    findings = checked(database.settings, slot=f"{database.name}_slot")
    assert faults(findings) == []
    assert any("stands at" in finding.problem for finding in findings)


def test_a_database_whose_text_has_no_encoding_is_an_error(database: Database) -> None:
    name = f"{database.name}_ascii"
    database.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    try:
        found = faults(checked(replace(database.settings, database=name)))
    finally:
        database.execute(f"DROP DATABASE {name} WITH (FORCE)")
    assert any("SQL_ASCII" in fault for fault in found)


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
        (
            (
                "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL) PARTITION BY RANGE (id);"
                " CREATE TABLE one PARTITION OF t FOR VALUES FROM (0) TO (9);"
                " CREATE UNIQUE INDEX i ON one (v); ALTER TABLE one REPLICA IDENTITY USING INDEX i"
            ),
            "do not tell which row",
        ),
        (
            (
                "CREATE TABLE t (id int NOT NULL) PARTITION BY RANGE (id);"
                " CREATE TABLE one PARTITION OF t FOR VALUES FROM (0) TO (9); ALTER TABLE one REPLICA IDENTITY FULL"
            ),
            "do not tell which row",
        ),
    ],
)
def test_a_table_whose_changes_cannot_be_followed_is_an_error(database: Database, ddl: str, fault: str) -> None:
    """PostgreSQL refuses the updates and deletes of a published table without identity, by each leaf's own identity."""
    database.execute(*ddl.split("; "))
    assert any(fault in found for found in faults(checked(database.settings, via_root=True)))


def test_a_tree_of_full_and_key_identities_is_a_warning(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE one PARTITION OF t FOR VALUES FROM (0) TO (9)",
        "CREATE TABLE two PARTITION OF t FOR VALUES FROM (9) TO (19)",
        "ALTER TABLE two REPLICA IDENTITY FULL",
    )
    findings = checked(database.settings, via_root=True)
    assert faults(findings) == []
    assert any("REPLICA IDENTITY" not in found and "FULL" in found for found in faults(findings, Severity.WARNING))


@pytest.mark.parametrize("full", ["t", "one"])
def test_a_root_of_another_identity_than_its_partitions_is_a_warning(database: Database, full: str) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE one PARTITION OF t FOR VALUES FROM (0) TO (9)",
        f"ALTER TABLE {full} REPLICA IDENTITY FULL",
    )
    findings = checked(database.settings, via_root=True)
    assert faults(findings) == []
    assert any("another one than its partitions'" in found for found in faults(findings, Severity.WARNING))


def test_an_identity_by_an_index_whose_columns_may_hold_null_is_an_error_until_the_constraint_is_validated(
    database: Database, connection: Connection
) -> None:
    """Version 18 takes it for an identity."""
    if connection.info.server_version < 180000:
        return
    database.execute(
        "CREATE TABLE t (k int, v int)",
        "INSERT INTO t VALUES (1, 1), (NULL, 2), (NULL, 3)",
        "ALTER TABLE t ADD CONSTRAINT promise NOT NULL k NOT VALID",
        "CREATE UNIQUE INDEX i ON t (k)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX i",
    )
    assert any("k is NOT NULL, but not validated" in fault for fault in faults(checked(database.settings)))
    database.execute("DELETE FROM t WHERE k IS NULL", "ALTER TABLE t ALTER k SET NOT NULL")
    assert faults(checked(database.settings)) == []


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
    found = [fault for fault in faults(checked(database.settings)) if "generated columns" in fault]
    assert bool(found) is refused is (connection.info.server_version >= 180000)
    if refused:
        database.execute("ALTER PUBLICATION p SET (publish_generated_columns = stored)", "UPDATE t SET id = 2")
        assert faults(checked(database.settings)) == []


def test_rules_about_columns_are_held_against_the_sources_own(database: Database) -> None:
    """Also those of tables that no publication has yet, with domains and unique indexes as the catalog has them."""
    database.execute(
        "CREATE DOMAIN label AS varchar(9)",
        "CREATE TABLE t (id uuid, name label, plain label, data json, code text, PRIMARY KEY (id, name))",
        "CREATE TABLE k (code text NOT NULL, v int)",
        "CREATE UNIQUE INDEX i ON k (code)",
        "ALTER TABLE k REPLICA IDENTITY FULL",
    )
    selection = TableFilter(tables=NameFilter(include=(r"public\.[tk]", r"public\.gone")))
    masks = {"column.mask.with.3.chars": r"public\.t\..*,public\.k\.code"}
    columns = ColumnRules(selection.columns, parse_keys("public.t:id,Code,codes"))
    findings = checked(database.settings, selection=selection, columns=columns, masks=parse_masks(masks))
    rules = {
        f"{finding.severity} {finding.subject}: {finding.problem}"
        for finding in findings
        if finding.subject.startswith("connector.")
    }
    mask, keys = "warning connector.column.mask.with.3.chars", "warning connector.message.key.columns"
    fillers = "the key of a delete has fillers there, and an update of the identity's columns seems to change the key."
    beside = "will land as they are, beside what rows of events show of them."
    assert rules == {
        r"warning connector.table.include.list: public\.gone matches no captured table.",
        f"{keys.replace('warning', 'error')}: public.t has no column codes.",
        f"{keys}: The replica identity of public.t lacks code: {fillers}",
        f"{mask}: Only texts can be hidden, and public.t.id (uuid), public.t.data (json) will land as they are.",
        f"{mask}: Keys are not hidden: public.k.code, public.t.name, public.t.code {beside}",
    }


def test_an_identity_that_will_be_set_is_no_fault_and_one_that_cannot_be_is(
    database: Database, role: Callable[[str], ConnectionSettings]
) -> None:
    database.execute(
        "CREATE TABLE t (v text)",
        "CREATE TABLE root (id int NOT NULL, v int NOT NULL) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (9)",
    )

    def check(values: str, settings: ConnectionSettings = database.settings) -> list[Finding]:
        rules = IdentityRules(parse_identities(values))
        keys = ColumnRules(NameFilter(), parse_keys("public.root:v"))
        return checked(settings, via_root=True, identities=rules, columns=keys)

    planned = check("public.t:FULL,public.root:FULL,public.gone:FULL")
    assert faults(planned) == []
    assert [finding.subject for finding in planned if "will get REPLICA IDENTITY FULL" in finding.problem] == [
        "table public.leaf",
        "table public.root",
        "table public.t",
    ]
    assert "connector.replica.identity.autoset.values: public.gone matches no captured table." in faults(
        planned, Severity.WARNING
    )
    assert not any("The replica identity of" in finding.problem for finding in planned)
    assert any("several entries for public.t" in fault for fault in faults(check("public.t:FULL,.*:FULL")))
    assert any("has no index of the name" in fault for fault in faults(check("public.t:INDEX i,public.root:FULL")))
    stranger = check("public.t:FULL", role("REPLICATION"))
    assert any("does not own public.t" in fault for fault in faults(stranger, Severity.WARNING))
    assert any("public.t has no usable replica identity" in fault for fault in faults(stranger))


def test_missing_rights_are_found(database: Database, role: Callable[[str], ConnectionSettings]) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    found = faults(checked(role("")))
    assert any("replication right" in fault for fault in found)
    assert any("may not make it" in fault for fault in found)
    assert any("may not read it" in fault for fault in found)
    settings = role("REPLICATION")
    database.execute("CREATE PUBLICATION p FOR TABLE t", f"GRANT SELECT ON t TO {settings.user}")
    assert faults(checked(settings)) == []


def test_a_slot_of_another_kind_and_the_lack_of_free_slots_are_found(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    slot = f"{database.name}_slot"
    database.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput', false, true)")
    assert any("two_phase" in fault for fault in faults(checked(database.settings, slot=slot)))
    with database.connect() as holder:
        ((free,),) = database.execute(
            "SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots"
        )
        for number in range(free):
            holder.execute("SELECT pg_create_physical_replication_slot(%s, false, true)", [f"{database.name}_{number}"])
        assert any("slots are used" in fault for fault in faults(checked(database.settings)))


def test_each_right_that_a_snapshot_needs_is_named(
    database: Database, role: Callable[[str], ConnectionSettings]
) -> None:
    settings = role("REPLICATION")
    database.execute(
        'CREATE SCHEMA "S"',
        'CREATE TABLE "S".t (id int PRIMARY KEY)',
        "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (9)",
        "CREATE TABLE secured (id int PRIMARY KEY)",
        "ALTER TABLE secured ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY everything ON secured USING (true)",
        "CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root)",
        f'GRANT SELECT ON "S".t, root, secured TO {settings.user}',
    )
    todos = {f.subject: (f.problem, f.todo) for f in checked(settings, via_root=True) if f.severity is Severity.ERROR}
    assert todos["table S.t"][1] == 'GRANT USAGE ON SCHEMA "S"'
    assert todos["table public.root"][1] == "GRANT SELECT ON public.leaf"
    assert "Row security is enabled on public.secured" in todos["table public.secured"][0]
    with closing(connect(settings)) as connection, pytest.raises(psycopg.Error, match="row-level security"):
        connection.execute("TABLE public.secured")
    database.execute(f'GRANT USAGE ON SCHEMA "S" TO {settings.user}', f"GRANT SELECT ON leaf TO {settings.user}")
    database.execute(f"ALTER ROLE {settings.user} BYPASSRLS")
    assert faults(checked(settings, via_root=True)) == []


def test_a_table_of_signals_that_is_not_there_is_a_warning(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    selection = TableFilter(signals=TableName("public", "signals"))

    def named() -> list[str]:
        found = faults(checked(database.settings, selection=selection), Severity.WARNING)
        return [fault for fault in found if "signal.data.collection" in fault]

    assert "There is no table public.signals" in named()[0]
    database.execute("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
    assert named() == []


def test_a_server_that_gives_up_slots_which_nobody_reads_is_a_warning(database: Database) -> None:
    def named() -> list[str]:
        found = faults(checked(database.settings), Severity.WARNING)
        return [fault for fault in found if "idle_replication_slot_timeout" in fault]

    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    assert named() == []
    [(version,)] = database.execute("SELECT current_setting('server_version_num')::int")
    if version < 180000:
        pytest.skip("the setting came with PostgreSQL 18")
    try:
        database.execute("ALTER SYSTEM SET idle_replication_slot_timeout = '2h'", "SELECT pg_reload_conf()")
        while database.execute("SHOW idle_replication_slot_timeout") != [("2h",)]:
            time.sleep(0.05)
        assert "gives up a slot that nobody reads for 2h" in named()[0]
    finally:
        database.execute("ALTER SYSTEM RESET idle_replication_slot_timeout", "SELECT pg_reload_conf()")
