"""A position is exact to the byte, and one right behind a page's header means the page's start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walhouse.lsn import LONG_PAGE_HEADER, PAGE_HEADER, PAGE_SIZE, SMALLEST_SEGMENT, Lsn

_POSITIONS = st.integers(0, 2**63 - 1).map(Lsn)


@given(_POSITIONS)
def test_a_position_that_is_written_and_read_is_the_same(lsn: Lsn) -> None:
    """The text is PostgreSQL's."""
    assert Lsn.parse(str(lsn)) == lsn


@pytest.mark.parametrize("text", ["", "16", "16/", "/B3", "16/B374D8481", "G/1", "1/2/3", "-1/2"])
def test_what_is_no_position_is_refused(text: str) -> None:
    """With the form that is expected."""
    with pytest.raises(ValueError, match="16/B374D848"):
        Lsn.parse(text)


@pytest.mark.parametrize("text", ["80000000/0", "FFFFFFFF/FFFFFFFF"])
def test_what_no_column_of_the_lake_can_hold_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="beyond 7FFFFFFF/FFFFFFFF"):
        Lsn.parse(text)
    assert Lsn.parse("7FFFFFFF/FFFFFFFF") == 2**63 - 1


def test_right_behind_a_page_header_the_page_s_start_is_meant() -> None:
    """That of a segment's first page is longer."""
    assert Lsn(5 * PAGE_SIZE + PAGE_HEADER).page_aligned() == 5 * PAGE_SIZE
    assert Lsn(3 * SMALLEST_SEGMENT + LONG_PAGE_HEADER).page_aligned() == 3 * SMALLEST_SEGMENT


@pytest.mark.parametrize("offset", [PAGE_HEADER + 8, LONG_PAGE_HEADER, LONG_PAGE_HEADER + 8])
def test_the_last_bytes_of_a_record_from_the_page_before_are_no_header(offset: int) -> None:
    """Who waits for such a record waits for its bytes on this page too, not for the page before alone."""
    position = Lsn(0x7540C000 + offset)
    assert position.page_aligned() == position


@given(_POSITIONS)
def test_no_record_lies_between_a_position_and_its_page_aligned_one(lsn: Lsn) -> None:
    """The smallest record has as many bytes as a short header."""
    assert 0 <= lsn - lsn.page_aligned() <= LONG_PAGE_HEADER
    assert lsn.page_aligned().page_aligned() == lsn.page_aligned()
