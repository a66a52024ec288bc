"""How loaded the engine is: one score, with the parts that make it up. 1 is full.

    demand    rows that come in, against those that batches of the target's length could work off
    latency   how long the batch lasted, against its target
    backlog   rows that wait and will be kept, against those of one batch of the target's length
    memory    what is used, against the share that may be
    cpu       what is used; never above 1, so it explains but does not shed: a busy processor that keeps up is well used

Nothing here reads a clock.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass

MEMORY_SHARE = 0.9  # of the memory, which may be used before it counts as full
_LEAST_WORK = 0.2  # of the fixed cost: what a batch does at least where its target is too short
_MOST_BATCHES = 8  # over which arrivals are averaged

_MEMORY = 0.97  # weight of a batch against the next newer one, at most: the first ones are cold, and soon forgotten
_YOUTH = 2.0
_PULL = 0.004  # of a guess against what batches show
_GUESS_SHORT, _GUESS_LONG = 0.5, 0.1  # of the shortest batch, if it kept to the target and if not
_MOST_FIXED = 0.95  # of the shortest batch: rows always cost something
_QUICKNESS = 0.12  # weight of a new batch in the slowness of the moment
_FAR_OFF, _BELIEVED = 1.35, 5


@dataclass(frozen=True)
class BatchLoad:
    """One batch as the driver saw it; times in seconds of any one clock."""

    offered: int  # rows that the source's limits admitted, before shedding
    kept: int  # of them, not shed
    started: float
    ended: float
    waiting: int | None = None  # rows that had arrived and were not yet read when it ended; None: not known
    memory: float | None = None  # share in use
    cpu: float | None = None  # share in use


@dataclass(frozen=True)
class LoadScore:
    """`demand` is None until enough batches have been seen. Other parts that are not known are 0. `queue` is no part of
    the score: all rows that wait, be they kept or not, against those of one batch of the target's length.
    """

    demand: float | None = None
    latency: float = 0.0
    backlog: float = 0.0
    memory: float = 0.0
    cpu: float = 0.0
    queue: float = 0.0

    @property
    def parts(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if name != "queue" and value is not None}

    @property
    def value(self) -> float:
        return max(self.parts.values())

    @property
    def cause(self) -> str:
        """The name of the largest part."""
        return max(self.parts, key=lambda name: self.parts[name])


class BatchCost:
    """What a batch costs: `slowness × (fixed + rows × per_row)` seconds.

    The line is learned slowly, from small batches as well as large ones, since only both together tell its two figures
    apart. How slow the machine is at the moment is learned fast: a single batch that is far off counts as a little off,
    and several in a row are believed. `target` is how long a batch should last, in seconds.
    """

    def __init__(self, target: float) -> None:
        self._target = target
        self._sums = [0.0] * 5  # of weights, rows, rows squared, seconds, seconds × rows
        self._seen = 0
        self._shortest = math.inf
        self._recent: deque[float] = deque(maxlen=_BELIEVED)
        self._slowness = 1.0
        self._line = (0.0, 0.0)  # fixed, per row

    @property
    def is_known(self) -> bool:
        return self._line[1] > 0

    @property
    def fixed(self) -> float:
        return self._slowness * self._line[0]

    @property
    def per_row(self) -> float:
        return self._slowness * self._line[1]

    def add(self, rows: int, seconds: float) -> None:
        if self.is_known:
            self._adjust(seconds / (self._line[0] + rows * self._line[1]))
        even = seconds / self._slowness
        weight = 1 / even**2
        added = (weight, weight * rows, weight * rows**2, weight * even, weight * even * rows)
        self._seen += 1
        memory = min(_MEMORY, self._seen / (self._seen + _YOUTH))
        self._sums = [memory * old + new for old, new in zip(self._sums, added, strict=True)]
        self._shortest = min(self._shortest, even)
        self._line = self._fit()

    def _adjust(self, ratio: float) -> None:
        self._recent.append(ratio)
        if len(self._recent) == _BELIEVED:
            middle = statistics.median(self._recent)
            if not 1 / _FAR_OFF < middle / self._slowness < _FAR_OFF:
                self._slowness = middle
        off = min(max(ratio / self._slowness, 1 / _FAR_OFF), _FAR_OFF)
        self._slowness *= off**_QUICKNESS

    def _fit(self) -> tuple[float, float]:
        """Least squares of the relative errors. A pull on `fixed` decides where all batches have had one size: to the
        guess that expects more of a batch of the target's length, so that nothing is shed for want of knowledge.
        """
        w, wr, wrr, ws, wsr = self._sums
        pull = _PULL * w
        guess = (_GUESS_SHORT if self._shortest <= self._target else _GUESS_LONG) * self._shortest
        fixed = ((ws + pull * guess) * wrr - wr * wsr) / ((w + pull) * wrr - wr * wr)
        fixed = min(max(fixed, 0.0), _MOST_FIXED * self._shortest)
        return fixed, (wsr - fixed * wr) / wrr


class LoadMeter:
    """`observe` each batch when it has ended. `target` is how long a batch should last, in seconds.

    Of the first batch only the rows count: it starts workers and compiles code.
    """

    def __init__(self, target: float) -> None:
        self._target = target
        self._cost = BatchCost(target)
        self._last: BatchLoad | None = None
        self._arrivals: deque[tuple[float, float]] = deque(maxlen=_MOST_BATCHES)  # rows, and seconds in which they came

    def observe(self, batch: BatchLoad) -> LoadScore:
        seconds = batch.ended - batch.started
        if self._last is not None and batch.kept > 0 and seconds > 0:
            self._cost.add(batch.kept, seconds)
        capacity, length = self._capacity()
        rate = self._rate(batch)
        queue = (batch.waiting or 0) / (capacity * length)
        score = LoadScore(
            None if rate is None or (rate > 0 and math.isinf(capacity)) else rate / capacity,
            seconds / self._target,
            queue * batch.kept / max(batch.offered, 1),
            (batch.memory or 0.0) / MEMORY_SHARE,
            min(batch.cpu or 0.0, 1.0),
            queue,
        )
        self._last = batch
        return score

    def _capacity(self) -> tuple[float, float]:
        """(rows per second, seconds of a batch) when batches last as long as they should; infinite while unknown."""
        cost = self._cost
        if not cost.is_known:
            return math.inf, self._target
        work = max(self._target - cost.fixed, _LEAST_WORK * cost.fixed)
        return work / cost.per_row / (cost.fixed + work), cost.fixed + work

    def _rate(self, batch: BatchLoad) -> float | None:
        """Rows that arrive per second, over the last batches that make up the target's length."""
        last = self._last
        if last is None:
            return None
        if batch.waiting is not None and last.waiting is not None:
            came, span = batch.offered + batch.waiting - last.waiting, batch.ended - last.ended
        else:
            came, span = batch.offered, batch.started - last.started
        if span > 0:
            self._arrivals.append((max(came, 0), span))
        rows = seconds = 0.0
        for some_rows, some_seconds in reversed(self._arrivals):
            rows, seconds = rows + some_rows, seconds + some_seconds
            if seconds >= self._target:
                break
        return rows / seconds if seconds else None
