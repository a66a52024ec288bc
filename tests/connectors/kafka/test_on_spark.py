"""Streams from topics to topics on Spark."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eventide.errors import EventideError
from tests.conftest import DatabaseFactory
from tests.connectors.kafka_broker import Broker
from tests.markdown import ROOT, blocks

NewTopic = Callable[..., str]
SECRET = "correct-horse-battery"


def clicks(key: str, first: int, last: int) -> list[str]:
    return [json.dumps({"k": key, "ts": 1000 * number}) for number in range(first, last)]


def test_windows_close_by_the_slowest_partition_and_results_go_to_a_topic_once(
    broker: Broker, new_topic: NewTopic, db_factory: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    partition 0   a a a a a a a a a a a a a a a a a a a a     up to 19 s
    partition 1   b b b b b b b b b b b b                     up to 11 s: the watermark
    """
    monkeypatch.setenv("KAFKA_SECRET", SECRET)
    topic, out = new_topic(2), new_topic()
    broker.send(topic, clicks("a", 0, 20), 0)
    broker.send(topic, [*clicks("b", 0, 12), "not json", '{"k": "c", "ts": 9e20}'], 1)
    db = db_factory(checkpoint=str(tmp_path / "checkpoint"))
    db.execute(f"""
        CREATE SOURCE clicks (k STRING, ts BIGINT, place BIGINT METADATA FROM 'offset',
            EVENT TIME ts TYPE unixtimestamp_ms)
        WITH ('connector' = 'kafka', 'servers' = '{broker.address}', 'topic' = '{topic}', 'group' = '{topic}',
              'kafka.sasl.password' = '${{env:KAFKA_SECRET}}');
        CREATE STREAM per_key AS SELECT window_start, k, count(*) AS n, max(place) AS place
        FROM clicks GROUP BY k, TUMBLE(ts, INTERVAL '5' SECOND);
        CREATE SINK out FROM per_key WITH ('connector' = 'kafka', 'servers' = '{broker.address}', 'topic' = '{out}')""")
    db.tick()
    assert db.watermark("per_key") == 11_000
    assert sorted((row["k"], row["n"], row["place"]) for row in db.read("per_key")) == [
        ("a", 5, 4),
        ("a", 5, 9),
        ("b", 5, 4),
        ("b", 5, 9),
    ]
    assert {key: count for key, count in db.accounting("per_key").items() if count} == {
        "rows_in": 34,
        "used": 32,
        "error": 2,
    }
    details = sorted(row["error_detail"] for row in db.side_output("per_key", "error"))
    assert details[0] == f"topic {topic}, partition 1, offset 12: not json" and "offset 13: " in details[1]
    partitions = db.metrics()["per_key"]["sources"]["clicks"]["partitions"]
    assert partitions == {
        f"{topic}-0": {"watermark": 19_000, "unread": 0},
        f"{topic}-1": {"watermark": 11_000, "unread": 0},
    }
    assert f"{topic}-1 is at 1970-01-01 00:00:11" in db.why("per_key")
    db.close()

    broker.add_partitions(topic, 3)
    broker.send(topic, clicks("c", 0, 30), 2)
    broker.send(topic, clicks("b", 12, 30), 1)
    broker.send(topic, clicks("a", 20, 30), 0)
    db = db_factory(checkpoint=str(tmp_path / "checkpoint"))
    db.tick()
    assert db.watermark("per_key") == 29_000
    results = [(row["k"], row["n"]) for row in db.read("per_key")]
    assert sorted(results) == [("a", 5)] * 5 + [("b", 5)] * 5 + [("c", 5)] * 3  # those of c in front of 11 s are late
    assert db.accounting("per_key")["late"] == 10
    db.close()
    given = [json.loads(message.value()) for message in broker.read(out)]
    assert sorted((row["k"], row["n"]) for row in given) == sorted(results)
    kept = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert kept and not any(SECRET.encode() in path.read_bytes() for path in kept)


