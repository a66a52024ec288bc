"""Runs the streams of a database: processing what is there, running in the background, stopping."""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING

from eventide.errors import StorageError
from eventide.spark.refreshing import Refreshing
from eventide.sql.catalog import Catalog
from eventide.storage.compaction import Keep
from eventide.storage.spool import Spools

if TYPE_CHECKING:
    from eventide.spark.engine import Engine
    from eventide.spark.running import RunningStream

_LOG = logging.getLogger("eventide")
_HEARTBEAT_SECONDS = 0.25
_STARTED_AT_ONCE = (
    2  # streams: each starts Python processes, and Spark waits only ten seconds for one, even on a busy machine
)
_COMPACT_SECONDS = 5.0
_SIDE_SINK_SECONDS = 2.0  # how long a tick waits for side sinks, unless they fail


class Streams:
    """The streams of a catalog, on an engine. All calls but `halt` are made with `guard`, the database's lock, held."""

    def __init__(self, catalog: Catalog, engine: Engine, spools: Spools, guard: threading.RLock) -> None:
        self._catalog = catalog
        self._engine = engine
        self._spools = spools
        self._guard = guard
        self._refreshing = Refreshing(engine.tables, lambda: list(catalog.tables.values()))
        self.is_live = False
        self._compact_at = 0.0
        self._clock: threading.Thread | None = None

    def open(self, name: str) -> RunningStream:
        """A stream, ready to start, as are those that it reads."""
        for read in self._catalog.reads(name):
            self.open(read)
        stream, sinks = self._catalog.stream(name), self._catalog.sinks
        return self._engine.open(stream, self._catalog.sinks_of(name), sinks, self._catalog.text(name))

    def process(self) -> None:
        """Process everything that is there, including rows sent back to sources, and give side sinks a moment."""
        self._refreshing.now()
        self._send_back()
        while True:
            for streams in self._levels():
                cold = [stream for stream in streams if not stream.is_active]
                for first in range(0, len(cold), _STARTED_AT_ONCE):
                    _process_together(cold[first : first + _STARTED_AT_ONCE])
                _process_together(streams)
            if not self._send_back():
                break
        self._compact()
        for stream in self._opened():
            stream.router.side.wait(_SIDE_SINK_SECONDS)
            if self.is_live and not stream.trigger.ends:
                stream.run()

    def start(self) -> None:
        """Run in the background until `stop`: rows are processed as they come."""
        self.is_live = True
        for stream in self._opened():
            self.join(stream)
        if self._clock is None:
            self._clock = threading.Thread(target=self._keep_time, name="eventide heartbeat", daemon=True)
            self._clock.start()

    def join(self, stream: RunningStream) -> None:
        """Start a stream if the others are running."""
        if self.is_live:
            stream.publish()  # what it is to take in must be there when it starts: it may not look again for an hour
            if _may_run(stream):
                stream.run()
            stream.publish()
            for upstream in stream.reads:
                upstream.router.readers.add(stream.publish)

    @property
    def have_ended(self) -> bool:
        """Whether all were told to take in what was there and end, and have."""
        streams = self._opened()
        return self.is_live and bool(streams) and all(stream.has_ended for stream in streams)

    def publish(self) -> None:
        """Let running streams see what was written."""
        if self.is_live:
            for stream in self._opened():
                stream.publish()

    def stop(self, graceful: bool) -> None:
        """End all queries, after `halt`; a graceful stop first processes everything that is there and emits what is
        open.
        """
        try:
            if graceful:
                self._drain()
                for stream in self._opened():
                    stream.flush()
        finally:
            for stream in self._opened():
                stream.router.readers.clear()
                stream.stop()

    def _drain(self) -> None:
        """Take in what is there now, and the rows that are sent back to sources because of it."""
        is_first = True
        while self._send_back() or is_first:
            is_first = False
            for stream in self._opened():
                stream.drain()

    def halt(self) -> None:
        """End the heartbeat. Call it without holding the guard, which the heartbeat may be waiting for."""
        self.is_live = False
        clock, self._clock = self._clock, None
        if clock is not None:
            clock.join()
        self._refreshing.wait()

    def _keep_time(self) -> None:
        """While the streams run in the background, let them notice that time passes."""
        while self.is_live:
            self._refreshing.in_background()
            with self._guard:
                if self.is_live and self._send_back():
                    self.publish()
                for stream in self._opened() if self.is_live else ():
                    stream.keep_running()
                    if stream.trigger.ends and stream.failed() is None and _may_run(stream):
                        stream.publish()
                        stream.run()
                    if stream.is_active:
                        stream.beat()
                    if stream.reads:
                        stream.publish()  # a stream that it reads may have got further without giving anything
                if self.is_live and time.monotonic() >= self._compact_at:
                    self._compact()
            time.sleep(_HEARTBEAT_SECONDS)

    def _compact(self) -> None:
        """Let streams put together, and forget, what all who read them have taken in for good. If the disk refuses,
        that can wait: nothing is lost.
        """
        self._compact_at = time.monotonic() + _COMPACT_SECONDS
        try:
            self._compact_all()
        except StorageError as error:
            _LOG.warning("what is stored could not be put together: %s", error)

    def _compact_all(self) -> None:
        opened = self._opened()
        for stream in opened:
            read_by = [reader.read_upto(stream) for reader in opened if stream.name in reader.read_names]
            stream.compact(self._keeps(stream), min(read_by, default=math.inf), self._engine.replayed(stream.name))
        for source in self._catalog.sources.values():
            readers = [stream for stream in opened if source.name in stream.backlog.spools]
            taken = min((stream.inbox.settled.get(source.name, 0) for stream in readers), default=0)
            self._spools.put_together(source.name, taken)
            if source.keep is not None and readers:
                self._spools.spool(source.name).forget(taken, time.time_ns() // 1000 - source.keep)

    def _keeps(self, stream: RunningStream) -> dict[str, Keep]:
        """How long a stream's rows and payloads are kept. The rows of an inner stream are for its reader only."""
        kept = self._catalog.graph()[stream.name].options.keep
        is_inner = stream.name not in self._catalog.streams
        return {"main": Keep(0 if is_inner else kept), "side": Keep(kept)}

    def _levels(self) -> list[list[RunningStream]]:
        """All streams, open: those that read sources only, those that read these, and so on."""
        by_level: dict[int, list[RunningStream]] = {}
        for name in self._catalog.graph():
            by_level.setdefault(self._catalog.level(name), []).append(self.open(name))
        return [by_level[level] for level in sorted(by_level)]

    def _opened(self) -> list[RunningStream]:
        return [stream for streams in self._levels() for stream in streams]

    def _send_back(self) -> bool:
        """Hand rows that streams reinject to their sources; returns whether there were any."""
        sent = False
        for router in [stream.router for stream in self._opened()]:
            outbox = router.side.outbox
            latest = None if outbox is None else router.results.latest()
            if outbox is not None and latest is not None:
                sent |= outbox.empty(self._spools, time.time_ns() // 1000, latest.batch)
        return sent


def _may_run(stream: RunningStream) -> bool:
    """Whether what a stream that takes in what is there should find is there: those that it reads have ended too."""
    return not stream.trigger.ends or all(read.has_ended for read in stream.reads if read.trigger.ends)


def _process_together(streams: list[RunningStream]) -> None:
    """Let streams process everything that is there; all of them work while we wait for the first."""
    for stream in streams:
        stream.start()
        stream.take_tables()
        stream.publish()
    for stream in streams:
        stream.process()
