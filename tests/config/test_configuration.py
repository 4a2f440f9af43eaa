from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.config.files import MINIMAL, read, refused, with_connector
from walhouse.config.configuration import Configuration, load, parse
from walhouse.config.connector import Connector
from walhouse.config.lake import Lake
from walhouse.config.secrets import Secret
from walhouse.config.values import AutocreateMode, SnapshotMode
from walhouse.errors import ConfigurationError
from walhouse.names import TableName


def test_what_is_not_given_has_debeziums_default(tmp_path: Path) -> None:
    conf = read(MINIMAL, tmp_path)
    assert conf.connector.database_port == 5432
    assert conf.connector.slot_name == "debezium"
    assert conf.connector.publication_name == "dbz_publication"
    assert conf.connector.publication_autocreate_mode is AutocreateMode.ALL_TABLES
    assert conf.connector.snapshot_mode is SnapshotMode.INITIAL
    assert conf.connector.skipped_operations == ("t",)
    assert conf.lake.path == tmp_path / "lake"
    assert conf.warnings == ()


def test_names_may_be_dotted_or_nested(tmp_path: Path) -> None:
    nested = """
connector:
  topic: {prefix: shop}
  database:
    hostname: localhost
    user: walhouse
    dbname: shop
lake.path: lake
"""
    assert read(nested, tmp_path) == read(MINIMAL, tmp_path)


def test_values_are_the_text_of_the_file_whatever_yaml_would_make_of_them(tmp_path: Path) -> None:
    conf = read(with_connector("database.password: 0123\npublish.via.partition.root: on"), tmp_path)
    assert conf.connector.database_password == Secret("0123")
    assert conf.connector.publish_via_partition_root is True


def test_a_key_without_a_value_counts_as_not_given(tmp_path: Path) -> None:
    assert read(with_connector("database.port:\ntable.include.list: null"), tmp_path) == read(MINIMAL, tmp_path)


