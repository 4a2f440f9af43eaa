"""Tables and layers are applied side by side, so that more than one may fail.

Invariant: one failure is raised and each other one is logged: nobody finds the second only by mending the first.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from walhouse.errors import WalhouseError

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)


def raise_first(failures: Mapping[str, BaseException]) -> None:
    """Raise the first failure, if there is any, and log the others. The keys say what failed.

    Of an exception that is not walhouse's own only the kind is logged, since its message may quote a row.
    """
    for what, failure in list(failures.items())[1:]:
        told = failure if isinstance(failure, WalhouseError) else type(failure).__name__
        log.error("%s failed, too: %s", what, told)
    for failure in failures.values():
        raise failure
