"""Avro in messages, without a broker and without Spark."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventide.errors import OptionError, SqlError
from eventide.sql.parser import parse_statements

fastavro = pytest.importorskip("fastavro", reason="no fastavro: pip install 'eventide[kafka]'")

SCHEMA = {
    "type": "record",
    "name": "click",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}
AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def message(**record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), record)
    return out.getvalue()


def test_records_become_columns_and_what_is_none_is_told() -> None:
    from eventide.connectors.kafka.avro import AvroDecoder, schema_of
    from eventide.connectors.kafka.records import RecordMessages

    fields = pa.schema(
        [("id", pa.int32()), ("at", pa.timestamp("us", tz="UTC")), ("tags", pa.string()), ("x", pa.int64())]
    )
    decoder = AvroDecoder(schema_of("source s", {"avro_schema": json.dumps(SCHEMA)}))
    decode = RecordMessages(decoder, "line", fields)
    good = message(id=7, name="a", at=AT, tags=["p", "q"])
    values = [good, b"\xff", good + b"more", None, message(id=2**40, at=AT)]
    (batch,) = decode(iter([pa.record_batch({"place": list(range(5)), "line": values})]))
    rows = batch.to_pylist()
    assert rows[0] == {"place": 0, "id": 7, "at": AT, "tags": '["p", "q"]', "x": None, "__corrupt": None}
    assert [row["__corrupt"] is None for row in rows] == [True, False, False, False, False]
    assert "not Avro of this schema" in rows[1]["__corrupt"] and rows[4]["id"] is None


def test_rows_become_records_and_one_that_does_not_fit_is_an_error() -> None:
    from eventide.connectors.kafka.avro import AvroEncoder, schema_of

    rows = AvroEncoder("out", schema_of("sink out", {"avro_schema": json.dumps(SCHEMA)}))
    value = rows.encoded({"id": 7, "name": None, "at": AT, "tags": ["p"]})
    assert value == message(id=7, name=None, at=AT, tags=["p"])
    with pytest.raises(OptionError, match="sink out: a row does not fit the Avro schema"):
        rows.encoded({"id": "seven", "at": AT})


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("'format' = 'avro'", "it needs 'avro_schema'"),
        ("'format' = 'avro', 'avro_schema' = 'nowhere.avsc'", "cannot be read: No such file"),
        ("'format' = 'avro', 'avro_schema' = '{\"type\": \"nothing\"}'", "is not a schema"),
        ("'avro_schema' = 'x'", "is for format 'avro'"),
    ],
)
def test_a_schema_that_is_none_is_refused_when_the_statement_is_read(more: str, told: str) -> None:
    sql = f"CREATE SOURCE s (id INT) WITH ('connector' = 'kafka', 'servers' = 'h:1', 'topic' = 't', {more})"
    with pytest.raises((SqlError, OptionError), match=told):
        parse_statements(sql)


def test_a_schema_can_lie_in_a_file(tmp_path: Path) -> None:
    from eventide.connectors.kafka.avro import schema_of

    (tmp_path / "click.avsc").write_text(json.dumps(SCHEMA))
    assert schema_of("source s", {"avro_schema": str(tmp_path / "click.avsc")})["name"] == "click"
