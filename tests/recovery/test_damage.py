"""Files that are cut short or overwritten: a clear error that names the file, never a wrong answer, never a hang."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eventide
from eventide.errors import CheckpointError, EventideError, StorageError
from eventide.storage import atomic
from eventide.storage.inbox import Entry, Inbox
from eventide.storage.results import Account, Results
from eventide.storage.spool import Spool, read_rows

SQL = """
CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE STREAM o AS SELECT window_start, k, sum(v) AS total FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
"""


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite(path: Path) -> None:
    path.write_bytes(b"\xde\xad\xbe\xef" * 8)


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGE = pytest.mark.parametrize("damage", [cut, overwrite, empty], ids=["cut short", "overwritten", "empty"])
Damage = Callable[[Path], None]


# What Eventide keeps itself, without Spark ----------------------------------------------------------------------------


@DAMAGE
def test_a_damaged_item_of_a_spool_is_named(tmp_path: Path, damage: Damage) -> None:
    spool = Spool(tmp_path)
    spool.append_rows(["{}"] * 100, 0, 1)
    damage(spool.rows_path(1))
    with pytest.raises(CheckpointError, match=r"000000000001\.arrow is damaged"):
        read_rows(spool.rows_path(1))


@DAMAGE
def test_a_damaged_watermark_of_a_spool_is_named(tmp_path: Path, damage: Damage) -> None:
    spool = Spool(tmp_path)
    spool.append_watermark(12, 1)
    damage(tmp_path / "000000000001.watermark")
    with pytest.raises(CheckpointError, match=r"000000000001\.watermark is damaged"):
        spool.watermark(1)


@DAMAGE
def test_a_damaged_manifest_is_named(tmp_path: Path, damage: Damage) -> None:
    Inbox(tmp_path).publish([Entry("rows", "s", 1), Entry("rows", "s", 2)])
    damage(tmp_path / "000000000001.json")
    with pytest.raises(CheckpointError, match=r"000000000001\.json is damaged"):
        Inbox(tmp_path)


def test_a_manifest_that_lost_whole_lines_is_damaged(tmp_path: Path) -> None:
    Inbox(tmp_path).publish([Entry("rows", "s", 1), Entry("rows", "s", 2)])
    manifest = tmp_path / "000000000001.json"
    manifest.write_text("\n".join(manifest.read_text().splitlines()[:-1]))
    with pytest.raises(CheckpointError, match="its end is missing"):
        Inbox(tmp_path)


@DAMAGE
@pytest.mark.parametrize("kind", ["main", "side"])
def test_damaged_results_are_named(tmp_path: Path, damage: Damage, kind: str) -> None:
    rows = pa.table({"a": list(range(100))})
    Results(tmp_path).write(rows, rows, Account(0, {}, {}))
    damage(tmp_path / f"000000000000.{kind}.arrow")
    with pytest.raises(CheckpointError, match=rf"000000000000\.{kind}\.arrow is damaged"):
        Results(tmp_path).read(kind, rows.schema)


@DAMAGE
def test_a_damaged_account_is_named(tmp_path: Path, damage: Damage) -> None:
    Results(tmp_path).write(pa.table({}), pa.table({}), Account(0, {}, {}))
    damage(tmp_path / "000000000000.json")
    with pytest.raises(CheckpointError, match=r"000000000000\.json is damaged"):
        Results(tmp_path)


def test_a_write_for_which_there_is_no_space_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox(tmp_path)
    inbox.publish([Entry("rows", "s", 1)])

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(
        StorageError, match=r"000000000002\.json cannot be written: No space left on device\n  help: free some space"
    ):
        inbox.publish([Entry("rows", "s", 2)])
    assert inbox.positions == {"s": 1} and [path.name for path in tmp_path.iterdir()] == ["000000000001.json"]
    monkeypatch.undo()
    inbox.publish([Entry("rows", "s", 2)])
    assert Inbox(tmp_path).positions == {"s": 2}


# With Spark -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undamaged(tmp_path_factory: pytest.TempPathFactory, keep_spark: Any) -> Path:
    """A checkpoint with an open window, a closed one and a late row."""
    folder = tmp_path_factory.mktemp("damage") / "checkpoint"
    with eventide.connect(folder, shards=2) as db:
        db.execute(SQL)
        for row in (("a", 1, 100), ("a", 2, 5000), ("a", 3, 200)):
            db.write("s", [row])
            db.tick()
    shutil.copytree(folder, folder.parent / "copy")
    return folder


@pytest.fixture
def folder(undamaged: Path) -> Path:
    """The checkpoint as it was, at the same path: Spark's files contain it."""
    shutil.rmtree(undamaged)
    shutil.copytree(undamaged.parent / "copy", undamaged)
    return undamaged


