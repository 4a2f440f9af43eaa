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
