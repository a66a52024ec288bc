"""Every line of a file is read by exactly one task, however the file is split."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from eventide.tasks import byte_ranges as ranges, line_blocks
from eventide.tasks.byte_ranges import FileRange, dealt_out
from eventide.tasks.json_lines import JsonLines
from eventide.tasks.row_groups import RowGroups

READER = JsonLines((("n", "bigint"),))


def numbers(reader: JsonLines | RowGroups, parts: list[FileRange]) -> list[int]:
    found: list[int] = []
    for part in parts:
        for piece in reader.read(part):
            assert piece.rows is not None
            found += piece.rows["n"].to_pylist()
    return found


def whole(path: Path) -> FileRange:
    return FileRange(str(path), 0, 0, 0, path.stat().st_size)


@given(
    st.lists(st.integers(0, 10**12), max_size=60),
    st.lists(st.integers(0, 1500), max_size=5),
    st.booleans(),
    st.integers(1, 200),
)
def test_every_line_is_in_one_range(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], cuts: list[int], ends: bool, block: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.json"
    path.write_text("\n".join(json.dumps({"n": value}) for value in values) + ("\n" if ends and values else ""))
    size = path.stat().st_size
    edges = sorted({0, size, *(cut for cut in cuts if cut < size)})
    parts = [FileRange(str(path), 0, 0, start, end - start) for start, end in pairwise(edges)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "_BLOCK", block)
        assert numbers(READER, parts) == values


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=20), st.integers(1, 6), st.integers(1, 2000))
def test_ranges_cover_every_byte_once_and_are_about_equal(sizes: list[int], tasks: int, least: int) -> None:
    files = [FileRange(f"f{number}", number, 0, 0, size) for number, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "_LEAST", least)
        dealt = dealt_out(files, tasks)
    share = max(-(-sum(sizes) // tasks), least)
    assert len(dealt) <= tasks + 1
    assert all(sum(part.length for part in task) <= share * 9 / 8 + 1 for task in dealt)
    parts = [part for task in dealt for part in task]
    for file in files:
        own = [part for part in parts if part.number == file.number]
        assert [part.start for part in own] == [sum(before.length for before in own[:n]) for n in range(len(own))]
        assert sum(part.length for part in own) == file.length


def test_a_compressed_file_is_not_split(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b'{"n": 1}\n{"n": 2}\n'))
    (task,) = dealt_out([FileRange(str(path), 0, 0, 0, 1 << 30)], 4)
    assert numbers(READER, task) == [1, 2]


def test_each_row_group_is_read_by_the_task_that_has_its_middle(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": list(range(1000)), "other": ["x"] * 1000}), path, row_group_size=100)
    size = path.stat().st_size
    parts = [FileRange(str(path), 0, 0, start, min(97, size - start)) for start in range(0, size, 97)]
    assert numbers(RowGroups((("n", "bigint"),)), parts) == list(range(1000))


def test_one_bad_line_leaves_only_its_neighbours_to_spark(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    rows = [f'{{"n": {n}}}' for n in range(5000)]
    rows[3210] = '{"n": "x"}'
    path.write_text("\n".join(rows))
    pieces = list(READER.read(whole(path)))
    left = [line for piece in pieces for line in piece.lines]
    assert b'{"n": "x"}' in left and len(left) <= 64
    assert sum(piece.rows.num_rows for piece in pieces if piece.rows is not None) + len(left) == 5000
    assert [piece.at for piece in pieces] == sorted(piece.at for piece in pieces)


@pytest.mark.parametrize(
    "line",
    [
        b"null", b"3", b"[]", b"x", b'{"n": 1} {"n": 2}', b'{"n": 1}}', b'{"n":1.0}', b'{"n":"1"}', b'{"n":1,"n":2}',
        b"{'n':1}", b'{"n":1,"x":"\xff"}',
        b'{"n":1,"x":%b}' % (b"[" * 1001 + b"]" * 1001), b'{"n":1,"x":1%b}' % (b"0" * 1000),
        b'{"n":1,"%b":1}' % (b"x" * 50_001),
    ],
)  # fmt: skip
def test_what_is_not_certainly_one_plain_object_is_left_to_spark(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"n": 0}\n%b\n{"n": 9}\n' % line)
    assert line in [text for piece in READER.read(whole(path)) for text in piece.lines]


def test_a_line_is_json_even_where_no_column_of_it_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"n": 0}\n{none}\n')
    assert [piece.lines for piece in JsonLines(()).read(whole(path))] == [[b'{"n": 0}', b"{none}"]]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.json{suffix}"
    content = b'\xef\xbb\xbf{"n": 1}\n{"n": 2}\n'
    path.write_bytes(gzip.compress(content) if suffix else content)
    assert numbers(READER, [whole(path)]) == [1, 2]