def test_dates_in_messages_mean_the_same_whoever_decodes_them(
    broker: Broker, new_topic: NewTopic, db_factory: DatabaseFactory
) -> None:
    topic, db = new_topic(), db_factory()
    days = ["2026-02-28", "2026-1-5", "0001-01-01", None, "2026-02-30", "x"]
    broker.send(topic, [json.dumps({"v": v, "d": day, "at": {"day": day}}) for v, day in enumerate(days)])
    broker.send(topic, [json.dumps({"v": 9, "days": ["2026-01-31", None]})])
    db.execute(f"""
        CREATE SOURCE s (v BIGINT, d DATE, at STRUCT<day: DATE>, days ARRAY<DATE>)
        WITH ('connector' = 'kafka', 'servers' = '{broker.address}', 'topic' = '{topic}');
        CREATE STREAM fused AS SELECT v, d, at.day AS inner_day, days FROM s;
        CREATE STREAM plain WITH ('fusion.enabled' = 'false') AS SELECT v, d, at.day AS inner_day, days FROM s;
    """)
    db.tick()
    for stream in ("fused", "plain"):
        rows = {row["v"]: (str(row["d"]), str(row["inner_day"]), row["days"]) for row in db.read(stream)}
        day = "2026-02-28"
        assert rows[0] == (day, day, None) and rows[2][:2] == ("0001-01-01",) * 2 and rows[3] == ("None", "None", None)
        assert [str(each) for each in rows[9][2]] == ["2026-01-31", "None"]
        assert db.accounting(stream)["rows_in"] == 7
    assert list(map(str, db.read("fused"))) == list(map(str, db.read("plain")))
    errors = [sorted(row["error_detail"] for row in db.side_output(stream, "error")) for stream in ("fused", "plain")]
    assert errors[0] == errors[1] and any("offset 5" in each for each in errors[0])


def test_what_only_spark_decodes_and_computes_has_keys_headers_and_places(
    broker: Broker, new_topic: NewTopic, db_factory: DatabaseFactory
) -> None:
    lines, texts = new_topic(), new_topic()
    broker.send(lines, ['1,2026-01-01 00:00:01,"a,b"', "x", None], key=b"one", headers=[("h", b"v")], timestamp=5_000)
    broker.send(texts, ["hello", None, b"\xff"], key=b"two")
    db = db_factory()
    db.execute(f"""
        CREATE SOURCE lines (n INT, ts TIMESTAMP, t STRING, k STRING METADATA FROM 'key', topic STRING METADATA,
            at TIMESTAMP METADATA FROM 'timestamp', h MAP<STRING, STRING> METADATA FROM 'headers',
            p INT METADATA FROM 'partition', WATERMARK FOR ts AS ts)
        WITH ('connector' = 'kafka', 'servers' = '{broker.address}', 'topic' = '{lines}', 'format' = 'csv');
        CREATE SOURCE texts (body STRING, k BINARY METADATA FROM 'key')
        WITH ('connector' = 'kafka', 'servers' = '{broker.address}', 'topic' = '{texts}', 'format' = 'raw');
        CREATE STREAM a AS SELECT n, t, k, topic, unix_millis(at) AS at, h['h'] AS h, p FROM lines;
        CREATE STREAM b AS SELECT reverse(body) AS body, k FROM texts""")
    db.tick()
    assert db.read("a").fetchall() == [{"n": 1, "t": "a,b", "k": "one", "topic": lines, "at": 5_000, "h": "v", "p": 0}]
    details = [row["error_detail"] for row in db.side_output("a", "error")]
    assert details[0] == f"topic {lines}, partition 0, offset 1: x" and len(details) == 2
    assert db.read("b").fetchall() == [{"body": "olleh", "k": b"two"}, {"body": None, "k": b"two"}]
    (bad,) = db.side_output("b", "error")
    assert bad["error_detail"].startswith(f"topic {texts}, partition 0, offset 2: column body is not UTF-8")


