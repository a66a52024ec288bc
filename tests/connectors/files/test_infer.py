"""Columns that files show: once, when the source is made; the checkpoint keeps them."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from eventide.connectors.files.infer import infer
from eventide.errors import OptionError, SqlError
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements


def test_json_of_several_files(tmp_path: Path) -> None:
    first = {
        "id": 1,
        "name": "a",
        "at": "2026-01-01T00:00:00",
        "on": True,
        "tags": ["x"],
        "in": {"a b": 1.5},
        "no": None,
    }
    (tmp_path / "1.json").write_text(json.dumps(first))
    (tmp_path / "2.json.gz").write_bytes(gzip.compress(b'{"id": 2.5, "more": 1}\n'))
    assert infer({"path": str(tmp_path), "format": "json"}) == (
        ("id", "double"),
        ("name", "string"),
        ("at", "timestamp"),
        ("on", "boolean"),
        ("tags", "array<string>"),
        ("in", "struct<`a b`:double>"),
        ("no", "string"),
        ("more", "bigint"),
    )


def test_csv_by_its_header_and_parquet_by_its_schema(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text('id;"a day";n\n1;2026-01-01;x\n')
    options = {"path": f"{tmp_path}/*.csv", "format": "csv", "sep": ";"}
    assert infer({**options, "header": "true"}) == (("id", "bigint"), ("a day", "date"), ("n", "string"))
    with pytest.raises(OptionError, match="inferred from a header"):
        infer(options)
    rows = pa.table({"i": pa.array([1], pa.int32()), "t": [dt.datetime(2026, 1, 1)], "m": [b"x"]})
    pa.parquet.write_table(rows, tmp_path / "1.parquet")
    found = infer({"path": f"{tmp_path}/*.parquet", "format": "parquet"})
    assert found == (("i", "int"), ("t", "timestamp_ntz"), ("m", "binary"))


@pytest.mark.parametrize("content", [None, b"", b"not json\n"])
def test_files_that_tell_nothing_are_an_error(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "1.json").write_bytes(content)
    with pytest.raises(OptionError, match=r"inferred") as raised:
        infer({"path": str(tmp_path), "format": "json"})
    assert "declare the columns" in (raised.value.help or "")


def created(catalog: Catalog, sql: str) -> None:
    for statement in parse_statements(sql):
        catalog.apply(statement)


def test_the_text_that_is_kept_has_the_columns(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text('{"id": 1, "at": "2026-01-01T00:00:00Z"}\n')
    sql = f"""
        CREATE SOURCE s (WATERMARK FOR at AS at - INTERVAL '5' SECOND)
        WITH ('connector' = 'files', 'schema' = 'infer', 'path' = '{tmp_path}')"""
    catalog = Catalog()
    created(catalog, f"{sql}; CREATE STREAM o AS SELECT id FROM s")
    assert [(column.name, column.type) for column in catalog.source("s").columns] == [
        ("id", "bigint"),
        ("at", "timestamp"),
    ]
    (tmp_path / "2.json").write_text('{"other": 1}\n')
    (statement,) = parse_statements(sql)
    assert catalog.with_columns(statement).text == catalog.text("s")  # run again, the source is what it was
    again = Catalog.from_texts(catalog.texts())
    assert again.source("s") == catalog.source("s") and "'schema' = 'inferred'" in again.text("s")
    created(catalog, f"DROP STREAM o; {sql.replace('CREATE', 'CREATE OR REPLACE')}")
    assert [column.name for column in catalog.source("s").columns] == ["id", "at", "other"]


def test_columns_are_declared_or_inferred(tmp_path: Path) -> None:
    sql = f"CREATE SOURCE s (id INT) WITH ('connector' = 'files', 'schema' = 'infer', 'path' = '{tmp_path}')"
    with pytest.raises(SqlError, match="there is nothing to infer"):
        created(Catalog(), sql)
    with pytest.raises(SqlError, match="a source needs columns"):
        created(Catalog(), f"CREATE SOURCE s WITH ('connector' = 'files', 'path' = '{tmp_path}')")
