"""Offsets of a source: how far each partition has been read, what a batch takes, and who reads it.

Pure: nothing here asks a broker.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eventide.errors import OptionError, SourceError

Partition = tuple[str, int]  # topic, number
Offsets = dict[Partition, int]

_PARTITION = re.compile(r"\s*(?:([A-Za-z0-9._-]+):)?(\d{1,9})\s*")
_LEAST = 10_000  # messages per task: below this, starting another task costs more than it gains


@dataclass(frozen=True)
class TopicChoice:
    """Which topics a source reads: some by name, or all whose whole name matches the pattern; with `partitions` only
    those of them, each with its topic, or of every topic.
    """

    names: tuple[str, ...]
    pattern: str | None
    partitions: tuple[tuple[str | None, int], ...] = ()

    def chosen(self, there: Collection[str]) -> list[str]:
        if self.pattern is None:
            return [name for name in self.names if name in there]
        return sorted(name for name in there if re.fullmatch(self.pattern, name))

    def takes(self, partition: Partition) -> bool:
        topic, number = partition
        return not self.partitions or (None, number) in self.partitions or (topic, number) in self.partitions

    def missing(self, there: Collection[Partition]) -> tuple[str | None, int] | None:
        """A partition that is asked for and not there, if there is one."""
        known = {*there, *((None, number) for _, number in there)}
        return next((each for each in self.partitions if each not in known), None)


def parse_partitions(text: str) -> tuple[tuple[str | None, int], ...]:
    """`0, 2` or `clicks:0, views:1`. Raises an OptionError for anything else.

    >>> parse_partitions("0, clicks:2")
    ((None, 0), ('clicks', 2))
    """
    found = [_PARTITION.fullmatch(part) for part in text.split(",")]
    parts = tuple((part[1], int(part[2])) for part in found if part is not None)
    if len(parts) < len(found):
        raise OptionError(f"'partitions' cannot be '{text}'", help="write numbers: 0, 2, or with topics: clicks:0")
    return parts


@dataclass(frozen=True)
class OffsetRange:
    """Messages of one partition, from `start` up to but not including `end`; `first` numbers the first of them among
    all that the source has given.
    """

    topic: str
    partition: int
    start: int
    end: int
    first: int

    @property
    def count(self) -> int:
        return self.end - self.start


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """As Spark's checkpoint keeps them."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(number)] = offset
    return topics


def from_json(topics: Mapping[str, Mapping[str, Any]]) -> Offsets:
    return {(topic, int(number)): offset for topic, parts in topics.items() for number, offset in parts.items()}


def check_progress(source: str, taken: Offsets, latest: Offsets) -> None:
    """Raises a SourceError if there is less than the stream has read already."""
    for (topic, number), offset in sorted(taken.items()):
        if (topic, number) not in latest:
            raise SourceError(
                f"source {source}: partition {number} of topic {topic} has gone, and the stream has read it up to "
                f"offset {offset}",
                help="bring the topic back, or start anew with another checkpoint folder",
            )
        if latest[topic, number] < offset:
            raise SourceError(
                f"source {source}: partition {number} of topic {topic} ends at offset {latest[topic, number]}, and the "
                f"stream has read it up to offset {offset}: it is another topic of the same name, or has lost messages",
                help="bring the messages back, start anew with another checkpoint folder, or set 'missing' = 'skip'",
            )


def within(start: Offsets, latest: Offsets, most: int | None) -> Offsets:
    """Where a batch ends that takes at most about `most` messages: of each partition the same share of what waits."""
    waiting = {partition: offset - start[partition] for partition, offset in latest.items()}
    total = sum(waiting.values())
    if most is None or total <= most:
        return dict(latest)
    return {
        partition: start[partition] + min(count, max(1 if count else 0, count * most // total))
        for partition, count in waiting.items()
    }


def dealt_out(start: Offsets, end: Offsets, tasks: int) -> list[list[OffsetRange]]:
    """The ranges of each task. Messages are numbered batch after batch, and in a batch partition after partition."""
    first = sum(start.values())
    ranges = []
    for (topic, number), offset in sorted(end.items()):
        ranges.append(OffsetRange(topic, number, start[topic, number], offset, first))
        first += ranges[-1].count
    return list(_shares(ranges, max(-(-sum(each.count for each in ranges) // tasks), _LEAST)))


def _shares(ranges: Iterable[OffsetRange], share: int) -> Iterable[list[OffsetRange]]:
    held: list[OffsetRange] = []
    room = share
    for each in ranges:
        while each.count > 0:
            count = each.count if each.count - room < share // 8 else room  # leave no tiny remainder
            held.append(OffsetRange(each.topic, each.partition, each.start, each.start + count, each.first))
            each = OffsetRange(each.topic, each.partition, each.start + count, each.end, each.first + count)
            room -= count
            if room <= 0:
                yield held
                held, room = [], share
    if held:
        yield held
