"""Figures about a running stream, defined once for metrics, progress and accounting."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Any

from eventide.kernels.contract import SIDE_KINDS, USED

if TYPE_CHECKING:
    from eventide.spark.running import RunningStream

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def accounting_of(stream: RunningStream) -> dict[str, int]:
    """Totals since the stream began: rows_in = used + late + duplicate + error + evicted + rejected + shed."""
    account = stream.router.results.latest()
    totals = account.totals if account else {}
    return {name: totals.get(name, 0) for name in ("rows_in", USED, *SIDE_KINDS)}


def metrics_of(stream: RunningStream) -> dict[str, Any]:
    """Accounting, events, gauges summed over shards, batches, and time per source. Times are milliseconds."""
    account = stream.router.results.latest()
    figures: dict[str, Any] = {**accounting_of(stream), **(account.totals if account else {})}
    for gauge, value in (account.gauges if account else {}).items():
        name = gauge.split("#")[0]
        if name.startswith("max_"):
            figures[name] = max(figures.get(name, value), value)
        elif name.startswith(("next_", "oldest")):
            figures[name] = min(figures.get(name, value), value)
        else:
            figures[name] = figures.get(name, 0) + value
    figures.update(stream.router.side.metrics())
    figures["late_dropped_count"] = figures["late"]  # the same figure, under the name that watermark stages use
    figures["rows_per_second"] = float(stream.progress().get("processedRowsPerSecond") or 0.0)
    figures.update(stream.load())
    figures["batches"] = account.batch + 1 if account else 0
    figures["watermark"] = _millis(stream.watermark())
    figures["watermark_lag_ms"] = lag_ms(stream.watermark())
    figures["sources"] = {
        name: {
            "watermark": _millis(seen.get("watermark")),
            "watermark_lag_ms": lag_ms(seen.get("watermark")),
            "max_timestamp_seen": _millis(seen.get("max_timestamp_seen")),
        }
        for name, seen in (account.sources if account else {}).items()
    }
    for name, lanes in (account.lanes if account else {}).items():
        figures["sources"].setdefault(name, {})["partitions"] = {
            lane: {"watermark": _millis(found.get("watermark")), "unread": found.get("unread", 0)}
            for lane, found in sorted(lanes.items())
        }
    tables = stream.table_figures()
    if tables:
        figures["tables"] = tables
    for name, admission in (account.admission if account else {}).items():
        figures["sources"].setdefault(name, {})["admission"] = dict(admission)
    return figures


def progress_of(stream: RunningStream) -> dict[str, Any]:
    """One line of a live display."""
    figures = metrics_of(stream)
    watermark = stream.watermark()
    failure = stream.failed()
    return {
        "stream": stream.name,
        "rows_in": figures["rows_in"],
        "rows_per_second": figures["rows_per_second"],
        "watermark": None if watermark is None else EPOCH + dt.timedelta(microseconds=watermark),
        "watermark_lag_seconds": None if watermark is None else time.time() - watermark / 1_000_000,
        "open_windows": figures.get("open_windows", 0),
        "late": figures["late"],
        "errors": figures["error"],
        "batches": figures["batches"],
        "state_bytes": figures.get("state_bytes", 0),
        "error": None if failure is None else failure.message,
    }


def lag_ms(watermark: int | None) -> int | None:
    """How far the watermark is behind the wall clock."""
    return None if watermark is None else time.time_ns() // 1_000_000 - watermark // 1000


def _millis(micros: int | None) -> int | None:
    return None if micros is None else micros // 1000
