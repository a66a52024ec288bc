"""Delivers payloads to one side sink from a thread of its own, so that a slow or failing sink harms nobody else.

The queue is what the stream has stored anyway: the channel keeps only how far it has come, and after a restart goes on
from there. Past a bound, or past a rate limit, payloads are not sent; a batch that the sink refuses several times is
given up. Each of these is counted by kind: `side_sent_late`, `side_dropped_late`, `side_failed_late`.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eventide.connectors.sink import Sink
from eventide.plan.side_output import RateLimit, Route
from eventide.storage.atomic import read_json, write_json
from eventide.storage.paths import AnyPath
from eventide.storage.results import Results

MOST_BATCHES = 1_000  # that may wait for a sink
MOST_ROWS = 1_000_000
RETRY_AFTER = (0.1, 0.5)  # seconds between the attempts of a batch; one attempt only while the sink fails
_LOG = logging.getLogger("eventide")


class Limiter:
    """At most `limit.rows` in any `limit.per`."""

    def __init__(self, limit: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._passed: deque[tuple[float, int]] = deque()

    def take(self, rows: int) -> int:
        """How many of `rows` may pass now."""
        now = self._clock()
        while self._passed and now - self._passed[0][0] >= self._limit.per / 1_000_000:
            self._passed.popleft()
        free = self._limit.rows - sum(count for _, count in self._passed)
        allowed = max(0, min(rows, free))
        if allowed:
            self._passed.append((now, allowed))
        return allowed


class Channel:
    """One stream's payloads on their way to one sink. `routes` are the kinds that go there."""

    def __init__(
        self, name: str, routes: Mapping[str, Route], open: Callable[[], Sink | None], results: Results, state: AnyPath
    ) -> None:
        self._name = name
        self._limiters = {
            kind: Limiter(route.rate_limit) if route.rate_limit else None for kind, route in routes.items()
        }
        self._open = open
        self._sink: Sink | None = None
        self._is_open = False
        self._results = results
        self._path = state
        self._changed = threading.Condition()
        self._queue: deque[tuple[int, int]] = deque()  # batches and how many rows each has for this sink
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self.failing: str | None = None  # why the sink refused the last batch
        self._resume()

    def _resume(self) -> None:
        kept: dict[str, Any] | None = read_json(self._path)
        if kept is None:  # the sink takes what comes from now on
            latest = self._results.latest()
            kept = {"batch": -1 if latest is None else latest.batch, "skipped": [], "counts": {}}
        self._batch: int = kept["batch"]
        self._skipped: set[int] = set(kept["skipped"])
        self._counts: Counter[str] = Counter(kept["counts"])
        self._save()
        for batch in self._results.batches(self._batch):
            if batch not in self._skipped:
                self.notify(batch)

    def notify(self, batch: int) -> None:
        """A batch has been stored; take it up, or drop it if too much waits already. Never blocks on the sink."""
        rows = self._rows(batch)
        if rows is None:
            return
        with self._changed:
            if len(self._queue) >= MOST_BATCHES or sum(count for _, count in self._queue) >= MOST_ROWS:
                self._count("dropped", rows)
                self._skipped.add(batch)
                self._save()
                return
            self._queue.append((batch, rows.num_rows))
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"eventide side sink {self._name}", daemon=True)
                self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until everything is delivered, at most `seconds`, and not at all while the sink fails; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_idle or self.failing is not None, seconds) and self._is_idle

    def close(self, seconds: float) -> None:
        """Stop, after what waits is delivered or `seconds` have passed; what is left is delivered after a restart."""
        self.wait(seconds)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is None:
            return
        self._thread.join(0.5)
        if not self._thread.is_alive() and self._sink is not None:
            self._sink.close()

    def counts(self) -> dict[str, int]:
        with self._changed:
            return {name: value for name, value in self._counts.items() if value}

    def waiting(self) -> int:
        with self._changed:
            return sum(count for _, count in self._queue)

    @property
    def delivered(self) -> float:
        """The batch up to which everything was sent or given up."""
        with self._changed:
            return math.inf if self._is_idle and not self._skipped else self._batch

    @property
    def position(self) -> int:
        """The last batch of which something was sent: after a restart it goes on behind it."""
        with self._changed:
            return self._batch

    @property
    def _is_idle(self) -> bool:
        return not self._queue and not self._busy

    def _rows(self, batch: int) -> pa.Table | None:
        """The payloads of a batch that go to this sink."""
        payloads = self._results.side(batch)
        if payloads is None:
            return None
        mine = payloads.filter(pc.is_in(payloads["kind"], pa.array(list(self._limiters))))
        return mine if mine.num_rows else None

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    return
                batch, _ = self._queue.popleft()
                self._busy = True
            try:
                self._deliver(batch)
            except Exception as error:  # the thread must live: a payload that cannot be read is a payload not sent
                self._fail(error)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _deliver(self, batch: int) -> None:
        rows = self._rows(batch)
        if rows is not None:
            allowed = self._within_rate(rows)
            if allowed.num_rows:
                self._count("sent" if self._write(batch, allowed) else "failed", allowed)
        with self._changed:
            self._batch = batch
            self._skipped = {number for number in self._skipped if number > batch}
            self._save()

    def _within_rate(self, rows: pa.Table) -> pa.Table:
        kept = []
        for kind, limiter in self._limiters.items():
            mine = rows.filter(pc.equal(rows["kind"], kind))
            passes = mine.num_rows if limiter is None else limiter.take(mine.num_rows)
            self._count("dropped", mine.slice(passes))
            kept.append(mine.slice(0, passes))
        return pa.concat_tables(kept)

    def _write(self, batch: int, rows: pa.Table) -> bool:
        pauses = RETRY_AFTER if self.failing is None else ()
        for pause in (*pauses, None):
            try:
                if not self._is_open:
                    self._sink, self._is_open = self._open(), True
                if self._sink is not None:
                    self._sink.write(batch, rows)
                self.failing = None
                return True
            except Exception as error:  # whatever a sink raises must not end the channel
                if pause is None or self._closed:
                    self._fail(error)
                    return False
                time.sleep(pause)
        return False

    def _fail(self, error: Exception) -> None:
        self._is_open = False
        if self.failing is None:
            _LOG.warning("side sink %s: %s", self._name, error)
        with self._changed:
            self.failing = str(error)
            self._changed.notify_all()

    def _count(self, what: str, rows: pa.Table) -> None:
        with self._changed:
            for kind, count in Counter(rows["kind"].to_pylist()).items():
                self._counts[f"side_{what}_{kind}"] += count

    def _save(self) -> None:
        write_json(self._path, {"batch": self._batch, "skipped": sorted(self._skipped), "counts": dict(self._counts)})
