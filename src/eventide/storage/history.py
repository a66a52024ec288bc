"""What the last batches of a stream did, for whoever looks at it: a bounded record in memory, a point per second.

Batches that end within the same second are one point, so that a stream of quick batches and one of slow ones both show
some minutes. The accounts on disk say the same of the batches before this process began.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from eventide.kernels.contract import SIDE_KINDS, USED
from eventide.storage.results import ROWS_OUT, Account, Results

POINTS = 900  # that are kept: a quarter of an hour, if there is a batch in every second
PHASES = ("plan", "compute", "sinks", "store")  # of a batch, in their order
KINDS = ("rows_in", USED, *SIDE_KINDS)
_SECOND = 1_000_000


@dataclass
class Point:
    """What the batches did that ended in one second. Times in microseconds since the epoch."""

    second: int
    batch: int  # the last of them
    at: int  # when it ended
    batches: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    given: int = 0  # rows that left the stream
    closed: int = 0  # windows
    took: Counter[str] = field(default_factory=Counter)  # microseconds, by phase
    watermark: int | None = None
    newest: int | None = None  # event time
    open: int = 0
    state_bytes: int = 0
    read: dict[str, int] = field(default_factory=dict)  # rows so far, by source

    def add(self, account: Account, at: int) -> None:
        self.batch, self.at, self.batches = account.batch, at, self.batches + 1
        self.counts.update({kind: account.counts.get(kind, 0) for kind in KINDS})
        self.given += account.events.get(ROWS_OUT, 0)
        self.closed += account.events.get("windows_closed", 0)
        self.took.update(account.took)
        if account.watermark is not None:
            self.watermark = account.watermark
        tops = [seen["max_timestamp_seen"] for seen in account.sources.values() if "max_timestamp_seen" in seen]
        self.newest = max(tops, default=None)
        totals = gauge_totals(account)
        self.open = totals["open_windows"] or totals["buffer_size"]
        self.state_bytes = totals["state_bytes"] + totals["dedup_bytes"]
        self.read = {name: seen["rows"] for name, seen in account.sources.items() if "rows" in seen}


def gauge_totals(account: Account) -> Counter[str]:
    """The gauges of an account, added up over its shards."""
    totals: Counter[str] = Counter()
    for name, value in account.gauges.items():
        totals[name.partition("#")[0]] += value
    return totals


class History:
    """The points of one stream, oldest first. The engine adds, others read at the same time."""

    def __init__(self, points: int = POINTS) -> None:
        self._points: deque[Point] = deque(maxlen=points)
        self._guard = threading.Lock()
        self._took: Counter[str] = Counter()

    def add(self, account: Account) -> None:
        if account.began is None:
            return
        at = account.began + sum(account.took.values())
        with self._guard:
            last = self._points[-1] if self._points else None
            if last is None or at // _SECOND > last.second:
                last = Point(at // _SECOND, account.batch, at)
                self._points.append(last)
            if last.batches == 0 or account.batch > last.batch:
                last.add(account, max(at, last.at))
                self._took.update(account.took)

    def points(self, since: int = 0) -> list[Point]:
        """Those of a second and later. The last one may still grow."""
        with self._guard:
            return [point for point in self._points if point.second >= since]

    def took(self) -> dict[str, int]:
        """Microseconds that all batches took, those of forgotten points as well, by phase."""
        with self._guard:
            return dict(self._took)

    @property
    def first_batch(self) -> int | None:
        with self._guard:
            return self._points[0].batch - self._points[0].batches + 1 if self._points else None

    @property
    def last_batch(self) -> int:
        with self._guard:
            return self._points[-1].batch if self._points else -1


def history_of(accounts: Iterable[Account]) -> History:
    history = History()
    for account in accounts:
        history.add(account)
    return history


def stored_accounts(results: Results, upto: int | None = None, most: int = POINTS // 2) -> list[Account]:
    """The newest accounts on disk, those before batch `upto` if it is given, in order."""
    batches = [batch for batch in results.batches() if upto is None or batch < upto]
    return [results.account(batch) for batch in batches[-most:]]


def rates(points: Iterable[Point], now: int, seconds: float = 15.0) -> dict[str, float]:
    """Rows per second by kind, `given` among them, over the last seconds; over less if the stream began since."""
    recent = [point for point in points if point.at > now - round(seconds * _SECOND)]
    if not recent:
        return {}
    totals: Counter[str] = Counter()
    for point in recent:
        totals.update({**point.counts, "given": point.given})
    return {kind: round(count / _span(recent, now, seconds), 3) for kind, count in totals.items()}


def read_rates(points: Iterable[Point], now: int, seconds: float = 15.0) -> dict[str, float]:
    """Rows per second that came from each source, over the last seconds."""
    known = list(points)
    recent = [point for point in known if point.at > now - round(seconds * _SECOND)]
    if not recent:
        return {}
    if len(known) > len(recent):
        before = known[len(known) - len(recent) - 1].read
    elif recent[0].batch < recent[0].batches:
        before = {}  # the stream has just begun
    else:
        before, recent = recent[0].read, recent[1:]  # what came before is not known
    span = _span(recent, now, seconds) if recent else 1.0
    return {name: round((rows - before.get(name, 0)) / span, 3) for name, rows in known[-1].read.items()}


def _span(recent: list[Point], now: int, seconds: float) -> float:
    started = recent[0].at - sum(recent[0].took.values())
    return max(1.0, min(seconds, (now - started) / _SECOND))
