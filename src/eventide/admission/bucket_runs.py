"""The level of a bucket at each of many moments, without a step of Python for each of them.

A bucket is in one of two moods. In *plenty* every row is admitted, and the level is the sum of what came in and went
out, held down at the burst. In *want* all that comes in is taken at once, and the level is what does not pay for a
whole row. As long as the mood lasts, levels are cumulative sums; where it changes, the other kind goes on from there.
Where it changes all the time, plain steps are faster, and a stretch of them is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eventide.admission.bucket import Measure

Ints = npt.NDArray[np.int64]

_SAFE = 1 << 62
_FIRST_RUN, _LONGEST_RUN = 64, 1 << 16
_SHORT = 24  # moments in one mood below which plain steps are as fast
_STEPS = 512  # plain steps before a run is tried again


def levels(measure: Measure, level: int, passed: Ints, wanted: Ints) -> tuple[npt.NDArray[Any], int]:
    """(level before each moment's rows take anything, level behind the last one). Levels too large for 64 bits are
    Python's numbers.

    `passed` are microseconds since the moment before, not negative; `wanted` is how many rows ask.
    """
    if len(passed) < _FIRST_RUN or measure.burst + measure.cost + measure.refill > _SAFE // (4 * _FIRST_RUN):
        income = [micros * measure.refill for micros in passed.tolist()]
        found, level = _steps(measure, level, income, wanted.tolist())
        return np.array(found, np.int64 if measure.burst < _SAFE else object), level
    return _Runs(measure, passed, wanted).walk(level)


def _steps(measure: Measure, level: int, income: Sequence[int], wanted: Sequence[int]) -> tuple[list[int], int]:
    burst, cost = measure.burst, measure.cost
    found = []
    for units, rows in zip(income, wanted, strict=True):
        level += units
        if level > burst:
            level = burst
        found.append(level)
        most = level // cost
        level -= cost * (rows if rows < most else most)
    return found, level


class _Runs:
    def __init__(self, measure: Measure, passed: Ints, wanted: Ints) -> None:
        self._measure = measure
        # More than fills the bucket, or than it can ever hold, is as good as that: sums stay small.
        self._income = np.minimum(passed, -(-measure.burst // measure.refill)) * measure.refill
        self._asked = np.minimum(wanted, measure.burst // measure.cost + 1)
        self._found = np.empty(len(passed), np.int64)
        self._longest = min(_LONGEST_RUN, _SAFE // (4 * (measure.burst + measure.cost + measure.refill)))

    def walk(self, level: int) -> tuple[Ints, int]:
        at, run, end = 0, _FIRST_RUN, len(self._found)
        while at < end:
            before = at
            at, level, is_want = self._plenty(at, min(at + run, end), level)
            if is_want and at < end:
                at, level = self._want(at, min(at + run, end), level)
            if at - before >= run:
                run = min(2 * run, self._longest)
            elif at - before < _SHORT:
                at, level, run = *self._plain(at, min(at + _STEPS, end), level), _FIRST_RUN
        return self._found, level

    def _plain(self, start: int, stop: int, level: int) -> tuple[int, int]:
        income, asked = self._income[start:stop].tolist(), self._asked[start:stop].tolist()
        self._found[start:stop], level = _steps(self._measure, level, income, asked)
        return stop, level

    def _plenty(self, start: int, stop: int, level: int) -> tuple[int, int, bool]:
        """Up to the first moment at which not all can be admitted, and through it; then True."""
        cost = self._measure.cost
        asked = self._asked[start:stop] * cost
        free = level + np.cumsum(self._income[start:stop] - asked) + asked  # the level, were there no burst
        spilt = np.maximum(np.maximum.accumulate(free - self._measure.burst), 0)
        found = free - spilt
        short = np.flatnonzero(found < asked)
        if len(short) == 0:
            self._found[start:stop] = found
            return stop, int(found[-1] - asked[-1]), False
        last = int(short[0])
        self._found[start : start + last + 1] = found[: last + 1]
        return start + last + 1, int(found[last]) % cost, True

    def _want(self, start: int, stop: int, level: int) -> tuple[int, int]:
        """Up to the first moment that does not take all there is; `level` is below the cost of a row."""
        cost, income = self._measure.cost, self._income[start:stop]
        total = level + np.cumsum(income)
        rest = total % cost
        found = np.concatenate((np.array([level]), rest[:-1])) + income
        over = np.flatnonzero((self._asked[start:stop] < found // cost) | (found > self._measure.burst))
        kept = int(over[0]) if len(over) else stop - start
        self._found[start : start + kept] = found[:kept]
        return start + kept, int(rest[kept - 1]) if kept else level
