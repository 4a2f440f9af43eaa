"""What is written to standard error is walhouse's own, and nothing of the libraries beneath it."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from walhouse.cli.logs import LOGGER, LogFormat, log, set_up

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    before = (LOGGER.handlers[:], LOGGER.level, LOGGER.propagate, root.filters[:])
    yield
    LOGGER.handlers[:], LOGGER.level, LOGGER.propagate, root.filters[:] = before


def test_a_line_is_an_object_with_its_fields_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LogFormat.JSON)
    log("Read.", fields={"rows": 3, "table": "ä"})
    line = json.loads(capsys.readouterr().err)
    assert {name: line[name] for name in ("level", "message", "rows", "table")} == {
        "level": "info",
        "message": "Read.",
        "rows": 3,
        "table": "ä",
    }


def test_ctrl_c_while_spark_works_shows_none_of_py4js_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    set_up(LogFormat.TEXT)
    for message in ("Exception while sending command.", "KeyboardInterrupt while sending command.", "Anything else."):
        logging.getLogger().error(message)
    assert [record.message for record in caplog.records] == ["Anything else."]
