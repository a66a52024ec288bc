"""For each of some moments the nearest row of its group that is accepted, before it or after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa

from eventide.kernels.vector.columns import Ints, Mask, combined_rank, dense_rank, distinct, normalised, ties_broken
from eventide.kernels.vector.matching import same
from eventide.kernels.windows.grid import spans

_AT_ONCE = 1_000_000  # pairs
_MOST_TRIED = 1024  # rows for one moment at a time

Accept = Callable[[Ints, Ints], Mask]  # of pairs (number of the moment, number of the row)


@dataclass(frozen=True)
class GroupTimes:
    """Moments, each with the number of its group."""

    group: Ints
    ts: Ints


class Timeline:
    """Rows in the order of group, time and arrival."""

    def __init__(self, rows: GroupTimes, arrival: Ints) -> None:
        self._first = int(rows.ts.min()) if len(rows.ts) else 0
        self._span = (int(rows.ts.max()) if len(rows.ts) else 0) - self._first + 3
        self._distinct: Ints | None = None
        if int(rows.group.max(initial=0) + 1) * self._span >= 1 << 62:
            self._distinct = distinct(rows.ts)
            self._span = 2 * len(self._distinct) + 1
        place = self._places_of(rows.group, rows.ts)
        self._group, self._arrival, self._place = rows.group, arrival, place
        self._upward = _ordered(place, arrival)
        self._places = place[self._upward]

    @cached_property
    def _downward(self) -> Ints:
        """Of equal times the one that came last is met first."""
        return _ordered(self._place, -self._arrival)

    def is_last(self) -> Mask:
        """Which rows are the last ones of their groups."""
        group = self._group[self._upward]
        last = np.empty(len(group), np.bool_)
        last[self._upward] = np.append(group[1:] != group[:-1], True)[: len(group)]
        return last

    def _places_of(self, group: Ints, ts: Ints | None, end: int = 0) -> Ints:
        """Where moments lie among the rows, as one number; without a time, at the end 0 or 1 of their groups."""
        if ts is None:
            position: Ints = np.full(len(group), end * (self._span - 1))
        elif self._distinct is None:
            position = np.clip(ts - self._first + 1, 0, self._span - 1)
        else:
            next_one = np.searchsorted(self._distinct, ts, "left")
            is_exact: Mask = self._distinct[np.minimum(next_one, len(self._distinct) - 1)] == ts
            position = 2 * next_one + is_exact
        places: Ints = group * self._span + position
        return places

    def before(self, asked: GroupTimes, strict: bool, tolerance: int | None, accept: Accept | None) -> Ints:
        """The number of the latest row that is not later (`strict`: earlier) and at most `tolerance` away, or -1."""
        last = self._search(asked.group, asked.ts, 0, "left" if strict else "right") - 1
        first = self._search(asked.group, None if tolerance is None else asked.ts - tolerance, 0, "left")
        return self._nearest(self._upward, last, last - first + 1, -1, accept)

    def after(self, asked: GroupTimes, strict: bool, tolerance: int | None, accept: Accept | None) -> Ints:
        """The same for the earliest row that is not earlier."""
        first = self._search(asked.group, asked.ts, 0, "right" if strict else "left")
        end = self._search(asked.group, None if tolerance is None else asked.ts + tolerance, 1, "right")
        return self._nearest(self._downward, first, end - first, 1, accept)

    def _search(self, group: Ints, ts: Ints | None, end: int, side: Literal["left", "right"]) -> Ints:
        """Where moments would be put among the rows. In order, which is several times as fast."""
        places = self._places_of(group, ts, end)
        order = np.argsort(places)
        found = np.empty(len(places), np.int64)
        found[order] = np.searchsorted(self._places, places[order], side)
        return found

    def _nearest(self, order: Ints, start: Ints, count: Ints, step: int, accept: Accept | None) -> Ints:
        """The first accepted one of `count` rows from `start` on."""
        found = np.full(len(start), -1, np.int64)
        left = np.flatnonzero(count > 0)
        if accept is None:
            found[left] = order[start[left]]
            return found
        tried = 1
        while len(left):
            for some in _slices(left, tried):
                lengths = np.minimum(count[some], tried)
                asked, at = np.repeat(some, lengths), order[step * spans(step * start[some], lengths)]
                good = np.flatnonzero(accept(asked, at))
                winners, first = np.unique(asked[good], return_index=True)
                found[winners] = at[good[first]]
            left = left[(found[left] < 0) & (count[left] > tried)]
            start, count = start.copy(), count.copy()
            start[left] += step * tried
            count[left] -= tried
            tried = min(tried * 2, _MOST_TRIED)
        return found


def _ordered(place: Ints, tie: Ints) -> Ints:
    """The order of rows by place, and by `tie` where places are equal."""
    order = np.argsort(place)
    ordered = place[order]
    return ties_broken(order, ordered[1:] == ordered[:-1], (tie, place))


def _slices(numbers: Ints, each: int) -> Iterator[Ints]:
    size = max(1, _AT_ONCE // each)
    return (numbers[at : at + size] for at in range(0, len(numbers), size))


def numbered(hashes: Ints, keys: list[pa.Array]) -> Ints:
    """A number for each distinct key, given the hashes of the rows' keys."""
    order = np.argsort(hashes)
    ordered = hashes[order]
    repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
    mine, before = pa.array(order[repeated + 1]), pa.array(order[repeated])
    if same([key.take(mine) for key in keys], [key.take(before) for key in keys], len(repeated)).all():
        fresh = np.ones(len(order), np.int64)
        fresh[repeated + 1] = 0
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.cumsum(fresh) - 1
        return numbers
    return combined_rank([dense_rank(normalised(key)) for key in keys], len(hashes))
