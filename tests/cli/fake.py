"""A fake database without Spark, to test what the command line does around it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from eventide.errors import SqlError


class FakeResult:
    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.columns = list(rows[0]) if rows else []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)


class FakeDatabase:
    """Remembers what it was asked to do; SQL that holds BAD is an error, SQL that holds CREATE gives a status."""

    def __init__(self, failure: str | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.failure = failure
        self.started = threading.Event()
        column, total = SimpleNamespace(name="visitor"), SimpleNamespace(name="total")
        self.catalog = SimpleNamespace(
            sources={"clicks": SimpleNamespace(columns=(column,))},
            streams={"per_user": SimpleNamespace(name="per_user", query=SimpleNamespace(outputs=(total,)))},
            sinks={},
            views={},
            tables={},
            late_names={"per_user$late": "per_user"},
        )

    def execute(self, sql: str) -> FakeResult:
        self.calls.append(("execute", sql))
        if "BAD" in sql:
            raise SqlError("what is BAD?", sql=sql, start=sql.index("BAD"), end=sql.index("BAD") + 3, help="write GOOD")
        return FakeResult(
            [{"status": f"{sql.split()[-1]} created"}] if "CREATE" in sql else [{"name": "clicks", "n": 1}]
        )

    def write(self, source: str, rows: list[Any]) -> None:
        self.calls.append(("write", source, rows))

    def advance_watermark(self, source: str, ts: Any) -> None:
        self.calls.append(("advance", source, ts))

    def tick(self) -> None:
        self.calls.append(("tick",))

    def start(self) -> None:
        self.calls.append(("start",))
        self.started.set()

    def has_ended(self) -> bool:
        return False

    def stop(self, graceful: bool = True) -> None:
        self.calls.append(("stop", graceful))

    def close(self) -> None:
        self.calls.append(("close",))

    def read(self, name: str) -> FakeResult:
        start = datetime(2026, 1, 31, 12, tzinfo=UTC)
        return FakeResult(
            [{"window_start": start, "user": "ann", "n": 2}, {"window_start": start, "user": None, "n": 10}]
        )

    def side_output(self, name: str, kind: str | None = None) -> FakeResult:
        return FakeResult([{"kind": kind or "late", "reason": "allowed_lateness_exceeded"}])

    def accounting(self, name: str) -> dict[str, int]:
        return {
            "rows_in": 60_000,
            "used": 58_912,
            "late": 1_012,
            "error": 76,
            "duplicate": 0,
            "evicted": 0,
            "rejected": 0,
            "shed": 0,
        }

    def progress(self) -> list[dict[str, Any]]:
        return [
            {
                "stream": "per_user",
                "rows_in": 60_000,
                "rows_per_second": 3000.4,
                "watermark": datetime(2026, 1, 31, 12, 0, 5, 250_000, tzinfo=UTC),
                "watermark_lag_seconds": 65.0,
                "open_windows": 12,
                "late": 1012,
                "errors": 76,
                "batches": 7,
                "state_bytes": 1000,
                "error": self.failure,
            }
        ]
