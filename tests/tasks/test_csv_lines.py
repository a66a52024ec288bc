"""CSV inside a task: plain spellings become values, everything else is left to Spark with its texts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.csv_files import CsvFiles
from eventide.tasks.csv_lines import CsvLines
from eventide.tasks.csv_records import CsvForm

COLUMNS = (("n", "int"), ("d", "double"), ("b", "boolean"), ("t", "timestamp"), ("s", "string"))


def reader(header: bool = False, iso: str | None = None) -> CsvLines:
    names = tuple(name for name, _ in COLUMNS)
    return CsvLines(CsvFiles(CsvForm(), header, names, names), COLUMNS, iso)


def whole_file(path: Path) -> FileRange:
    return FileRange(str(path), 0, 0, 0, path.stat().st_size)


def test_plain_values_are_read_in_their_types(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('s,n,t,b,d\n"x, ""y""",-5,2026-01-01T00:00:00Z,true,1.5\n,,,,\n"",0,2026-01-01 00:00:01Z,false,2\n')
    (piece,) = reader(header=True).read(whole_file(path))
    assert piece.rows is not None and piece.rows.schema.types[:2] == [pa.int32(), pa.float64()]
    assert [list(row.values()) for row in piece.rows.drop_columns(["t"]).to_pylist()] == [
        [-5, 1.5, True, 'x, "y"'],
        [None, None, None, None],
        [0, 2.0, False, ""],
    ]


@pytest.mark.parametrize(
    "record",
    "+1,,,,|01,,,,| 1,,,,|2147483648,,,,|,1e3,,,|,-0.0,,,|,NaN,,,|,,TRUE,,|,,,2026-01-01,|1".split("|"),
)
def test_unusual_spellings_and_bad_records_are_left_to_spark_with_few_others(tmp_path: Path, record: str) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress("".join(f"{n},,,,x\n" for n in range(500)).encode() + f"{record}\n".encode()))
    pieces = list(reader().read(whole_file(path)))
    assert sum(len(piece.lines) if piece.rows is None else piece.rows.num_rows for piece in pieces) == 501
    left = [json.loads(line) for piece in pieces for line in piece.lines]
    assert 0 < len(left) <= 64 and left[-1]["__record"].strip() == record.strip()
    assert left[-1]["__is_bad"] == (record == "1")
    assert [piece.at for piece in pieces] == sorted(piece.at for piece in pieces)


def test_a_text_that_must_be_a_time_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(",,,,2026-01-01T00:00:00Z\n,,,,yesterday\n")
    (piece,) = reader(iso="s").read(whole_file(path))
    assert piece.rows is None and len(piece.lines) == 2
