"""What tasks write by themselves, and how the driver makes a batch of it. Without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from eventide.connectors.files.write import FilesSink, FileTarget, StagedFile
from eventide.errors import StorageError
from eventide.kernels.contract import SIDE_OUTPUT_SCHEMA
from eventide.plan.side_output import METRICS_ONLY, Route
from eventide.spark.batch_output import Given, arranged, divided, opened, stored
from eventide.spark.task_output import MOST_BYTES, WRITTEN, Assignment, OutputForm, TaskOutput, Written
from eventide.storage.payloads import PAYLOAD_SCHEMA
from eventide.storage.results import OUTPUT_OP, OUTPUT_TIME, Account, Results, read_batch
from eventide.storage.stores import Store
from eventide.tasks.select_list import RANK

FORM = OutputForm(pa.schema([("v", pa.int64())]), (pa.schema([("v", pa.int64())]),))
MANY = MOST_BYTES // 8


def finished(values: list[int], rank: int | None = None) -> pa.Table:
    """Rows as they leave the operator."""
    ranks = pa.array([rank] * len(values), pa.int32())
    return pa.table([pa.array(values, pa.int64()), pa.array(values, pa.int64()), ranks], names=["v", OUTPUT_TIME, RANK])


def late(values: list[int], shard: int | None = 0, kind: str = "late") -> pa.Table:
    row = dict.fromkeys(SIDE_OUTPUT_SCHEMA.names)
    events = [{**row, "kind": kind, "shard": shard, "original_event": f'{{"v": {v}}}'} for v in values]
    return pa.Table.from_pylist(events, SIDE_OUTPUT_SCHEMA)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    (tmp_path / "plan.json").write_text("{}")
    return Results(tmp_path / "results")


def assignment(results: Results, batch: int = 0, **told: object) -> Assignment:
    return Assignment(batch, str(results.folder), **told)  # type: ignore[arg-type]


def given(*tasks: TaskOutput) -> Given:
    tagged = [each for task in tasks for each in task.end()]
    return opened(pa.table({"tag": [tag for tag, _ in tagged], "blob": [blob for _, blob in tagged]}))


def task(to: Assignment | None, *main: pa.Table, side: pa.Table | None = None, form: OutputForm = FORM) -> TaskOutput:
    output = TaskOutput(form, 0, lambda: None if to is None else to.reachable())
    for table in main:
        output.add_main(table)
    if side is not None:
        output.add_side(side)
    return output


def commit(results: Results, batch: int, found: Given) -> None:
    own, written = divided(found.side)
    assert own.num_rows == 0
    results.commit(stored(arranged(FORM, found.main)), stored(written), Account(batch, {}, {}))


def values(results: Results) -> list[int]:
    return results.read("main", FORM.outputs)["v"].to_pylist()  # type: ignore[no-any-return]


def test_few_rows_travel_and_are_one_file_and_many_are_written_by_the_task(results: Results) -> None:
    commit(results, 0, given(task(assignment(results), finished([1, 2])), task(assignment(results), finished([3]))))
    many = given(task(assignment(results, 1), finished(list(range(MANY)))))
    assert [type(piece) for piece in many.main] == [Written]
    commit(results, 1, many)
    assert values(results) == [1, 2, 3, *range(MANY)]
    assert [path.name for path in results.folder.glob("*.arrow")] == ["000000000000.main.arrow"]
    assert [table.num_rows for table in read_batch(results.folder, 1, "main")] == [MANY]
    assert Results(results.folder).bytes(1, "main") == results.bytes(1, "main") > 0


def test_rows_that_travel_and_rows_that_are_written_keep_their_order(results: Results) -> None:
    to = assignment(results)
    first, second = task(to, finished([-2, -1])), task(to, *(finished(list(range(n, n + 50_000))) for n in (0, 50_000)))
    commit(results, 0, given(first, second, task(to, finished([100_000]))))
    assert values(results) == list(range(-2, 100_001))
    assert results.account(0).files is not None and len(results.account(0).files["main"]) == 3


def test_what_a_change_log_takes_back_comes_first_whoever_writes_it(results: Results) -> None:
    to = assignment(results)
    mixed = pa.concat_tables([finished(list(range(MANY)), 1), finished([-5], -1)])
    commit(results, 0, given(task(to, finished([1, 2], 1), finished([-1], -1)), task(to, mixed)))
    rows = pa.concat_tables(read_batch(results.folder, 0, "main"))
    assert rows[OUTPUT_OP].to_pylist() == [-1, -1] + [1] * (MANY + 2)
    assert rows["v"].to_pylist()[:5] == [-1, -5, 1, 2, 0]


def test_without_the_drivers_disk_or_its_word_a_task_sends_everything(results: Results, tmp_path: Path) -> None:
    elsewhere = Assignment(0, str(tmp_path / "elsewhere" / "results"))
    for to in (None, elsewhere):
        found = given(task(to, finished(list(range(MANY)))))
        assert [piece.num_rows for piece in found.main] == [MANY]
    commit(results, 0, found)
    assert values(results) == list(range(MANY))


def test_a_part_that_the_driver_does_not_see_is_refused(results: Results) -> None:
    found = given(task(assignment(results), finished(list(range(MANY)))))
    next(results.folder.glob("*.parts/*")).unlink()
    with pytest.raises(StorageError, match="which a task has written, is not there"):
        commit(results, 0, found)
    assert not results.has(0)


def test_what_failed_attempts_have_left_is_deleted(results: Results, tmp_path: Path) -> None:
    sink = FilesSink(str(tmp_path / "out"), "parquet", "q")
    to = assignment(results, sinks=(sink.target,))
    given(task(to, finished(list(range(MANY)))))  # of which nobody hears
    found = given(task(to, finished(list(range(MANY)))))
    assert len(list(results.folder.glob("*.parts/*"))) == len(list(sink.target.staging.iterdir())) == 2
    (written,) = [piece for piece in found.main if isinstance(piece, Written)]
    sink.commit(0, [written.staged[sink.target.key] or ""])
    commit(results, 0, found)
    assert len(list(results.folder.glob("*.parts/*"))) == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part-q-0000000000.parquet"]
    given(task(assignment(results, 1), finished(list(range(MANY)))))  # a crash
    Results(results.folder).tidy()
    assert [path.name for path in results.folder.glob("*.parts")] == ["000000000000.parts"]
    assert values(Results(results.folder)) == list(range(MANY))


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_files_of_tasks_have_what_the_driver_would_have_written(tmp_path: Path, format: str) -> None:
    rows = pa.table({"a": [1, None, 3], "t": ["x", "y,\n", None]})
    whole, staged = FilesSink(str(tmp_path / "whole"), format, "q"), FilesSink(str(tmp_path / "staged"), format, "q")
    whole.commit(7, [rows])
    file = StagedFile(staged.target, 7, 0, 0)
    file.write(rows.slice(0, 2))
    file.write(rows.slice(2))
    staged.commit(7, [file.close()])
    (one,), (other,) = (list((tmp_path / name).iterdir()) for name in ("whole", "staged"))
    assert one.name == other.name == f"part-q-0000000007.{format}"
    if format == "parquet":
        assert pa.parquet.read_table(one) == pa.parquet.read_table(other)
    else:
        assert one.read_bytes() == other.read_bytes()


def test_a_batch_that_comes_again_in_other_pieces_replaces_its_files(tmp_path: Path) -> None:
    rows = pa.table({"a": [1, 2]})
    FilesSink(str(tmp_path), "json", "q").commit(3, [rows, rows, rows])
    FilesSink(str(tmp_path), "json", "other").commit(3, [rows])
    again = FilesSink(str(tmp_path), "json", "q")
    again.commit(3, [rows, rows])
    again.commit(4, [rows])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "part-other-0000000003.json",
        "part-q-0000000003-00000.json",
        "part-q-0000000003-00001.json",
        "part-q-0000000004.json",
    ]


def test_payloads_are_written_as_they_are_kept_and_late_rows_for_their_sink(results: Results, tmp_path: Path) -> None:
    form = OutputForm(FORM.outputs, FORM.originals, {"error": Route(METRICS_ONLY)})
    sink = FilesSink(str(tmp_path / "late"), "json", "q")
    side = pa.concat_tables([late(list(range(MANY))), late([7], None, "error")])
    found = given(task(assignment(results, late_sinks=(sink.target,)), side=side, form=form))
    (written,) = [piece for piece in found.side if isinstance(piece, Written)]
    assert (written.failed, written.kind, written.part is not None and written.part.rows) == (1, "side", MANY)
    sink.commit(0, [written.staged[sink.target.key] or ""])
    commit(results, 0, found)
    kept = results.read("side", PAYLOAD_SCHEMA)
    assert set(kept["kind"].to_pylist()) == {"late"} and kept.num_rows == MANY
    lines = (tmp_path / "late" / "part-q-0000000000.json").read_text().splitlines()
    assert lines[:2] == ['{"v": 0}', '{"v": 1}'] and len(lines) == MANY


def test_payloads_that_the_driver_needs_travel(results: Results) -> None:
    found = given(task(assignment(results, side=False), side=late(list(range(MANY)))))
    assert [piece.num_rows for piece in found.side] == [MANY]


def test_what_a_batch_is_told_survives_the_way_to_its_tasks() -> None:
    told = Assignment(4, "/r", (FileTarget("/a", "json", "q", ("k",)),), (FileTarget("/b", "csv", "q"),), side=False)
    assert Assignment.from_json(told.to_json(), None) == told
    assert WRITTEN not in ("main", "side", "account")


def test_credentials_of_a_store_are_not_in_what_spark_shows_of_a_batch() -> None:
    store = Store("s3a", "bucket", (("secret_key", "hush"),))
    told = Assignment(4, "s3a://bucket/app/results", store=store)
    assert "hush" not in told.to_json() and "hush" not in repr(told)
    found = Assignment.from_json(told.to_json(), store)
    assert found == told and str(found.folder) == "s3a://bucket/app/results"


def test_results_of_release_0_2_are_read(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.write(pa.table({"v": [1, 2]}), pa.table({}), Account(0, {}, {"used": 2}))
    text = (tmp_path / "000000000000.json").read_text()
    old = text[: text.index(',\n "files"')] + "\n}"
    (tmp_path / "000000000000.json").write_text(old)
    assert values(Results(tmp_path)) == [1, 2]
    assert Results(tmp_path).has_rows(0, "main") and not Results(tmp_path).has_rows(0, "side")
