"""Files of a store that tasks read by themselves: which are found, at what cost, and that they hold the same rows."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventide.connectors.files.listing import Listing
from eventide.connectors.files.store_listing import StoreListing, first_folders
from eventide.errors import OptionError, SourceError
from eventide.storage.paths import RemotePath, remote_path
from eventide.tasks.byte_ranges import FileRange, dealt_out
from eventide.tasks.file_errors import naming_file
from eventide.tasks.json_lines import JsonLines
from eventide.tasks.row_groups import RowGroups
from tests.connectors.hdfs_server import HdfsServer
from tests.connectors.s3_server import S3Server

COLUMNS = (("v", "bigint"),)
LATER = 3600.0  # seconds after which nothing was written of late
Written = Callable[..., None]


@pytest.fixture(params=["s3a", pytest.param("hdfs", marks=pytest.mark.slow)])
def root(request: pytest.FixtureRequest) -> RemotePath:
    """An empty folder of a store."""
    if request.param == "s3a":
        s3: S3Server = request.getfixturevalue("s3")
        return remote_path(f"s3a://{s3.new_bucket()}/in", s3.spark_settings)
    hdfs: HdfsServer = request.getfixturevalue("hdfs")
    return remote_path(f"{hdfs.new_folder()}/in", {})


@pytest.fixture
def bucket(s3: S3Server) -> RemotePath:
    return remote_path(f"s3a://{s3.new_bucket()}/in", s3.spark_settings)


def write(folder: RemotePath, *names: str, content: bytes = b"x") -> None:
    for name in names:
        (folder / name).write_bytes(content)


def found(root: RemotePath, path: str = "", known: set[str] | None = None) -> list[str]:
    files = StoreListing(f"{root}{path}", root.store).new_files(known or set())
    return sorted(file.path.removeprefix(f"{root}/") for file in files)


class Clock:
    """The store's time, later."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


# What is found ------------------------------------------------------------------------------------------------------


def test_a_store_and_a_folder_have_the_same_files(root: RemotePath, tmp_path: Path) -> None:
    names = ("a.json", "b c.json", "_not", ".not", "x._COPYING_", "sub/below.json", "é#?.csv")
    write(root, *names)
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    for path in ("", "/", "/*.json", "/{a,b c}.json", "/a.json", "/s*b", "/*/below.json", "/nothing", "/[^a]*.json"):
        local = [file.path.removeprefix(f"{tmp_path}/") for file in Listing(f"{tmp_path}{path}").new_files(set())]
        assert found(root, path) == sorted(local), path


def test_a_file_is_found_once_with_its_length_and_its_time(root: RemotePath) -> None:
    write(root, "a", content=b"12345")
    (file,) = StoreListing(str(root), root.store).new_files(set())
    assert (file.path, file.length) == (f"{root}/a", 5) and file.modified == (root / "a").stat().st_mtime_ns // 1000
    assert found(root, known={file.path}) == []
    write(root, "b")
    assert found(root, known={file.path}) == ["b"]


def test_partition_folders_are_walked_and_unlike_ones_refused(root: RemotePath) -> None:
    write(root, "day=1/hour=1/a", "day=1/hour=2/b", "day=2/hour=1/c", "day=2/_not/d")
    assert found(root) == ["day=1/hour=1/a", "day=1/hour=2/b", "day=2/hour=1/c"]
    assert first_folders(root) == ("day", "hour")
    with pytest.raises(SourceError, match="is a partition folder below a pattern"):
        found(root.parent, "/i*")
    write(root, "plain")
    with pytest.raises(OptionError, match=r"/in/plain lies beside the partition folder .*/in/day=1"):
        found(root)


# What it costs ------------------------------------------------------------------------------------------------------