def test_a_list_may_be_debeziums_text_or_yamls_list(tmp_path: Path) -> None:
    text = read(with_connector(r"table.include.list: shop\.a{1\,2}, shop\.b"), tmp_path)
    items = read(with_connector("table.include.list:\n  - shop\\.a{1,2}\n  - shop\\.b"), tmp_path)
    assert text.connector.table_include_list == (r"shop\.a{1,2}", r"shop\.b")
    assert text == items


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("table.inclde.list: a", "connector.table.inclde.list (line 3): unknown property; did you mean table.incl"),
        ("database.port: five", "connector.database.port (line 3): should be a valid integer"),
        ("database.port: 70000", "connector.database.port (line 3): should be less than or equal to 65535"),
        ("plugin.name: decoderbufs", "connector.plugin.name (line 3): only pgoutput can be read"),
        ("snapshot.mode: recovery", "connector.snapshot.mode (line 3): recovery is for connectors with"),
        ("snapshot.mode: sometimes", "connector.snapshot.mode (line 3): should be 'always', 'initial', 'initial_only'"),
        ("snapshot.mode: custom", "connector: snapshot.mode custom needs snapshot.mode.custom.name"),
        ("incremental.snapshot.watermarking.strategy: insert_insert", "needs signal.data.collection to write to"),
        ("snapshot.select.statement.overrides: a.b", "a.b must be in the list snapshot.select.statement.overrides"),
        ("snapshot.select.statement.overrides.a.b: SELECT 1", "a.b must be in the list"),
        ("snapshot.delay.ms: -1", "connector.snapshot.delay.ms (line 3): should be greater than or equal to 0"),
        ("slot.name: My-Slot", "connector.slot.name (line 3): string should match pattern"),
        ("skipped.operations: x", "connector.skipped.operations (line 3): 'x' is no operation"),
        ("table.include.list: 'a,[b'", "connector.table.include.list (line 3): the pattern '[b': '[' at char"),
        ("decimal.handling.mode: exact", "connector.decimal.handling.mode (line 3): should be 'precise', 'double'"),
        ("lsn.flush.mode: manual", "(line 3): only its default is taken (connector): the slot follows"),
        ("message.key.columns: 'a.b'", "connector.message.key.columns (line 3): 'a.b' is not of the form table:col"),
        ("replica.identity.autoset.values: a.b", "autoset.values (line 3): 'a.b' is not of the form table:FULL"),
        ("replica.identity.autoset.values: ['a.[b:FULL']", "autoset.values (line 3): the pattern 'a.[b'"),
        ("message.key.columns: 'a.[b:c'", "connector.message.key.columns (line 3): the pattern 'a.[b'"),
        ("column.mask.hash.x.with.salt.y: a.b.c", "connector.column.mask.hash.x (line 3): 'x' is no digest"),
        ("table.whitelist: a", "connector.table.whitelist (line 3): is called table.include.list"),
        ("database.hostname: other", "connector.database.hostname (line 5): given twice, first in line 3"),
        ("database.hostname: {x: y}", "connector.database.hostname.x (line 3): unknown property"),
        ("database.sslmode: '${env:MODE}'", "connector.database.sslmode (line 3): should be 'disable'"),
        ("database.sslcert: '${env:USER}'", "database.sslcert (line 3): a reference is taken for database.password"),
        ("TABLE.INCLUDE.LIST: a", "connector.TABLE.INCLUDE.LIST (line 3): unknown property; did you mean table.incl"),
        ("column.truncate.to.5.char: a", "unknown property; did you mean column.truncate.to.<length>.chars?"),
        ("column.mask.with.x.chars: a.b.c", "x.chars (line 3): expected column.mask.hash.[v2.]ALGORITHM.with.salt.SA"),
        ("database.password: !x", "connector.database.password (line 3): a text that begins with ! is to be quoted"),
        ("database.password: [x]", "connector.database.password (line 3): must be one text, not a list"),
        ("publication.name: 'p_${env:STAGE}'", "publication.name (line 3): a reference is taken for database.password"),
        ("table.include.list: ['a.b', '${env:T}']", "table.include.list (line 3): a reference is taken for database"),
        ("slot.name: CHANGE_ME", "connector.slot.name (line 3): is to be filled in"),
        ("database.password: CHANGE_ME", "connector.database.password (line 3): is to be filled in"),
        ("database.password: '${vault:x}'", "connector.database.password (line 3): is not a reference"),
        ("topic_prefix: x", "connector.topic_prefix (line 3): unknown property; did you mean topic.prefix?"),
        ("topic.delimiter: ''", "connector.topic.delimiter (line 3): string should have at least 1 character"),
        ("<<: {a: b}", "connector.<<.a (line 3): unknown property"),
        ("table.include.list: [[a]]", "connector.table.include.list (line 3): a list may hold plain values only"),
    ],
)  # fmt: skip
def test_a_wrong_property_is_named_with_its_line_and_what_is_wrong(line: str, expected: str, tmp_path: Path) -> None:
    assert expected in refused(with_connector(line), tmp_path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("dbfs:/lake", "a local folder is expected, not a URL"),
        ("''", "is empty: name a folder"),
        ('"a\\0b"', "is no folder: "),  # why, each Python says in its own words
        ("~nobody-of-this-name/lake", "is no folder: Could not determine home directory"),
        ("${env:HOME}/lake", "a reference is taken for database.password"),
    ],
)
def test_a_path_that_is_no_folder_is_named_with_its_line(path: str, expected: str, tmp_path: Path) -> None:
    assert f"lake.path (line 8): {expected}" in refused(MINIMAL.replace("path: lake", f"path: {path}"), tmp_path)


def test_chosen_keys_may_be_a_list(tmp_path: Path) -> None:
    text = read(with_connector("message.key.columns: 'a.b:c,d;a.e:f'"), tmp_path)
    items = read(with_connector("message.key.columns: ['a.b:c,d', 'a.e:f']"), tmp_path)
    assert text.connector.message_key_columns == items.connector.message_key_columns


def test_a_query_that_is_never_run_is_a_warning(tmp_path: Path) -> None:
    query = "heartbeat.action.query: SELECT 1"
    (warning,) = read(with_connector(query), tmp_path).warnings
    assert warning == "connector.heartbeat.action.query is never run: heartbeat.interval.ms is 0."
    assert read(with_connector(f"{query}\nheartbeat.interval.ms: 1000"), tmp_path).warnings == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("decimal.handling.mode", "string"),
        ("time.precision.mode", "connect"),
        ("binary.handling.mode", "base64-url-safe"),
        ("interval.handling.mode", "string"),
        ("hstore.handling.mode", "map"),
        ("schema.name.adjustment.mode", "avro"),
        ("field.name.adjustment.mode", "avro_unicode"),
        ("event.converting.failure.handling.mode", "skip"),
        ("publication.autocreate.mode", "filtered"),
        ("snapshot.mode", "no_data"),
        ("database.sslmode", "verify-full"),
        ("plugin.name", "pgoutput"),
    ],
)
def test_a_value_of_an_enumeration_may_be_written_in_any_case(name: str, value: str, tmp_path: Path) -> None:
    connector = read(with_connector(f"{name}: ' {value.upper()}'"), tmp_path).connector
    assert getattr(connector, name.replace(".", "_")) == value


