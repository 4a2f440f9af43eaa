"""The bundle can be deployed: checked with Databricks' own models, and for what these do not know."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from databricks.bundles.core import Resource as Model

from tests.bundle import bundle
from tests.bundle.bundle import ROOT, Resource
from walhouse.config.configuration import load

MODELS = {"jobs": "Job", "schemas": "Schema", "volumes": "Volume"}
TARGETS = bundle.targets()


def model(kind: str) -> Any:
    """Databricks' model of a kind of resource; a kind that is not listed above has not been thought about."""
    return getattr(import_module(f"databricks.bundles.{kind}"), MODELS[kind])


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def tasks(resources: list[Resource]) -> list[tuple[Resource, dict[str, Any]]]:
    return [(each, task) for each in resources if each.kind == "jobs" for task in each.body["tasks"]]


@pytest.mark.parametrize("target", TARGETS)
def test_every_resource_is_one_that_databricks_knows_to_the_last_key(target: str) -> None:
    _, resources = bundle.for_target(target)
    assert resources
    for resource in resources:
        built = model(resource.kind).from_dict(resource.body)
        assert isinstance(built, Model), resource


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"taskz": []}, ValueError),
        ({"schedule": {"timezone_id": "UTC"}}, TypeError),
        ({"queue": {"enabled": 3}}, ValueError),
    ],
)
def test_the_models_would_notice_a_wrong_key_a_missing_key_and_a_wrong_value(
    change: dict[str, Any], error: type[Exception]
) -> None:
    job = next(each for each in bundle.resources() if each.kind == "jobs")
    with pytest.raises(error):
        model("jobs").from_dict({**job.body, **change})


def test_every_include_matches_a_file_and_every_resource_file_is_included() -> None:
    matched = bundle.included()
    assert all(matched.values()), matched
    assert {file for files in matched.values() for file in files} == set((ROOT / "resources").rglob("*.*"))


def test_no_resource_is_defined_twice_and_each_has_a_file_of_its_own() -> None:
    resources = bundle.resources()
    assert len({(each.kind, each.key) for each in resources}) == len(resources)
    assert len({each.file for each in resources}) == len(resources)


def test_a_resource_file_is_named_for_the_resource_and_its_kind() -> None:
    for each in bundle.resources():
        assert each.file.name == f"{each.key}.{each.kind.removesuffix('s')}.yml"


def test_every_variable_is_declared_used_and_described() -> None:
    tree = [bundle.root(), *(each.body for each in bundle.resources())]
    used = {name.removeprefix("var.") for name in bundle.references(tree) if name.startswith("var.")}
    declared = bundle.root()["variables"]
    assert used == set(declared)
    assert all(body.get("description") for body in declared.values())


@pytest.mark.parametrize("target", TARGETS)
def test_every_variable_has_a_value_in_every_target(target: str) -> None:
    missing = [name for name, value in bundle.values(target).items() if value is None]
    assert not missing


@pytest.mark.parametrize("target", TARGETS)
def test_every_reference_is_to_a_resource_that_is_there_or_to_the_workspace(target: str) -> None:
    settings, resources = bundle.for_target(target)
    there = {f"resources.{each.kind}.{each.key}" for each in resources}
    for name in bundle.references([settings, *(each.body for each in resources)]):
        is_resource = name.startswith("resources.") and name.rpartition(".")[0] in there
        assert is_resource or name in {"workspace.file_path", "workspace.current_user.userName"}, name


@pytest.mark.parametrize("target", TARGETS)
def test_every_task_has_one_compute_that_the_job_declares(target: str) -> None:
    _, resources = bundle.for_target(target)
    for job, task in tasks(resources):
        clusters = {cluster["job_cluster_key"] for cluster in job.body.get("job_clusters", ())}
        given = [key for key in ("job_cluster_key", "environment_key", "existing_cluster_id") if key in task]
        assert given == ["job_cluster_key"]
        assert task["job_cluster_key"] in clusters


def test_the_tasks_are_capture_silver_gold_verify_one_after_the_other() -> None:
    found = [task for _, task in tasks(bundle.resources())]
    names = [task["task_key"] for task in found]
    assert names == ["capture", "silver", "gold", "verify"]
    assert [[each["task_key"] for each in task.get("depends_on", ())] for task in found] == [
        [],
        *([name] for name in names[:-1]),
    ]


def test_every_task_calls_the_command_line_that_the_wheel_has() -> None:
    project = pyproject()["project"]
    for _, task in tasks(bundle.resources()):
        wheel = task["python_wheel_task"]
        assert wheel["package_name"] == project["name"]
        assert wheel["entry_point"] in project["scripts"]
        assert wheel["parameters"][0] == task["task_key"]


def test_every_task_installs_the_wheel_that_the_bundle_builds() -> None:
    artifact = bundle.root()["artifacts"]["wheel"]
    assert artifact["type"] == "whl"
    assert "wheel" in artifact["build"]
    for job, task in tasks(bundle.resources()):
        (library,) = task["libraries"]
        assert (job.file.parent / library["whl"]).parent.resolve() == ROOT / artifact.get("path", ".") / "dist"


