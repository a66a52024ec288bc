"""Columns that only a late row needs are decoded and sent for rows that may be late, and for no others."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from eventide.eventtime.registry import EpochUnit
from eventide.kernels.contract import PROBLEM, TS
from eventide.kernels.prefold import TimeBound
from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.expressions import Column
from eventide.tasks.fused_scan import FusedScan, Resolution
from eventide.tasks.json_lines import JsonLines
from eventide.tasks.packing import Packing, ShardBy, from_blob

MS = 1000
COLUMNS = (("k", "string"), ("ts", "bigint"), ("note", "string"), ("tags", "array<string>"))
PACKED = (
    ("__k0", Column("k", "string")),
    ("__o0", Column("note", "string")),
    ("__o1", Column("tags", "array<string>")),
)


def scanned(path: Path, bound: TimeBound | None, horizon: int = 0) -> list[pa.Table]:
    packing = Packing(0, (5,), ShardBy(("__k0",)), 0, late_only=frozenset({"__o0", "__o1"}), horizon=horizon)
    reader = JsonLines(COLUMNS, None, frozenset({"k", "ts"}))
    scan = FusedScan(reader, Resolution("ts", EpochUnit(1000, 1), 10**6), None, PACKED, packing)
    part = FileRange(str(path), 0, 0, 0, path.stat().st_size)
    return [from_blob(row["blob"]) for batch in scan.read([part], 10**12, 0, bound) for row in batch.to_pylist()]


def write(path: Path, count: int) -> None:
    """One millisecond apart; the last one is too far in the future."""
    times = [*range(count - 1), 10**10]
    rows = [{"k": "a", "ts": ts, "note": f"n{ts}", "tags": ["x"] * (ts % 3)} for ts in times]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("count", [20, 500], ids=["by the parser", "by compiled code"])
@pytest.mark.parametrize(
    ("bound", "horizon", "behind"),
    [
        (TimeBound(None, None), 0, 0),
        (TimeBound(4 * MS, None), 0, 5),
        (TimeBound(4 * MS, 6 * MS), 0, 7),
        (TimeBound(4 * MS, 6 * MS), 5 * MS, 12),
    ],
)
def test_only_rows_that_may_be_late_have_them(
    tmp_path: Path, count: int, bound: TimeBound, horizon: int, behind: int
) -> None:
    path = tmp_path / "a.json"
    write(path, count)
    tables = scanned(path, bound, horizon)
    whole = pa.concat_tables([table for table in tables if "__o0" in table.column_names])
    sparing = pa.concat_tables([table for table in tables if "__o0" not in table.column_names])
    assert sorted(whole["__o0"].to_pylist()) == sorted([f"n{ts}" for ts in range(behind)] + ["n10000000000"])
    assert whole.num_rows + sparing.num_rows == count
    assert sorted(sparing[TS].to_pylist()) == [ts * MS for ts in range(behind, count - 1)]
    by_note = dict(zip(whole["__o0"].to_pylist(), whole["__o1"].to_pylist(), strict=True))
    assert all(by_note[f"n{ts}"] == ["x"] * (ts % 3) for ts in range(behind))
    assert [table[PROBLEM].to_pylist().count(None) for table in tables if PROBLEM in table.column_names] == [behind]


def test_a_single_late_row_is_found_whatever_the_length_of_its_texts(tmp_path: Path) -> None:
    """In the line of one of them a quote stands where the text of the first line ends: `/product` and `/home", "`."""
    path = tmp_path / "a.json"
    lengths = range(16)
    for late in lengths:
        rows = [{"k": "/product", "ts": 1000 + n, "note": "x", "tags": []} for n in range(100)]
        rows[20] |= {"k": "longer than the others"}
        rows[late + 1] |= {"k": "k" * late, "ts": 1}
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        tables = scanned(path, TimeBound(4 * MS, None))
        (whole,) = [table for table in tables if "__o0" in table.column_names]
        assert whole["__k0"].to_pylist() == ["k" * late] and whole["__o0"].to_pylist() == ["x"]


def test_without_a_bound_all_rows_have_them(tmp_path: Path) -> None:
    write(tmp_path / "a.json", 500)
    (table,) = scanned(tmp_path / "a.json", None)
    assert table.num_rows == 500 and table["__o0"].null_count == 0
