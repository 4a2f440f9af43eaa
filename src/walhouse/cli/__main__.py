"""``python -m walhouse.cli``, where the entry point is not installed."""

from __future__ import annotations

from walhouse.cli.app import main

main()
