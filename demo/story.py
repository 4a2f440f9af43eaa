"""The demo's story: a shop that works, its lake, and the proof, in the order in which they are shown."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from fixtures.shop.workload import Workload
from walhouse.api import Walhouse
from walhouse.lakehouse.session import SMALL_TABLES, local_session
from walhouse.names import TableName
from walhouse.notebook import busiest_keys, history, rows_per_layer
from walhouse.postgres.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demo.place import Place
    from demo.screen import Screen
    from fixtures.shop.rows import Scale
    from walhouse.ops.status import Status
    from walhouse.proof.verify import Proof

_DURING_PROOF: Final = 1_200
"""Transactions while the proof is made: it has to hold on a source that goes on writing."""
_EVENTS: Final = 10
"""How much of a customer's history is shown."""


class Story:
    """One run of the demo."""

    def __init__(self, place: Place, screen: Screen, scale: Scale) -> None:
        self.place = place
        self.screen = screen
        self.scale = scale

    def tell(self, transactions: int, rate: float) -> bool:
        """Run it all. True if every gold table is proven equal to its source. The server goes on running."""
        is_new = self.place.is_new
        with self.screen.step("PostgreSQL and the shop in it") as step:
            server = self.place.start_server()
            rows = self.scale.rows if self.place.ensure_shop(server, self.scale) else 0
            step.update("loaded", rows=rows)
        run = self.place.next_run()
        with self.screen.step("Spark with Delta"):
            spark = local_session(settings=SMALL_TABLES)
        with closing(Walhouse.open(self.place.configuration, spark)) as house:
            self._check(house)
            if is_new:
                self._snapshot(house, transactions // 2, rate, run)
            self._stream(house, transactions, rate, run)
            proofs = self._prove(house, rate, run)
            self._show(house, proofs)
        spark.stop()
        return bool(proofs) and all(proof.equal for proof in proofs)

    def _check(self, house: Walhouse) -> None:
        findings = house.check()
        for finding in findings:
            if finding.severity != Severity.OK:
                self.screen.say(f"[yellow]{finding.severity}[/] {finding.subject}: {finding.problem} {finding.todo}")
        self.screen.say(f"{len(findings)} checks of the source before anything is captured")

    def _snapshot(self, house: Walhouse, transactions: int, rate: float, run: int) -> None:
        self.screen.say(
            f"The shop opens: {transactions:,} transactions, {rate:g} a second, while it is read for the first time"
        )
        with self._workload(transactions, rate, seed=run), self.screen.step("Initial snapshot into bronze") as step:
            house.capture(progress=step)

    def _stream(self, house: Walhouse, transactions: int, rate: float, run: int) -> None:
        self.screen.say(f"The shop goes on: {transactions:,} transactions, {rate:g} a second")
        # once while it sells; what is sold meanwhile comes with the proof, which brings gold to its LSN itself
        with (
            self._workload(transactions, rate, seed=10_000 + run),
            self.screen.step("The log into bronze, and into silver") as step,
        ):
            house.capture(progress=step)
            house.silver(progress=step)

    def _prove(self, house: Walhouse, rate: float, run: int) -> Sequence[Proof]:
        self.screen.say(f"The proof begins, and the shop goes on: {_DURING_PROOF:,} transactions, {rate:g} a second")
        with (
            self._workload(_DURING_PROOF, rate, seed=20_000 + run),
            self.screen.step("Gold, and its proof, row by row") as step,
        ):
            return house.verify(progress=step)

    def _workload(self, transactions: int, rate: float, *, seed: int) -> Workload:
        return Workload(self.place.dsn, transactions=transactions, rate=rate, seed=seed)

    def _show(self, house: Walhouse, proofs: Sequence[Proof]) -> None:
        status = house.status()
        self._show_rows(house, status)
        self._show_customer(house)
        self.screen.table(
            "Proof: gold is the source, row by row, at one LSN",
            ("table", "at LSN", "rows in PostgreSQL", "rows in gold", ""),
            [
                (str(p.table), str(p.lsn), p.source_rows, p.gold_rows, "equal" if p.equal else "DIFFERENT")
                for p in proofs
            ],
        )
        self.screen.console.print()
        self.screen.say(
            f"Lag {status.lag_bytes:,} bytes. The slot {status.slot} keeps"
            f" {status.retained_bytes or 0:,} bytes of WAL on the server."
        )
        equal = all(proof.equal for proof in proofs)
        self.screen.say("[green]Every gold table equals its source.[/]" if equal else "[red]Gold differs.[/]")
        self.screen.say("The server still runs; `make demo-clean` stops it and removes everything.")

    def _show_rows(self, house: Walhouse, status: Status) -> None:
        rescued = {str(each.table): each.counts.get("gold_rescued", 0) for each in status.tables}
        self.screen.table(
            "Rows per table and layer",
            ("table", "changes in bronze", "events in silver", "rows in gold", "values kept as text"),
            [(*row, rescued.get(row[0], 0)) for row in rows_per_layer(house).toLocalIterator()],
        )

    def _show_customer(self, house: Walhouse) -> None:
        customers = TableName("shop", "customers")
        busiest = busiest_keys(house, customers, limit=50).orderBy(F.desc("partial"), F.desc("events"), "key").first()
        assert busiest is not None
        events = history(house, customers, busiest["key"]).limit(_EVENTS)
        self.screen.table(
            f"Customer {busiest['key']} in silver",
            ("op", "committed", "changed", "not sent, for it is long and did not change"),
            [
                (
                    row["op"],
                    f"{row['at']:%H:%M:%S.%f}"[:-3],
                    "all" if row["op"] in {"r", "c"} else ", ".join(row["changed"]),
                    ", ".join(row["not_sent"]),
                )
                for row in events.toLocalIterator()
            ],
        )
