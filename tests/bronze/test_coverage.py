"""What bronze lacks rows of: whatever it did not capture at some time, until it is to be read."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from walhouse.bronze import coverage
from walhouse.bronze.coverage import Attempts, Coverage
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable


def _named(oids: Iterable[int]) -> dict[int, TableName]:
    return {oid: TableName("s", f"t{oid}") for oid in oids}


OIDS = st.frozensets(st.integers(16384, 16390))


@given(st.lists(st.tuples(OIDS, OIDS), min_size=1), OIDS)
def test_a_table_that_was_there_and_not_captured_is_wanted_once_it_is(
    looks: list[tuple[frozenset[int], frozenset[int]]], last: frozenset[int]
) -> None:
    """Unless it was gone meanwhile: an OID that comes again is another table's."""
    found = Coverage((), ())
    missed = set[int]()
    for captured, others in [*looks, (last, frozenset[int]())]:
        existing = captured | others
        missed = (missed & existing) | (existing - captured)
        found = Coverage.of(_named(captured), existing, found.lacking)
        assert found.wanted == missed & captured
        assert set(found.lacking) == missed


def test_what_is_created_while_all_tables_are_captured_is_not_wanted() -> None:
    before = Coverage.of(_named([1]), [1, 2])
    assert Coverage.of(_named([1, 3]), [1, 2, 3], before.lacking).wanted == frozenset()
    assert before.with_lacking([1]).wanted == {1}
    assert before.with_lacking([1]).without_lacking([1]) == before


@given(OIDS, st.frozensets(st.integers(1, 2**32 - 1)))
def test_it_is_read_back_from_json(captured: frozenset[int], others: frozenset[int]) -> None:
    found = Coverage.of(_named(captured), captured | others)
    assert Coverage.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    of_earlier_versions = json.loads(json.dumps(asdict(found)))
    assert Coverage.from_dict(of_earlier_versions) == found


def test_a_hundred_thousand_tables_that_are_not_captured_cost_little_in_each_pass() -> None:
    found = Coverage.of({}, range(16_384, 816_384, 8))
    assert len(found.lacking) == 100_000
    assert len(zlib.compress(json.dumps(found.to_dict()).encode())) < 1_000


def test_it_has_tables_by_oid_in_order() -> None:
    found = Coverage.of(_named([5, 3]), [7, 3, 5])
    assert found == Coverage(((3, "s", "t3"), (5, "s", "t5")), (7,))
    assert found.names == _named([3, 5])


def test_a_table_is_tried_at_once_and_then_after_a_while() -> None:
    attempts = Attempts()
    assert attempts.is_due(1)
    attempts.begin(1)
    assert not attempts.is_due(1)
    assert attempts.is_due(2)
    attempts._at[1] -= coverage.AGAIN_SECONDS
    assert attempts.is_due(1)
