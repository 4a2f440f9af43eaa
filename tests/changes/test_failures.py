"""One failure is raised, and no other one is lost."""

from __future__ import annotations

import logging
import os
from errno import ENOSPC

import pytest
from pyspark.errors import PySparkValueError

from walhouse.changes.failures import raise_first
from walhouse.errors import GoldKeyError


def test_without_a_failure_nothing_is_raised() -> None:
    raise_first({})


def test_the_first_failure_is_raised_and_the_others_are_told_without_what_a_row_may_hold(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, ours, foreign = GoldKeyError("The first."), GoldKeyError("The second."), ValueError("a row's value")
    disk = OSError(ENOSPC, os.strerror(ENOSPC))
    spark = PySparkValueError(errorClass="CANNOT_BE_NONE", messageParameters={"arg_name": "x"})
    with caplog.at_level(logging.ERROR, "walhouse"), pytest.raises(GoldKeyError) as raised:
        raise_first({"gold of a": first, "gold of b": ours, "gold of c": foreign, "silver of d": disk, "silver": spark})
    assert raised.value is first
    told = [record.getMessage() for record in caplog.records]
    assert told[:2] == [f"gold of b failed, too: {ours}", "gold of c failed, too: ValueError"]
    assert "The second." in told[0]
    assert told[2].startswith("silver of d failed, too: A disk of the lake, or that of Spark's temporary files, takes")
    assert told[3] == "silver failed, too: PySparkValueError (CANNOT_BE_NONE)"
