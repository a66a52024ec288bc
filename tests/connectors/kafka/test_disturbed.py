"""A broker that loses its power in the middle, topics that grow and go, and a dead-letter topic that nobody serves."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventide import Database
from eventide.errors import EventideError
from eventide.spark import side_channel
from tests.conftest import DatabaseFactory
from tests.connectors.kafka_broker import MISSING, Broker, is_there, running_broker


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """One that a test may kill."""
    pytest.importorskip("confluent_kafka", reason="no confluent-kafka: pip install 'eventide[kafka]'")
    if not is_there():
        pytest.skip(MISSING)
    (tmp_path / "broker").mkdir()
    with running_broker(tmp_path / "broker") as broker:
        yield broker


def given(broker: Broker, topic: str) -> list[Any]:
    return sorted(json.loads(message.value())["v"] for message in broker.read(topic))


def delivered(broker: Broker, topic: str) -> list[Any]:
    """What side sinks have written: they do it beside the batches, so it may take a moment."""
    end = time.monotonic() + 60
    while not (found := [json.loads(message.value()) for message in broker.read(topic)]) and time.monotonic() < end:
        time.sleep(0.2)
    return found


@pytest.mark.slow  # it waits for several timeouts, and takes more than a minute
def test_a_stream_from_topic_to_topic_survives_its_broker(
    own_broker: Broker, db_factory: DatabaseFactory, tmp_path: Path
) -> None:
    broker = own_broker
    for topic in ("in", "out", "dead"):
        broker.create(topic)
    kafka = f"'connector' = 'kafka', 'servers' = '{broker.address}'"
    sql = f"""
        CREATE SOURCE s (v BIGINT) WITH ({kafka}, 'topic' = 'in', 'timeout' = '5 seconds');
        CREATE SINK dlq WITH ({kafka}, 'topic' = 'dead', 'timeout' = '2 seconds');
        CREATE SOURCE e (v BIGINT);
        CREATE STREAM o WITH ('side_output.error.sink' = 'dlq') AS SELECT v FROM s;
        CREATE STREAM p WITH ('side_output.error.sink' = 'dlq') AS SELECT v FROM e;
        CREATE SINK out FROM o WITH ({kafka}, 'topic' = 'out', 'timeout' = '10 seconds')"""
    broker.send("in", ['{"v": 1}', "not json", '{"v": 2}'])
    with db_factory(checkpoint=tmp_path / "checkpoint") as db:
        db.execute(sql)
        db.tick()
        assert given(broker, "out") == [1, 2]
        (dead,) = delivered(broker, "dead")
        assert dead["kind"] == "error" and dead["error_detail"] == "topic in, partition 0, offset 1: not json"

        broker.send("in", ['{"v": 3}'])
        broker.kill()
        with pytest.raises(EventideError, match=r"do(es)? not answer|have not answered|could not be written"):
            db.tick()
    broker.start()
    with db_factory(checkpoint=tmp_path / "checkpoint") as db:
        db.execute(sql)
        broker.add_partitions("in", 2)
        broker.send("in", ['{"v": 4}'], 1)
        db.tick()
        assert given(broker, "out") == [1, 2, 3, 4] == sorted(row["v"] for row in db.read("o"))

        broker.delete("in")
        with pytest.raises(EventideError, match=r"has gone|there is no topic in"):
            db.tick()


def test_a_consumer_that_joins_the_group_takes_nothing_from_the_stream(
    broker: Broker, new_topic: Callable[..., str], db_factory: DatabaseFactory
) -> None:
    """The group rebalances. The stream is no member of it, and goes by its checkpoint."""
    from confluent_kafka import Consumer

    topic, db = new_topic(2), db_factory()
    db.execute(f"""
        CREATE SOURCE s (v BIGINT)
        WITH ('connector' = 'kafka', 'servers' = '{broker.address}', 'topic' = '{topic}', 'group' = 'g-{topic}');
        CREATE STREAM o AS SELECT v FROM s
    """)

    def put(first: int) -> None:
        for partition in (0, 1):
            broker.send(topic, [json.dumps({"v": first + 2 * number + partition}) for number in range(5)], partition)
        db.tick()

    put(0)
    quiet = {"bootstrap.servers": broker.address, "group.id": f"g-{topic}", "log_level": 0}
    others = [Consumer({**quiet, "auto.offset.reset": "earliest"}) for _ in range(2)]
    for number, other in enumerate(others, start=1):
        other.subscribe([topic])
        end = time.monotonic() + 60
        while not other.assignment() and time.monotonic() < end:
            for each in others[:number]:  # who is asked to give up partitions answers only when it looks
                each.poll(0.1)
        assert other.assignment()
        put(10 * number)
    for other in others:
        other.close()
    put(30)
    assert sorted(row["v"] for row in db.read("o")) == list(range(40))


def test_a_stream_goes_on_while_its_dead_letters_cannot_be_delivered(
    own_broker: Broker, db_factory: DatabaseFactory
) -> None:
    own_broker.create("dead")
    db = db_factory()
    db.execute(f"""
        CREATE SOURCE s (v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE SINK dlq WITH ('connector' = 'kafka', 'servers' = '{own_broker.address}', 'topic' = 'dead',
            'timeout' = '1 second');
        CREATE STREAM o WITH ('side_output.error.sink' = 'dlq') AS SELECT v FROM s""")
    own_broker.kill()
    for number in range(3):
        db.write("s", [{"v": number, "ts": 1}, {"v": number, "ts": 10**17}])
        db.tick()
    assert [row["v"] for row in db.read("o")] == [0, 1, 2]
    figures = db.metrics()["o"]
    assert figures.get("side_sent_error", 0) == 0 and len(db.side_output("o", "error").fetchall()) == 3


@pytest.mark.slow
def test_dead_letters_beyond_what_may_wait_are_dropped_and_counted_and_the_rest_arrives(
    own_broker: Broker, db_factory: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker stands still for a while: one batch is on its way, two wait, and the stream goes on."""
    monkeypatch.setattr(side_channel, "MOST_BATCHES", 2)
    own_broker.create("dead")
    db = db_factory()
    db.execute(f"""
        CREATE SOURCE s (v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE SINK dlq WITH ('connector' = 'kafka', 'servers' = '{own_broker.address}', 'topic' = 'dead',
            'timeout' = '500 seconds');
        CREATE STREAM o WITH ('side_output.error.sink' = 'dlq') AS SELECT v FROM s""")

    def feed(number: int) -> None:
        db.write("s", [{"v": number, "ts": 1}, {"v": number, "ts": 10**17}])
        db.tick()

    feed(0)
    await_figures(db, side_sent_error=1)
    os.kill(own_broker.pid, signal.SIGSTOP)
    try:
        feed(1)
        await_figures(db, side_waiting=0)
        for number in range(2, 7):
            feed(number)
        figures = db.metrics()["o"]
        assert (figures["side_waiting"], figures["side_dropped_error"], figures["side_sent_error"]) == (2, 3, 1)
        assert [row["v"] for row in db.read("o")] == list(range(7))
        assert db.accounting("o")["error"] == 7 == len(db.side_output("o", "error").fetchall())
    finally:
        os.kill(own_broker.pid, signal.SIGCONT)
    await_figures(db, side_sent_error=4)
    assert db.metrics()["o"]["side_dropped_error"] == 3
    events = [json.loads(message.value())["original_event"] for message in own_broker.read("dead")]
    assert sorted(json.loads(event)["v"] if isinstance(event, str) else event["v"] for event in events) == [0, 1, 2, 3]


def await_figures(db: Database, **wanted: int) -> None:
    """Side sinks work beside the batches; a test that waits for ever ends by its timeout."""
    while {name: db.metrics()["o"].get(name, 0) for name in wanted} != wanted:
        time.sleep(0.05)