def test_an_old_name_of_a_snapshot_mode_may_be_written_in_any_case(tmp_path: Path) -> None:
    assert read(with_connector("snapshot.mode: Schema_Only"), tmp_path).connector.snapshot_mode == "no_data"


def test_the_placeholder_may_be_empty(tmp_path: Path) -> None:
    connector = read(with_connector("unavailable.value.placeholder: ''"), tmp_path).connector
    assert connector.unavailable_value_placeholder == ""


@pytest.mark.parametrize("prefix", ["shop", "Shop-1_a.b", "9", "-"])
def test_a_topic_prefix_may_have_letters_digits_hyphens_underscores_and_dots(prefix: str, tmp_path: Path) -> None:
    text = MINIMAL.replace("topic.prefix: shop", f"topic.prefix: '{prefix}'")
    assert read(text, tmp_path).connector.topic_prefix == prefix


@pytest.mark.parametrize("prefix", ["sh op", "shöp", "a/b", "a:b", "${env:USER}", "a\\n", "a#"])
def test_a_topic_prefix_of_other_characters_is_refused(prefix: str, tmp_path: Path) -> None:
    text = MINIMAL.replace("topic.prefix: shop", f'topic.prefix: "{prefix}"')
    assert "connector.topic.prefix (line 3): " in refused(text, tmp_path)


@pytest.mark.parametrize("kind", ["schema", "table", "column", "message.prefix"])
def test_an_include_and_an_exclude_list_contradict_each_other(kind: str, tmp_path: Path) -> None:
    problem = refused(with_connector(f"{kind}.include.list: a\n{kind}.exclude.list: b"), tmp_path)
    assert f"connector.{kind}.exclude.list (line 4): contradicts {kind}.include.list" in problem


@pytest.mark.parametrize(
    ("lake", "expected"),
    [
        ("path: x\n  catalog: main", "lake: give either path (a local folder) or catalog"),
        ("catalog: main\n  writer: arrow", "lake: writer arrow takes a local folder (path)"),
        ("path: x\n  writer: parquet", "lake.writer (line 9): should be 'arrow' or 'spark'"),
        ("bronze: b", "lake: give either path (a local folder) or catalog"),
        ("path: x\n  bronz: b", "lake.bronz (line 9): unknown key; did you mean bronze?"),
        ("path: x\n  silver: gold", "lake: bronze, silver, gold and ops must be different schemas"),
        ("path: x\n  silver: My Silver", "lake.silver (line 9): string should match pattern"),
        ("path: s3://bucket/x", "lake.path (line 8): a local folder is expected, not a URL"),
        ("path: x\n  table_name: '{schema}'", "lake.table_name (line 9): {table} is missing"),
        ("path: x\n  table_name: '{db}_{table}'", "lake.table_name (line 9): {db} is no placeholder"),
        ("path: x\n  table_name: '{table:>9}'", "lake.table_name (line 9): a placeholder takes no format"),
        ("path: x\n  table_name: '{table'", "lake.table_name (line 9): not a template"),
        ("path: x\n  max_pass_bytes: 5 apples", "lake.max_pass_bytes (line 9): expected a number of bytes"),
        ("path: x\n  parallel_tables: 0", "lake.parallel_tables (line 9): should be greater than or equal to 1"),
    ],
)
def test_a_wrong_key_of_the_lake_is_named(lake: str, expected: str, tmp_path: Path) -> None:
    assert expected in refused(MINIMAL.replace("path: lake", lake), tmp_path)


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    problem = refused("connector:\n  topic.prefx: a\n  database.port: x\nlak:\n  path: x\n", tmp_path)
    assert "has 8 problems" in problem
    for place in (
        "connector.database.user: required",
        "connector.database.dbname: required",
        "lake: give either",
        "topic.prefx",
        "topic.prefix: required",
        "database.port (line 3)",
        "database.hostname: required",
        "lak ",
    ):
        assert place in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty: the sections connector and lake are needed"),
        ("- a", "must be a mapping with the sections"),
        ("connector: x\nlake: {path: x}", "connector (line 1): must be a mapping"),
        (
            "database.hostname: x\n" + MINIMAL,
            "(line 1): unknown section; a property of the connector belongs below connector:",
        ),
        ("conector: {}\n", "conector (line 1): unknown section; did you mean connector?"),
        ("a: [b\nc: d", "is not valid YAML"),
        ("a: &x {b: *x}\n", "an alias must not contain itself"),
        ("? [a]\n: b\n", "a key must be a plain name"),
    ],
)
def test_a_file_of_another_shape_is_refused(text: str, expected: str, tmp_path: Path) -> None:
    assert expected in refused(text, tmp_path)