def test_capture_never_runs_twice_at_once_in_any_target() -> None:
    for target in TARGETS:
        settings, resources = bundle.for_target(target)
        (job,) = (each for each in resources if each.kind == "jobs")
        assert job.body["max_concurrent_runs"] == 1
        assert settings.get("presets", {}).get("jobs_max_concurrent_runs", 1) == 1
        assert ("continuous" in job.body) != ("schedule" in job.body)


def test_runs_that_are_due_while_one_lasts_do_not_pile_up() -> None:
    (job,) = (each for each in bundle.resources() if each.kind == "jobs")
    assert job.body["queue"] == {"enabled": False}, "where nothing is said, a bundle's job queues them"


@pytest.mark.parametrize("target", TARGETS)
def test_who_the_job_runs_as_may_make_and_change_tables_in_every_schema(target: str) -> None:
    settings, resources = bundle.for_target(target)
    deployer = "${workspace.current_user.userName}"  # whom development's job runs as
    runner = settings.get("run_as", {}).get("service_principal_name", deployer)
    schemas = {each.key: each.body["grants"] for each in resources if each.kind == "schemas"}
    assert set(schemas) == {"bronze", "silver", "gold", "ops"}
    for grants in schemas.values():
        (own,) = (set(grant["privileges"]) for grant in grants if grant["principal"] == runner)
        assert own == {"USE_SCHEMA", "CREATE_TABLE", "SELECT", "MODIFY"}


def test_a_group_of_the_account_is_granted_data_and_a_group_of_the_workspace_sees_the_job() -> None:
    granted = {name for each in bundle.resources() for name in bundle.references(each.body.get("grants", []))}
    assert granted == {"var.runner", "var.readers"}
    assert bundle.references(bundle.root()["targets"]["prod"]["permissions"]) == {"var.viewers"}
    assert bundle.values("prod")["var.readers"] == "account users", "Unity Catalog does not know the workspace's users"
    assert bundle.values("prod")["var.viewers"] == "users", "a workspace's folders and jobs do not know account users"


def test_somebody_can_be_told_of_a_run_that_failed_or_takes_long() -> None:
    (job,) = (each for each in bundle.resources() if each.kind == "jobs")
    told = job.body["email_notifications"]
    assert set(told) == {"on_failure", "on_duration_warning_threshold_exceeded"}
    assert bundle.references(told) == {"var.alerts"}


def test_development_is_the_default_and_pauses_its_schedule() -> None:
    settings = bundle.root()["targets"]
    assert settings["dev"]["mode"] == "development"
    assert settings["dev"]["default"] is True
    (job,) = (each for each in bundle.resources() if each.kind == "jobs")
    assert "pause_status" not in job.body["schedule"], "a stated one would win over development mode's PAUSED"


def test_production_says_where_it_lives_and_who_it_runs_as_by_variables() -> None:
    prod = bundle.root()["targets"]["prod"]
    assert prod["mode"] == "production"
    assert bundle.references(prod["workspace"]["root_path"]) == {"var.root_path"}
    assert bundle.references(prod["run_as"]) == {"var.service_principal"}


def test_no_file_of_the_bundle_names_a_workspace_a_password_or_a_token() -> None:
    files = [ROOT / "databricks.yml", *(each.file for each in bundle.resources())]
    for file in files:
        for path, text in bundle.texts(bundle.read(file)):
            assert "://" not in text, (file, path)
            assert path.rpartition(".")[2] not in {"host", "profile", "password", "token"}, (file, path)
            assert not re.search(r"dapi[0-9a-f]{16}|azuredatabricks|cloud\.databricks", text), (file, path)


@pytest.mark.parametrize("target", TARGETS)
def test_the_configuration_of_a_target_is_valid_and_names_the_bundle_s_catalog_and_schemas(target: str) -> None:
    configuration = load(ROOT / "conf" / bundle.values(target)["var.conf"])
    assert not configuration.warnings
    values = bundle.values(target)
    lake = configuration.lake
    assert lake.path is None
    assert lake.catalog == values["var.catalog"]
    for layer in ("bronze", "silver", "gold", "ops"):
        assert getattr(lake, layer) == values[f"var.{layer}_schema"]


@pytest.mark.parametrize("target", TARGETS)
def test_every_task_of_a_target_reads_a_configuration_that_is_uploaded(target: str) -> None:
    _, resources = bundle.for_target(target)
    excluded = bundle.root()["sync"]["exclude"]
    for _, task in tasks(resources):
        parameters = task["python_wheel_task"]["parameters"]
        path = parameters[parameters.index("--conf") + 1].removeprefix("${workspace.file_path}/")
        assert (ROOT / path).is_file()
        assert not any(Path(path).match(pattern) for pattern in excluded)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_s_secret_comes_from_a_scope(target: str) -> None:
    text = (ROOT / "conf" / bundle.values(target)["var.conf"]).read_text(encoding="utf-8")
    assert re.search(r"^  database\.password: \$\{secret:[^/}]+/[^}]+\}( |$)", text, re.MULTILINE)
