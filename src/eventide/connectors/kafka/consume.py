"""Messages as a task reads them. Consumers stay with the worker's process: connecting takes longer than a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from eventide.connectors.kafka.offsets import OffsetRange, Partition
from eventide.errors import SourceError
from eventide.tasks.fused_scan import Arrival, FusedScan
from eventide.tasks.messages import Messages, Run, beside, lane, received

_AT_ONCE = 20_000  # messages: as many as Arrow decodes well together
_PATIENCE = 60.0  # seconds without a message
_consumers: dict[tuple[tuple[str, str], ...], Consumer] = {}


def arrivals(
    scan: FusedScan, source: str, settings: Mapping[str, str], ranges: Sequence[OffsetRange], at: int
) -> Iterator[Arrival]:
    """The messages of these ranges, decoded where tasks can."""
    reader = scan.reader
    if not isinstance(reader, Messages):
        raise SourceError(f"source {source}: its messages have no format")
    firsts = {(each.topic, each.partition): each.first - each.start for each in ranges}
    for run in runs(source, settings, ranges):
        before = firsts[run.topic, run.partition]
        for part in reader.decode(run):
            messages = run.messages[part.first : part.last]
            yield Arrival(
                part.rows,
                part.lines,
                _received(messages, at),
                before + messages[0].offset(),
                _where(run, messages[0].offset()),
                lane(run.topic, run.partition),
                beside(run, part.first, part.last, BESIDE) if part.rows is None else None,
                _places(run, messages),
            )


BESIDE = ("topic", "partition", "offset", "key", "headers")


def _received(messages: Sequence[Message], at: int) -> Callable[[], pa.Array]:
    return lambda: received(messages).fill_null(at)


def _places(run: Run, messages: Sequence[Message]) -> Callable[[int], str]:
    return lambda number: _where(run, messages[number].offset())


def _where(run: Run, offset: int) -> str:
    return f"topic {run.topic}, partition {run.partition}, offset {offset}"


def runs(source: str, settings: Mapping[str, str], ranges: Sequence[OffsetRange]) -> Iterator[Run]:
    """The messages of the ranges, in order within each partition, many at a time."""
    consumer = _consumer(settings)
    open_ends: dict[Partition, int] = {(each.topic, each.partition): each.end for each in ranges}
    left = sum(each.count for each in ranges)
    consumer.assign([TopicPartition(each.topic, each.partition, each.start) for each in ranges])
    heard = time.monotonic()
    try:
        while open_ends:
            messages = consumer.consume(min(_AT_ONCE, max(left, 1)), timeout=0.2)
            left -= len(messages)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > _PATIENCE:
                raise _silent(source, settings, open_ends)
            for found in _by_partition(messages):
                partition = found[0].topic(), found[0].partition()
                if partition in open_ends:
                    run, is_done = _upto(source, open_ends[partition], found)
                    if run:
                        yield Run(*partition, run)
                    if is_done:
                        del open_ends[partition]
                        consumer.incremental_unassign([TopicPartition(*partition)])
    finally:
        consumer.unassign()


def _by_partition(messages: list[Message]) -> Iterator[list[Message]]:
    """Brokers answer partition by partition, so that runs are long."""
    if messages:
        topics: dict[str, int] = {}
        numbers = np.array([message.partition() for message in messages])
        named = np.array([topics.setdefault(message.topic(), len(topics)) for message in messages])
        changes = np.flatnonzero((np.diff(numbers) != 0) | (np.diff(named) != 0)) + 1
        for first, last in pairwise([0, *changes.tolist(), len(messages)]):
            yield messages[first:last]


def _upto(source: str, end: int, messages: list[Message]) -> tuple[list[Message], bool]:
    """The messages in front of `end`, and whether no more of them will come. Offsets have gaps, at the end as well: a
    message behind it, or the end of the partition, tells.
    """
    is_done = messages[-1].offset() >= end - 1
    for place, message in enumerate(messages):
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise _failed(source, message, error)
            return [each for each in messages[:place] if each.offset() < end], True
    return [each for each in messages if each.offset() < end] if is_done else messages, is_done


def _consumer(settings: Mapping[str, str]) -> Consumer:
    key = tuple(sorted(settings.items()))
    if key not in _consumers:
        _consumers[key] = Consumer(
            {
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": "2",  # what is asked for is there; a request that waits delays the next one
                **settings,
                "group.id": "eventide",  # librdkafka wants one; nobody joins it, and nothing is committed to it
                "enable.auto.commit": "false",
                "enable.auto.offset.store": "false",
                "enable.partition.eof": "true",
                "auto.offset.reset": "error",
            }
        )
    return _consumers[key]


def _failed(source: str, message: Message, error: KafkaError) -> SourceError:
    where = f"source {source}: topic {message.topic()}, partition {message.partition()}"
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return SourceError(
            f"{where}: messages that the stream has not read yet are gone: {error.str()}",
            help="keep messages for longer in the topic; to go on without them set 'missing' = 'skip'",
        )
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
        return SourceError(f"{where} has gone", help="bring it back, or start anew with another checkpoint folder")
    return SourceError(f"{where}: {error.str()}")


def _silent(source: str, settings: Mapping[str, str], open_ends: Mapping[Partition, int]) -> SourceError:
    (topic, number), end = next(iter(open_ends.items()))
    return SourceError(
        f"source {source}: the brokers {settings['bootstrap.servers']} have not answered for {_PATIENCE:.0f} seconds; "
        f"messages of topic {topic}, partition {number}, up to offset {end} are awaited",
        help="start the brokers; then run the stream again: it goes on from where it was",
    )
