"""Small batches of a sink in files of a size."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from eventide.connectors.files.write import FilesSink
from eventide.errors import OptionError, StorageError
from eventide.plan.sizes import parse_size
from eventide.storage.opening import checkpoint_folder

FORMATS = ("parquet", "csv", "json")


def sink(folder: Path, format: str, size: int = 20_000) -> FilesSink:
    return FilesSink(str(folder), format, "q", file_size=size)


def rows(batch: int, count: int = 100) -> pa.Table:
    return pa.table(
        {"n": list(range(batch * 100, batch * 100 + count)), "t": [f"text of row {n}" for n in range(count)]}
    )


def found(folder: Path, format: str) -> list[int]:
    names = sorted(path.name for path in folder.glob("part-*"))
    files = [str(folder / name) for name in names]
    return [n for file in files for (n,) in duckdb.sql(f"SELECT n FROM '{file}'").fetchall()]


@pytest.mark.parametrize("format", FORMATS)
def test_small_batches_are_gathered_in_their_order_until_a_file_has_its_size(tmp_path: Path, format: str) -> None:
    for batch in range(0, 60, 10):
        out = sink(tmp_path, format, 8_000)  # as after a restart
        for number in range(batch, batch + 10):
            out.commit(number, [rows(number)])
            assert found(tmp_path, format) == list(range((number + 1) * 100))
    sizes = [path.stat().st_size for path in sorted(tmp_path.glob("part-*"))]
    assert 1 < len(sizes) < 30 and all(size >= 8_000 for size in sizes[:-1])


@pytest.mark.parametrize("format", FORMATS)
def test_a_batch_that_comes_again_replaces_its_own_rows(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = sink(tmp_path, format)
    out.commit(0, [rows(0)])
    out.commit(1, [rows(1)])
    sink(tmp_path, format).commit(1, [rows(1)])  # a crash after it was written
    assert found(tmp_path, format) == list(range(200))
    with monkeypatch.context() as patched, pytest.raises(StorageError):

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(Path, "rename", lambda path, to: full() if "part-" in str(to) else path.replace(to))
        sink(tmp_path, format).commit(2, [rows(2)])  # a crash between the note and the file
    assert found(tmp_path, format) == list(range(200))
    sink(tmp_path, format).commit(2, [rows(2)])
    assert found(tmp_path, format) == list(range(300))


def test_a_large_batch_is_a_file_of_its_own_and_other_columns_begin_another(tmp_path: Path) -> None:
    out = sink(tmp_path, "json")
    out.commit(0, [rows(0)])
    out.commit(1, [rows(1, 10_000)])
    out.commit(2, [rows(2)])
    out.commit(3, [rows(3).rename_columns(["n", "other"])])
    out.commit(4, [rows(4).slice(0, 0)])
    names = sorted(path.name for path in tmp_path.glob("part-*"))
    assert names == [f"part-q-{batch:010d}.json" for batch in range(4)]
    assert len(found(tmp_path, "json")) == 10_300
    assert json.loads((tmp_path / ".eventide-q.json").read_text())["batch"] == 3


def test_a_folder_that_is_none_is_refused_and_not_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="s3a://bucket/out of a files sink is not a folder"):
        FilesSink("s3a://bucket/out", "json", "q")
    with pytest.raises(OptionError, match="gs://bucket/state is on a file system that Eventide keeps no"):
        checkpoint_folder("gs://bucket/state", {})
    assert list(tmp_path.iterdir()) == []
    assert checkpoint_folder(f"file://{tmp_path}/state", {}) == tmp_path / "state"


@pytest.mark.parametrize("text", ["", "0 MB", "16", "MB", "-1 KB", "1.5 GB"])
def test_what_is_no_size_is_an_error(text: str) -> None:
    with pytest.raises(OptionError, match="is not a size"):
        parse_size(text)
