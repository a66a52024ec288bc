"""The shop of the demo under load, and the table that it shows, without Spark."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from eventide.cli.progress import progress_line, progress_table
from eventide.overload import ORDERS_A_SECOND, Shop, load_table


class Spool:
    """Takes what a database would."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Any, ...]]] = {"orders": [], "clicks": []}

    def write(self, source: str, rows: list[tuple[Any, ...]]) -> int:
        self.rows[source] += rows
        return len(rows)


def test_the_shop_writes_as_much_as_it_says_and_some_orders_twice() -> None:
    spool = Spool()
    shop = Shop(spool, rate=1000, seconds=10)  # type: ignore[arg-type]
    for second in range(10):
        shop.open_for(1.0, float(second))
    ids = [row[0] for row in spool.rows["orders"]]
    assert len(spool.rows["clicks"]) == shop.written["clicks"] == 10_000
    assert shop.orders == len(set(ids)) == 10 * ORDERS_A_SECOND
    assert len(set(ids)) < len(ids) == shop.written["orders"]


STREAM: dict[str, Any] = {
    "stream": "visits",
    "rows_in": 100,
    "rows_per_second": 5.0,
    "watermark": None,
    "watermark_lag_seconds": None,
    "open_windows": 1,
    "late": 0,
    "errors": 0,
    "rejected": 30,
    "shed": 20,
    "load": 1.5,
    "shed_share": 0.25,
    "admission": {
        "clicks": {
            "class": "bronze",
            "admitted": 50,
            "rejected_rate": 25,
            "rejected_lag": 5,
            "shed": 20,
            "lag_p99_ms": 12,
        }
    },
    "batches": 3,
    "error": None,
}


def shown(table: Any) -> str:
    console = Console(width=200, file=io.StringIO())
    with console.capture() as captured:
        console.print(table)
    return " ".join(captured.get().split())


def test_the_table_has_a_line_for_each_source_with_its_class() -> None:
    assert shown(load_table([STREAM])).endswith("visits clicks bronze 50 30 20 12 ms 1.50 25%")


def test_progress_tells_what_limits_and_load_cost_where_there_are_any() -> None:
    assert progress_line(STREAM).endswith("3 batches, 30 rejected, 20 shed, load 1.50")
    assert "rejected shed batches" in shown(progress_table([STREAM]))
    calm = {**STREAM, "rejected": 0, "shed": 0, "load": None, "admission": {}}
    assert progress_line(calm).endswith("3 batches")
    assert "rejected" not in shown(progress_table([calm]))
