"""Intervals per group, vectorised: gaps and islands, overlapping runs, and the last moment before another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eventide.kernels.vector.columns import Ints, distinct


@dataclass(frozen=True)
class Runs:
    """Intervals per group and, for each input, the number of the interval that it belongs to."""

    group: Ints
    start: Ints
    end: Ints
    number: Ints


def islands(group: Ints, ts: Ints, gap: int) -> Runs:
    """Runs of a group's events in which no two neighbours are more than `gap` apart; an island ends `gap` after its
    last event.
    """
    return overlapping(group, ts, ts + gap)


def overlapping(group: Ints, start: Ints, end: Ints) -> Runs:
    """A group's intervals, merged where one starts no later than another ends."""
    order = by_group_and_time(group, start)
    groups, starts, ends = group[order], start[order], end[order]
    reach = _running_max(groups, ends)
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (groups[1:] != groups[:-1]) | (starts[1:] > reach[:-1])
    firsts = np.flatnonzero(fresh)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(fresh) - 1
    lasts = np.append(firsts[1:], len(order))[: len(firsts)] - 1
    return Runs(groups[firsts], starts[firsts], reach[lasts], number)


def by_group_and_time(group: Ints, time: Ints) -> Ints:
    """The order of rows by group, then time. If both fit into one number, sorting that is four times as fast."""
    if len(group) == 0:
        return np.empty(0, np.int64)
    first, span = int(time.min()), int(time.max()) - int(time.min()) + 1
    if int(group.max() + 1) * span < 1 << 62:
        return np.argsort(group * span + (time - first))
    return np.lexsort((time, group))


def _running_max(groups: Ints, values: Ints) -> Ints:
    """The largest value so far within each run of equal, ascending groups."""
    if ((values[1:] >= values[:-1]) | (groups[1:] != groups[:-1])).all():
        return values
    dense = np.cumsum(np.concatenate(([0], groups[1:] != groups[:-1])))
    least, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    highest: Ints
    if int(dense[-1] + 1) * span < 1 << 62:
        highest = np.maximum.accumulate(dense * span + (values - least)) - dense * span
        return highest + least
    known: Ints
    known, rank = np.unique(values, return_inverse=True)
    highest = np.maximum.accumulate(dense * len(known) + rank) - dense * len(known)
    return known[highest]


def last_at_or_before(group: Ints, moment: Ints, asked_group: Ints, asked_moment: Ints) -> Ints:
    """For each pair asked about, the place of the latest moment of the same group that is not after it, or -1."""
    is_question = np.repeat([False, True], [len(group), len(asked_group)])
    groups = np.concatenate((group, asked_group))
    order = by_group_and_time(groups, 2 * np.concatenate((moment, asked_moment)) + is_question)
    place = np.where(is_question[order], -1, np.arange(len(order)))
    latest = np.maximum.accumulate(place)
    found = order[latest]
    found[(latest < 0) | (groups[order] != groups[found])] = -1
    answers = np.empty(len(order), np.int64)
    answers[order] = found
    return answers[len(group) :]


def covered(
    group: Ints, start: Ints, end: Ints, asked_group: Ints, asked_start: Ints, asked_end: Ints
) -> npt.NDArray[np.bool_]:
    """Whether each interval asked about meets one of its group; a group's must be disjoint, and all bounds are
    inclusive.
    """
    if len(group) == 0:
        return np.zeros(len(asked_group), np.bool_)
    at = last_at_or_before(group, start, asked_group, asked_end)
    return (at >= 0) & (end[at] >= asked_start)


def meetings(one: Runs, other: Runs) -> tuple[Ints, Ints]:
    """(place in one, place in the other) of all intervals of a group that share a point; those of `other` are best if
    few of a group overlap each other.
    """
    if len(one.group) == 0 or len(other.group) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = by_group_and_time(other.group, other.start)
    group, start = other.group[order], other.start[order]
    places = _Places(one, other)
    starts, reach = places.of(group, start), places.of(group, _running_max(group, other.end[order]))
    first = np.searchsorted(reach, places.of(one.group, one.start), "left")
    last = np.searchsorted(starts, places.of(one.group, one.end), "right")
    lengths = np.maximum(last - first, 0)
    before = np.cumsum(lengths) - lengths
    mine = np.repeat(np.arange(len(lengths)), lengths)
    theirs = order[np.repeat(first - before, lengths) + np.arange(len(mine))]
    meets = other.end[theirs] >= one.start[mine]
    return mine[meets], theirs[meets]


class _Places:
    """Group and time as one number, in the order of both."""

    def __init__(self, *runs: Runs) -> None:
        self._first = min(int(run.start.min()) for run in runs)
        self._span = max(int(run.end.max()) for run in runs) - self._first + 1
        self._times: Ints | None = None
        if int(max(run.group.max() for run in runs) + 1) * self._span >= 1 << 62:
            self._times = distinct(np.concatenate([times for run in runs for times in (run.start, run.end)]))
            self._span = len(self._times)

    def of(self, group: Ints, times: Ints) -> Ints:
        """The times must be bounds of the runs."""
        return group * self._span + (
            times - self._first if self._times is None else np.searchsorted(self._times, times)
        )
