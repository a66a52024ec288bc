"""A path of a store does what one of this machine does, as far as a checkpoint needs it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from eventide.errors import CheckpointError, StorageError
from eventide.storage.atomic import read_arrow, read_json, replacing, write_bytes, write_json
from eventide.storage.parts import PartWriter, check_part
from eventide.storage.paths import OWNED, AnyPath, Ownership, RemotePath, listed, put_back, remove_tree, set_aside
from eventide.storage.results import Account, Results
from eventide.storage.spool import Spool


def names(paths: list[AnyPath]) -> list[str]:
    return [path.name for path in paths]


def test_what_is_written_can_be_read_and_replaces_what_was_there(folder: AnyPath) -> None:
    path = folder / "a" / "one.json"
    assert read_json(path) is None and not path.exists()
    for value in ({"n": 1}, {"n": [2, "ä"]}):
        write_json(path, value)
        assert read_json(path) == value
    assert path.is_file() and path.parent.is_dir() and not path.is_dir()
    assert path.stat().st_size == len(path.read_bytes()) and path.stat().st_mtime_ns > 1_700_000_000 * 10**9


def test_what_fails_half_way_leaves_what_was_there(folder: AnyPath) -> None:
    write_bytes(folder / "one", b"old")
    with pytest.raises(ZeroDivisionError), replacing(folder / "one") as temporary:
        temporary.write_bytes(b"ne")
        raise ZeroDivisionError
    assert (folder / "one").read_bytes() == b"old" and names(listed(folder, "*")) == ["one"]


def test_files_are_found_by_their_names(folder: AnyPath) -> None:
    for name in ("streams/b$1/tables.json", "streams/b/tables.json", "streams/b/0001.arrow", "streams/b/x.arrow"):
        write_bytes(folder / name, b"")
    assert names(listed(folder / "streams" / "b", "[0-9]*.arrow")) == ["0001.arrow"]
    assert [path.parent.name for path in listed(folder / "streams", "*/tables.json")] == ["b", "b$1"]
    assert names(listed(folder / "streams", "b$[0-9]*")) == ["b$1"]
    assert listed(folder / "nowhere", "*") == [] and listed(folder, "nowhere/*") == []
    assert sorted(path.name for path in folder.rglob("*.arrow")) == ["0001.arrow", "x.arrow"]
    assert sorted(path.name for path in (folder / "streams").iterdir()) == ["b", "b$1"]


def test_a_name_changes_nothing_about_what_is_written(folder: AnyPath) -> None:
    write_bytes(folder / "one.gz", b"plain")
    assert (folder / "one.gz").stat().st_size == 5 and (folder / "one.gz").read_bytes() == b"plain"


def test_files_and_folders_are_deleted(folder: AnyPath) -> None:
    for name in ("a/one", "a/b/two", "ab/three"):
        write_bytes(folder / name, b"x")
    (folder / "a" / "one").unlink()
    (folder / "a" / "one").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        (folder / "a" / "one").unlink()
    remove_tree(folder / "a")
    remove_tree(folder / "a")
    assert not (folder / "a" / "b" / "two").exists() and (folder / "ab" / "three").exists()


def test_a_missing_or_damaged_file_is_named(folder: AnyPath) -> None:
    write_bytes(folder / "bad.json", b"{")
    write_bytes(folder / "bad.arrow", b"ARROW")
    for read, name in ((read_json, "bad.json"), (read_arrow, "bad.arrow")):
        with pytest.raises(CheckpointError, match=f"{name} is damaged"):
            read(folder / name)
    with pytest.raises(CheckpointError, match=r"none.arrow is missing"):
        read_arrow(folder / "none.arrow")


def test_a_path_takes_along_what_is_needed_to_reach_it(folder: AnyPath) -> None:
    write_bytes(folder / "one", b"here")
    found = pickle.loads(pickle.dumps(folder / "one"))
    assert found == folder / "one" and found.read_bytes() == b"here"
    assert "secret" not in repr(found) and "secret" not in str(found)


def test_a_task_writes_a_part_and_the_driver_commits_it(folder: AnyPath) -> None:
    rows = pa.table({"v": list(range(1000))})
    writer = PartWriter(folder / "results", "main", 0, 3, 1)
    writer.write(rows)
    part = writer.close()
    check_part(folder / "results", part)
    left_behind = PartWriter(folder / "results", "main", 0, 3, 2)
    left_behind.write(rows)
    left_behind.close()
    results = Results(folder / "results")
    results.commit([part], [], Account(0, {}, {"used": 1000}))
    again = Results(folder / "results")
    assert again.read("main", rows.schema) == rows and again.latest() == results.latest()
    assert names(listed(folder / "results" / "000000000000.parts", "*")) == [part.name.partition("/")[2]]
    with pytest.raises(StorageError, match="bytes long"):
        check_part(folder / "results", type(part)(part.name, part.rows, part.bytes + 1))


def test_a_folder_that_was_set_aside_comes_back_whole(folder: AnyPath) -> None:
    for name in ("plan.json", "spark/offsets/0"):
        write_bytes(folder / "streams" / "o" / name, name.encode())
    (folder / "before").mkdir(parents=True, exist_ok=True)
    set_aside(folder / "streams" / "o", folder / "before" / "o")
    assert not (folder / "streams" / "o").exists() and (folder / "before" / "o" / "spark" / "offsets" / "0").exists()
    write_bytes(folder / "streams" / "o" / "new", b"")
    put_back(folder / "before" / "o", folder / "streams" / "o")
    assert (folder / "streams" / "o" / "spark" / "offsets" / "0").read_text() == "spark/offsets/0"
    assert not (folder / "streams" / "o" / "new").exists()


def test_a_copy_that_was_cut_short_does_not_take_the_place_of_what_was_copied(
    objects: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("plan.json", "spark/offsets/0"):
        write_bytes(objects / "streams" / "o" / name, name.encode())

    def dies(self: RemotePath, content: bytes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RemotePath, "write_bytes", dies)  # everything is copied, and nobody says so
        set_aside(objects / "streams" / "o", objects / "before" / "o")
    (objects / "before" / "o" / "plan.json").unlink()
    put_back(objects / "before" / "o", objects / "streams" / "o")
    assert sorted(path.name for path in (objects / "streams" / "o").rglob("*") if path.is_file()) == ["0", "plan.json"]


def test_nothing_is_written_or_deleted_by_a_process_that_has_lost_its_checkpoint(remote: RemotePath) -> None:
    write_bytes(remote / "one", b"x")

    def lost() -> None:
        raise StorageError("lost")

    OWNED[remote] = Ownership(lost, remote / "owners")
    try:
        for change in (
            lambda: write_bytes(remote / "one", b"y"),
            lambda: (remote / "one").unlink(),
            lambda: remove_tree(remote),
            lambda: PartWriter(remote, "main", 0, 0, 0).write(pa.table({"v": [1]})),
        ):
            with pytest.raises(StorageError, match="lost"):
                change()
        assert (remote / "one").read_bytes() == b"x"
    finally:
        del OWNED[remote]


def test_who_holds_a_remote_checkpoint_lists_a_spool_once(remote: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    Spool(remote / "s").append_rows(["{}"], 0, 1)
    OWNED[remote] = Ownership(lambda: None, remote / "owners")
    try:
        assert Spool(remote / "s").last() == 1
        monkeypatch.setattr(RemotePath, "glob", lambda self, pattern: pytest.fail("listed again"))
        Spool(remote / "s").append_rows(["{}"], 0, 2)
        Spool(remote / "s").append_watermark(5, 3)
        assert Spool(remote / "s").last() == 3
        monkeypatch.undo()
        remove_tree(remote / "s")
        assert Spool(remote / "s").last() == 0
    finally:
        del OWNED[remote]


def test_a_local_path_is_a_path_of_pathlib(tmp_path: Path) -> None:
    assert isinstance(tmp_path, Path) and not isinstance(tmp_path, RemotePath)
