"""``skip.messages.without.change``: what is no change to whoever reads the events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database

pytestmark = [pytest.mark.server, pytest.mark.spark]


def test_a_key_change_is_told_also_if_a_mask_hides_it_and_another_change_that_one_hides_is_not(
    database: Database, make_house: MakeHouse
) -> None:
    """Debezium's engine tells nothing of either, so that the old key stays with its consumers for ever."""
    database.execute("CREATE TABLE t (id text PRIMARY KEY, v text)", "ALTER TABLE t REPLICA IDENTITY FULL")
    house = make_house(
        skip_messages_without_change=True, column_mask_with_3_chars="public.t.id,public.t.v", snapshot_mode="no_data"
    )
    house.run()
    database.execute("INSERT INTO t VALUES ('a', 'x')", "UPDATE t SET v = 'y'", "UPDATE t SET id = 'b'")
    house.run()
    events = [json.loads(line) for line in house.events()]
    told = [(event["key"]["id"], event["value"] and event["value"]["op"]) for event in events]
    assert told == [("a", "c"), ("a", "d"), ("a", None), ("b", "c")]
