"""CSV sources: columns by their names, RFC 4180, and all that the csv sink has written."""

from __future__ import annotations

import datetime as dt
import decimal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from eventide import Database, EventideError
from eventide.connectors.files.write import FilesSink

Factory = Callable[..., Database]


def read(db: Database, folder: Path, columns: str, options: str = "") -> list[dict[str, Any]]:
    db.execute(f"""
        CREATE SOURCE s ({columns}) WITH ('connector' = 'files', 'path' = '{folder}', 'format' = 'csv'{options});
        CREATE STREAM o AS SELECT * FROM s
    """)
    db.tick()
    return db.read("o").fetchall()


def test_columns_go_by_the_header(db: Database, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text('b,a\n"x ""y"" ,\nz",1\n,2\n"",3\n')
    (tmp_path / "2.csv").write_text("a,more,b\r\n4,5,six\r\n\r\n")
    assert read(db, tmp_path, "a INT, b STRING, c DATE", ", 'header' = 'true'") == [
        {"a": 1, "b": 'x "y" ,\nz', "c": None},
        {"a": 2, "b": None, "c": None},
        {"a": 3, "b": "", "c": None},
        {"a": 4, "b": "six", "c": None},
    ]


def test_records_that_do_not_decode_are_error_payloads(db: Database, tmp_path: Path) -> None:
    bad = [b"1", b"many,x", b"1,2,3", b'1,"open', b"2,\xff"]
    (tmp_path / "1.csv").write_bytes(b"7,good\n" + b"\n".join(bad) + b"\n8,good\n")
    assert [row["a"] for row in read(db, tmp_path, "a INT, b STRING")] == [7, 8]
    payloads = db.side_output("o", kind="error").fetchall()
    assert sorted(payload["error_detail"] for payload in payloads) == sorted(
        line.decode(errors="replace") for line in bad
    )
    assert {payload["reason"] for payload in payloads} == {"row_undecodable"}


def test_quote_escape_null_text_and_lines_can_be_said(db: Database, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("1;'it\\'s';NA\n2;'open;'NA'\n")
    options = ", 'sep' = ';', 'quote' = '''', 'escape' = '\\\\', 'null_text' = 'NA', 'multi_line' = 'false'"
    assert read(db, tmp_path, "a INT, b STRING, c STRING", options) == [{"a": 1, "b": "it's", "c": None}]
    assert [payload["error_detail"] for payload in db.side_output("o")] == ["2;'open;'NA'"]


def test_times_dates_and_folders_named_after_columns(db: Database, tmp_path: Path) -> None:
    (tmp_path / "day=3").mkdir()
    (tmp_path / "day=3" / "1.csv").write_text("31/01/2026 12:30,5\n12:30,6\n")
    columns = "t TIMESTAMP, v BIGINT, day INT, EVENT TIME t TYPE spark"
    assert read(db, tmp_path, columns, ", 'timestamp_format' = 'dd/MM/yyyy HH:mm'") == [
        {"t": dt.datetime(2026, 1, 31, 12, 30, tzinfo=dt.UTC), "v": 5, "day": 3}
    ]
    assert [payload["error_detail"] for payload in db.side_output("o")] == ["12:30,6"]


@pytest.mark.parametrize("option", ["'quote' = 'ab'", "'escape' = ''", "'sep' = '\"'"])
def test_options_that_cannot_be_are_refused(db: Database, tmp_path: Path, option: str) -> None:
    with pytest.raises(EventideError, match=r"option|separator"):
        read(db, tmp_path, "a INT", f", {option}")


MOMENT = pa.timestamp("us", tz="UTC")
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "STRING": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=6)),
    "BIGINT": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "TINYINT": (pa.int8(), st.integers(-128, 127)),
    "DOUBLE": (pa.float64(), st.floats(allow_nan=False)),
    "FLOAT": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "BOOLEAN": (pa.bool_(), st.booleans()),
    "DECIMAL(20,4)": (pa.decimal128(20, 4), st.decimals(-(10**15), 10**15, places=4)),
    "DATE": (pa.date32(), st.dates()),
    "TIMESTAMP": (MOMENT, st.datetimes(timezones=st.just(dt.UTC))),
    "TIMESTAMP_NTZ": (pa.timestamp("us"), st.datetimes()),
    "BINARY": (pa.binary(), st.binary(max_size=6)),
    "ARRAY<STRING>": (pa.list_(pa.string()), st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3)),
    "MAP<STRING, INT>": (pa.map_(pa.string(), pa.int32()), st.dictionaries(st.text("ab\"',\n"), st.integers(0, 9))),
}
ROWS = st.lists(
    st.tuples(*(st.none() | values for _, values in TYPES.values())), min_size=1, max_size=30
)  # fmt: skip


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(ROWS)
def test_what_the_csv_sink_writes_the_csv_source_reads(db_factory: Factory, rows: list[tuple[Any, ...]]) -> None:
    round_trip(db_factory, rows)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(ROWS)
def test_whatever_the_csv_sink_writes_the_csv_source_reads(db_factory: Factory, rows: list[tuple[Any, ...]]) -> None:
    round_trip(db_factory, rows)


def round_trip(db_factory: Factory, rows: list[tuple[Any, ...]]) -> None:
    schema = pa.schema([(f"c{number}", type) for number, (type, _) in enumerate(TYPES.values())])
    given = [dict(zip(schema.names, row, strict=True)) for row in rows]
    table = pa.Table.from_pylist(
        [{**row, "c12": None if row["c12"] is None else list(row["c12"].items())} for row in given], schema
    )
    with tempfile.TemporaryDirectory() as folder:
        FilesSink(folder, "csv", "q").write(0, table)
        db = db_factory()
        columns = ", ".join(f"c{number} {type}" for number, type in enumerate(TYPES))
        found = read(db, Path(folder), columns, ", 'header' = 'true'")
        payloads = db.side_output("o").fetchall()
        db.close()
    assert payloads == []
    assert found == given


@pytest.mark.parametrize("value", [None, "", "x\n"])
def test_a_single_column_comes_back(db: Database, tmp_path: Path, value: str | None) -> None:
    FilesSink(str(tmp_path), "csv", "q").write(0, pa.table({"a": pa.array([value, "y", value], pa.string())}))
    assert [row["a"] for row in read(db, tmp_path, "a STRING", ", 'header' = 'true'")] == [value, "y", value]


def test_structs_are_columns_of_their_own(tmp_path: Path) -> None:
    window = pa.array([{"start": 1, "in": {"x": decimal.Decimal("1.5")}}, None])
    FilesSink(str(tmp_path), "csv", "q").write(0, pa.table({"window": window, "window_start": [7, 8]}))
    (file,) = tmp_path.iterdir()
    assert file.read_text() == '"window.start","window_in_x","window_start"\n1,1.5,7\n,,8\n'
