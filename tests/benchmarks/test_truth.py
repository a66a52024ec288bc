"""The generated files, and the truth that engines are held to, checked by plain Python over the same rows."""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import data
from benchmarks.engines.limit import Limit, expected
from benchmarks.totals import Totals
from benchmarks.workloads import LAG_MS, LATE_BY_MS, Data, Hop, Session, Tumble, Workload

SMALL = Workload("small", Data(keys=20), batch_rows=4_000, warm_batches=1, batches=2, single_rows=5)
SPREAD_OUT_MS = 30_000  # between batches, so that windows close


def files_of(workload: Workload, folder: Path) -> list[Path]:
    spans = [replace(span, shift_ms=span.shift_ms + span.batch * SPREAD_OUT_MS) for span in data.plan(workload).spans]
    return [path for paths in data.write(workload.data, spans, folder).values() for path in paths]


def batches_of(files: list[Path]) -> dict[int, list[dict[str, int]]]:
    found = defaultdict(list)
    for path in files:
        found[int(path.name.split("-")[0])] += [json.loads(line) for line in path.read_text().splitlines()]
    return found


def closed(groups: dict[tuple[int, int], list[int]], watermark: int) -> Totals:
    given = [values for (_, end), values in groups.items() if end <= watermark]
    return Totals(len(given), sum(map(len, given)), sum(map(sum, given)), sum(map(max, given)))


def by_hand(workload: Workload, size: int, slide: int, batches: dict[int, list[dict[str, int]]]) -> Totals:
    """Row by row: a row is used in each of its windows that was open before its batch."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    watermark, ids = 0, set()
    for rows in batches.values():
        for row in rows:
            if row.get("id") in ids:
                continue
            ids |= {row["id"]} if "id" in row else set()
            for start in range(row["ts"] // slide * slide, row["ts"] - size, -slide):
                if start + size > watermark:
                    groups[row["k"], start + size].append(row["v"])
        watermark = max(watermark, max(row["ts"] for row in rows) - LAG_MS)
    return closed(groups, watermark)


@pytest.mark.parametrize(
    "workload",
    [
        SMALL,
        replace(SMALL, window=Hop(6_000, 2_000)),
        replace(SMALL, data=Data(keys=20, late_one_in=100)),
        replace(SMALL, data=Data(keys=20, duplicate_one_in=100)),
    ],
    ids=["tumbling", "hopping", "late", "duplicates"],
)
def test_the_truth_equals_counting_row_by_row(workload: Workload, tmp_path: Path) -> None:
    files = files_of(workload, tmp_path)
    window = workload.window
    size, slide = (window.size_ms, window.slide_ms) if isinstance(window, Hop) else (Tumble().size_ms, Tumble().size_ms)
    found = expected(workload, files)
    assert found is not None
    assert found.rows > 0
    assert found == by_hand(workload, size, slide, batches_of(files))


def test_sessions_end_where_the_gap_begins(tmp_path: Path) -> None:
    workload = replace(SMALL, window=Session())
    files = files_of(workload, tmp_path)
    rows = sorted((row["k"], row["ts"], row["v"]) for batch in batches_of(files).values() for row in batch)
    groups: dict[tuple[int, int], list[int]] = {}
    open_key, last, values = None, 0, []
    for key, ts, value in [*rows, (None, 0, 0)]:
        if key != open_key or ts - last > Session().gap_ms:
            if open_key is not None:
                groups[open_key, last + Session().gap_ms] = values
            open_key, values = key, []
        values.append(value)
        last = ts
    assert expected(workload, files) == closed(groups, max(ts for _, ts, _ in rows) - LAG_MS)


def test_the_share_of_late_rows_is_right_and_they_begin_after_the_warm_up(tmp_path: Path) -> None:
    late = replace(SMALL, data=Data(keys=20, late_one_in=100))
    folders = [tmp_path / name for name in ("plain", "late")]
    for folder in folders:
        folder.mkdir()
    plain, shifted = (
        batches_of(files_of(workload, folder)) for workload, folder in zip((SMALL, late), folders, strict=True)
    )
    moved = {
        batch: [row["ts"] - other["ts"] for row, other in zip(rows, shifted[batch], strict=True) if row != other]
        for batch, rows in plain.items()
    }
    assert moved == {0: [], 1: [LATE_BY_MS] * 40, 2: [LATE_BY_MS] * 40, **{batch: [] for batch in range(3, len(plain))}}


def test_event_times_are_even_and_the_gap_is_odd(tmp_path: Path) -> None:
    assert all(row["ts"] % 2 == 0 for rows in batches_of(files_of(SMALL, tmp_path)).values() for row in rows)
    assert Session().gap_ms % 2 == 1


def test_files_of_a_batch_hold_its_rows_once_in_the_order_of_their_age(tmp_path: Path) -> None:
    files = files_of(replace(SMALL, data=Data(keys=20, duplicate_one_in=4000)), tmp_path)
    assert len({row["id"] for rows in batches_of(files).values() for row in rows}) == 3 * 4_000 + 6 - 3
    assert sorted(files, key=lambda path: path.stat().st_mtime) == sorted(files)


def test_all_windows_of_the_limit_hold_every_row(tmp_path: Path) -> None:
    wide = replace(SMALL, data=Data("parquet", keys=20, text_keys=True, extra_columns=27))
    files = files_of(wide, tmp_path)
    assert len(wide.data.columns) == 30
    assert Limit().compute(wide, files).totals.counted == 3 * 4_000 + 6


@pytest.mark.parametrize("nested", [False, True])
def test_clicks_are_counted_by_the_times_that_they_write(nested: bool, tmp_path: Path) -> None:
    workload = replace(SMALL, data=Data(keys=20, clicks=True, nested=nested))
    files = files_of(workload, tmp_path)
    batches = batches_of(files)
    for rows in batches.values():
        for row in rows:
            row["ts"] = round(dt.datetime.fromisoformat(str(row["ts"])).timestamp() * 1000)
    sizes = [len(line) for path in files for line in path.read_text().splitlines()]
    assert 150 < sum(sizes) / len(sizes) < 250
    assert expected(workload, files) == by_hand(workload, Tumble().size_ms, Tumble().size_ms, batches)
