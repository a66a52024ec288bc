"""Figures about a running stream, defined once for metrics, progress and accounting."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eventide.admission.gate import FIGURES
from eventide.admission.lags import is_lag, percentiles
from eventide.kernels.contract import SIDE_KINDS, USED

if TYPE_CHECKING:
    from eventide.admission.options import AdmissionSpec
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
        figures["sources"].setdefault(name, {})["admission"] = _admission(stream.limits.get(name), admission)
    figures["classes"] = _by_class(stream.limits, account.admission if account else {})
    return figures


def _admission(limits: AdmissionSpec | None, figures: Mapping[str, float]) -> dict[str, Any]:
    """What became of a source's rows, and how late those were that were admitted of late."""
    named = {} if limits is None or limits.sla.sla_class is None else {"class": limits.sla.sla_class.value}
    counted = {name: value for name, value in figures.items() if not is_lag(name)}
    return {**named, **counted, **percentiles(figures)}


def _by_class(
    limits: Mapping[str, AdmissionSpec], admission: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Rows admitted, rejected by reason and shed, of all sources of a class together."""
    found: dict[str, Counter[str]] = {}
    for name, figures in admission.items():
        sla_class = limits[name].sla.sla_class if name in limits else None
        if sla_class is not None:
            counts = {kind: figures.get(kind, 0) for kind in FIGURES}
            found.setdefault(sla_class.value, Counter()).update(counts)
    return {name: dict(counts) for name, counts in found.items()}


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
        "rejected": figures["rejected"],
        "shed": figures["shed"],
        "load": figures.get("load"),
        "shed_share": figures.get("shed_share", 0.0),
        "admission": {
            name: source["admission"] for name, source in figures["sources"].items() if "admission" in source
        },
        "batches": figures["batches"],
        "state_bytes": figures.get("state_bytes", 0),
        "error": None if failure is None else failure.message,
    }


def lag_ms(watermark: int | None) -> int | None:
    """How far the watermark is behind the wall clock."""
    return None if watermark is None else time.time_ns() // 1_000_000 - watermark // 1000


def _millis(micros: int | None) -> int | None:
    return None if micros is None else micros // 1000
