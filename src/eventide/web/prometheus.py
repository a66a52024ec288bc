"""The figures of a snapshot as Prometheus reads them. Names by its conventions: base units, `_total` for counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

Snapshot = Mapping[str, Any]
# name: what it is, its labels beside `stream`. Counters end in _total.
METRICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "eventide_rows_in_total": ("Rows that came in.", ()),
    "eventide_rows_total": ("Rows by what became of them: used, late, duplicate, error, …", ("kind",)),
    "eventide_unaccounted_rows": ("Rows that came in less those accounted for; anything but 0 is a bug.", ()),
    "eventide_rows_out_total": ("Rows that left the stream.", ()),
    "eventide_source_rows_total": ("Rows that came from a source.", ("source",)),
    "eventide_windows_closed_total": ("Windows that have closed.", ()),
    "eventide_batches_total": ("Batches.", ()),
    "eventide_batch_phase_seconds_total": ("Time that batches took since the process began, by phase.", ("phase",)),
    "eventide_watermark_timestamp_seconds": ("The watermark.", ()),
    "eventide_watermark_lag_seconds": ("How far the watermark is behind the clock.", ()),
    "eventide_source_watermark_timestamp_seconds": ("The watermark of a source.", ("source",)),
    "eventide_source_newest_timestamp_seconds": ("The newest event time of a source.", ("source",)),
    "eventide_partition_watermark_timestamp_seconds": ("The watermark of a partition.", ("source", "partition")),
    "eventide_partition_unread_messages": ("Messages of a partition that are unread.", ("source", "partition")),
    "eventide_open_windows": ("Windows, sessions or rows that wait for time to pass.", ()),
    "eventide_state_bytes": ("Bytes of state.", ()),
    "eventide_up": ("Whether the stream runs.", ()),
    "eventide_failed": ("Whether the stream has failed.", ()),
    "eventide_load": ("How loaded the engine is: 1 is full.", ()),
    "eventide_shed_ratio": ("Share of the rows that is shed.", ()),
    "eventide_side_sinks_failing": ("Side sinks that do not take payloads.", ()),
    "eventide_files_passed_over": ("Files that are not taken because they may have been taken before.", ()),
}


def exposition(snapshot: Snapshot, accept: str = "") -> tuple[bytes, str]:
    """The text and its content type."""
    registry = CollectorRegistry()
    registry.register(_Figures(snapshot))
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Figures(Collector):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, (words, labels) in METRICS.items():
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            families[name] = family(name, words, labels=["stream", *labels])
        for stream in self._snapshot["streams"]:
            for name, labels, value in _figures(stream, self._snapshot["now"]):
                if value is not None:
                    families[name].add_metric([stream["name"], *labels], float(value))
        return families.values()


def _figures(stream: Mapping[str, Any], now: int) -> Iterable[tuple[str, tuple[str, ...], float | None]]:
    counts, took = stream["accounting"], stream["took"]
    parts = {kind: rows for kind, rows in counts.items() if kind != "rows_in"}
    mark, figures = stream["watermark"], stream["figures"]
    yield "eventide_rows_in_total", (), counts["rows_in"]
    yield from (("eventide_rows_total", (kind,), rows) for kind, rows in parts.items())
    yield "eventide_unaccounted_rows", (), counts["rows_in"] - sum(parts.values())
    yield "eventide_rows_out_total", (), stream["given"]
    yield "eventide_windows_closed_total", (), stream["closed"]
    yield "eventide_batches_total", (), stream["batch"] + 1
    yield from (("eventide_batch_phase_seconds_total", (phase,), seconds) for phase, seconds in took.items())
    yield "eventide_watermark_timestamp_seconds", (), _seconds(mark)
    yield "eventide_watermark_lag_seconds", (), None if mark is None else (now - mark) / 1000
    yield "eventide_open_windows", (), stream["open"]
    yield "eventide_state_bytes", (), stream["state_bytes"]
    yield "eventide_up", (), stream["state"] == "running"
    yield "eventide_failed", (), stream["state"] == "failed"
    yield "eventide_load", (), figures.get("load")
    yield "eventide_shed_ratio", (), figures.get("shed_share")
    yield "eventide_side_sinks_failing", (), figures.get("side_sinks_failing")
    yield "eventide_files_passed_over", (), figures.get("files_passed_over")
    for source in stream["sources"]:
        name = source["name"]
        yield "eventide_source_rows_total", (name,), source["rows"]
        yield "eventide_source_watermark_timestamp_seconds", (name,), _seconds(source["watermark"])
        yield "eventide_source_newest_timestamp_seconds", (name,), _seconds(source["newest"])
        for lane in source["partitions"]:
            place = (name, lane["name"])
            yield "eventide_partition_watermark_timestamp_seconds", place, _seconds(lane["watermark"])
            yield "eventide_partition_unread_messages", place, lane["unread"]


def _seconds(millis: int | None) -> float | None:
    return None if millis is None else millis / 1000
