"""The pre-flight check: each thing that would keep capture from working is found, and no other."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.fixtures_server import login_role
from walhouse.config.columns import ColumnRules, parse_keys
from walhouse.config.filters import NameFilter, TableFilter
from walhouse.config.masks import parse_masks
from walhouse.config.replica_identity import IdentityRules, parse_identities
from walhouse.names import TableName
from walhouse.postgres.check import check_source
from walhouse.postgres.connection import connect
from walhouse.postgres.finding import Finding, Severity
from walhouse.postgres.slot import create_slot

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server


def _check(
    settings: ConnectionSettings, *, slot: str = "walhouse_check", mode: str = "filtered", via_root: bool = False,
    selection: TableFilter | None = None, **rules: Any,
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
            **rules,
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


@pytest.mark.parametrize("full", ["t", "one"])
def test_a_root_of_another_identity_than_its_partitions_is_a_warning(database: Database, full: str) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE one PARTITION OF t FOR VALUES FROM (0) TO (9)",
        f"ALTER TABLE {full} REPLICA IDENTITY FULL",
    )
    findings = _check(database.settings, via_root=True)
    assert _faults(findings) == []
    assert any("another one than its partitions'" in found for found in _faults(findings, Severity.WARNING))


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
    assert any("k is NOT NULL, but not validated" in fault for fault in _faults(_check(database.settings)))
    database.execute("DELETE FROM t WHERE k IS NULL", "ALTER TABLE t ALTER k SET NOT NULL")
    assert _faults(_check(database.settings)) == []


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


def test_a_table_of_another_owner_that_filtered_would_have_to_add_is_found(database: Database) -> None:
    with login_role(database, "REPLICATION") as role:
        database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p")
        database.execute("CREATE TABLE own (id int PRIMARY KEY)", f"ALTER TABLE own OWNER TO {role.user}")
        database.execute(f"GRANT SELECT ON t TO {role.user}")
        assert [fault for fault in _faults(_check(role)) if "publication" in fault] == [
            "publication p: It lacks public.own, public.t, and the user does not own the publication."
        ]
        database.execute(f"ALTER PUBLICATION p OWNER TO {role.user}")
        findings = _check(role)
        assert [fault for fault in _faults(findings) if "publication" in fault] == [
            "publication p: It lacks public.t, and the user does not own what it would have to add."
        ]
        assert any(finding.problem == "will get public.own" for finding in findings)


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
    findings = _check(database.settings, selection=selection, columns=columns, masks=parse_masks(masks))
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
        return _check(settings, via_root=True, identities=rules, columns=keys)

    planned = check("public.t:FULL,public.root:FULL,public.gone:FULL")
    assert _faults(planned) == []
    assert [finding.subject for finding in planned if "will get REPLICA IDENTITY FULL" in finding.problem] == [
        "table public.leaf",
        "table public.root",
        "table public.t",
    ]
    assert "connector.replica.identity.autoset.values: public.gone matches no captured table." in _faults(
        planned, Severity.WARNING
    )
    assert not any("The replica identity of" in finding.problem for finding in planned)
    assert any("several entries for public.t" in fault for fault in _faults(check("public.t:FULL,.*:FULL")))
    assert any("has no index of the name" in fault for fault in _faults(check("public.t:INDEX i,public.root:FULL")))
    stranger = check("public.t:FULL", role("REPLICATION"))
    assert any("does not own public.t" in fault for fault in _faults(stranger, Severity.WARNING))
    assert any("public.t has no usable replica identity" in fault for fault in _faults(stranger))


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


def test_a_publication_that_the_user_cannot_make_of_the_tables_of_others_is_an_error(
    database: Database, role: Callable[[str], ConnectionSettings]
) -> None:
    settings = role("REPLICATION")
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", f"GRANT SELECT ON t TO {settings.user}")
    database.execute(f"GRANT CREATE ON DATABASE {database.name} TO {settings.user}")
    assert _faults(_check(settings)) == [
        "publication p: It does not exist, and the user does not own public.t, which it is to have."
    ]


def test_a_publication_for_all_tables_that_would_refuse_changes_of_other_tables_is_an_error(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE log (line text)")
    only = TableFilter(tables=NameFilter(include=(r"public\.t",)))
    assert _faults(_check(database.settings, mode="filtered", selection=only)) == []
    [fault] = _faults(_check(database.settings, mode="all_tables", selection=only))
    assert "public.log has no usable replica identity" in fault
    database.execute("CREATE PUBLICATION p FOR ALL TABLES")
    with pytest.raises(psycopg.Error, match="does not have a replica identity"):
        database.execute("INSERT INTO log VALUES ('a')", "DELETE FROM log")


@pytest.mark.parametrize(
    ("ddl", "fault"),
    [
        ("CREATE PUBLICATION p FOR TABLE t (v)", "It does not send id, of the table's replica identity"),
        ("CREATE PUBLICATION p FOR TABLE t WHERE (v > 5)", "Its row filter asks for v, outside of the"),
        (
            "ALTER TABLE t REPLICA IDENTITY FULL; CREATE PUBLICATION p FOR TABLE t (id, v, w)",
            "It has a column list for a table with replica identity FULL",
        ),
        ("CREATE PUBLICATION p FOR TABLE t (id)", None),
        ("CREATE PUBLICATION p FOR TABLE t WHERE (id > 5)", None),
        ("ALTER TABLE t REPLICA IDENTITY FULL; CREATE PUBLICATION p FOR TABLE t WHERE (v > 5)", None),
        ("CREATE PUBLICATION p FOR TABLE t (v) WITH (publish = 'insert')", None),
    ],
)
def test_a_publication_for_which_the_server_refuses_updates_is_an_error_and_no_other(
    database: Database, ddl: str, fault: str | None
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int, w int)", "INSERT INTO t VALUES (1, 2, 3)")
    database.execute(*ddl.split("; "))
    found = _faults(_check(database.settings))
    if fault is None:
        assert found == []
        database.execute("UPDATE t SET v = 3")
        return
    assert [fault in each for each in found] == [True]
    with pytest.raises(psycopg.Error, match="cannot update table"):
        database.execute("UPDATE t SET v = 3")


def test_a_generated_column_in_a_replica_identity_that_is_not_sent_is_an_error(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (a int, g int GENERATED ALWAYS AS (a * 2) STORED PRIMARY KEY)",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    assert any(
        "It does not send g, of the table's replica identity" in each for each in _faults(_check(database.settings))
    )


def test_what_a_publication_leaves_out_is_a_warning(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int, w int, g int GENERATED ALWAYS AS (id) STORED)")
    left_out = "It does not send {} of public.t: silver and gold lack them."

    def warnings(**rules: Any) -> list[str]:
        found = _faults(_check(database.settings, **rules), Severity.WARNING)
        return [each.removeprefix("publication p: ") for each in found if each.startswith("publication")]

    assert warnings() == [left_out.format("g")], "also of one that is to be made"
    database.execute("CREATE PUBLICATION p FOR TABLE t (id, v) WHERE (id > 5)")
    found = warnings()
    assert found[0] == left_out.format("w, g")
    assert "It sends rows of public.t only where (id > 5)" in found[1]
    meant = TableFilter(columns=NameFilter(exclude=(r"public\.t\.(w|g)",)))
    assert len(warnings(selection=meant)) == 1


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
    todos = {f.subject: (f.problem, f.todo) for f in _check(settings, via_root=True) if f.severity is Severity.ERROR}
    assert todos["table S.t"][1] == 'GRANT USAGE ON SCHEMA "S"'
    assert todos["table public.root"][1] == "GRANT SELECT ON public.leaf"
    assert "Row security is enabled on public.secured" in todos["table public.secured"][0]
    with closing(connect(settings)) as connection, pytest.raises(psycopg.Error, match="row-level security"):
        connection.execute("TABLE public.secured")
    database.execute(f'GRANT USAGE ON SCHEMA "S" TO {settings.user}', f"GRANT SELECT ON leaf TO {settings.user}")
    database.execute(f"ALTER ROLE {settings.user} BYPASSRLS")
    assert _faults(_check(settings, via_root=True)) == []


def test_a_table_of_signals_that_is_not_there_is_a_warning(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    selection = TableFilter(signals=TableName("public", "signals"))

    def named() -> list[str]:
        found = _faults(_check(database.settings, selection=selection), Severity.WARNING)
        return [fault for fault in found if "signal.data.collection" in fault]

    assert "There is no table public.signals" in named()[0]
    database.execute("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
    assert named() == []


def test_a_server_that_gives_up_slots_which_nobody_reads_is_a_warning(database: Database) -> None:
    def named() -> list[str]:
        found = _faults(_check(database.settings), Severity.WARNING)
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
