"""Files of a source with limits: lines of several layouts, some left to Spark, cut among tasks anyhow."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from eventide.admission.controller import Admit, StreamAdmissionController
from eventide.admission.gate import Gate
from eventide.admission.options import AdmissionSpec
from eventide.admission.sla import BucketSpec, StreamSlaConfig
from eventide.eventtime.registry import EpochUnit
from eventide.eventtime.resolution import DECLARED
from eventide.kernels.contract import DETAIL, SEQ, TS, InputSpec
from eventide.kernels.side_rows import SideRows
from eventide.kernels.state.memory_store import MemoryStore
from eventide.tasks import fused_scan, json_lines, line_blocks
from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.expressions import Column
from eventide.tasks.fused_scan import ROW, FusedScan, Resolution
from eventide.tasks.json_lines import JsonLines
from eventide.tasks.packing import ARRIVED, HOW, KEPT, SURVEY, Packing, ShardBy, from_blob, survey_of
from eventide.tasks.surveying import Surveying

NOW = 1_000_000_000
SECOND = 1_000_000
LAYOUTS = (
    '{{"id": {0}, "ts": {1}}}',
    '{{"ts": {1}, "id": {0}}}',
    '{{"id": {0}, "more": "text", "ts": {1}}}',
    "[{0}, {1}]",  # which only Spark may judge
)


@dataclass(frozen=True)
class File:
    """`lines` are those of each row: its layout, and how long before the file's time it happened."""

    at: int
    lines: list[tuple[int, int]]
    cuts: list[float]  # where a task's share ends


