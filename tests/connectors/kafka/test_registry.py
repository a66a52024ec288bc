"""Avro with a schema registry: a real one, and what is said when it does not answer."""

from __future__ import annotations

import io
import json
import struct
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pyarrow as pa
import pytest

from eventide import Database
from eventide.errors import OptionError, SinkError, SourceError, SqlError
from eventide.sql.parser import parse_statements
from tests.connectors import schema_registry
from tests.connectors.kafka_broker import Broker
from tests.sql.support import catalog

fastavro = pytest.importorskip("fastavro", reason="no fastavro: pip install 'eventide[kafka]'")

NewTopic = Callable[..., str]
OLD: dict[str, Any] = {"type": "record", "name": "click", "fields": [{"name": "id", "type": "long"}]}
NEW: dict[str, Any] = {**OLD, "fields": [*OLD["fields"], {"name": "note", "type": "string", "default": "none"}]}
FIELDS = pa.schema([("id", pa.int64()), ("note", pa.string())])


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not schema_registry.is_there():
        pytest.skip(schema_registry.MISSING)
    with schema_registry.running_registry(tmp_path_factory.mktemp("registry")) as url:
        yield url


@pytest.fixture
def subject() -> str:
    return f"t{uuid.uuid4().hex[:10]}-value"


def register(url: str, subject: str, schema: Any, **more: Any) -> int:
    from eventide.connectors.kafka.registry import Registry

    number: int = Registry(url).ask(f"subjects/{subject}/versions", {"schema": json.dumps(schema), **more})["id"]
    return number


