from __future__ import annotations

import json
from pathlib import Path

import pytest

from walhouse.config.configuration import parse
from walhouse.config.document import document
from walhouse.config.secrets import SecretReference
from walhouse.config.starter import commented_example, from_connector_json
from walhouse.errors import ConfigurationError

FILE = Path("/anywhere/walhouse.yml")
CONNECTOR = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": 1,
    "topic.prefix": "shop",
    "database.hostname": "db",
    "database.port": "5433",
    "database.user": "walhouse",
    "database.password": "hunter2",
    "database.dbname": "shop",
    "plugin.name": "wal2json",
    "table.include.list": "shop\\.a{1\\,2}, shop\\.it's",
    "tombstones.on.delete": False,
    "time.precision.mode": "adaptive",
    "guardrail.collections.max": 5,
    "producer.override.sasl.jaas.config": "hunter2",
    "transforms": "unwrap",
    "no.such.property": "hunter2",
    "heartbeat.action.query": None,
}


def test_the_example_is_a_configuration_without_warnings() -> None:
    assert parse(commented_example(), FILE).warnings == ()


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_connectors_json_becomes_a_configuration_that_says_the_same(wrapped: bool) -> None:
    text = from_connector_json(json.dumps({"name": "c", "config": CONNECTOR} if wrapped else CONNECTOR))
    conf = parse(text, FILE)
    assert conf.connector.database_port == 5433
    assert conf.connector.table_include_list == (r"shop\.a{1,2}", r"shop\.it's")
    assert conf.connector.tombstones_on_delete is False
    assert conf.warnings == ()


def test_no_value_that_could_be_a_secret_is_taken_over() -> None:
    text = from_connector_json(json.dumps(CONNECTOR))
    assert "hunter2" not in text
    assert parse(text, FILE).connector.database_password == SecretReference("env", "PGPASSWORD")


def test_what_is_left_out_is_named_with_the_reason() -> None:
    text = from_connector_json(json.dumps(CONNECTOR))
    for line in (
        "# plugin.name: was wal2json; pgoutput is read",
        "# tasks.max: Kafka Connect's",
        "# guardrail.collections.max: not yet",
        "# no.such.property: not a property of Debezium's",
        "# transforms: Kafka Connect's; events are kept as the connector emits them",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("${env:DB_PASSWORD}", "${env:DB_PASSWORD}"),
        ("${file:/run/secrets/db}", "${file:/run/secrets/db}"),
        ("${file:/opt/connect.properties:password}", "${env:PGPASSWORD}"),
        ("${secretManager:db}", "${env:PGPASSWORD}"),
    ],
)
def test_a_reference_stays_if_it_means_the_same_here(given: str, taken: str) -> None:
    text = from_connector_json(json.dumps(CONNECTOR | {"database.password": given}))
    assert str(parse(text, FILE).connector.database_password) == taken


BARE = {name: CONNECTOR[name] for name in ("topic.prefix", "database.hostname", "database.user", "database.dbname")}


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("schema.whitelist", "schema_include_list", ("a",)),
        ("schema.blacklist", "schema_exclude_list", ("a",)),
        ("table.whitelist", "table_include_list", ("a",)),
        ("table.blacklist", "table_exclude_list", ("a",)),
        ("column.whitelist", "column_include_list", ("a",)),
        ("column.blacklist", "column_exclude_list", ("a",)),
        ("toasted.value.placeholder", "unavailable_value_placeholder", "a"),
        ("database.server.name", "topic_prefix", "a"),
    ],
)
def test_a_property_is_taken_under_the_name_that_it_has_now(old: str, new: str, value: object) -> None:
    given = {name: text for name, text in BARE.items() if name != new.replace("_", ".")} | {old: "a"}
    assert getattr(parse(from_connector_json(json.dumps(given)), FILE).connector, new) == value


def test_of_an_old_name_and_a_new_one_the_new_one_counts() -> None:
    text = from_connector_json(json.dumps(BARE | {"table.whitelist": "old", "table.include.list": "new"}))
    assert parse(text, FILE).connector.table_include_list == ("new",)
    assert "# table.whitelist: is called table.include.list" in text


