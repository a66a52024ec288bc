"""Admission of whole batches whose rows are spread over tasks and shards, with the answers of
`StreamAdmissionController`.

The order of a batch's rows is (arrival, part, number). A *part* is a piece of the input that one task reads in order: a
partition of Kafka, a range of a file, a file of the spool. Parts are numbered by their place in the input, so that the
order does not depend on who reads what.

    task:   survey(rows)  →  slices, to every shard      (arrival, part, how many rows would take a token)
                          →  tickets, with their rows    (how many takers stand before it, its slice)
    shard:  settle(state, slices of all tasks)  →  Settlement, new state: the same ones in every shard
            settlement.outcomes(tickets)        →  what becomes of this shard's rows

Rows of one slice have arrived at the same moment, so no token comes in between: those admitted are the first ones. What
must be worked out one after the other is therefore only the bucket's level at each distinct arrival (`bucket_runs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventide.admission.bucket import BucketState
from eventide.admission.bucket_runs import levels
from eventide.admission.controller import AdmissionState
from eventide.admission.sla import StreamSlaConfig
from eventide.errors import EngineError

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.uint8]

_TOO_LATE, _TO_BE_SHED, _FIRST = 1, 2, 4  # bits of the flags
_NO_LIMIT = np.iinfo(np.int64).max

SLICE_SCHEMA = pa.schema(
    [
        ("at", pa.int64()),  # arrival, microseconds since the epoch
        ("part", pa.int64()),
        ("start", pa.int64()),  # the number of the slice's first row
        ("takers", pa.int64()),  # rows that would take a token
        ("first_takes", pa.bool_()),
    ]
)


class Outcome(IntEnum):
    """What becomes of a row. The names of the others are the reasons of their payloads."""

    ADMITTED = 0
    LAG = 1
    JITTER = 2
    RATE = 3
    SHED = 4

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Arrivals:
    """When each row came, and its place: `number` is its order within its part. `event_time` is 0 where `has_time` is
    False; such a row has no lag.
    """

    at: Ints
    part: Ints
    number: Ints
    event_time: Ints
    has_time: Bools | None = None  # None: all have

    def where(self, chosen: Bools) -> Arrivals:
        has_time = None if self.has_time is None else self.has_time[chosen]
        return Arrivals(self.at[chosen], self.part[chosen], self.number[chosen], self.event_time[chosen], has_time)


TICKET_FIELDS = {"__before": "before", "__slice": "slice", "__flags": "flags"}


@dataclass(frozen=True)
class Tickets:
    """What a row must carry to its shard: four bytes, or nine of them if a row of its survey takes no token.

    Where all take one, `before` tells the slice as well, and there are no flags. Where besides all came at one moment
    and nobody counts them, none is carried: `before` is 0.
    """

    before: npt.NDArray[np.int32]  # takers of its survey in front of it
    slice: npt.NDArray[np.int32] | None = None  # its place in the slices of its survey
    flags: Codes | None = None

    @property
    def too_late(self) -> Bools:
        """Rows that will be rejected for their lag, whatever else."""
        return self._with(_TOO_LATE, _TOO_LATE)

    @property
    def to_be_shed(self) -> Bools:
        """Rows that will be shed unless jitter or rate rejects them."""
        return self._with(_TOO_LATE | _TO_BE_SHED, _TO_BE_SHED)

    @property
    def out(self) -> Bools:
        """Rows that will be rejected for their lag, or shed unless they are rejected."""
        return ~self._with(_TOO_LATE | _TO_BE_SHED, 0)

    def _with(self, bits: int, values: int) -> Bools:
        if self.flags is None:
            return np.full(len(self.before), values == 0)
        found: Bools = self.flags & bits == values
        return found

    def at(self, places: Ints) -> Tickets:
        """Those at some places."""
        return Tickets(
            self.before[places],
            None if self.slice is None else self.slice[places],
            None if self.flags is None else self.flags[places],
        )

    def columns(self) -> dict[str, pa.Array]:
        """To be packed with their rows."""
        own = {name: vars(self)[field] for name, field in TICKET_FIELDS.items()}
        return {name: pa.array(values) for name, values in own.items() if values is not None}

    @classmethod
    def of(cls, rows: pa.Table) -> Tickets:
        """The tickets that came with rows of one survey."""
        there = {name: field for name, field in TICKET_FIELDS.items() if name in rows.column_names}
        if not there:
            return cls(np.zeros(rows.num_rows, np.int32))
        return cls(**{field: rows[name].to_numpy() for name, field in there.items()})


@dataclass(frozen=True)
class Survey:
    slices: pa.Table  # of SLICE_SCHEMA
    tickets: Tickets


def survey(config: StreamSlaConfig, rows: Arrivals, to_be_shed: Bools | None = None) -> Survey:
    """What a task finds out about its rows, or about some of them: it may make several surveys, one for each chunk that
    it packs. `to_be_shed` are the rows that the shedder would drop, if the source's limits admit them.
    """
    flags = _flags(config, rows, to_be_shed)
    order, heads = _in_slices(rows)
    first_rows = heads if order is None else order[heads]
    bounds = np.append(heads, len(rows.at))
    if flags is None:
        takers, first_takes = np.diff(bounds), np.ones(len(heads), np.bool_)
        before = np.arange(len(rows.at), dtype=np.int32)
        tickets = Tickets(before if order is None else _put_back(before, order))
    else:
        takes = flags == 0 if order is None else flags[order] == 0
        taken = np.concatenate((np.zeros(1, np.int64), np.cumsum(takes)))
        takers, first_takes = np.diff(taken[bounds]), takes[heads]
        flags[first_rows] |= _FIRST
        before = taken[:-1].astype(np.int32)
        slice_of = np.repeat(np.arange(len(heads), dtype=np.int32), np.diff(bounds))
        if order is not None:
            before, slice_of = _put_back(before, order), _put_back(slice_of, order)
        tickets = Tickets(before, slice_of, flags)
    columns = [rows.at[first_rows], rows.part[first_rows], rows.number[first_rows], takers, first_takes]
    return Survey(pa.table([pa.array(each) for each in columns], schema=SLICE_SCHEMA), tickets)


def _flags(config: StreamSlaConfig, rows: Arrivals, to_be_shed: Bools | None) -> Codes | None:
    """None where every row would take a token, as it mostly is."""
    found: Codes = np.zeros(len(rows.at), np.uint8)
    if to_be_shed is not None:
        found[to_be_shed] = _TO_BE_SHED
    if config.max_lag is not None and len(rows.at) and rows.at.max() - rows.event_time.min() > config.max_lag:
        late = rows.at - rows.event_time > config.max_lag
        found |= (late if rows.has_time is None else late & rows.has_time).astype(np.uint8)
    return found if found.any() else None


def _in_slices(rows: Arrivals) -> tuple[Ints | None, Ints]:
    """The order of the rows, None where they stand in it already, as they mostly do; and where a slice begins in it."""
    heads = _heads(rows.at, rows.part)
    at, part = rows.at[heads], rows.part[heads]
    are_slices_in_order = (at[1:] > at[:-1]) | (at[1:] == at[:-1]) & (part[1:] > part[:-1])
    goes_up = rows.number[1:] > rows.number[:-1]
    goes_up[heads[1:] - 1] = True
    if are_slices_in_order.all() and goes_up.all():
        return None, heads
    order = np.lexsort((rows.number, rows.part, rows.at))
    return order, _heads(rows.at[order], rows.part[order])


def _heads(at: Ints, part: Ints) -> Ints:
    """Where a slice begins, in rows that stand in order."""
    if len(at) == 0:
        return np.empty(0, np.int64)
    begins = (at[1:] != at[:-1]) | (part[1:] != part[:-1])
    return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(begins) + 1))


def _put_back(values: npt.NDArray[np.int32], order: Ints) -> npt.NDArray[np.int32]:
    found = np.empty_like(values)
    found[order] = values
    return found


@dataclass(frozen=True)
class Moments:
    """The distinct arrivals of a batch, in order. Levels are in the bucket's units."""

    at: Ints
    gap: Ints  # since the row before, 0 if there was none
    is_jitter: Bools
    most: Ints  # rows that the bucket can pay for, from here to the next moment
    level: npt.NDArray[Any]  # before any of them took a token; Python numbers where they are large