def test_a_missing_file_and_a_missing_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load(tmp_path / "missing.yml")
    monkeypatch.delenv("WALHOUSE_CONF", raising=False)
    with pytest.raises(ConfigurationError, match="neither --conf nor WALHOUSE_CONF"):
        load()


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = read(MINIMAL, tmp_path)
    monkeypatch.setenv("WALHOUSE_CONF", str(tmp_path / "walhouse.yml"))
    assert load() == conf


def test_a_property_without_a_meaning_here_is_a_warning(tmp_path: Path) -> None:
    conf = read(with_connector("tasks.max: 1\nsnapshot.fetch.size: 4\ntime.precision.mode: adaptive"), tmp_path)
    assert conf.warnings == (
        "connector.tasks.max has no effect: Kafka Connect's; there is no Kafka here.",
        "connector.snapshot.fetch.size has no effect: rows are streamed by COPY.",
    )


@pytest.mark.parametrize(("old", "mode"), [("never", "no_data"), ("schema_only", "no_data")])
def test_old_names_of_snapshot_modes_are_understood(old: str, mode: str, tmp_path: Path) -> None:
    assert read(with_connector(f"snapshot.mode: {old}"), tmp_path).connector.snapshot_mode == mode


def test_sizes_may_have_units(tmp_path: Path) -> None:
    conf = read(MINIMAL + "  max_pass_bytes: 64 MiB\n  idle_commit_bytes: 1000\n", tmp_path)
    assert (conf.lake.max_pass_bytes, conf.lake.idle_commit_bytes) == (64 * 2**20, 1000)


def test_filters_tell_case_only_if_the_lake_says_so(tmp_path: Path) -> None:
    lists = "table.include.list: s.T\nmessage.prefix.include.list: P\nmessage.key.columns: s.T:a"
    lists += "\nreplica.identity.autoset.values: s.T:FULL"
    for lake, told in (("", False), ("  case_sensitive_filters: true\n", True)):
        connector = read(with_connector(lists) + lake, tmp_path).connector
        assert connector.table_filter.captures(TableName("s", "t")) is not told
        assert connector.message_filter.matches("p") is not told
        assert (connector.column_rules.key_of(TableName("s", "t"), ("a",)) == ()) is told
        assert (connector.identity_rules.of(TableName("s", "t")) is None) is told
        assert connector.table_filter.captures(TableName("s", "T"))


# In Python -----------------------------------------------------------------------------------------------------------


def test_a_configuration_can_be_made_in_python(tmp_path: Path) -> None:
    connector = Connector(topic_prefix="p", database_hostname="h", database_user="u", database_dbname="d")
    conf = Configuration(connector, Lake(path=tmp_path))
    assert conf.base == Path.cwd()
    assert replace(conf, file=tmp_path / "x.yml").base == tmp_path


def test_the_configurations_of_the_project_are_right() -> None:
    conf = Path(__file__).parents[2] / "conf"
    demo, deployment = load(conf / "demo.yml"), load(conf / "deployment.yml")
    assert demo.warnings == deployment.warnings == ()
    assert demo.lake.path == conf.parent / ".walhouse/demo/lake"
    assert deployment.lake.catalog == "main"


def test_the_text_of_a_file_can_be_parsed_without_reading_it(tmp_path: Path) -> None:
    assert parse(MINIMAL, tmp_path / "x.yml").lake.path == tmp_path / "lake"
