"""Topics as a Spark source: a Python data source that finds out what is there, hands out offsets in batches, and packs
the rows of the messages inside tasks.

As in `connectors.files.data_source`, Spark asks for offsets in one process per query, on the driver, and reads in
tasks. The module travels by value, and imports the rest where it is needed.
"""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from eventide.connectors.paced_reader import Offset, PacedReader, ReadAllAvailable, ReadLimit, ReadMaxRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from eventide.connectors.kafka.offsets import OffsetRange, Offsets, TopicChoice
    from eventide.connectors.kafka.topics import Topics
    from eventide.plan.positions import Position
    from eventide.storage.paths import AnyPath
    from eventide.tasks.fused_scan import FusedScan

SETTINGS = "secret_settings"  # an option whose name tells Spark not to show it: it may hold passwords
_OFFSETS, _AT = "offsets", "at"  # of a batch: where it ends, and its time
_FRESH = 0.02  # seconds for which what the brokers have told is taken for true
_BYTES = 256  # of a message, as the pacing counts them
_NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class TopicSettings:
    """`state_folder` belongs to one source of one query and must live as long as its checkpoint.

    `scan` is a pickled FusedScan: only tasks load it, and the modules it needs.
    """

    scan: bytes
    source: str
    client: dict[str, str]  # of librdkafka
    choice: TopicChoice
    start: Position
    end: Position | None
    skips_missing: bool
    group: str | None
    state_folder: AnyPath
    bound: AnyPath  # see storage.time_bound
    tasks: int
    most: int | None = None  # messages in a batch
    target_latency: float | None = None  # seconds
    timeout: float = 60.0  # seconds for which brokers may be silent
    orders: AnyPath | None = None  # of the shedder's log, where rows may be shed


class FusedTopics(DataSource):
    @classmethod
    def name(cls) -> str:
        return "eventide_fused_topics"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Reader(self.options[SETTINGS])


@dataclass
class _Share(InputPartition):
    """What one task reads."""

    ranges: list[OffsetRange]
    at: int
    task: int
    bound: dict[str, int | None]
    lanes: dict[str, dict[str, int]]  # what one task tells of all partitions


