"""CSV as RFC 4180 has it: what is in quotes, what is NULL, and that a broken line harms no other."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventide.tasks import line_blocks
from eventide.tasks.csv_files import IS_BAD, RECORD, CsvFiles
from eventide.tasks.csv_records import CsvForm, Lines
from eventide.tasks.line_blocks import blocks_of


def fields(text: bytes, form: CsvForm | None = None) -> list[list[bytes | None] | bytes]:
    """The fields of each record, or the text of what is none."""
    records = (form or CsvForm()).records(Lines(text, iter(())))
    return [record.text if record.fields is None else record.fields for record in records]


def rows(files: CsvFiles, text: bytes, block: int = 1 << 20) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "_BLOCK", block)
        found = [row for table in files.read(blocks_of(io.BytesIO(text))) for row in table.to_pylist()]
    return [{**row, RECORD: row[RECORD].rstrip("\r\n")} for row in found]


@pytest.mark.parametrize(
    ("text", "records"),
    [
        (b'a,"b"\n', [[b"a", b"b"]]),
        (b'"x,y","q""q"\r\n', [[b"x,y", b'q"q']]),
        (b'"two\nlines\r\n",z\n1,2', [[b"two\nlines\r\n", b"z"], [b"1", b"2"]]),
        (b',""\n', [[None, b""]]),
        (b'5" disk,1\n', [[b'5" disk', b"1"]]),
        (b'"open,1\nok,2\n', [b'"open,1', [b"ok", b"2"]]),
        (b'"a"b,c\nok,2\n', [b'"a"b,c', [b"ok", b"2"]]),
        (b"a\rb\r", [[b"a"], [b"b"]]),
        (b'"a\n\n"\n"b"', [[b"a\n\n"], [b"b"]]),
    ],
)
def test_records_are_those_of_the_rfc(text: bytes, records: list[Any]) -> None:
    assert fields(text) == records


def test_quote_escape_separator_and_null_can_be_others() -> None:
    form = CsvForm(b"||", b"'", b"\\", b"NA")
    assert fields(rb"'it\'s \\ \n'||NA||'NA'||x", form) == [[rb"it's \ \n", None, b"NA", b"x"]]


def test_without_multi_line_every_line_stands_for_itself() -> None:
    assert fields(b'"a\n1,"b"\n', CsvForm(multi_line=False)) == [b'"a', [b"1", b"b"]]


VALUES = st.lists(st.sampled_from(["a", '"', ",", "\n", "\r\n", "é", " ", ";"]), max_size=4).map("".join)


@given(st.lists(st.lists(VALUES, min_size=2, max_size=2), max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_what_a_writer_writes_is_read_back(table: list[list[str]], end: str) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(table)
    assert fields(file.getvalue().encode()) == [[value.encode() for value in row] for row in table]


@given(
    st.lists(st.sampled_from([b"a", b",", b'"', b"\n", b'""', b"\r\n", "é".encode(), b"1", b'"x"', b"\r", b"\xff"])),
    st.sampled_from([1, 5, 1000]),
    st.booleans(),
    st.sampled_from([("a", "b", "c"), ("a",)]),
)
def test_blocks_that_arrow_reads_are_as_records_read_one_by_one(
    parts: list[bytes], block: int, header: bool, columns: tuple[str, ...]
) -> None:
    text = (b"b,A,more\n" if header else b"") + b"".join(parts)
    files = CsvFiles(CsvForm(), header, columns, ("a",))
    found = rows(files, text, block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CsvFiles, "_plain", lambda *_: None)
        assert found == rows(files, text)


def test_columns_go_by_the_header_whatever_its_order() -> None:
    files = CsvFiles(CsvForm(), True, ("a", "b", "missing"), ("a", "missing", "b"))
    assert rows(files, b"\xef\xbb\xbfb,other, A \n1,2,3\n4,5\n") == [
        {"a": "3", "missing": None, "b": "1", RECORD: "1,2,3", IS_BAD: False},
        {"a": None, "missing": None, "b": None, RECORD: "4,5", IS_BAD: True},
    ]


@pytest.mark.parametrize("header", [b"x,y", b"a,a"])
def test_a_header_that_says_nothing_of_the_columns_makes_every_record_bad(header: bytes) -> None:
    (row,) = rows(CsvFiles(CsvForm(), True, ("a",), ("a",)), header + b"\n1,2\n")
    assert row == {"a": None, RECORD: "1,2", IS_BAD: True}


def test_an_empty_line_is_a_null_where_there_is_one_column_only() -> None:
    assert [row["a"] for row in rows(CsvFiles(CsvForm(), True, ("a",), ("a",)), b'a\n1\n\n""\n')] == ["1", None, ""]
    assert len(rows(CsvFiles(CsvForm(), True, ("a", "b"), ("a",)), b"a,b\n1,2\n\n3,4\n")) == 2


def test_most_blocks_are_read_by_arrow() -> None:
    def plain(self: CsvFiles, *_: Any) -> Iterator[Any]:
        raise AssertionError("read one by one")

    text = b"".join(b'%d,"te""xt\n%d",\n' % (n, n) for n in range(1000))
    files = CsvFiles(CsvForm(), False, ("a", "b", "c"), ("a", "b"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CsvFiles, "_one_by_one", plain)
        found = rows(files, text, 4096)
    assert [(row["a"], row["b"]) for row in found] == [(f"{n}", f'te"xt\n{n}') for n in range(1000)]