@dataclass(frozen=True)
class Settlement:
    """A batch of one source, settled. `slices` are known by the key of their survey and their place in it."""

    moments: Moments
    bucket: BucketState | None  # as it was before the batch
    admitted: int  # in all shards
    _base: dict[int, int]
    _begins: dict[int, Ints]  # of each survey: takers in slices before each of its slices
    _moment: Ints  # of each slice
    _ahead: Ints  # takers of the same moment in slices before it
    _takes_all: Bools  # every taker of the slice is admitted
    _is_head: Bools  # the first slice of its moment
    _head_takes: Bools  # the first row of its moment was a taker

    def outcomes(self, key: int, tickets: Tickets) -> Codes:
        """An `Outcome` for each row of one survey that came to this shard."""
        if self.admits_all(key, tickets):
            return np.full(len(tickets.before), Outcome.ADMITTED, np.uint8)
        slice_of, begins = self._slices_of(key, tickets), self._begins[key][:-1]
        place = slice_of + self._base[key]
        before = tickets.before - begins[slice_of]
        moment = self._moment[place]
        is_jitter = self.moments.is_jitter[moment]
        opens = before == 0 if tickets.flags is None else tickets.flags & _FIRST != 0
        is_first = opens & self._is_head[place]
        rank = self._ahead[place] + before - (is_jitter & self._head_takes[place] & ~is_first)
        shed = np.where(tickets.to_be_shed, np.uint8(Outcome.SHED), np.uint8(Outcome.ADMITTED))
        found = np.where(rank < self.moments.most[moment], shed, np.uint8(Outcome.RATE))
        found[is_jitter & is_first] = Outcome.JITTER
        found[tickets.too_late] = Outcome.LAG
        return found

    @property
    def admits_all_takers(self) -> bool:
        """Whether every row of the batch that would take a token does."""
        return self.admitted == sum(int(begins[-1]) for begins in self._begins.values())

    def admits_all(self, key: int, tickets: Tickets) -> bool:
        """Whether every row of the survey is admitted."""
        first, slices = self._first(key), len(self._begins[key]) - 1
        return tickets.flags is None and bool(self._takes_all[first : first + slices].all())

    def _first(self, key: int) -> int:
        if key not in self._base:
            raise EngineError(f"rows came without the slices of their survey {key}")
        return self._base[key]

    def _slices_of(self, key: int, tickets: Tickets) -> Ints:
        """The slice of each row, as a place in its survey."""
        if tickets.slice is not None:
            return tickets.slice.astype(np.int64)
        return np.searchsorted(self._begins[key], tickets.before, side="right") - 1

    def moments_of(self, key: int, tickets: Tickets) -> Ints:
        """The moment of each row, as a place in `moments`."""
        return self._moment[self._first(key) + self._slices_of(key, tickets)]

    def arrivals_of(self, key: int, tickets: Tickets) -> Ints:
        """When each row came."""
        return self.moments.at[self.moments_of(key, tickets)]


