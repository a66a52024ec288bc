"""Fields of structs in JSON lines: read by tasks where they certainly mean the same to Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.expressions import Column, Field, columns_of, evaluate
from eventide.tasks.json_lines import JsonLines, Piece
from eventide.tasks.portable import NotPortableError, portable, source_names
from eventide.tasks.struct_types import arrow_type, fields_of

BID = "struct<price:bigint,at:timestamp,by:struct<`full name`:string,score:double>>"
COLUMNS = {"bid": BID, "n": "int"}


def pieces(tmp_path: Path, text: str) -> list[Piece]:
    path = tmp_path / "a.json"
    path.write_text(text)
    return list(JsonLines(tuple(COLUMNS.items())).read(FileRange(str(path), 0, 0, 0, path.stat().st_size)))


def test_fields_of_structs_are_read_by_tasks(tmp_path: Path) -> None:
    (piece,) = pieces(
        tmp_path,
        '{"bid": {"price": 1, "at": "2024-01-01T00:00:01Z", "by": {"full name": "a", "score": 0.5}}, "n": 1}\n'
        '{"bid": null, "n": 2}\n{"n": 3}\n{"bid": {"price": 4, "other": [1]}}\n',
    )
    assert piece.rows is not None
    names = source_names(COLUMNS)
    found = {sql: evaluate(portable(sql, names), piece.rows).to_pylist() for sql in ("bid.price + 1", "bid.At")}
    assert found == {
        "bid.price + 1": [2, None, None, 5],
        "bid.At": [dt.datetime(2024, 1, 1, 0, 0, 1, tzinfo=dt.UTC), None, None, None],
    }
    assert evaluate(portable("bid.by.`Full Name`", names), piece.rows).to_pylist() == ["a", None, None, None]


@pytest.mark.parametrize(
    "line",
    [
        '{"bid": {"price": "1"}}',
        '{"bid": {"price": 1.5}}',
        '{"bid": 5}',
        '{"bid": {"price": 1, "price": 2}}',
        '{"bid": {"at": "yesterday"}}',
        '{"bid": {"by": {"score": -0.0}}}',
    ],
)
def test_what_spark_may_see_differently_in_a_struct_is_left_to_it(tmp_path: Path, line: str) -> None:
    (piece,) = pieces(tmp_path, line + "\n")
    assert piece.rows is None
    assert piece.lines == [line.encode()]


def test_only_fields_are_portable_and_not_whole_structs() -> None:
    names = source_names(COLUMNS)
    field = portable("bid.by.score", names)
    assert field == Field(Field(Column("bid", BID), "by", fields_of(BID)[2][1]), "score", "double")
    assert columns_of(field) == {"bid"}
    for sql in ("bid", "bid.by", "bid IS NULL", "coalesce(bid.by, bid.by) IS NULL", "bid.none", "n.price"):
        with pytest.raises(NotPortableError):
            portable(sql, names)


def test_structs_with_other_fields_are_left_to_spark() -> None:
    assert arrow_type("struct<a:int,b:map<string,int>>") is None
    assert arrow_type("struct<a:int,A:int>") is None
    assert arrow_type("struct<a b:int>") is None
    assert arrow_type("map<string,int>") is None
