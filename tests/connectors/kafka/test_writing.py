"""A topic as a sink: every batch once, whoever dies when."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from eventide.errors import OptionError, SinkError
from tests.connectors.kafka_broker import Broker

NewTopic = Callable[..., str]


def rows(*values: int) -> pa.Table:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return pa.table({"k": [f"k{value}" for value in values], "v": list(values), "at": [at] * len(values)})


def sink(broker: Broker, topic: str, **options: str) -> Any:
    from eventide.connectors.kafka.write import KafkaSink

    return KafkaSink(
        "out", {"servers": broker.address, "topic": topic, "timeout": "20 seconds", **options}, f"id{topic}"
    )


def values(broker: Broker, topic: str) -> list[int]:
    return [json.loads(message.value())["v"] for message in broker.read(topic)]


def test_rows_become_json_and_a_column_the_key(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic()
    sink(broker, topic, key="k").write(0, rows(7))
    (message,) = broker.read(topic)
    assert message.key() == b"k7"
    assert json.loads(message.value()) == {"k": "k7", "v": 7, "at": "2026-01-01T00:00:00Z"}
    sink(broker, topic, key="v").write(1, rows(8))
    assert broker.read(topic)[-1].key() == b"8"
    with pytest.raises(OptionError, match="there is no column nokey"):
        sink(broker, topic, key="nokey").write(2, rows(9))


def test_a_batch_that_comes_again_is_not_written_again(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic()
    first = sink(broker, topic)
    first.write(0, rows(1, 2))
    first.write(1, rows())
    first.write(2, rows(3))
    first.write(2, rows(3))
    first.close()
    again = sink(broker, topic)
    again.write(2, rows(3))
    again.write(3, rows(4))
    assert values(broker, topic) == [1, 2, 3, 4]


def test_what_died_before_its_end_is_not_seen_and_one_that_lives_on_is_shut_out(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic()
    old = sink(broker, topic)
    old.write(0, rows(1))
    producer = old._opened._producer
    producer.begin_transaction()
    producer.produce(topic, json.dumps({"v": 66}))
    producer.flush(20)  # and here it dies, or seems to
    new = sink(broker, topic)
    new.write(1, rows(2))
    assert values(broker, topic) == [1, 2]
    with pytest.raises(SinkError, match="batch 1 could not be written"):
        old._opened._next = 1
        old.write(1, rows(2))
    new.write(2, rows(3))
    assert values(broker, topic) == [1, 2, 3]


def test_at_least_once_writes_again_what_comes_again(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic()
    plain = sink(broker, topic, delivery="at_least_once")
    plain.write(0, rows(1))
    plain.write(0, rows(1))
    plain.close()
    assert values(broker, topic) == [1, 1]


def test_a_broker_that_is_not_there_is_a_sink_error_without_secrets(broker: Broker) -> None:
    from eventide.connectors.kafka.write import KafkaSink

    options = {"servers": "127.0.0.1:1", "topic": "t", "timeout": "1 second", "kafka.sasl.password": "hush-hush"}
    with pytest.raises(SinkError) as raised:
        KafkaSink("out", options, "id").write(0, rows(1))
    assert "127.0.0.1:1" in str(raised.value) and "hush" not in str(raised.value)


@pytest.mark.parametrize("more", [0, 100])
def test_a_buffer_that_nobody_empties_is_a_sink_error_when_the_time_is_over(more: int) -> None:
    """librdkafka by itself would hold messages for five minutes, and take no more while its buffer is full."""
    pytest.importorskip("confluent_kafka", reason="no confluent-kafka: pip install 'eventide[kafka]'")
    from eventide.connectors.kafka.write import KafkaSink

    options = {"servers": "127.0.0.1:1", "topic": "t", "timeout": "1 second", "delivery": "at_least_once"}
    out = KafkaSink("out", {**options, "kafka.queue.buffering.max.messages": "5"}, "id")
    with pytest.raises(SinkError, match="batch 0 could not be written to topic t"):
        out.write(0, rows(*range(3 + more)))


def test_what_is_ours_to_decide_cannot_be_set(broker: Broker) -> None:
    with pytest.raises(OptionError, match=r"'kafka.transactional.id' is set by Eventide"):
        sink(broker, "t", **{"kafka.transactional.id": "x"})


def test_columns_become_headers(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic()
    maps = pa.array([[("a", b"1"), ("b", None)]], pa.map_(pa.string(), pa.binary()))
    sink(broker, topic, headers="k, v, more").write(0, rows(7).append_column("more", maps))
    (message,) = broker.read(topic)
    assert message.headers() == [("k", b"k7"), ("v", b"7"), ("a", b"1")]
    with pytest.raises(OptionError, match="there is no column other"):
        sink(broker, topic, headers="k, other").write(1, rows(9))