def test_avro_from_a_topic_to_a_topic(broker: Broker, new_topic: NewTopic, db_factory: DatabaseFactory) -> None:
    fastavro = pytest.importorskip("fastavro")
    fields = [{"name": "id", "type": "long"}, {"name": "ts", "type": "long"}, {"name": "name", "type": "string"}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    source, out = new_topic(), new_topic()
    for number in range(3):
        message = io.BytesIO()
        record = {"id": number, "ts": 1000 * number, "name": f"n{number}"}
        fastavro.schemaless_writer(message, json.loads(schema), record)
        broker.send(source, [message.getvalue()])
    broker.send(source, [b"\x01"])
    avro = f"'connector' = 'kafka', 'servers' = '{broker.address}', 'format' = 'avro', 'avro_schema' = '{schema}'"
    db = db_factory()
    db.execute(f"""
        CREATE SOURCE s (id BIGINT, ts BIGINT, name STRING, EVENT TIME ts TYPE unixtimestamp_ms)
        WITH ({avro}, 'topic' = '{source}');
        CREATE STREAM o AS SELECT id, ts + 1 AS ts, name FROM s WHERE id > 0;
        CREATE SINK k FROM o WITH ({avro}, 'topic' = '{out}')""")
    db.tick()
    given = [
        fastavro.schemaless_reader(io.BytesIO(each.value()), json.loads(schema), None) for each in broker.read(out)
    ]
    assert given == [{"id": 1, "ts": 1001, "name": "n1"}, {"id": 2, "ts": 2001, "name": "n2"}]
    (bad,) = db.side_output("o", "error")
    assert bad["error_detail"].startswith(f"topic {source}, partition 0, offset 3: not Avro of this schema")


def test_a_topic_or_a_broker_that_is_not_there_is_an_error_before_anything_runs(
    broker: Broker, db_factory: DatabaseFactory
) -> None:
    db = db_factory()
    source = "CREATE OR REPLACE SOURCE s (k STRING) WITH ('connector' = 'kafka', 'servers' = '{}', 'topic' = 'nowhere')"
    db.execute(source.format(broker.address))
    with pytest.raises(EventideError, match="there is no topic nowhere"):
        db.execute("CREATE STREAM o AS SELECT k FROM s")
        db.tick()


def test_the_example_of_the_page_runs(broker: Broker, db_factory: DatabaseFactory) -> None:
    broker.create("clicks", 2)
    broker.create("totals")
    for place, visitor in enumerate(("ann", "bob")):
        rows = [{"visitor": visitor, "amount": 1.5, "ts": f"2026-01-01T12:0{minute}:00Z"} for minute in range(3)]
        broker.send("clicks", [json.dumps(row) for row in rows], place)
    page = ROOT / "docs" / "connectors" / "kafka.md"
    (example,) = (block.code for block in blocks(page) if block.code.startswith("CREATE SOURCE"))
    db = db_factory()
    db.execute(example.replace("localhost:9092", broker.address))
    db.tick()
    found = [(message.key(), json.loads(message.value())["total"]) for message in broker.read("totals")]
    assert sorted(found) == [(b"ann", 1.5), (b"bob", 1.5)]  # at 12:01:55 only the first minute has closed


def test_a_silent_partition_holds_nobody_back_after_the_idle_timeout(
    broker: Broker, new_topic: NewTopic, db_factory: DatabaseFactory
) -> None:
    topic = new_topic(3)
    broker.send(topic, clicks("a", 0, 20), 0)
    broker.send(topic, clicks("b", 0, 3), 1)
    db = db_factory()
    db.execute(f"""
        CREATE SOURCE clicks (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) WITH ('connector' = 'kafka',
            'servers' = '{broker.address}', 'topic' = '{topic}', 'idle_timeout' = '0 seconds');
        CREATE STREAM counted AS SELECT k, count(*) AS n FROM clicks GROUP BY k, TUMBLE(ts, INTERVAL '5' SECOND)""")
    db.tick()
    assert db.watermark("counted") == 19_000
    assert sorted((row["k"], row["n"]) for row in db.read("counted")) == [("a", 5), ("a", 5), ("a", 5), ("b", 3)]
