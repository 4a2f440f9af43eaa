"""What the pre-flight check finds, for tests of its parts."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from walhouse.config.filters import TableFilter
from walhouse.postgres.check import check_source
from walhouse.postgres.connection import connect
from walhouse.postgres.finding import Finding, Severity

if TYPE_CHECKING:
    from walhouse.config.connection import ConnectionSettings


def checked(
    settings: ConnectionSettings, *, slot: str = "walhouse_check", mode: str = "filtered", via_root: bool = False,
    selection: TableFilter | None = None, **rules: Any,
) -> list[Finding]:  # fmt: skip
    with closing(connect(settings)) as connection:
        return check_source(
            connection,
            settings,
            slot=slot,
            publication="p",
            mode=mode,
            selection=selection or TableFilter(),
            via_root=via_root,
            **rules,
        )


def faults(findings: list[Finding], severity: Severity = Severity.ERROR) -> list[str]:
    assert all(finding.todo for finding in findings if finding.severity is not Severity.OK)
    return [f"{finding.subject}: {finding.problem}" for finding in findings if finding.severity is severity]
