"""Protocol Buffers in messages; the last test with a broker and Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2

from eventide import Database
from eventide.errors import OptionError, SqlError
from eventide.sql.parser import parse_statements
from tests.connectors.kafka_broker import Broker

NewTopic = Callable[..., str]
AT = dt.datetime(2026, 1, 1, 12, 30, 0, 123456, tzinfo=dt.UTC)
KINDS = {"int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "message": 11, "bytes": 12, "enum": 14}


def add(message: descriptor_pb2.DescriptorProto, name: str, kind: str, type: str = "", label: int = 1) -> Any:
    field = message.field.add(name=name, number=len(message.field) + 1, type=KINDS[kind], label=label)
    if type:
        field.type_name = type
    return field


@pytest.fixture(scope="session")
def descriptor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What protoc writes of a proto3 file with a message of every sort of field."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    colour = file.enum_type.add(name="Colour")
    for number, name in enumerate(("RED", "BLUE")):
        colour.value.add(name=name, number=number)
    item = file.message_type.add(name="Item")
    add(item, "sku", "string")
    add(item, "count", "int32")
    click = file.message_type.add(name="Click")
    add(click, "id", "int64")
    optional = add(click, "note", "string")
    optional.proto3_optional, optional.oneof_index = True, 0
    click.oneof_decl.add(name="_note")
    add(click, "at", "message", ".google.protobuf.Timestamp")
    add(click, "colour", "enum", ".shop.Colour")
    add(click, "item", "message", ".shop.Item")
    add(click, "tags", "string", label=3)
    add(click, "items", "message", ".shop.Item", label=3)
    add(click, "price", "message", ".google.protobuf.Int64Value")
    add(click, "raw", "bytes")
    add(click, "big", "uint64")
    counts = click.nested_type.add(name="CountsEntry")
    counts.options.map_entry = True
    add(counts, "key", "string")
    add(counts, "value", "int64")
    add(click, "counts", "message", ".shop.Click.CountsEntry", label=3)
    files = descriptor_pb2.FileDescriptorSet()
    for known in (timestamp_pb2, wrappers_pb2):
        known.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.add().CopyFrom(file)
    path = tmp_path_factory.mktemp("protobuf") / "shop.desc"
    path.write_bytes(files.SerializeToString())
    return path


def options(descriptor: Path, message: str = "shop.Click") -> dict[str, str]:
    return {"format": "protobuf", "protobuf_descriptor": str(descriptor), "protobuf_message": message}


def encoded(descriptor: Path, **row: Any) -> bytes:
    from eventide.connectors.kafka.protobuf import ProtobufEncoder, message_type

    return ProtobufEncoder("out", message_type("sink out", options(descriptor))).encoded(row)


def decoded(descriptor: Path, fields: pa.Schema, *values: bytes | None) -> list[dict[str, Any]]:
    from eventide.connectors.kafka.formats import decoder_of
    from eventide.connectors.kafka.records import RecordMessages

    decode = RecordMessages(decoder_of("source s", options(descriptor)), "line", fields)
    (batch,) = decode(iter([pa.record_batch({"line": pa.array(values, pa.binary())})]))
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


ITEM = pa.struct([("sku", pa.string()), ("count", pa.int64())])
FIELDS = pa.schema(
    [
        ("id", pa.int64()), ("note", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("colour", pa.string()),
        ("item", ITEM), ("tags", pa.list_(pa.string())), ("items", pa.list_(ITEM)), ("price", pa.int64()),
        ("raw", pa.binary()), ("counts", pa.map_(pa.string(), pa.int64())), ("missing", pa.int32()),
    ]
)  # fmt: skip


def test_what_is_written_is_read_back(descriptor: Path) -> None:
    row = {
        "id": 7, "note": "é", "at": AT, "colour": "BLUE", "item": {"sku": "a", "count": 2}, "tags": ["p", "q"],
        "items": [{"sku": "b", "count": 1}, {"sku": "c", "count": 0}], "price": 5, "raw": b"\xff", "counts": {"x": 1},
    }  # fmt: skip
    (found,) = decoded(descriptor, FIELDS, encoded(descriptor, **row))
    assert found == {**row, "counts": [("x", 1)], "missing": None, "__corrupt": None}


def test_what_is_not_set_is_null_only_where_that_can_be_told(descriptor: Path) -> None:
    (found,) = decoded(descriptor, FIELDS, b"")
    assert {name: value for name, value in found.items() if value is not None} == {
        "id": 0, "colour": "RED", "tags": [], "items": [], "raw": b"", "counts": [],
    }  # fmt: skip


def test_messages_that_are_none_or_do_not_fit_are_told(descriptor: Path) -> None:
    good, large = encoded(descriptor, id=1), encoded(descriptor, big=2**63)
    fields = pa.schema([("id", pa.int32()), ("big", pa.int64())])
    rows = decoded(descriptor, fields, good, b"\xff\xff", None, good[:-1], large, encoded(descriptor, id=2**40))
    assert [row["__corrupt"] is None for row in rows] == [True, False, False, False, False, False]
    assert "not a shop.Click (DecodeError" in rows[1]["__corrupt"] and rows[1]["__corrupt"].endswith(": ffff")
    assert rows[5]["id"] is None


def test_an_enum_can_be_read_as_text_only_and_an_unknown_one_is_its_number(descriptor: Path) -> None:
    fields = pa.schema([("colour", pa.string())])
    assert [row["colour"] for row in decoded(descriptor, fields, encoded(descriptor, colour=9))] == ["9"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"id": "seven"}, "TypeError"),
        ({"unknown": 1}, "it has no field unknown"),
        ({"colour": "GREEN"}, "shop.Colour has no GREEN"),
        ({"item": {"price": 1}}, "it has no field price"),
    ],
)
def test_a_row_that_does_not_fit_is_an_error(descriptor: Path, row: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError, match=f"sink out: a row does not fit the message shop.Click: .*{told}"):
        encoded(descriptor, **row)


def test_options_that_name_no_message_are_refused_when_the_statement_is_read(descriptor: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.desc").write_bytes(b"\xff\xff\xff")
    cases = {
        "'format' = 'protobuf'": "it needs 'protobuf_descriptor'",
        f"'format' = 'protobuf', 'protobuf_descriptor' = '{descriptor}'": "it needs 'protobuf_message'",
        "'format' = 'protobuf', 'protobuf_descriptor' = 'nowhere', 'protobuf_message' = 'a'": "No such file",
        f"'format' = 'protobuf', 'protobuf_descriptor' = '{tmp_path}/bad.desc', 'protobuf_message' = 'a'":
            "does not describe messages",
        f"'format' = 'protobuf', 'protobuf_descriptor' = '{descriptor}', 'protobuf_message' = 'a'":
            "has no message a\n.*shop.Item, shop.Click",
        "'protobuf_message' = 'a'": "is for format 'protobuf'",
    }  # fmt: skip
    for more, told in cases.items():
        sql = f"CREATE SOURCE s (id INT) WITH ('connector' = 'kafka', 'servers' = 'h:1', 'topic' = 't', {more})"
        with pytest.raises((SqlError, OptionError), match=told):
            parse_statements(sql)


@pytest.mark.slow
def test_a_stream_from_protobuf_to_protobuf(
    db: Database, broker: Broker, new_topic: NewTopic, descriptor: Path
) -> None:
    topic, out = new_topic(), new_topic()
    broker.send(topic, [encoded(descriptor, id=1, at=AT, tags=["a"]), b"\xff\xff", encoded(descriptor, id=2, at=AT)])
    form = ", ".join(f"'{name}' = '{value}'" for name, value in options(descriptor).items())
    connection = f"'connector' = 'kafka', 'servers' = '{broker.address}'"
    db.execute(f"""
        CREATE SOURCE s (id BIGINT, at TIMESTAMP, tags ARRAY<STRING>, WATERMARK FOR at AS at - INTERVAL '1' SECOND)
        WITH ({connection}, 'topic' = '{topic}', {form});
        CREATE STREAM o AS SELECT id * 10 AS id, at, tags FROM s;
        CREATE SINK k FROM o WITH ({connection}, 'topic' = '{out}', {form});
    """)
    db.tick()
    (payload,) = db.side_output("o")
    assert payload["error_detail"].startswith(f"topic {topic}, partition 0, offset 1: not a shop.Click")
    fields = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("tags", pa.list_(pa.string()))])
    rows = decoded(descriptor, fields, *[message.value() for message in broker.read(out)])
    assert sorted(row["id"] for row in rows) == [10, 20]
    assert {row["at"] for row in rows} == {AT}