def newest(folder: Path, pattern: str) -> Path:
    return max(path for path in folder.glob(pattern) if path.is_file() and not path.name.startswith("."))


def resume(folder: Path) -> None:
    with eventide.connect(folder, shards=2) as db:
        db.execute(SQL)
        db.write("s", [("a", 4, 9000)])
        db.tick()
        db.read("o")
        db.side_output("o").fetchall()


FILES = {
    "a manifest": "streams/o/inbox/*.json",
    "an account": "streams/o/results/*[0-9].json",
    "results": "streams/o/results/*.main.arrow",
    "payloads": "streams/o/results/*.side.arrow",
    "the plan": "streams/o/plan.json",
    "the catalog": "catalog.json",
    "Spark's offsets": "streams/o/spark/offsets/[0-9]*",
    "Spark's commits": "streams/o/spark/commits/[0-9]*",
}


@pytest.mark.parametrize("pattern", FILES.values(), ids=FILES.keys())
def test_a_damaged_file_of_a_checkpoint_is_a_clear_error(folder: Path, pattern: str) -> None:
    path = newest(folder, pattern)
    overwrite(path)
    with pytest.raises(CheckpointError) as raised:
        resume(folder)
    assert str(folder) in str(raised.value) and "damaged" in str(raised.value)


def test_damaged_state_of_spark_is_a_clear_error(folder: Path) -> None:
    for path in (folder / "streams/o/spark/state").rglob("*.*"):
        if path.suffix in (".changelog", ".zip", ".sst"):
            overwrite(path)
    with pytest.raises(EventideError) as raised:
        resume(folder)
    assert isinstance(raised.value, CheckpointError) and "damaged" in str(raised.value)


def test_a_damaged_item_of_a_spool_stops_the_stream_and_names_the_file(folder: Path) -> None:
    with eventide.connect(folder, shards=2) as db:
        db.execute(SQL)
        db.write("s", [("a", 4, 9000)])
        path = newest(folder, "sources/s/*.arrow")
        whole = path.read_bytes()
        cut(path)
        with pytest.raises(CheckpointError, match=rf"{path.name} is damaged"):
            db.tick()
    path.write_bytes(whole)
    with eventide.connect(folder, shards=2) as db:
        db.execute(SQL)
        db.tick()
        assert [row["total"] for row in db.read("o")] == [1, 2] and db.accounting("o")["rows_in"] == 4


def test_a_checkpoint_that_was_copied_elsewhere_goes_on(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is taken in again, nothing is missing; and so once more from there, after the first place is gone."""
    places = [folder.parent / "else where" / "ä $1%", folder.parent / "third"]
    for origin, place, totals in zip([folder, *places], places, ([1, 2], [1, 2, 4]), strict=False):
        shutil.copytree(origin, place)
        with eventide.connect(place, shards=2) as db:
            db.execute(SQL)
            db.tick()
            db.write("s", [("a", 4, 9000 if origin == folder else 19_000)])
            db.tick()
            assert [row["total"] for row in db.read("o")] == totals
            figures = db.accounting("o")
            assert (figures["rows_in"], figures["late"]) == (2 + len(totals), 1)
        assert f"copied or moved to from {origin}" in caplog.text and str(origin) not in _named_in(place)
        shutil.rmtree(origin)
    folder.mkdir()  # for whoever restores it


def _named_in(folder: Path) -> str:
    files = [path for pattern in ("sources/*/*", "state/*/_metadata/*/*") for path in folder.rglob(f"spark/{pattern}")]
    return "".join(path.read_text() for path in files if not path.name.startswith("."))


def test_a_commit_of_spark_that_a_crash_prevented_is_made_up_for(folder: Path) -> None:
    """The account of the newest batch is there, Spark's commit is not: the batch comes again, and is not counted
    again.
    """
    newest(folder, "streams/o/spark/commits/[0-9]*").unlink()
    with eventide.connect(folder, shards=2) as db:
        db.execute(SQL)
        db.tick()
        db.write("s", [("a", 4, 9000)])
        db.tick()
        assert [row["total"] for row in db.read("o")] == [1, 2]
        figures = db.accounting("o")
        assert (figures["rows_in"], figures["used"], figures["late"]) == (4, 3, 1)
