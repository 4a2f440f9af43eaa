"""What is wrong with a publication, or would be once it is made, is found before anything is captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.fixtures_server import login_role
from tests.postgres.checking import checked, faults
from walhouse.config.filters import NameFilter, TableFilter
from walhouse.postgres.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings

pytestmark = pytest.mark.server


def test_a_publication_that_is_missing_or_lacks_a_table_is_found(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    assert faults(checked(database.settings)) == []
    assert faults(checked(database.settings, mode="disabled")) == ["publication p: It does not exist."]
    database.execute("CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert')")
    assert faults(checked(database.settings, mode="disabled")) == ["publication p: It lacks public.u."]
    findings = checked(database.settings)
    assert faults(findings) == []
    assert any("delete, truncate, update" in found for found in faults(findings, Severity.WARNING))
    nothing = TableFilter(tables=NameFilter(include=("none",)))
    assert any("captures no table" in found for found in faults(checked(database.settings, selection=nothing)))


def test_a_table_of_another_owner_that_filtered_would_have_to_add_is_found(database: Database) -> None:
    with login_role(database, "REPLICATION") as role:
        database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p")
        database.execute("CREATE TABLE own (id int PRIMARY KEY)", f"ALTER TABLE own OWNER TO {role.user}")
        database.execute(f"GRANT SELECT ON t TO {role.user}")
        assert [fault for fault in faults(checked(role)) if "publication" in fault] == [
            "publication p: It lacks public.own, public.t, and the user does not own the publication."
        ]
        database.execute(f"ALTER PUBLICATION p OWNER TO {role.user}")
        findings = checked(role)
        assert [fault for fault in faults(findings) if "publication" in fault] == [
            "publication p: It lacks public.t, and the user does not own what it would have to add."
        ]
        assert any(finding.problem == "will get public.own" for finding in findings)


def test_a_publication_that_the_user_cannot_make_of_the_tables_of_others_is_an_error(
    database: Database, role: Callable[[str], ConnectionSettings]
) -> None:
    settings = role("REPLICATION")
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", f"GRANT SELECT ON t TO {settings.user}")
    database.execute(f"GRANT CREATE ON DATABASE {database.name} TO {settings.user}")
    assert faults(checked(settings)) == [
        "publication p: It does not exist, and the user does not own public.t, which it is to have."
    ]


def test_a_publication_for_all_tables_that_would_refuse_changes_of_other_tables_is_an_error(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE log (line text)")
    only = TableFilter(tables=NameFilter(include=(r"public\.t",)))
    assert faults(checked(database.settings, mode="filtered", selection=only)) == []
    [fault] = faults(checked(database.settings, mode="all_tables", selection=only))
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
    found = faults(checked(database.settings))
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
        "It does not send g, of the table's replica identity" in each for each in faults(checked(database.settings))
    )


def test_what_a_publication_leaves_out_is_a_warning(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int, w int, g int GENERATED ALWAYS AS (id) STORED)")
    left_out = "It does not send {} of public.t: silver and gold lack them."

    def warnings(**rules: Any) -> list[str]:
        found = faults(checked(database.settings, **rules), Severity.WARNING)
        return [each.removeprefix("publication p: ") for each in found if each.startswith("publication")]

    assert warnings() == [left_out.format("g")], "also of one that is to be made"
    database.execute("CREATE PUBLICATION p FOR TABLE t (id, v) WHERE (id > 5)")
    found = warnings()
    assert found[0] == left_out.format("w, g")
    assert "It sends rows of public.t only where (id > 5)" in found[1]
    meant = TableFilter(columns=NameFilter(exclude=(r"public\.t\.(w|g)",)))
    assert len(warnings(selection=meant)) == 1
