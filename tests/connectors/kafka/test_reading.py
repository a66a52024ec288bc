"""A topic read as Spark reads it: offsets, batches, tasks. Without Spark: the data source is called directly."""

from __future__ import annotations

import base64
import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventide.connectors.kafka.data_source import SETTINGS, FusedTopics, TopicSettings
from eventide.connectors.kafka.offsets import TopicChoice
from eventide.connectors.paced_reader import PacedReader, ReadAllAvailable, ReadLimit, ReadMaxRows
from eventide.errors import OptionError, SourceError
from eventide.eventtime.registry import EpochUnit
from eventide.plan.positions import Edge, Since, parse_position
from eventide.tasks.expressions import Column
from eventide.tasks.fused_scan import SCANNED, FusedScan, Resolution
from eventide.tasks.messages import HEADERS, Messages
from eventide.tasks.packing import LANES, Packing, ShardBy, from_blob
from tests.connectors.kafka_broker import Broker, running_broker

NewTopic = Callable[..., str]
BESIDE = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary())]
SCAN = FusedScan(
    Messages("json", (("ts", "bigint"), ("o", "bigint")), (("o", "offset"),)),
    Resolution("ts", EpochUnit(1000, 1), 1 << 60),
    None,
    (("o", Column("o", "bigint")),),
    Packing(0, (0,), ShardBy(), 0, told=True, lanes=True),
    scanned=pa.schema([*SCANNED, *BESIDE, ("headers", HEADERS)]),
)


def settings(broker: Broker, folder: Path, *topics: str, **more: Any) -> TopicSettings:
    bound = folder / "bound.json"
    bound.write_text('{"watermark": null, "flushed": null}')
    client = {"bootstrap.servers": broker.address, "log_level": "0"}
    plain = TopicSettings(
        pickle.dumps(SCAN), "s", client, TopicChoice(topics, None), Edge(False), None, False, None, folder, bound, 2
    )
    return replace(plain, **more)


def opened(settings: TopicSettings) -> PacedReader:
    reader = FusedTopics({SETTINGS: base64.b64encode(pickle.dumps(settings)).decode()}).streamReader(None)  # type: ignore[arg-type]
    assert isinstance(reader, PacedReader)
    return reader


def batches(reader: PacedReader, limit: ReadLimit | None = None, start: Any = None) -> Iterator[tuple[Any, pa.Table]]:
    """Until nothing is left: where each batch ends, and what its tasks give."""
    start = reader.initialOffset() if start is None else start
    while (end := reader.latestOffset(start, limit or reader.getDefaultReadLimit())) != start:
        found = [batch for share in reader.partitions(start, end) for batch in opened_read(reader, share)]
        yield end, pa.Table.from_batches(found) if found else SCAN.scanned.empty_table()
        start = end
        time.sleep(0.03)  # what the brokers told is not asked again at once


def opened_read(reader: PacedReader, share: Any) -> Iterator[pa.RecordBatch]:
    """As in a task, which has a copy of the reader."""
    yield from opened(reader._settings).read(share)  # type: ignore[attr-defined, misc]


def times(table: pa.Table) -> list[int]:
    return sorted(
        micros // 1000 for blob in table["blob"].to_pylist() if blob for micros in from_blob(blob)["__ts"].to_pylist()
    )


def lanes(table: pa.Table) -> dict[str, dict[str, int]]:
    told: dict[str, dict[str, int]] = {}
    for row in table.select(["control", "facts"]).to_pylist():
        for lane, figures in json.loads(row["facts"]).items() if row["control"] == LANES else ():
            told.setdefault(lane, {}).update(figures)
    return told


def numbers(first: int, last: int) -> list[bytes]:
    return [b'{"ts": %d}' % number for number in range(first, last)]


