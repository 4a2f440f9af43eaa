"""What a consumer of Debezium reads: `walhouse events` on a real server, with what stands beside the changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database

pytestmark = [pytest.mark.server, pytest.mark.spark]

PROPERTIES: dict[str, Any] = {
    "table_include_list": "public.a,public.b",
    "provide_transaction_metadata": True,
    "heartbeat_interval_ms": 1,
    "heartbeat_action_query": "INSERT INTO beats VALUES (now())",
    "xmin_fetch_interval_ms": 1,
}


def by_topic(lines: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        record = json.loads(line)
        found.setdefault(record["destination"], []).append(record["value"])
    return found


@pytest.mark.slow
def test_events_come_with_their_transactions_heartbeats_xmin_and_defaults(
    database: Database, make_house: MakeHouse
) -> None:
    database.execute(
        "CREATE TABLE a (id int PRIMARY KEY, v text DEFAULT 'd')",
        "CREATE TABLE b (id int PRIMARY KEY)",
        "CREATE TABLE beats (at timestamptz)",
        "INSERT INTO a VALUES (1, NULL)",
    )
    house = make_house(**PROPERTIES)
    house.run()
    with database.connect(autocommit=False) as connection:
        connection.execute("INSERT INTO a VALUES (2, 'x')")
        connection.execute("INSERT INTO b VALUES (1)")
        connection.execute("UPDATE a SET id = 3 WHERE id = 2")
        connection.commit()
    house.run()
    found = by_topic(house.events())
    read, created, deleted, _, again = found["test.public.a"]
    assert (read["source"]["snapshot"], read["transaction"], read["after"]) == ("last", None, {"id": 1, "v": "d"})
    places = [event["transaction"] for event in (created, *found["test.public.b"], deleted, again)]
    assert [(place["total_order"], place["data_collection_order"]) for place in places] == [
        (1, 1),
        (2, 1),
        (3, 2),
        (4, 3),
    ]
    begin, end = found["test.transaction"]
    assert (begin["status"], begin["event_count"], end["status"], end["event_count"]) == ("BEGIN", None, "END", 4)
    assert {place["id"] for place in places} == {begin["id"], end["id"]}
    assert end["data_collections"] == [
        {"data_collection": "public.a", "event_count": 3},
        {"data_collection": "public.b", "event_count": 1},
    ]
    assert all(event["source"]["xmin"] for event in (created, deleted, again))
    assert found["__debezium-heartbeat.test"]
    assert database.execute("SELECT count(*) FROM beats")[0][0] >= 2
    kept = by_topic(house.events(keep_nulls=True))["test.public.a"][0]
    assert (kept["after"], kept["source"]["snapshot"]) == ({"id": 1, "v": None}, "last")
    (alone,) = by_topic(house.events([TableName("public", "b")]))["test.public.b"]
    assert alone["transaction"]["total_order"] == 2
    assert all(proof.equal for proof in house.verify())
