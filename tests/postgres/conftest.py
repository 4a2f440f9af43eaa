"""What the tests of a server's side share."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from walhouse.postgres.connection import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures_server import Database
    from walhouse.postgres.connection import Connection


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    with closing(connect(database.settings)) as opened:
        yield opened
