"""How much the next batch may take, so that it lasts about as long as the user wants.

A batch costs `fixed + bytes / throughput` seconds. Both are estimated from the last batches; the next one gets the
bytes that fill what the fixed cost leaves of the target.

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
from dataclasses import dataclass, field

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class BatchPerformancePoint:
    """One batch as it was seen: what it took in, and how long it lasted until the engine asked for the next."""

    bytes: int
    seconds: float


@dataclass(frozen=True)
class Pacing:
    """`target_latency` is the only one that users set.

    `growth` and `shrink` bound one step. `least_work` is the share of the fixed cost that a batch spends on its data at
    least: a target below the fixed cost cannot be met, and batches of nearly nothing would only let the input pile up.
    A batch counts as full from `full` of its budget on; a smaller one says little about the throughput.
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
    """The line through the points: seconds that every batch costs, and seconds per byte."""

    fixed: float
    per_byte: float

    def seconds(self, bytes: int) -> float:
        return self.fixed + self.per_byte * bytes


_FORGETTING = 0.85  # weight of a point against the next newer one
_ANCHOR = 0.3  # weight of the fixed cost known so far against one new point
_PROBES = (0.5, 1.5)  # sizes by turns, where only different ones can tell whether the target is really out of reach
_FIRST_GUESS = 0.9  # share of the fixed cost in a batch, before anything is known
_SURPRISE = 1.6  # a batch this many times slower or faster than expected is far off the line
_KNOWN = 3  # points that make a line worth trusting


class BatchSizePredictor:
    """A least-squares line over a sliding window of points, weighted by age and by relative error.

    Batches of one size alone cannot tell fixed cost from throughput, so the fixed cost known so far counts as a point of
    its own. At first it is taken to be nearly all of a batch that keeps to the target, so that larger ones are tried.
    A batch that is far off the line is set aside: alone it was noise, but two in a row on the same side mean that the
    engine is another one, and the line starts anew with them.
    """

    def __init__(self, window: int, target: float) -> None:
        self._target = target
        self._points: deque[BatchPerformancePoint] = deque(maxlen=window)
        self._suspect: BatchPerformancePoint | None = None
        self.cost: Cost | None = None

    def add(self, point: BatchPerformancePoint) -> None:
        """A full batch."""
        suspect, self._suspect = self._suspect, None
        side = self._side(point)
        if side == 0:
            self._points.append(point)
        elif suspect is not None and self._side(suspect) == side:
            self._points.clear()
            self._points.extend((suspect, point))
        else:
            self._suspect = point
            return
        self.cost = self._fit()

    def add_light(self, point: BatchPerformancePoint) -> None:
        """A batch too small to say anything of the throughput: what it took beyond that is fixed cost."""
        if self.cost is not None:
            beyond = max(0.0, point.seconds - self.cost.per_byte * point.bytes)
            self.cost = Cost(self.cost.fixed + _ANCHOR * (beyond - self.cost.fixed), self.cost.per_byte)

    def _side(self, point: BatchPerformancePoint) -> int:
        """1 for a batch that was far slower than expected, -1 for one far faster, 0 for all others and while too little is known."""
        if self.cost is None or len(self._points) < _KNOWN:
            return 0
        ratio = point.seconds / self.cost.seconds(point.bytes)
        return (ratio > _SURPRISE) - (ratio < 1 / _SURPRISE)

    def _fit(self) -> Cost:
        points = list(self._points)
        shortest = min(point.seconds for point in points)
        anchor = min(shortest, self.cost.fixed) if self.cost is not None else _FIRST_GUESS * min(shortest, self._target)
        weights = [_FORGETTING**age / point.seconds**2 for age, point in enumerate(reversed(points))][::-1]
        pull = _ANCHOR / shortest**2
        w = sum(weights) + pull
        wb = sum(weight * point.bytes for weight, point in zip(weights, points, strict=True))
        wbb = sum(weight * point.bytes**2 for weight, point in zip(weights, points, strict=True))
        ws = sum(weight * point.seconds for weight, point in zip(weights, points, strict=True)) + pull * anchor
        wbs = sum(weight * point.bytes * point.seconds for weight, point in zip(weights, points, strict=True))
        fixed = (ws * wbb - wb * wbs) / (w * wbb - wb * wb)
        fixed = min(max(fixed, 0.0), shortest * 0.98)
        return Cost(fixed, (wbs - fixed * wb) / wbb)


@dataclass
class AdaptiveBatcher:
    """Says how many bytes the next batch may take. `observe` each batch when it has ended, then read `budget`.

    The first batch is not counted: it starts workers and compiles code.
    """

    pacing: Pacing
    budget: int = field(init=False)
    _predictor: BatchSizePredictor = field(init=False)
    _is_cold: bool = True
    _probe: int = 0

    def __post_init__(self) -> None:
        self.budget = self.pacing.initial_batch
        self._predictor = BatchSizePredictor(self.pacing.window, self.pacing.target_latency)

    @property
    def cost(self) -> Cost | None:
        """What a batch is thought to cost; None before anything is known."""
        return self._predictor.cost

    def observe(self, point: BatchPerformancePoint) -> None:
        """A batch has ended. `point.bytes` may exceed the budget: a batch takes at least one file."""
        if self._is_cold:
            self._is_cold = False
            return
        if point.bytes <= 0 or not math.isfinite(point.seconds) or point.seconds <= 0:
            return
        is_full = point.bytes >= self.pacing.full * self.budget
        if is_full:
            self._predictor.add(point)
        else:
            self._predictor.add_light(point)
        wanted = self._wanted()
        if is_full:
            self.budget = self._within_a_step(wanted, point)
        elif wanted < self.budget:
            self.budget = self._bounded(max(wanted, self.budget * self.pacing.shrink))

    def _wanted(self) -> float:
        cost = self._predictor.cost
        if cost is None:
            return self.budget
        left, least = self.pacing.target_latency - cost.fixed, self.pacing.least_work * cost.fixed
        if left >= least:
            return left / cost.per_byte
        self._probe = (self._probe + 1) % len(_PROBES)
        return _PROBES[self._probe] * least / cost.per_byte

    def _within_a_step(self, wanted: float, point: BatchPerformancePoint) -> int:
        """Growth and shrinking from what the batch really took; one far over the target must be followed by a smaller one."""
        wanted = min(wanted, point.bytes * self.pacing.growth)
        if point.seconds > _SURPRISE * self._reachable():
            wanted = min(wanted, point.bytes * self._reachable() / point.seconds)
        return self._bounded(max(wanted, point.bytes * self.pacing.shrink))

    def _reachable(self) -> float:
        """The target, or where the fixed cost does not allow it, the shortest batch that makes sense."""
        fixed = self._predictor.cost.fixed if self._predictor.cost is not None else 0.0
        return max(self.pacing.target_latency, (1 + self.pacing.least_work) * fixed)

    def _bounded(self, bytes: float) -> int:
        return round(min(max(bytes, self.pacing.min_batch), self.pacing.max_batch))
