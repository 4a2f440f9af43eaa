"""The proof on a source that is not told to hold still."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from walhouse.names import TableName
from walhouse.postgres.connection import connect
from walhouse.proof.verify import Verification

if TYPE_CHECKING:
    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database

pytestmark = [pytest.mark.server, pytest.mark.spark]


def test_a_truncate_in_the_middle_of_the_proof_is_let_through_and_the_proof_made_again(
    database: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The TRUNCATE waits for the proof's lock, and every new reader waits for the TRUNCATE."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 100)")
    defaults = connect.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "lock_timeout_seconds", 1.0)
    house = make_house()
    house.run()
    prove = Verification._prove
    truncates: list[threading.Thread] = []

    def truncate_meanwhile(verification: Verification, *arguments: Any) -> Any:
        if not truncates:
            truncates.append(threading.Thread(target=database.execute, args=("TRUNCATE t",)))
            truncates[0].start()
            while not database.execute("SELECT 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted"):
                time.sleep(0.05)
        return prove(verification, *arguments)

    monkeypatch.setattr(Verification, "_prove", truncate_meanwhile)
    (proof,) = house.verify()
    truncates[0].join()
    assert proof.equal
    assert (proof.source_rows, proof.gold_rows) == (0, 0)


def test_gold_is_brought_up_before_a_lock_is_taken_that_others_would_have_to_wait_for(
    database: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 100)")
    house = make_house()
    house.run()
    database.execute("INSERT INTO t SELECT generate_series(101, 300)")
    gold = house.layout.gold(TableName("public", "t"))
    bring_to = Verification._bring_to
    locked_with_gold_at: list[tuple[bool, int]] = []

    def watched(verification: Verification, *arguments: Any) -> Any:
        [(locked,)] = database.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass)")
        locked_with_gold_at.append((locked, house.spark.table(str(gold)).count()))
        return bring_to(verification, *arguments)

    monkeypatch.setattr(Verification, "_bring_to", watched)
    assert all(proof.equal for proof in house.verify())
    assert locked_with_gold_at == [(False, 100), (True, 300)]