def test_who_runs_both_is_told_that_a_slot_has_one_reader() -> None:
    text = from_connector_json(json.dumps(BARE))
    assert "give a slot.name of its own" in text.partition("connector:\n")[0]


def test_what_a_connector_must_say_and_does_not_is_to_be_filled_in() -> None:
    text = from_connector_json(json.dumps({"database.server.name": "shop", "database.hostname": "db"}))
    with pytest.raises(ConfigurationError) as caught:
        parse(text, FILE)
    assert caught.value.problem.count("is to be filled in") == 2
    parse(text.replace("CHANGE_ME", "filled"), FILE)


@pytest.mark.parametrize("given", ["${env:DB_HOST}", "db.${env:STAGE}.example.com", "${STAGE}"])
def test_a_value_with_a_reference_is_to_be_filled_in(given: str) -> None:
    text = from_connector_json(json.dumps(BARE | {"database.hostname": given}))
    assert f"database.hostname: CHANGE_ME  # was {given}, with a reference of Kafka Connect's" in text
    with pytest.raises(ConfigurationError, match=r"database\.hostname .* is to be filled in"):
        parse(text, FILE)


def test_each_secret_is_expected_in_a_variable_of_its_own() -> None:
    secrets = {"database.password": "hunter2", "database.sslpassword": "${file:/run/ssl:password}"}
    connector = parse(from_connector_json(json.dumps(BARE | secrets)), FILE).connector
    assert str(connector.database_password) == "${env:PGPASSWORD}"
    assert str(connector.database_sslpassword) == "${env:PGSSLPASSWORD}"


@pytest.mark.parametrize("salt", ["a: b #c", "'", '"x"', "a\tb", "ä", "\U0001f9c2"])
def test_a_salt_may_have_any_characters(salt: str) -> None:
    text = from_connector_json(json.dumps(BARE | {f"column.mask.hash.SHA-256.with.salt.{salt}": r"a\.b\.c"}))
    (rule,) = parse(text, FILE).connector.column_masks
    assert (rule.salt.decode(), rule.patterns) == (salt, (r"a\.b\.c",))


@pytest.mark.parametrize(
    "value", ["null", "NULL", "it's", "a: b", "a #b", "a\nb", "a\u2028b\x85c", "\U0001f9c2\n", "~"]
)
def test_a_text_is_read_as_it_was_written(value: str) -> None:
    text = from_connector_json(json.dumps(BARE | {"unavailable.value.placeholder": value}))
    assert parse(text, FILE).connector.unavailable_value_placeholder == value


def test_a_line_break_in_a_name_ends_no_comment() -> None:
    parse(from_connector_json(json.dumps(BARE | {"x\nlake.path": "a", "transforms.y\nlake.ops": "b"})), FILE)


@pytest.mark.parametrize("name", ["PostgresConnector", "Postgres", "PostgresCdcSourceV2"])
def test_the_connectors_other_names_are_known(name: str) -> None:
    parse(from_connector_json(json.dumps(BARE | {"connector.class": name})), FILE)


def test_settings_of_a_converter_are_told_as_such() -> None:
    plugins = {"converters": "isbn, x", "isbn.type": "A", "post.processors": "p", "p.type": "B"}
    text = from_connector_json(json.dumps(BARE | plugins))
    assert "# isbn.type: a setting of isbn, one of converters" in text
    assert "# p.type: a setting of p, one of post.processors" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is not JSON"),
        ("[]", "must be an object"),
        ('{"config": 5}', "must be an object"),
        ('{"topic.prefix": ["a"]}', "holds topic.prefix, which is no plain value"),
        ('{"connector.class": "io.debezium.connector.mysql.MySqlConnector"}', "configures io.debezium.connector.mysql"),
    ],
)
def test_other_json_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        from_connector_json(text)


def test_the_document_is_what_the_program_does() -> None:
    file = Path(__file__).parents[2] / "docs/CONFIGURATION.md"
    assert file.read_text(encoding="utf-8") == document(), (
        "run python -m walhouse.config.document > docs/CONFIGURATION.md"
    )
