"""How delays are counted: once for a window, from its end to the first of its results."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from benchmarks.latency import delays_of


def heard(at: float, *starts: float) -> tuple[float, pa.Table]:
    moments = [dt.datetime.fromtimestamp(start, dt.UTC) for start in starts]
    return at, pa.table({"window_start": pa.array(moments, pa.timestamp("us", "UTC"))})


def test_a_window_counts_once_and_only_if_it_ended_after_the_warm_up() -> None:
    found = delays_of([heard(12.5, 9, 10, 10), (12.6, None), heard(13.25, 10, 11), heard(14.0)], since=11)
    assert found == [1.5, 1.25]