def message(number: int, schema: Any, **record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return b"\0" + struct.pack(">I", number) + out.getvalue()


def decoded(options: dict[str, str], fields: pa.Schema, *values: bytes | None) -> list[dict[str, Any]]:
    from eventide.connectors.kafka.formats import decoder_of
    from eventide.connectors.kafka.records import RecordMessages

    decode = RecordMessages(decoder_of("source s", {"format": "avro", **options}), "line", fields)
    (batch,) = decode(iter([pa.record_batch({"line": pa.array(values, pa.binary())})]))
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


@pytest.mark.slow
def test_each_message_is_read_with_the_schema_that_it_names(registry: str, subject: str) -> None:
    old, new = register(registry, subject, OLD), register(registry, subject, NEW)
    values = [message(old, OLD, id=1), message(new, NEW, id=2, note="b"), message(old, OLD, id=3)]
    rows = decoded({"avro_registry": registry}, FIELDS, *values)
    assert [(row["id"], row["note"]) for row in rows] == [(1, None), (2, "b"), (3, None)]
    evolved = decoded({"avro_registry": registry, "avro_schema": json.dumps(NEW)}, FIELDS, *values)
    assert [(row["id"], row["note"]) for row in evolved] == [(1, "none"), (2, "b"), (3, "none")]


@pytest.mark.slow
def test_messages_that_are_none_are_told_and_the_others_read(registry: str, subject: str) -> None:
    good = message(register(registry, subject, OLD), OLD, id=1)
    unknown = b"\0" + struct.pack(">I", 2**31 - 2) + good[5:]
    rows = decoded(
        {"avro_registry": registry}, FIELDS, good, b"\1" + good[1:], good[:3], good + b"x", unknown, None, good
    )
    assert [row["__corrupt"] is None for row in rows] == [True, False, False, False, False, False, True]
    assert "does not begin with the number of a schema" in rows[1]["__corrupt"]
    assert "the registry has no schemas/ids/2147483646" in rows[4]["__corrupt"]


@pytest.mark.slow
def test_a_schema_may_refer_to_others(registry: str, subject: str) -> None:
    item: dict[str, Any] = {"type": "record", "name": "item", "fields": [{"name": "sku", "type": "string"}]}
    order = {"type": "record", "name": "order", "fields": [{"name": "item", "type": "item"}]}
    register(registry, f"item-{subject}", item)
    refers = {"name": "item", "subject": f"item-{subject}", "version": 1}
    number = register(registry, subject, order, references=[refers])
    inline = {**order, "fields": [{"name": "item", "type": item}]}
    fields = pa.schema([("item", pa.struct([("sku", pa.string())]))])
    (row,) = decoded({"avro_registry": registry}, fields, message(number, inline, item={"sku": "a"}))
    assert row == {"item": {"sku": "a"}, "__corrupt": None}


@pytest.mark.slow
def test_a_sink_registers_its_schema_or_takes_the_newest(registry: str, subject: str) -> None:
    from eventide.connectors.kafka.formats import encoder_of

    options = {"format": "avro", "topic": subject.removesuffix("-value"), "avro_registry": registry}
    with pytest.raises(SinkError, match=f"sink out: the registry has no subjects/{subject}"):
        encoder_of("out", options).encoded({"id": 1})
    first = encoder_of("out", {**options, "avro_schema": json.dumps(OLD)}).encoded({"id": 1})
    assert first == message(register(registry, subject, OLD), OLD, id=1)
    newest = register(registry, subject, NEW)
    assert encoder_of("out", options).encoded({"id": 2, "note": "b"}) == message(newest, NEW, id=2, note="b")


@pytest.mark.slow
def test_a_stream_with_a_registry_on_both_sides(
    db: Database, broker: Broker, new_topic: NewTopic, registry: str
) -> None:
    topic, out = new_topic(), new_topic()
    old, new = register(registry, f"{topic}-value", OLD), register(registry, f"{topic}-value", NEW)
    broker.send(topic, [message(old, OLD, id=1), b"nonsense", message(new, NEW, id=2, note="b")])
    connection = (
        f"'connector' = 'kafka', 'servers' = '{broker.address}', 'format' = 'avro', 'avro_registry' = '{registry}'"
    )
    db.execute(f"""
        CREATE SOURCE s (id BIGINT, note STRING, ts TIMESTAMP METADATA FROM 'timestamp', WATERMARK FOR ts AS ts)
        WITH ({connection}, 'topic' = '{topic}', 'avro_schema' = '{json.dumps(NEW)}');
        CREATE STREAM o AS SELECT id * 10 AS id, note FROM s;
        CREATE SINK k FROM o WITH ({connection}, 'topic' = '{out}', 'avro_schema' = '{json.dumps(NEW)}');
    """)
    db.tick()
    (payload,) = db.side_output("o")
    assert payload["error_detail"].startswith(f"topic {topic}, partition 0, offset 1: not Avro of a registered schema")
    rows = decoded({"avro_registry": registry}, FIELDS, *[each.value() for each in broker.read(out)])
    assert sorted((row["id"], row["note"]) for row in rows) == [(10, "none"), (20, "b")]


@pytest.fixture
def refusing() -> Iterator[tuple[str, list[str | None]]]:
    """A server that says no to everybody, and whom they said they were."""
    asked: list[str | None] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            self.send_response(401)
            self.end_headers()
            self.wfile.write(b'{"error_code": 401, "message": "who are you?"}')

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_registry_that_refuses_ends_the_stream_rather_than_the_messages_and_no_password_is_told(
    refusing: tuple[str, list[str | None]],
) -> None:
    from eventide.connectors.kafka.formats import decoder_of

    url, asked = refusing
    options = {"avro_registry": url, "avro_registry_user": "ada", "avro_registry_password": "hush"}
    with pytest.raises(SourceError, match=f"{url} does not help: 401 who are you") as raised:
        decoded(options, FIELDS, message(1, OLD, id=1))
    assert asked == ["Basic YWRhOmh1c2g="]
    assert "hush" not in str(raised.value) + repr(decoder_of("source s", {"format": "avro", **options}))


def test_a_registry_that_is_not_there_ends_the_stream_rather_than_the_messages() -> None:
    with pytest.raises(SourceError, match=r"the schema registry at http://127.0.0.1:1 does not help: .*refused"):
        decoded({"avro_registry": "http://127.0.0.1:1"}, FIELDS, message(1, OLD, id=1))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("'format' = 'avro', 'avro_registry' = 'registry:8081'", "is not the address of a registry"),
        ("'format' = 'avro', 'avro_registry' = 'http://a:b@h:1'", "has a user or a password in it"),
        (
            "'format' = 'avro', 'avro_registry' = 'http://h:1', 'avro_registry_password' = '${env:P}'",
            "no 'avro_registry_user'",
        ),
        ("'format' = 'avro', 'avro_schema' = '\"long\"', 'avro_registry_user' = 'a'", "is for a registry"),
        ("'avro_registry' = 'http://h:1'", "is for format 'avro'"),
    ],
)
def test_options_that_name_no_registry_are_refused_when_the_statement_is_read(more: str, told: str) -> None:
    sql = f"CREATE SOURCE s (id INT) WITH ('connector' = 'kafka', 'servers' = 'h:1', 'topic' = 't', {more})"
    with pytest.raises((SqlError, OptionError), match=told):
        parse_statements(sql)


def test_a_password_in_clear_is_refused_and_not_repeated() -> None:
    sql = """CREATE SOURCE r (id INT) WITH ('connector' = 'kafka', 'servers' = 'h:1', 'topic' = 't', 'format' = 'avro',
             'avro_registry' = 'http://h:1', 'avro_registry_user' = 'ada', 'avro_registry_password' = '{}')"""
    made = catalog()
    with pytest.raises(OptionError, match="has a password in its option 'avro_registry_password'") as raised:
        made.apply(parse_statements(sql.format("hush"))[0])
    assert "hush" not in str(raised.value)
    made.apply(parse_statements(sql.format("${env:REGISTRY_PASSWORD}"))[0])
