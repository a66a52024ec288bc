"""Which rows of two tables have equal keys and fitting times: candidates by hash and range, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.vector.columns import (
    Ints,
    Mask,
    combined_rank,
    dense_rank,
    first_of_each,
    holds_floats,
    is_nested,
    kinds,
    normalised,
)
from eventide.kernels.vector.hashing import hash_rows

_AT_ONCE = 1_000_000  # pairs
_FEW, _LOOKED_AT = 8, 20  # where so many times more rows are held than asked for, so many bits of hashes are looked up
_HASH_BITS = 24  # at least so many of a hash are compared before the keys themselves are

Pairs = tuple[Ints, Ints]  # places in one table, and in the other
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Questions:
    """Rows that look for others with the same hash and a time from `first` to `last`, both included."""

    hashes: Ints
    first: Ints
    last: Ints


def candidates(asked: Questions, hashes: Ints, ts: Ints) -> Iterator[Pairs]:
    """(question, row) for all rows that answer a question, and a few of other keys; some at a time."""
    if len(asked.hashes) == 0 or len(hashes) == 0:
        return
    some, order, start, lengths = _runs(asked, hashes, ts)
    for question, place in pieces(start, lengths):
        yield some[question], order[place]


def first_answers(asked: Questions, hashes: Ints, ts: Ints, are_equal: Callable[[Ints, Ints], Mask]) -> Pairs:
    """(question, row): for every question that has an answer, one of them. `are_equal` compares the keys of pairs."""
    if len(asked.hashes) == 0 or len(hashes) == 0:
        return _NONE, _NONE
    some, order, start, lengths = _runs(asked, hashes, ts)
    found: list[Pairs] = []
    waiting, tried = np.flatnonzero(lengths > 0), 0
    while len(waiting):
        question, row = some[waiting], order[start[waiting] + tried]
        equal = are_equal(question, row)
        found.append((question[equal], row[equal]))
        tried += 1
        waiting = waiting[~equal & (lengths[waiting] > tried)]
    questions, rows = zip(*found, strict=True) if found else ((_NONE,), (_NONE,))
    return np.concatenate(questions), np.concatenate(rows)


def _runs(asked: Questions, hashes: Ints, ts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """(questions, an order of rows, where in it the rows begin that may answer each question, how many they are)."""
    places, first, last, known = _as_ranks(asked, ts)
    bits = int(places.max()).bit_length()
    likely = _likely(asked.hashes, hashes) if len(asked.hashes) * _FEW < len(hashes) else slice(None)
    held = _composed(hashes[likely], places[likely], bits)
    order = np.argsort(held)
    held = held[order]
    if not isinstance(likely, slice):
        order = likely[order]
    some = np.flatnonzero((first <= last) & known)
    low = _composed(asked.hashes[some], first[some], bits)
    turn = np.argsort(low)
    some = some[turn]
    start = np.searchsorted(held, low[turn], "left")
    end = np.searchsorted(held, _composed(asked.hashes[some], last[some], bits), "right")
    return some, order, start, end - start


def _likely(asked: Ints, hashes: Ints) -> Ints:
    """The places of hashes whose first bits are those of one that is asked for."""
    is_asked = np.zeros(1 << _LOOKED_AT, np.bool_)
    is_asked[asked.view(np.uint64) >> np.uint64(64 - _LOOKED_AT)] = True
    return np.flatnonzero(is_asked[hashes.view(np.uint64) >> np.uint64(64 - _LOOKED_AT)])


def _as_ranks(asked: Questions, ts: Ints) -> tuple[Ints, Ints, Ints, Mask]:
    """Times as small numbers from 0 on, the bounds of questions as the same numbers, and which questions meet them."""
    earliest, latest = int(ts.min()), int(ts.max())
    known = (asked.last >= earliest) & (asked.first <= latest)
    if (latest - earliest).bit_length() <= 64 - _HASH_BITS:
        first, last = np.maximum(asked.first, earliest), np.minimum(asked.last, latest)
        return ts - earliest, first - earliest, last - earliest, known
    distinct: Ints
    distinct, ranks = np.unique(ts, return_inverse=True)
    first, last = np.searchsorted(distinct, asked.first, "left"), np.searchsorted(distinct, asked.last, "right") - 1
    return np.asarray(ranks, np.int64), first, last, known


def _composed(hashes: Ints, places: Ints, bits: int) -> npt.NDArray[np.uint64]:
    return hashes.view(np.uint64) << np.uint64(bits) | places.astype(np.uint64)


def pieces(start: Ints, lengths: Ints) -> Iterator[Pairs]:
    """(number of the run, place) for runs of places from `start` on; a long run may be cut."""
    runs = np.flatnonzero(lengths > 0)
    ends = np.cumsum(lengths[runs])
    total = int(ends[-1]) if len(ends) else 0
    for begin in range(0, total, _AT_ONCE):
        end = min(begin + _AT_ONCE, total)
        low, high = np.searchsorted(ends, begin, "right"), np.searchsorted(ends, end, "left") + 1
        some = runs[low:high]
        before = ends[low:high] - lengths[some]
        counts = np.minimum(ends[low:high], end) - np.maximum(before, begin)
        number = np.repeat(np.arange(len(some)), counts)
        yield some[number], start[some][number] + np.arange(begin, end) - before[number]


def same(one: Sequence[pa.Array], other: Sequence[pa.Array], length: int) -> Mask:
    """Whether rows of two tables are equal in all columns, as Spark compares keys; NULL equals NULL."""
    equal = np.ones(length, np.bool_)
    for left, right in zip(one, other, strict=True):
        if is_nested(left.type):
            ranks = dense_rank(normalised(pa.concat_arrays([left, right])))
            equal &= ranks[:length] == ranks[length:]
            continue
        known = pc.equal(left, right)
        if holds_floats(left.type):
            known = pc.or_(known, pc.and_(pc.is_nan(left), pc.is_nan(right)))
        if known.null_count:
            known = pc.or_(pc.fill_null(known, False), pc.and_(left.is_null(), right.is_null()))
        equal &= known.to_numpy(zero_copy_only=False)
    return equal


def key_numbers(hashes: Ints, keys: Sequence[pa.Array]) -> Ints:
    """For each row a number, from 0, that is the same for rows with equal keys only; `hashes` are those of the keys."""
    number = kinds(pa.array(hashes))
    first = pa.array(first_of_each(number, int(number.max(initial=-1)) + 1)[number])
    if same([key.take(first) for key in keys], keys, len(hashes)).all():
        return number
    return combined_rank([number, *(kinds(normalised(key)) for key in keys)], len(hashes))


def hashes_of(keys: Sequence[pa.Array], length: int) -> Ints:
    return hash_rows(keys, length).view(np.int64)
