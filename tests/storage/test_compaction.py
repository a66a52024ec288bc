"""What a stream has stored stays small, and whoever reads it finds what it should."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from eventide.storage.compaction import TOGETHER, Keep, compact
from eventide.storage.inbox import KEPT_MANIFESTS, Entry, Inbox
from eventide.storage.parts import PartWriter
from eventide.storage.paths import AnyPath
from eventide.storage.results import Account, Results, read_batch
from eventide.storage.spool import Spool

SCHEMA = pa.schema([("v", pa.int64())])
ALL, NONE = Keep(), Keep(0)
FOR_EVER = {"main": ALL, "side": ALL}
NOTHING = SCHEMA.empty_table()


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of batches, and no power failure among them."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def rows(*values: int) -> pa.Table:
    return pa.table([pa.array(values, pa.int64())], schema=SCHEMA)


def fill(results: Results, first: int, end: int) -> None:
    for batch in range(first, end):
        side = rows(-batch) if batch % 10 == 0 else NOTHING
        results.write(rows(batch), side, Account(batch, {}, {"used": batch + 1}, began=batch))


def values(results: Results, kind: str = "main") -> list[int]:
    return results.read(kind, SCHEMA)["v"].to_pylist()  # type: ignore[no-any-return]


def files(folder: AnyPath) -> int:
    return sum(bool(path.suffix) and path.suffix != ".parts" for path in folder.rglob("*"))


def test_batches_are_put_together_and_nothing_is_missing(tmp_path: Path) -> None:
    results = Results(tmp_path)
    for first in range(0, 600, 60):
        fill(results, first, first + 60)
        compact(results, FOR_EVER, first + 59, 0)
        assert files(tmp_path) < 400
    for found in (results, Results(tmp_path)):
        assert values(found) == list(range(600))
        assert values(found, "side") == list(range(0, -600, -10))
        assert found.latest() is not None and found.latest().totals == {"used": 600}  # type: ignore[union-attr]
        assert found.has(599) and not found.has(600)
        assert len(found.batches()) < 200
    last = results.batches()[0]
    assert [table["v"].to_pylist() for table in read_batch(tmp_path, last, "main")] == [list(range(last + 1))]


def test_the_newest_batches_and_those_that_somebody_has_not_read_stay_as_they_are(tmp_path: Path) -> None:
    results = Results(tmp_path)
    fill(results, 0, 500)
    compact(results, {"main": NONE, "side": NONE}, 99, 0)
    assert values(results) == list(range(100, 500))
    assert [batch for batch in results.batches() if batch >= 100] == list(range(100, 500))
    compact(results, {"main": NONE, "side": NONE}, 10_000, 0)
    assert values(results) == list(range(500 - TOGETHER, 500))


def test_rows_are_kept_for_a_time_and_payloads_for_another(tmp_path: Path) -> None:
    results = Results(tmp_path)
    fill(results, 0, 500)
    compact(results, {"main": Keep(200), "side": ALL}, 10_000, now=500)
    kept = values(results)
    assert kept == list(range(kept[0], 500)) and 260 < kept[0] <= 300
    assert values(results, "side") == list(range(0, -500, -10))
    assert Results(tmp_path).read("main", SCHEMA) == results.read("main", SCHEMA)


def test_who_has_come_to_a_batch_finds_the_next_ones_by_themselves(tmp_path: Path) -> None:
    results = Results(tmp_path)
    fill(results, 0, 600)
    compact(results, FOR_EVER, 10_000, 0, fences=[237])
    later = [table["v"].to_pylist() for batch in results.batches(237) for table in read_batch(tmp_path, batch, "main")]
    assert [value for found in later for value in found] == list(range(238, 600))


def test_large_parts_stay_where_they_are_and_small_ones_of_one_schema_are_put_together(
    folder: AnyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventide.storage.compaction._SMALL", 4_000)
    monkeypatch.setattr("eventide.storage.compaction.TOGETHER", 8)
    results = Results(folder)
    for batch in range(16):
        if batch != 7:
            fill(results, batch, batch + 1)
            continue
        writer = PartWriter(folder, "main", batch, 0, 0)
        writer.write(rows(*range(7_000, 17_000)))
        results.commit([writer.close()], [], Account(batch, {}, {}))
    compact(results, FOR_EVER, 10_000, 0)
    parts = results.parts(7, "main")
    assert [part.name.startswith("000000000007.parts/") for part in parts].count(True) == 1 and len(parts) < 4
    assert values(results) == [*range(7), *range(7_000, 17_000), *range(8, 16)]
    compact(results, {"main": NONE, "side": NONE}, 10_000, 0)
    assert not (folder / "000000000007.parts").exists()


def test_a_crash_while_batches_are_put_together_loses_and_repeats_nothing(
    folder: AnyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventide.storage.compaction.TOGETHER", 4)
    results = Results(folder)
    fill(results, 0, 10)

    kind = type(folder)
    unlink = kind.unlink

    def dies(path: AnyPath, missing_ok: bool = False) -> None:
        if not path.name.startswith("."):  # of a file that was being written
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(kind, "unlink", dies)
        compact(results, FOR_EVER, 10_000, 0)
    after = Results(folder)
    assert values(after) == list(range(10))
    after.tidy()
    assert values(Results(folder)) == list(range(10))
    compact(after, FOR_EVER, 10_000, 0)
    assert after.units()[0].name == "000000000003-000000000000-1.json"
    assert files(folder) == 2 * 7 + 1  # accounts and rows of seven units, and the payload of batch 0


def test_manifests_are_deleted_when_they_are_settled_in_whatever_mode(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    for number in range(1, 301):
        inbox.publish([Entry("rows", "s", number)])
        inbox.settle(number - 2)
    assert inbox.settled == {"s": 298} and inbox.positions == {"s": 300}
    assert files(tmp_path) == KEPT_MANIFESTS
    again = Inbox(tmp_path)
    assert again.positions == {"s": 300} and again.settled == {}
    again.settle_all()
    assert again.settled == {"s": 300} and files(tmp_path) == KEPT_MANIFESTS


def test_written_rows_are_forgotten_up_to_a_number_and_a_time(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(1, 11):
        spool.append_rows(["{}"], 0, number)
        os.utime(spool.rows_path(number), (number, number))
    spool.forget(6, before=5_000_000)
    assert sorted(int(path.stem) for path in tmp_path.glob("*.arrow")) == [5, 6, 7, 8, 9, 10]
    spool.forget(10, before=1_000_000_000)
    assert spool.last() == 10 and files(tmp_path) == 1