class _Reader(PacedReader):
    def __init__(self, settings: str) -> None:
        self._text = settings
        self._loaded: TopicSettings | None = None
        self._opened: Topics | None = None
        self._known: Offsets = {}
        self._asked = 0.0
        self._frozen: Offsets | None = None
        self._pacing: Any = None
        self._running: tuple[Offsets, int, float] | None = None  # where it ends, messages, since when

    @property
    def _settings(self) -> TopicSettings:
        if self._loaded is None:
            self._loaded = pickle.loads(base64.b64decode(self._text))
        return self._loaded

    @property
    def _topics(self) -> Topics:
        if self._opened is None:
            from eventide.connectors.kafka.topics import Topics

            settings = self._settings
            self._opened = Topics(settings.source, settings.client, settings.choice, settings.timeout)
        return self._opened

    def initialOffset(self) -> Offset:
        from eventide.connectors.kafka.offsets import to_json

        partitions = self._topics.partitions()
        return {_OFFSETS: to_json(self._topics.at(self._settings.start, partitions)), _AT: 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        is_limited = self._settings.target_latency is not None or self._settings.most is not None
        return ReadMaxRows(self._settings.most or _NO_LIMIT) if is_limited else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._frozen = self._latest()

    def next_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        from eventide.connectors.kafka.offsets import check_progress, from_json, to_json, within

        taken, latest = from_json(start[_OFFSETS]), self._latest() if self._frozen is None else self._frozen
        if self._settings.skips_missing:  # what has less than was read is another partition of the same name
            taken = {each: offset for each, offset in taken.items() if offset <= latest.get(each, -1)}
        check_progress(self._settings.source, taken, latest)
        begun = self._begun(taken, latest)
        end = within(begun, latest, self._most(begun, limit))
        end = {
            partition: offset for partition, offset in end.items() if partition in taken or offset > begun[partition]
        }
        if end == taken:
            return start
        self._running = end, sum(end.values()) - sum(begun[each] for each in end), time.monotonic()
        return {_OFFSETS: to_json(end), _AT: max(time.time_ns() // 1000, start[_AT])}

    def reportLatestOffset(self) -> Offset:
        from eventide.connectors.kafka.offsets import to_json

        return {_OFFSETS: to_json(self._latest()), _AT: 0}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        from eventide.connectors.kafka.offsets import dealt_out, from_json
        from eventide.storage.time_bound import TimeBoundFile

        ends = from_json(end[_OFFSETS])
        taken = {each: offset for each, offset in from_json(start[_OFFSETS]).items() if offset <= ends.get(each, -1)}
        begun = self._begun(taken, ends)
        if self._settings.skips_missing:
            begun = self._still_there(begun, ends)
        bound = TimeBoundFile(self._settings.bound).read()
        shares = dealt_out(begun, ends, self._settings.tasks)
        return [
            _Share(ranges, end[_AT], task, bound, {} if task else self._lanes(ends))
            for task, ranges in enumerate(shares)
        ]

    def commit(self, end: Offset) -> None:
        from eventide.connectors.kafka.offsets import from_json

        if self._settings.group is not None:
            self._topics.commit(self._settings.group, from_json(end[_OFFSETS]))

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        from eventide.connectors.kafka.consume import arrivals
        from eventide.kernels.prefold import TimeBound

        settings = self._settings
        scan: FusedScan = pickle.loads(settings.scan)
        found = arrivals(scan, settings.source, settings.client, partition.ranges, partition.at, settings.timeout)
        yield from scan.packed_arrivals(found, partition.at, partition.task, TimeBound(**partition.bound))
        if partition.lanes:
            yield scan.told(partition.lanes)

    def _latest(self) -> Offsets:
        """Where each partition ends, as far as the source goes."""
        from eventide.plan.positions import Edge

        if time.monotonic() - self._asked >= _FRESH:
            latest = self._topics.at(Edge(latest=True), self._topics.partitions())
            self._known = {each: min(offset, self._last.get(each, offset)) for each, offset in latest.items()}
            self._asked = time.monotonic()
        return self._known

    @property
    def _last(self) -> Offsets:
        """Where a source with an end stops, found out once; empty for one without."""
        from eventide.connectors.kafka.offsets import from_json, to_json
        from eventide.storage.atomic import read_json, write_json

        if self._settings.end is None:
            return {}
        path = self._settings.state_folder / "end.json"
        kept = read_json(path)
        if kept is None:
            kept = to_json(self._topics.at(self._settings.end, self._topics.partitions()))
            write_json(path, kept)
        return from_json(kept)

    def _begun(self, taken: Offsets, latest: Offsets) -> Offsets:
        """Where to go on; partitions that are new begin with their first message."""
        from eventide.plan.positions import Edge

        new = [partition for partition in latest if partition not in taken]
        return {**taken, **(self._topics.at(Edge(latest=False), new) if new else {})}

    def _still_there(self, begun: Offsets, ends: Offsets) -> Offsets:
        from eventide.plan.positions import Edge

        first = self._topics.at(Edge(latest=False), list(ends))
        return {each: min(max(begun[each], first[each]), end) for each, end in ends.items()}

    def _lanes(self, ends: Offsets) -> dict[str, dict[str, int]]:
        from eventide.tasks.messages import lane

        latest = self._latest()
        return {lane(*each): {"unread": max(offset - ends.get(each, 0), 0)} for each, offset in latest.items()}

    def _most(self, begun: Offsets, limit: ReadLimit) -> int | None:
        """How many messages the next batch may have."""
        if isinstance(limit, ReadAllAvailable):
            return None
        if self._settings.target_latency is None:
            return limit.max_rows if isinstance(limit, ReadMaxRows) else None
        from eventide.admission.pacing import BatchPerformancePoint, batcher_of
        from eventide.admission.shed_log import ShedLog

        if self._pacing is None:
            orders = self._settings.orders
            self._pacing = batcher_of(self._settings.target_latency, None if orders is None else ShedLog(orders).keep)
        running, self._running = self._running, None
        if running is not None and running[0] == begun:
            self._pacing.observe(BatchPerformancePoint(running[1] * _BYTES, time.monotonic() - running[2]))
        budget: int = self._pacing.budget
        return max(1, budget // _BYTES)