files = st.builds(
    File,
    st.sampled_from([NOW, NOW, NOW + 1, NOW + SECOND]),
    st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2, 3]), st.sampled_from([0, SECOND])), min_size=1, max_size=30),
    st.lists(st.floats(0, 1), max_size=3),
)
configs = st.builds(
    StreamSlaConfig,
    st.none(),
    st.none() | st.builds(BucketSpec, st.just(Fraction(2)), st.integers(1, 40).map(Fraction)),
    st.none() | st.just(SECOND // 2),
    st.none() | st.just(SECOND // 2),
).filter(lambda config: config.limits_anything)


def scan_of(config: StreamSlaConfig, shards: int) -> FusedScan:
    surveying = Surveying(AdmissionSpec(config), False, by_place=True)
    packing = Packing(0, tuple(range(shards)), ShardBy(("__k0",)), 0, surveying=surveying)
    reader = JsonLines((("id", "bigint"), ("ts", "bigint")))
    packed = (("__k0", Column("id", "bigint")), ("__o0", Column("id", "bigint")))
    return FusedScan(reader, Resolution("ts", EpochUnit(1, 1), 1 << 60), None, packed, packing, numbered=True)


def written(path: Path, file: File, first: int) -> list[str]:
    """The lines, each with the number of its row from `first` on."""
    lines = [LAYOUTS[layout].format(n, file.at - lag) + "\n" for n, (layout, lag) in enumerate(file.lines, first)]
    path.write_text("".join(lines))
    return lines


def ranges(path: Path, number: int, file: File) -> list[FileRange]:
    size = path.stat().st_size
    cuts = sorted({0, size, *(int(cut * size) for cut in file.cuts)})
    return [FileRange(str(path), number, file.at, begin, end - begin) for begin, end in itertools.pairwise(cuts)]


def decoded_by_spark(batch: dict[str, list[Any]], at: int) -> pa.Table:
    """The lines that the scan has left, as the rows that come to the packer behind it."""
    left = [n for n, line in enumerate(batch[ROW]) if line is not None]
    values = [json.loads(batch[ROW][n]) for n in left]
    ids, times = ([value[n] for value in values] for n in (0, 1))
    return pa.table(
        {
            SEQ: pa.array([batch["seq"][n] for n in left], pa.int64()),
            TS: pa.array(times, pa.int64()),
            HOW: pa.array([DECLARED] * len(left), pa.int8()),
            DETAIL: pa.nulls(len(left), pa.string()),
            ARRIVED: pa.array([at] * len(left), pa.int64()),
            KEPT: pa.array([True] * len(left), pa.bool_()),
            "__k0": pa.array(ids, pa.int64()),
            "__o0": pa.array(ids, pa.int64()),
        }
    )


def packed_by(scan: FusedScan, task: int, part: FileRange) -> list[dict[str, Any]]:
    entries, behind = [], 1 << 39
    for batch in scan.read([part], NOW, task):
        if batch.column(ROW).null_count == batch.num_rows:
            entries += batch.to_pylist()
        else:
            rows = decoded_by_spark(batch.to_pydict(), part.modified // 1000 * 1000)
            entries += scan.packing.pack(rows, task, place=behind)
            behind += rows.num_rows
    return entries


def admitted_by(gate: Gate, entries: list[dict[str, Any]], shard: int) -> list[int]:
    slices, rows = {}, []
    for entry in entries:
        if entry["shard"] == shard:
            table = from_blob(entry["blob"])
            if entry.get("control") == SURVEY:
                slices[survey_of(table) or 0] = table
            else:
                rows.append((survey_of(table), table))
    found = gate.let_in({0: slices}, {0: rows}, MemoryStore())
    return [id for table in found.rows[0] for id in table["__o0"].to_pylist()]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(configs, st.lists(files, min_size=1, max_size=3), st.sampled_from([1, 2, 5]), st.integers(60, 2000))
def test_lines_are_admitted_in_their_order_whoever_reads_and_decodes_them(
    tmp_path_factory: pytest.TempPathFactory, config: StreamSlaConfig, given_files: list[File], shards: int, block: int
) -> None:
    folder, source = tmp_path_factory.mktemp("files"), StreamAdmissionController(config)
    scan, gate = scan_of(config, shards), Gate({0: AdmissionSpec(config)}, SideRows((InputSpec("s", (), ()),)))
    rows: list[tuple[int, int, int]] = []  # arrival, number, event time
    entries: list[dict[str, Any]] = []
    task = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "_BLOCK", block)
        patch.setattr(json_lines, "_LITTLE", 1)
        patch.setattr(fused_scan, "_MOST_ROWS", 7)
        for number, file in enumerate(given_files):
            path, at = folder / f"{number}.json", file.at // 1000 * 1000
            written(path, file, len(rows))
            rows += [(at, len(rows) + n, file.at - lag) for n, (_, lag) in enumerate(file.lines)]
            for part in ranges(path, number, file):
                entries += packed_by(scan, task, part)
                task += 1
    admitted = [n for at, n, time in sorted(rows) if isinstance(source.try_admit(time, at), Admit)]
    assert sorted(id for shard in range(shards) for id in admitted_by(gate, entries, shard)) == sorted(admitted)


@pytest.mark.parametrize("layouts", [(0,), (0, 1)])
def test_a_survey_of_lines_has_a_slice_for_each_block_and_not_for_each_row(
    tmp_path: Path, layouts: tuple[int, ...]
) -> None:
    file = File(NOW, [(layouts[n % len(layouts)], 0) for n in range(2000)], [])
    written(tmp_path / "rows.json", file, 0)
    scan = scan_of(StreamSlaConfig(bucket=BucketSpec(Fraction(1), Fraction(1500))), 2)
    entries = packed_by(scan, 0, ranges(tmp_path / "rows.json", 0, file)[0])
    surveys = [from_blob(entry["blob"]) for entry in entries if entry.get("control") == SURVEY]
    assert [table["takers"].to_pylist() for table in surveys] == [[2000], [2000]]


def test_a_line_left_to_spark_ends_a_slice(tmp_path: Path) -> None:
    file = File(NOW, [(3 if n in (500, 501, 1500) else 0, 0) for n in range(2000)], [])
    written(tmp_path / "rows.json", file, 0)
    scan = scan_of(StreamSlaConfig(bucket=BucketSpec(Fraction(1), Fraction(1500))), 1)
    entries = packed_by(scan, 0, ranges(tmp_path / "rows.json", 0, file)[0])
    surveys = [from_blob(entry["blob"])["takers"].to_pylist() for entry in entries if entry.get("control") == SURVEY]
    assert sorted(surveys, key=len) == [[1, 1, 1], [500, 998, 499]]


def test_lines_of_two_layouts_take_turns_though_a_task_packs_one_layout_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "_LITTLE", 1)
    monkeypatch.setattr(fused_scan, "_MOST_ROWS", 7)
    file = File(NOW, [(n % 2, 0) for n in range(40)], [])
    written(tmp_path / "rows.json", file, 0)
    config = StreamSlaConfig(bucket=BucketSpec(Fraction(1), Fraction(15)))
    entries = packed_by(scan_of(config, 1), 0, ranges(tmp_path / "rows.json", 0, file)[0])
    gate = Gate({0: AdmissionSpec(config)}, SideRows((InputSpec("s", (), ()),)))
    assert sorted(admitted_by(gate, entries, 0)) == list(range(15))
