"""The joins that are measured: the truth that engines are held to, checked row by row, and the kernels alone."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import data, runner
from benchmarks.bars import BARS
from benchmarks.engines.eventide import Eventide
from benchmarks.engines.limit import Limit, expected
from benchmarks.engines.native import with_rocksdb
from benchmarks.totals import Totals
from benchmarks.workloads import (
    JOINS,
    LAG_MS,
    LEFT,
    ONE_SHOT_JOINS,
    RIGHT,
    AsofJoin,
    Data,
    IntervalJoin,
    SessionJoin,
    TumbleJoin,
    Workload,
)

SMALL = Workload(
    "small", Data(keys=20, sides=(LEFT, RIGHT)), batch_rows=2_000, warm_batches=1, batches=2, single_rows=2
)
Row = dict[str, int]
INTERVAL, TUMBLE = IntervalJoin(14), TumbleJoin(14)


def rows_of(workload: Workload, folder: Path) -> tuple[list[Path], list[Row], list[Row]]:
    files = [path for paths in data.write(workload.data, data.plan(workload).spans, folder).values() for path in paths]
    sides: dict[str, list[Row]] = {LEFT: [], RIGHT: []}
    for path in files:
        sides[path.parent.name] += [json.loads(line) for line in path.read_text().splitlines()]
    return files, sides[LEFT], sides[RIGHT]


def meets(workload: Workload, one: Row, other: Row) -> bool:
    match workload.window:
        case IntervalJoin(within, _):
            return 0 <= other["ts"] - one["ts"] <= within
        case TumbleJoin(size, _):
            return one["ts"] // size == other["ts"] // size
    return False


def end(workload: Workload, row: Row) -> int:
    """When nothing can match a left row any more."""
    match workload.window:
        case TumbleJoin(size, _):
            return (row["ts"] // size + 1) * size
        case IntervalJoin(within, _):
            return row["ts"] + within
    return row["ts"]


def pairs_by_hand(workload: Workload, left: list[Row], right: list[Row]) -> Iterator[tuple[Row, Row | None]]:
    passed = min(max(row["ts"] for row in side) for side in (left, right)) - LAG_MS
    by_key: dict[int, list[Row]] = defaultdict(list)
    for row in right:
        by_key[row["k"]].append(row)
    for one in left:
        if isinstance(workload.window, AsofJoin):
            earlier = [other for other in by_key[one["k"]] if other["ts"] <= one["ts"]]
            if earlier and one["ts"] <= passed:
                yield one, max(earlier, key=lambda row: row["ts"])
            continue
        found = [other for other in by_key[one["k"]] if meets(workload, one, other)]
        yield from ((one, other) for other in found)
        if not found and getattr(workload.window, "outer", False) and end(workload, one) <= passed:
            yield one, None


@pytest.mark.parametrize(
    "window", [INTERVAL, replace(INTERVAL, outer=True), TUMBLE, replace(TUMBLE, outer=True), AsofJoin()]
)
def test_the_truth_is_what_plain_python_finds(window: Any, tmp_path: Path) -> None:
    workload = replace(SMALL, window=window)
    files, left, right = rows_of(workload, tmp_path)
    found = list(pairs_by_hand(workload, left, right))
    by_hand = Totals(
        len(found),
        sum(one["v"] for one, _ in found),
        sum(other["v"] for _, other in found if other is not None),
        sum(one["k"] for one, _ in found),
    )
    assert expected(workload, files) == by_hand
    assert len(left) == len(right) and 0.5 < by_hand.rows / len(left) < 2.5, "about one partner for each row"


@pytest.mark.slow
def test_a_session_join_has_all_pairs_of_sessions_that_overlap(tmp_path: Path) -> None:
    workload = replace(SMALL, window=SessionJoin(5))
    files, left, right = rows_of(workload, tmp_path)
    passed = min(max(row["ts"] for row in side) for side in (left, right)) - LAG_MS
    pairs = 0
    for one in sessions(left, 5):
        for other in sessions(right, 5):
            touches = one[0]["ts"] <= other[-1]["ts"] + 5 and other[0]["ts"] <= one[-1]["ts"] + 5
            if one[0]["k"] == other[0]["k"] and touches and max(one[-1]["ts"], other[-1]["ts"]) + 5 <= passed:
                pairs += len(one) * len(other)
    truth = expected(workload, files)
    assert truth is not None and truth.rows == pairs > 100


def sessions(rows: list[Row], gap: int) -> list[list[Row]]:
    found: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: (row["k"], row["ts"])):
        last = found[-1][-1] if found else None
        if last is not None and last["k"] == row["k"] and row["ts"] - last["ts"] <= gap:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def test_every_join_has_its_bars() -> None:
    judged = {bar.workload for bar in BARS}
    assert {workload.name for workload in (*JOINS, *ONE_SHOT_JOINS)} <= judged


KINDS = {
    "interval, left": replace(INTERVAL, outer=True),
    "interval, inner": INTERVAL,
    "tumbling, left": replace(TUMBLE, outer=True),
    "tumbling, inner": TUMBLE,
}


@pytest.mark.slow
@pytest.mark.parametrize("window", [pytest.param(window, id=name) for name, window in KINDS.items()])
def test_a_join_of_two_streams_gives_what_native_sparks_gives(window: Any, keep_spark: Any) -> None:
    tiny = replace(SMALL, window=window, batches=1, single_rows=1)
    results, problems = runner.compare_all(
        [tiny], [Eventide(keep_spark), with_rocksdb(keep_spark)], [Limit()], 1, print
    )
    assert problems == [] and len(results["small"]) == 3