def test_of_many_folders_only_some_are_listed_and_nothing_is_missed(bucket: RemotePath, s3: S3Server) -> None:
    days = [f"day={number}" for number in range(1, 31)]
    write(bucket, *(f"{day}/a" for day in days))
    clock = Clock((bucket / "day=1" / "a").stat().st_mtime_ns / 1e9 + LATER)
    listing, known = StoreListing(str(bucket), bucket.store, 60.0, clock), set[str]()

    def listed() -> tuple[list[str], int]:
        before = s3.requests()
        new = [file.path for file in listing.new_files(known)]
        known.update(new)
        return [path.removeprefix(f"{bucket}/") for path in new], s3.requests() - before

    first, asked = listed()
    assert len(first) == 30 and asked == 31
    assert listed() == ([], 3)  # the folder itself, and the two newest
    write(bucket, "day=30/b", "day=31/a", "day=2/0-late")
    assert listed() == (["day=30/b", "day=31/a"], 3)
    clock.now += 61
    late, asked = listed()
    assert late == ["day=2/0-late"] and asked == 32
    write(bucket, "day=3/written")
    clock.now = (bucket / "day=3" / "written").stat().st_mtime_ns / 1e9 + 1
    listing._listed_in_full = None
    assert listed()[0] == ["day=3/written"]
    write(bucket, "day=3/and-more")
    assert "day=3/and-more" in listed()[0], "where something was written of late is looked into every time"


def test_few_folders_are_all_listed_every_time(bucket: RemotePath) -> None:
    write(bucket, *(f"day={number}/a" for number in range(5)))
    listing = StoreListing(str(bucket), bucket.store)
    known = {file.path for file in listing.new_files(set())}
    write(bucket, "day=0/b")
    assert [file.path for file in listing.new_files(known)] == [f"{bucket}/day=0/b"]


@pytest.mark.slow
def test_hdfs_tells_which_folders_have_changed(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    root = remote_path(f"{hdfs.new_folder()}/in", {})
    write(root, *(f"day={number}/a" for number in range(12)))
    clock, asked, plain = Clock(1e9), list[str](), RemotePath.entries
    listing = StoreListing(str(root), root.store, 60.0, clock)
    known = {file.path for file in listing.new_files(set())}
    clock.now += 3
    assert listing.new_files(known) == []
    monkeypatch.setattr(RemotePath, "entries", lambda self: asked.append(self.name) or plain(self))
    clock.now += 1
    assert listing.new_files(known) == [] and asked == ["in"]
    write(root, "day=3/b")
    assert [file.path for file in listing.new_files(known)] == [f"{root}/day=3/b"] and asked == ["in", "in", "day=3"]


# What is read -------------------------------------------------------------------------------------------------------


def rows_of(reader: JsonLines | RowGroups, file: RemotePath, tasks: int = 1) -> list[list[int]]:
    """What each task reads of a file."""
    length = file.stat().st_size
    shares = dealt_out([FileRange(str(file), 0, 0, 0, length, file.store)], tasks)
    return [
        [value for part in share for piece in reader.read(part) if piece.rows for value in piece.rows["v"].to_pylist()]
        for share in shares
    ]


def test_tasks_share_the_lines_of_a_large_file(root: RemotePath) -> None:
    lines = b"".join(b'{"v": %d, "w": "%s"}\n' % (number, b"x" * (number % 50)) for number in range(100_000))
    (root / "large.json").write_bytes(lines)
    shares = rows_of(JsonLines(COLUMNS), root / "large.json", 3)
    assert len(shares) == 3 and sorted(value for share in shares for value in share) == list(range(100_000))


def test_compressed_lines_and_parquet_are_read(root: RemotePath) -> None:
    text = b'{"v": 1}\n{"v": 2}\n'
    (root / "a.json.gz").write_bytes(gzip.compress(text))
    (root / "a.json.bz2").write_bytes(bz2.compress(text))
    (root / "a.json.zst").write_bytes(pa.Codec("zstd").compress(text, asbytes=True))
    for name in ("a.json.gz", "a.json.bz2", "a.json.zst"):
        assert rows_of(JsonLines(COLUMNS), root / name) == [[1, 2]], name
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"v": [1, 2, 3]}), sink, row_group_size=2)
    (root / "a.parquet").write_bytes(sink.getvalue().to_pybytes())
    assert rows_of(RowGroups(COLUMNS), root / "a.parquet") == [[1, 2, 3]]


def test_a_file_that_has_gone_is_named(root: RemotePath) -> None:
    part = FileRange(f"{root}/gone.json", 0, 0, 0, 10, root.store)
    with pytest.raises(SourceError, match=r"/in/gone.json has gone since the stream found it"):
        list(naming_file(part.path, JsonLines(COLUMNS).read(part)))
