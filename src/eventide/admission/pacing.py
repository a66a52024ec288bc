"""How much the next batch may take in, so that it takes about as long as the user wants.

A batch costs `fixed + bytes / throughput` seconds. Both are estimated from the last batches; the next one gets as many
bytes as fit into what the fixed cost leaves of the target.

    seconds          ·  ● target
      │         ·  ●
      │    ·  ●                    ● batches seen, · the line through them
      │ ·                          the line meets the target at the bytes of the next batch
      └──────────────── bytes

Nothing here reads a clock or a file.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
CAUTIOUS = 512 * KIB  # the first batch, where one that is too long does harm
LEAST_KEPT = 0.01  # of the rows, as far as a batch grows when most are shed


@dataclass(frozen=True)
class BatchPerformancePoint:
    """One batch as observed: how many bytes it took in, and the seconds until the engine asked for the next."""

    bytes: int
    seconds: float


@dataclass(frozen=True)
class Pacing:
    """Users set only `target_latency`.

    `growth` and `shrink` bound one step. `least_work` is the least time that a batch spends on its data, as a share of
    the fixed cost: a target below the fixed cost cannot be met, and nearly empty batches would only let the input pile
    up. A batch counts as full from the share `full` of its budget, or if it lasted far too long: the budget was too
    large then. A smaller one says little about the throughput.
    """

    target_latency: float  # seconds
    initial_batch: int = 4 * MIB
    min_batch: int = 64 * KIB
    max_batch: int = 16 * GIB
    growth: float = 4.0
    shrink: float = 1 / 8
    least_work: float = 1 / 5
    full: float = 1 / 2
    window: int = 16


@dataclass(frozen=True)
class Cost:
    """The line through the points: the fixed seconds of every batch, and seconds per byte."""

    fixed: float
    per_byte: float

    def seconds(self, bytes: int) -> float:
        return self.fixed + self.per_byte * bytes


_FORGETTING = 0.85  # weight of a point relative to the next newer one
_ANCHOR = 0.3  # weight of the fixed cost known so far relative to one new point
_FIRST_GUESS = 0.9  # share of the fixed cost in a batch, before anything is known
_MOST_FIXED = 0.87  # largest share of the fixed cost in a batch: bytes always cost something
_OFF, _FAR_OFF = 1.25, 1.6  # how many times slower or faster than expected puts a batch off the line
_LEANING = 3  # how many batches off the line on one side are no accident
_KNOWN = 3  # points that make a line worth trusting
_CREEP = 1.05  # growth, while batches exceed the target by no more: it finds out what the line cannot say
_PROBES = (0.5, 1.5)  # sizes to alternate between, as multiples of one in the middle
_PROBE_STEP = 1.5  # the factor by which the middle may move


class BatchSizePredictor:
    """A least-squares line over a sliding window of points, weighted by age and by relative error.

    Batches of one size alone cannot tell fixed cost from throughput, so the fixed cost known so far counts as a point
    of its own. At first it is assumed to be nearly all of a batch that meets the target, so that larger ones are tried.
    A batch that is far off the line is set aside as noise. Two of them in a row, or three that are off by less and on
    the same side, mean that the line is wrong: the engine has changed. A new line then starts with them.
    """

    def __init__(self, window: int, target: float) -> None:
        self._target = target
        self._points: deque[BatchPerformancePoint] = deque(maxlen=window)
        self._aside: BatchPerformancePoint | None = None
        self._leaning: list[BatchPerformancePoint] = []  # the latest points, all off the line on one side
        self._side = 0
        self.cost: Cost | None = None

    def add(self, point: BatchPerformancePoint) -> None:
        """A full batch."""
        ratio = self._ratio(point)
        side = (ratio > _OFF) - (ratio < 1 / _OFF)
        self._leaning = ([*self._leaning, point] if side == self._side else [point]) if side else []
        self._side = side
        aside, self._aside = self._aside, None if 1 / _FAR_OFF <= ratio <= _FAR_OFF else point
        if aside is not None and self._aside is not None:
            self._start_anew([aside, point])
        elif len(self._leaning) >= _LEANING:
            self._start_anew(self._leaning)
        elif self._aside is None:
            self._points.append(point)
        self.cost = self._fit()

    def _start_anew(self, points: list[BatchPerformancePoint]) -> None:
        self._points.clear()
        self._points.extend(points)
        self._aside, self._leaning, self._side = None, [], 0

    def add_light(self, point: BatchPerformancePoint) -> None:
        """A batch too small to say anything about the throughput: the time beyond what its bytes cost is fixed cost."""
        if self.cost is not None:
            beyond = max(0.0, point.seconds - self.cost.per_byte * point.bytes)
            self.cost = Cost(self.cost.fixed + _ANCHOR * (beyond - self.cost.fixed), self.cost.per_byte)

    def _ratio(self, point: BatchPerformancePoint) -> float:
        """How long the batch took relative to what was expected; 1 while too little is known to expect anything."""
        if self.cost is None or len(self._points) < _KNOWN:
            return 1.0
        return point.seconds / self.cost.seconds(point.bytes)

    def _fit(self) -> Cost:
        points = [(_FORGETTING**age / point.seconds**2, point) for age, point in enumerate(reversed(self._points))]
        w = sum(weight for weight, _ in points)
        wb = sum(weight * point.bytes for weight, point in points)
        wbb = sum(weight * point.bytes**2 for weight, point in points)
        ws = sum(weight * point.seconds for weight, point in points)
        wbs = sum(weight * point.bytes * point.seconds for weight, point in points)
        mean = ws / w
        anchor = _FIRST_GUESS * min(mean, self._target) if self.cost is None else min(mean, self.cost.fixed)
        pull = _ANCHOR / mean**2
        fixed = ((ws + pull * anchor) * wbb - wb * wbs) / ((w + pull) * wbb - wb * wb)
        fixed = min(max(fixed, 0.0), _MOST_FIXED * mean)
        return Cost(fixed, max(wbs - fixed * wb, (1 - _MOST_FIXED) * wbs) / wbb)


class Batcher(Protocol):
    """Says how many bytes the next batch may take, and is told of each when it has ended."""

    @property
    def budget(self) -> int: ...

    def observe(self, point: BatchPerformancePoint) -> None: ...


@dataclass
class AdaptiveBatcher:
    """Says how many bytes the next batch may take. `observe` each batch when it has ended, then read `budget`.

    The first batch is not counted: it starts workers and compiles code.
    """

    pacing: Pacing
    budget: int = field(init=False)
    _predictor: BatchSizePredictor = field(init=False)
    _is_cold: bool = True
    _middle: float | None = None
    _probes: int = 0

    def __post_init__(self) -> None:
        self.budget = self.pacing.initial_batch
        self._predictor = BatchSizePredictor(self.pacing.window, self.pacing.target_latency)

    @property
    def cost(self) -> Cost | None:
        """The estimated cost of a batch; None before anything is known."""
        return self._predictor.cost

    def observe(self, point: BatchPerformancePoint) -> None:
        """A batch has ended. `point.bytes` may exceed the budget: a batch takes at least one file."""
        if self._is_cold:
            self._is_cold = False
            return
        if point.bytes <= 0 or not math.isfinite(point.seconds) or point.seconds <= 0:
            return
        is_full = point.bytes >= self.pacing.full * self.budget or point.seconds > _FAR_OFF * self._reachable()
        if is_full:
            self._predictor.add(point)
        else:
            self._predictor.add_light(point)
        wanted = self._wanted(point)
        if is_full:
            self.budget = self._within_a_step(wanted, point)
        elif wanted < self.budget:
            self.budget = self._bounded(max(wanted, self.budget * self.pacing.shrink))

    def _wanted(self, point: BatchPerformancePoint) -> float:
        cost = self._predictor.cost
        if cost is None:
            return self.budget
        left, least = self.pacing.target_latency - cost.fixed, self.pacing.least_work * cost.fixed
        if left >= least:
            self._middle = None
            return left / cost.per_byte
        return self._probe(least / cost.per_byte, point)

    def _probe(self, wanted: float, point: BatchPerformancePoint) -> float:
        """Sizes around a slowly moving middle: where the target seems out of reach, only trying different sizes can
        tell.
        """
        middle = self._middle or point.bytes
        self._middle = min(max(wanted, middle / _PROBE_STEP), middle * _PROBE_STEP)
        self._probes += 1
        return _PROBES[self._probes % len(_PROBES)] * self._middle

    def _within_a_step(self, wanted: float, point: BatchPerformancePoint) -> int:
        """Limit growth and shrinking relative to what the batch really took; after one far over the target, the next
        must be smaller.
        """
        cost = self._predictor.cost
        if cost is not None and cost.seconds(point.bytes) <= _CREEP * self.pacing.target_latency:
            wanted = max(wanted, self.budget * _CREEP)
        wanted = min(wanted, point.bytes * self.pacing.growth)
        if point.seconds > _FAR_OFF * self._reachable():
            wanted = min(wanted, point.bytes * self._reachable() / point.seconds)
        return self._bounded(max(wanted, point.bytes * self.pacing.shrink))

    def _reachable(self) -> float:
        """The target, or the shortest batch that makes sense if the fixed cost does not allow the target."""
        fixed = self._predictor.cost.fixed if self._predictor.cost is not None else 0.0
        return max(self.pacing.target_latency, (1 + self.pacing.least_work) * fixed)

    def _bounded(self, bytes: float) -> int:
        return round(min(max(bytes, self.pacing.min_batch), self.pacing.max_batch))


class SheddingBatcher:
    """The same where rows are shed: those cost little, and do not count. `keep` gives the share that the order in force
    leaves. Read `budget` when a batch begins.
    """

    def __init__(self, pacing: Pacing, keep: Callable[[], float]) -> None:
        self._batcher = AdaptiveBatcher(pacing)
        self._keep = keep
        self._kept = 1.0  # of the batch that runs

    @property
    def budget(self) -> int:
        self._kept = max(self._keep(), LEAST_KEPT)
        return round(self._batcher.budget / self._kept)

    def observe(self, point: BatchPerformancePoint) -> None:
        self._batcher.observe(replace(point, bytes=round(point.bytes * self._kept)))


def pacing_of(target_latency: float, sheds: bool) -> Pacing:
    """Of a source of which rows may be shed, or not."""
    return Pacing(target_latency, initial_batch=CAUTIOUS) if sheds else Pacing(target_latency)


def batcher_of(target_latency: float, keep: Callable[[], float] | None) -> Batcher:
    """With `keep` rows are shed."""
    pacing = pacing_of(target_latency, sheds=keep is not None)
    return AdaptiveBatcher(pacing) if keep is None else SheddingBatcher(pacing, keep)
