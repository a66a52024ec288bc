"""Flink beside the others, without Flink: the SQL it is given, the files it reads, and what is made of its answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import runner
from benchmarks.engines import flink, flink_sql
from benchmarks.engines.flink import Flink, FlinkCannot, flinks
from benchmarks.figures import CPU, SPEED, Sample
from benchmarks.flink_jobs import FLINK_ROCKSDB, Outcome
from benchmarks.runner import Material, Say, WrongResult
from benchmarks.totals import Totals
from benchmarks.workloads import (
    CLICKS,
    GENERAL_ROAD,
    JOINS,
    LEFT,
    OTHERS,
    RIGHT,
    SLIDING,
    TUMBLING,
    Data,
    Hop,
    IntervalJoin,
    Session,
    TumbleJoin,
    Workload,
)

SMALL = Workload("small", Data(keys=20), batch_rows=4_000, warm_batches=1, batches=2, single_rows=1)
LATE = replace(SMALL, data=Data(keys=20, late_one_in=100))
SIDES = replace(SMALL, data=Data(keys=20, sides=(LEFT, RIGHT)), window=IntervalJoin(14))


def material_of(workload: Workload, folder: Path) -> Material:
    (folder / "made").mkdir()
    return runner.prepare(workload, folder / "made")


def measured_files(material: Material) -> list[Path]:
    return material.of(material.plan.measured)


def times(path: Path) -> list[int]:
    return [json.loads(line)["ts"] for line in path.read_text().splitlines()]


def test_flink_takes_part_where_its_sql_and_its_formats_reach() -> None:
    able = [workload for workload in (*CLICKS, *TUMBLING, *OTHERS, *JOINS) if flink_sql.can_express(workload)]
    assert {workload.data.format for workload in able} == {"json"}
    assert {*CLICKS, *OTHERS, *JOINS} <= set(able)
    assert not any(flink_sql.can_express(workload) for workload in (*GENERAL_ROAD, *SLIDING))


def test_times_are_computed_from_milliseconds_or_read_as_they_are() -> None:
    [integers], [clicks] = (flink_sql.sources_sql(data, Path("/in")) for data in (Data(), CLICKS[2].data))
    assert "`t` AS TO_TIMESTAMP_LTZ(`ts`, 3), WATERMARK FOR `t` AS `t` - INTERVAL '5.000' SECOND" in integers
    assert "`ts` TIMESTAMP_LTZ(3)" in clicks
    assert "`t` AS `ts`" in clicks
    assert "`visitor` ROW<name STRING, country STRING, visits BIGINT>, " in clicks
    assert "`tags` ARRAY<STRING>" in clicks


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (Hop(60_000, 1_000), "HOP(TABLE s, DESCRIPTOR(`t`), INTERVAL '1.000' SECOND, INTERVAL '60.000' SECOND)"),
        (Session(2_001), "SESSION(TABLE s PARTITION BY `k`, DESCRIPTOR(`t`), INTERVAL '2.001' SECOND)"),
    ],
)
def test_windows_are_table_functions(window: Hop | Session, words: str) -> None:
    assert words in flink_sql.query_sql(replace(SMALL, window=window))


def test_duplicates_go_before_the_window() -> None:
    workload = replace(SMALL, data=Data(duplicate_one_in=100))
    table, view = flink_sql.sources_sql(workload.data, Path("/in"), "_start")
    assert table.startswith("CREATE TABLE s_start ")
    assert "ROW_NUMBER() OVER (PARTITION BY `id` ORDER BY `seen`)" in view
    assert "TUMBLE(TABLE first_s_start, " in flink_sql.query_sql(workload, "_start")


def test_joins_name_both_sides() -> None:
    [left, right] = flink_sql.sources_sql(SIDES.data, Path("/in"))
    assert f"/in/{LEFT}'" in left
    assert f"/in/{RIGHT}'" in right
    assert "BETWEEN l.`t` AND l.`t` + INTERVAL '0.014' SECOND" in flink_sql.query_sql(SIDES)
    outer = flink_sql.query_sql(replace(SIDES, window=TumbleJoin(14, outer=True)))
    assert " l LEFT JOIN (" in outer
    assert "l.window_start = r.window_start" in outer


def test_each_reader_gets_its_rows_in_order(tmp_path: Path) -> None:
    """Rows are up to two seconds out of order, and half of them are in each file."""
    material = material_of(SMALL, tmp_path)
    flink.in_two(measured_files(material), tmp_path / "full")
    one, other = sorted((tmp_path / "full").iterdir())
    assert len(times(one)) == len(times(other)) == SMALL.rows / 2
    given = [moment for path in measured_files(material)[::2] for moment in times(path)]
    assert times(one) == given
    flink.first_rows(tmp_path / "full", tmp_path / "start")
    assert [times(path) for path in sorted((tmp_path / "start").iterdir())] == [times(one)[:1], times(other)[:1]]


def test_the_sides_of_a_join_stay_apart(tmp_path: Path) -> None:
    flink.in_two(measured_files(material_of(SIDES, tmp_path)), tmp_path / "full")
    assert sorted(str(path.relative_to(tmp_path / "full")) for path in (tmp_path / "full").rglob("*.json")) == [
        f"{side}/{number}.json" for side in (LEFT, RIGHT) for number in (0, 1)
    ]


def test_a_run_warms_up_and_every_turn_has_a_job_that_only_starts(tmp_path: Path) -> None:
    before, jobs = flink.tasks(SMALL, tmp_path, 2)
    assert [job.name for job in jobs] == ["full"] * 5 + ["start", "full", "start", "full", "start"]
    sinks = [statement.split()[2] for statement in before if "'csv'" in statement]
    assert [job.statement.split()[2] for job in jobs] == [
        *(f"o_{number}" for number in range(5)),
        *("o_start", "o_5", "o_start", "o_6", "o_start"),
    ]
    assert sinks == ["o_start", *(f"o_{number}" for number in range(7))]


def test_what_a_job_takes_to_start_does_not_count() -> None:
    outcomes = [Outcome("start", seconds, cpu) for seconds, cpu in ((0.5, 1.0), (9.0, 9.0), (0.4, 0.8))]
    start = flink.start_of(outcomes)
    found = flink.sample(SMALL, Outcome("full", 2.5, 5.0), start)
    assert found == {SPEED.key: 8_000 / 2.0, CPU.key: pytest.approx(4.0 / 8_000 * 1e6)}
    with pytest.raises(FlinkCannot, match="8,000 rows"):
        flink.sample(SMALL, Outcome("full", 0.4, 5.0), start)


def test_late_rows_are_left_aside_in_the_truth_and_in_what_flink_wrote(tmp_path: Path) -> None:
    material = material_of(LATE, tmp_path)
    files, since = measured_files(material), flink.first_ms(material)
    right = flink.truth(material, files, since)
    assert right.counted == LATE.rows - LATE.rows // 100
    assert material.all_windows is not None
    assert material.all_windows.counted == LATE.rows
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "part-1").write_text('"2001-09-09 01:45:50",7,3,4,5\n"2001-09-09 01:46:50",7,30,40,50\n')
    (tmp_path / "o" / "part-2").write_text('"2001-09-09 01:47:00",8,1,2,2\n')
    assert flink.written(LATE, tmp_path / "o", since) == Totals(2, 31, 42, 52)


def test_pairs_without_a_partner_count_as_rows(tmp_path: Path) -> None:
    (tmp_path / "part-1").write_text("1,2,3\n4,,5\n")
    assert flink.written(SIDES, tmp_path, 0) == Totals(2, 5, 2, 8)
    assert flink.written(SIDES, tmp_path / "nowhere", 0) == Totals()


def test_a_wrong_answer_is_an_error() -> None:
    flink.check("Flink", SMALL, Totals(1, 2, 3, 4), Totals(1, 2, 3, 4))
    with pytest.raises(WrongResult, match="small: Flink returned"):
        flink.check("Flink", SMALL, Totals(1, 2, 3, 4), Totals(1, 2, 3, 5))


def test_without_an_interpreter_there_is_no_flink() -> None:
    assert flinks(None) == []
    assert [engine.name for engine in flinks("/some/python")] == ["Flink, RocksDB", "Flink, memory"]


class Broken(Flink):
    def turns(self, material: Material, repeat: int, say: Say) -> list[Sample]:
        raise WrongResult("it lies")


def test_what_fails_apart_takes_nothing_from_the_others() -> None:
    results, problems = runner.compare_all([SMALL], [], [], 1, print, [Broken("python", FLINK_ROCKSDB)])
    assert results == {"small": {}}
    assert problems == ["small, Flink, RocksDB: WrongResult: it lies"]