def test_a_batch_takes_all_that_is_there_and_the_next_what_came_since(
    broker: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    broker.send(topic, numbers(0, 30), 0)
    broker.send(topic, numbers(30, 40), 1)
    reader = opened(settings(broker, tmp_path, topic))
    ((end, table),) = batches(reader)
    assert end["offsets"] == {topic: {"0": 30, "1": 10}} and times(table) == list(range(40))
    assert lanes(table) == {
        f"{topic}-0": {"watermark": 29_000, "unread": 0},
        f"{topic}-1": {"watermark": 39_000, "unread": 0},
    }
    broker.send(topic, numbers(40, 45), 1)
    time.sleep(0.03)
    ((end, table),) = batches(opened(settings(broker, tmp_path, topic)), start=end)
    assert end["offsets"] == {topic: {"0": 30, "1": 15}} and times(table) == list(range(40, 45))


def test_a_batch_has_at_most_as_many_messages_as_the_user_wants(
    broker: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    broker.send(topic, numbers(0, 50), 0)
    broker.send(topic, numbers(50, 100), 1)
    reader = opened(settings(broker, tmp_path, topic, most=30))
    assert reader.getDefaultReadLimit() == ReadMaxRows(30)
    tables = [table for _, table in batches(reader)]
    assert [len(times(table)) for table in tables] == [30, 30, 30, 10]
    assert sorted(time for table in tables for time in times(table)) == list(range(100))
    assert lanes(tables[0])[f"{topic}-1"]["unread"] == 35
    assert len(list(batches(reader, ReadAllAvailable()))) == 1


def test_batches_grow_to_what_the_target_allows(broker: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()
    broker.send(topic, numbers(0, 40_000))
    found = [
        len(times(table)) for _, table in batches(opened(settings(broker, tmp_path, topic, target_latency=1000.0)))
    ]
    assert sum(found) == 40_000 and len(found) > 1


def test_a_stream_begins_and_ends_where_it_is_told(broker: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()
    broker.send(topic, numbers(0, 10), timestamp=1_000)
    broker.send(topic, numbers(10, 20), timestamp=2_000)

    def read(folder: str, **more: Any) -> list[int]:
        (tmp_path / folder).mkdir()
        return [
            each
            for _, table in batches(opened(settings(broker, tmp_path / folder, topic, **more)))
            for each in times(table)
        ]

    assert read("a", start=Edge(latest=True)) == []
    assert read("b", start=Since(2_000_000)) == list(range(10, 20))
    assert read("c", start=Since(9_000_000_000)) == []
    assert read("d", start=parse_position("0:17")) == [17, 18, 19]
    assert read("e", end=Since(1_500_000)) == list(range(10))
    assert read("f", start=parse_position(f"{topic}:0:5"), end=parse_position("0:7")) == [5, 6]
    with pytest.raises(OptionError, match="no partition 3"):
        read("g", start=parse_position("3:1"))


def test_an_end_is_found_out_once_also_when_more_comes_later(
    broker: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    broker.send(topic, numbers(0, 10))
    to_now = settings(broker, tmp_path, topic, end=Edge(latest=True))
    ((end, _),) = batches(opened(to_now))
    broker.send(topic, numbers(10, 20))
    assert end["offsets"] == {topic: {"0": 10}} and list(batches(opened(to_now), start=end)) == []


def test_topics_by_pattern_and_partitions_that_come_later(broker: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    first, second = new_topic(), new_topic()
    broker.send(first, numbers(0, 5))
    choice = TopicChoice((), f"{first}|{second}")
    reader = opened(settings(broker, tmp_path, choice=choice))
    ((end, table),) = batches(reader)
    assert times(table) == list(range(5)) and lanes(table)[f"{second}-0"] == {"unread": 0}
    broker.add_partitions(first, 3)
    broker.send(first, numbers(5, 9), 2)
    broker.send(second, numbers(9, 10))
    time.sleep(0.03)
    ((end, table),) = batches(reader, start=end)
    assert times(table) == list(range(5, 10))
    assert end["offsets"] == {first: {"0": 5, "2": 4}, second: {"0": 1}}


def test_what_a_transaction_has_not_committed_is_not_read_and_offsets_may_have_gaps(
    broker: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    topic = new_topic()
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions(30)
    for commits, rows in ((True, numbers(0, 5)), (False, numbers(5, 10)), (True, numbers(10, 12))):
        producer.begin_transaction()
        for row in rows:
            producer.produce(topic, row)
        producer.flush(30)
        (producer.commit_transaction if commits else producer.abort_transaction)(30)
    producer.begin_transaction()
    producer.produce(topic, b'{"ts": 99}')
    producer.flush(30)
    reader = opened(settings(broker, tmp_path, topic))
    assert [times(table) for _, table in batches(reader)] == [[*range(5), 10, 11]]
    producer.abort_transaction(30)


def test_missing_topics_and_messages_are_errors_that_say_so(
    broker: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match="there is no topic nowhere"):
        opened(settings(broker, tmp_path, "nowhere")).initialOffset()
    topic = new_topic()
    broker.send(topic, numbers(0, 5))
    reader = opened(settings(broker, tmp_path, topic))
    ((end, _),) = batches(reader)
    broker.delete(topic)
    time.sleep(0.03)
    with pytest.raises(SourceError, match=f"there is no topic {topic}"):
        reader.latestOffset(end, ReadAllAvailable())
    broker.create(topic)
    with pytest.raises(SourceError, match="ends at offset 0, and the stream has read it up to offset 5"):
        opened(settings(broker, tmp_path, topic)).latestOffset(end, ReadAllAvailable())
    broker.send(topic, numbers(7, 9))
    skipping = opened(settings(broker, tmp_path, topic, skips_missing=True))
    assert [times(table) for _, table in batches(skipping, start=end)] == [[7, 8]]


def test_offsets_are_committed_to_a_group_if_one_is_named(broker: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic = new_topic()
    broker.send(topic, numbers(0, 5))
    reader = opened(settings(broker, tmp_path, topic, group=f"g-{topic}"))
    ((end, _),) = batches(reader)
    reader.commit(end)
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": f"g-{topic}"})
    (found,) = consumer.committed([TopicPartition(topic, 0)], 30)
    consumer.close()
    assert found.offset == 5


@pytest.mark.slow
def test_a_broker_that_loses_its_power_while_it_is_read_costs_time_and_no_message(
    broker: Broker, tmp_path: Path
) -> None:
    (tmp_path / "broker").mkdir()
    with running_broker(tmp_path / "broker") as fragile:
        fragile.create("t")
        fragile.send("t", numbers(0, 300_000))
        reader = opened(settings(fragile, tmp_path, "t"))
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        fragile.kill()
        starting = threading.Timer(2, fragile.start)
        starting.start()
        found = [batch for share in reader.partitions(start, end) for batch in opened_read(reader, share)]
        starting.join()
        assert times(pa.Table.from_batches(found)) == list(range(300_000))