def settle(
    config: StreamSlaConfig, state: AdmissionState, slices: Mapping[int, pa.Table]
) -> tuple[Settlement, AdmissionState]:
    """`slices` of all surveys of a batch, under any keys that are unique in it. Every shard comes to the same outcome
    and the same new state, and each keeps the state for itself.
    """
    state = state.under(config)
    base, begins, total = {}, {}, 0
    for key, table in slices.items():
        base[key] = total
        begins[key] = np.concatenate((np.zeros(1, np.int64), np.cumsum(table["takers"].to_numpy())))
        total += table.num_rows
    one = pa.concat_tables([SLICE_SCHEMA.empty_table(), *slices.values()])
    at, part, start, takers, first_takes = (one[name].to_numpy() for name in SLICE_SCHEMA.names)
    order = np.lexsort((start, part, at))
    at, takers, first_takes = at[order], takers[order], first_takes[order]
    heads = _heads(at, np.zeros_like(at))
    moment = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, total)))
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(takers)))
    moments, new, admitted = _run(
        config, state, at[heads], np.diff(np.append(sums[heads], sums[-1])), first_takes[heads]
    )
    is_head = np.zeros(total, np.bool_)
    is_head[heads] = True
    ahead = sums[:-1] - sums[heads][moment]
    takes_all = ~moments.is_jitter[moment] & (ahead + takers <= moments.most[moment])
    by_slice = [moment, ahead, takes_all, is_head, first_takes[heads][moment]]
    found = []
    for values in by_slice:
        back = np.empty_like(values)
        back[order] = values
        found.append(back)
    return Settlement(moments, state.bucket, admitted, base, begins, *found), new


def _run(
    config: StreamSlaConfig, state: AdmissionState, at: Ints, takers: Ints, first_takes: Bools
) -> tuple[Moments, AdmissionState, int]:
    """Through the moments of a batch: gaps first, then the bucket."""
    if len(at) == 0:
        none = np.empty(0, np.int64)
        return Moments(none, none, none.astype(np.bool_), none, none), state, 0
    seen = int(at[0]) if state.seen is None else state.seen
    gap = np.diff(np.maximum.accumulate(np.concatenate((np.array([seen]), at))))
    is_jitter = gap > (_NO_LIMIT if config.jitter_budget is None else config.jitter_budget)
    wanted = takers - (is_jitter & first_takes)
    new = replace(state, seen=max(seen, int(at[-1])))
    if state.bucket is None:
        most = np.full(len(at), _NO_LIMIT)
        return Moments(at, gap, is_jitter, most, most), new, int(wanted.sum())
    level, bucket, most = _draw(state.bucket, at, wanted)
    return (
        Moments(at, gap, is_jitter, most, level),
        replace(new, bucket=bucket),
        bucket.admitted - state.bucket.admitted,
    )


def _draw(bucket: BucketState, at: Ints, wanted: Ints) -> tuple[npt.NDArray[Any], BucketState, Ints]:
    """(the level at each moment, the bucket afterwards, the rows that each level pays for)."""
    measure = bucket.measure
    since = int(at[0]) if bucket.at is None else bucket.at
    passed = np.diff(np.maximum.accumulate(np.concatenate((np.array([since]), at))))
    level, left = levels(measure, bucket.level, passed, wanted)
    most = np.asarray(level // measure.cost).astype(np.int64)
    admitted = int(np.minimum(wanted, most).sum())
    after = replace(
        bucket,
        level=left,
        refilled=bucket.refilled + left - bucket.level + admitted * measure.cost,
        admitted=bucket.admitted + admitted,
        at=max(since, int(at[-1])),
    )
    return level, after, most
