"""The Python process that Spark's tasks run in.

Invariant: where the session is ours, it loads nothing that bronze has no use for.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


class _NoPandas(MetaPathFinder):
    """Finds that there is no pandas."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=fullname)


def without_pandas() -> None:
    """Have pyarrow go without pandas, unless this process has loaded it.

    pyarrow asks of each value that it takes whether it is one of pandas, and loads pandas to ask that: 60 MiB, and more
    of the processor than all else that is loaded. It looks again when it is to give something to pandas, so that a
    function of somebody else's, in the same process, finds what it is used to.
    """
    if "pandas" in sys.modules:
        return
    absence = _NoPandas()
    sys.meta_path.insert(0, absence)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(absence)
