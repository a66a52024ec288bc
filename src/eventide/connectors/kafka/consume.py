"""Messages as a task reads them. Consumers stay with the worker's process: connecting takes longer than a batch."""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from eventide.connectors.kafka.offsets import OffsetRange, Partition
from eventide.errors import SourceError
from eventide.tasks.fused_scan import Arrival, FusedScan
from eventide.tasks.messages import Messages, Run, beside, lane, received

_AT_ONCE = 20_000  # messages: as many as Arrow decodes well together
_consumers: dict[tuple[tuple[str, str], ...], Consumer] = {}


def arrivals(
    scan: FusedScan, source: str, settings: Mapping[str, str], ranges: Sequence[OffsetRange], at: int, patience: float
) -> Iterator[Arrival]:
    """The messages of these ranges, decoded where tasks can."""
    reader = scan.reader
    if not isinstance(reader, Messages):
        raise SourceError(f"source {source}: its messages have no format")
    firsts = {(each.topic, each.partition): each.first - each.start for each in ranges}
    for run in runs(source, settings, ranges, patience):
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


def runs(source: str, settings: Mapping[str, str], ranges: Sequence[OffsetRange], patience: float) -> Iterator[Run]:
    """The messages of the ranges, in order within each partition, many at a time; an error after `patience` seconds
    without any.
    """
    consumer = _consumer(settings)
    open_ranges = {(each.topic, each.partition): _Reading(each) for each in ranges}
    consumer.assign([TopicPartition(each.topic, each.partition, each.start) for each in ranges])
    heard = time.monotonic()
    searched_for_cycles = gc.isenabled()
    gc.disable()  # there are none among messages, and looking for them takes longer than all the rest
    try:
        while open_ranges:
            left = sum(reading.left for reading in open_ranges.values())
            messages = consumer.consume(min(_AT_ONCE, max(left, 1)), timeout=0.2)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > patience:
                raise _silent(source, settings, open_ranges, patience)
            for partition in _dealt(source, messages, open_ranges):
                reading = open_ranges[partition]
                if reading.is_done or len(reading.held) >= _AT_ONCE:
                    found = reading.taken()
                    if found:
                        yield Run(*partition, found)
                if reading.is_done:
                    del open_ranges[partition]
                    consumer.incremental_unassign([TopicPartition(*partition)])
    finally:
        consumer.unassign()
        if searched_for_cycles:
            gc.enable()


@dataclass
class _Reading:
    """How far a range has been read. Offsets have gaps, at the end as well: a message behind it, or the end of the
    partition, tells that no more will come.
    """

    range: OffsetRange
    held: list[Message] = field(default_factory=list)
    is_done: bool = False

    @property
    def end(self) -> int:
        return self.range.end

    @property
    def left(self) -> int:
        """How many messages may still come, at most."""
        read = self.held[-1].offset() + 1 if self.held else self._given
        return max(self.end - read, 0)

    def __post_init__(self) -> None:
        self._given = self.range.start

    def taken(self) -> list[Message]:
        """What has been read of the range and was not taken before."""
        found, self.held = self.held, []
        if found:
            self._given = found[-1].offset() + 1
        return [each for each in found if each.offset() < self.end] if self._given > self.end else found


def _dealt(source: str, messages: list[Message], open_ranges: Mapping[Partition, _Reading]) -> list[Partition]:
    """Add messages to the ranges to which they belong; returns the partitions of which there is something new."""
    errors = [message for message in messages if message.error() is not None]
    if errors:
        messages = [message for message in messages if message.error() is None]
    found = _by_partition(messages)
    touched = [partition for partition in found if partition in open_ranges]
    for partition in touched:
        reading = open_ranges[partition]
        reading.held += found[partition]
        reading.is_done = found[partition][-1].offset() >= reading.end - 1
    for message in errors:
        if message.error().code() != KafkaError._PARTITION_EOF:
            raise _failed(source, message, message.error())
        partition = message.topic(), message.partition()
        if partition in open_ranges:
            open_ranges[partition].is_done = True
            touched.append(partition)
    return list(dict.fromkeys(touched))


def _by_partition(messages: list[Message]) -> dict[Partition, list[Message]]:
    """Brokers answer in turns, so that messages of partitions come mixed: few long runs are decoded much faster."""
    found: dict[Partition, list[Message]] = defaultdict(list)
    for topic, number, message in zip(
        map(Message.topic, messages), map(Message.partition, messages), messages, strict=True
    ):
        found[topic, number].append(message)
    return found


def _consumer(settings: Mapping[str, str]) -> Consumer:
    key = tuple(sorted(settings.items()))
    if key not in _consumers:
        _consumers[key] = Consumer(
            {
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": "2",  # what is asked for is there; a request that waits delays the next one
                "queued.min.messages": "20000",  # what is fetched beyond the end of a range is fetched in vain
                "fetch.queue.backoff.ms": "1",
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


def _silent(
    source: str, settings: Mapping[str, str], open_ranges: Mapping[Partition, _Reading], patience: float
) -> SourceError:
    (topic, number), end = next((each, reading.end) for each, reading in open_ranges.items())
    return SourceError(
        f"source {source}: the brokers {settings['bootstrap.servers']} have not answered for {patience:.0f} seconds; "
        f"messages of topic {topic}, partition {number}, up to offset {end} are awaited",
        help="start the brokers; then run the stream again: it goes on from where it was",
    )
