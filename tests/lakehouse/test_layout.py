"""Where a source table is in the lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from walhouse.errors import NameCollisionError
from walhouse.lakehouse.layout import LakeLayout
from walhouse.names import TableName

CUSTOMERS = TableName("public", "顧客")
ALIKE = [CUSTOMERS, TableName("public", "注文"), TableName("s", "a b"), TableName("s", "A_b"), TableName("s_a", "b")]


def test_tables_that_would_share_a_name_are_refused_and_a_digest_tells_them_apart() -> None:
    plain = LakeLayout(path=Path("lake"))
    with pytest.raises(NameCollisionError, match=r"public\.顧客 and public\.注文 would both become public___ in"):
        plain.require_distinct(ALIKE)
    told = LakeLayout(path=Path("lake"), table_name="{schema}_{table}_{digest}")
    told.require_distinct(ALIKE)
    assert told.lake_name(CUSTOMERS) == "public____689895d2"
