"""Deduplication in front of a kernel: a row whose id was seen within a span of event time is a duplicate.

A row is a duplicate if a row with the same id was taken whose event time is at most `within` away, before or after; the
first to arrive is taken. NULL is not an id. The memory holds hashes of 96 bits in buckets by hash (see `keyed_table`),
so that a batch reads only the buckets of its own ids. An id is forgotten when the watermark leaves no room for a row
that the kernel would still take and that could be its duplicate; a bucket that nobody asks for is dropped when all of
its ids are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import DEDUP, SEQ, TS, Store
from eventide.kernels.state.codec import unchanged
from eventide.kernels.state.keyed_table import HASH, START, Directory, KeyedTable, Summary
from eventide.kernels.vector.columns import Ints, Mask, column, ints
from eventide.kernels.vector.hashing import hash_rows
from eventide.kernels.vector.intervals import by_group_and_time, last_at_or_before

_MORE = "more"  # further bits of the id's hash
_SCHEMA = pa.schema([(START, pa.int64()), (HASH, pa.int64()), (_MORE, pa.int32())])


class Memory:
    """The ids of one input in one shard, in `space`; `span` is how long after its event time an id must be known."""

    def __init__(self, space: str, within: int, horizon: int, fingerprint: str, earlier: Sequence[str] = ()) -> None:
        self._within, self._span = within, within + horizon
        plan, *before = (f"{each};dedup/1;within={within}" for each in (fingerprint, *earlier))
        self._table = KeyedTable(
            space,
            _SCHEMA,
            plan,
            self._summary,
            due=np.maximum,
            per_bucket=2048,
            earlier=unchanged(before, _SCHEMA),
        )

    def duplicates(self, rows: pa.Table, watermark: int | None, store: Store) -> Mask:
        """Which rows are duplicates; the ids of the others are remembered."""
        directory = self._table.load(store)
        self._forget(watermark, directory, store)
        ids = column(rows, DEDUP)
        found = np.zeros(rows.num_rows, np.bool_)
        asked = np.flatnonzero(ids.is_valid().to_numpy(zero_copy_only=False))
        if SEQ in rows.column_names:
            asked = asked[np.argsort(ints(rows, SEQ)[asked], kind="stable")]
        if len(asked):
            found[asked] = self._check(ids.take(pa.array(asked)), ints(rows, TS)[asked], watermark, directory, store)
        self._table.save(directory, store)
        return found

    def forget(self, watermark: int | None, store: Store) -> None:
        """Drop what the watermark has made useless."""
        directory = self._table.load(store)
        self._forget(watermark, directory, store)
        self._table.save(directory, store)

    def everything(self, store: Store) -> pa.Table:
        return self._table.everything(self._table.load(store), store)

    def hold(self, ids: pa.Table, store: Store) -> None:
        """Begin with ids that others have seen, some of them perhaps several."""
        directory = Directory()
        self._table.fill(ids.group_by(_SCHEMA.names).aggregate([]).cast(_SCHEMA), directory, store)
        self._table.save(directory, store)

    def state_bytes(self, store: Store) -> int:
        return self._table.state_bytes(store)

    def _check(self, ids: pa.Array, ts: Ints, watermark: int | None, directory: Directory, store: Store) -> Mask:
        hashes = hash_rows([ids], len(ids)).view(np.int64)
        more = hash_rows([ids], len(ids), seed=1).view(np.int64).astype(np.int32)
        bucket_rows = self._table.find(hashes, directory, store)
        known = self._still_needed(bucket_rows.asked, watermark)
        all_hashes = np.concatenate((ints(known, HASH), hashes))
        group = _numbered(all_hashes, np.concatenate((ints(known, _MORE), more)))
        times = np.concatenate((ints(known, START), ts))
        taken = self._first_of_each(group, times, known.num_rows)
        fresh = pa.Table.from_arrays(
            [pa.array(ts[taken]), pa.array(hashes[taken]), pa.array(more[taken])], schema=_SCHEMA
        )
        kept, changed = (
            self._still_needed(table, watermark) for table in (bucket_rows.others, pa.concat_tables([known, fresh]))
        )
        self._table.write(bucket_rows.buckets, kept, changed, directory, store)
        return ~taken

    def _first_of_each(self, group: Ints, times: Ints, known: int) -> Mask:
        """Which of the rows behind the first `known` ones are taken; rows are in the order of their arrival."""
        near = self._near(group[:known], times[:known], group[known:], times[known:])
        group, times = group[known:], times[known:]
        taken = np.zeros(len(group), np.bool_)
        taken_at = np.zeros(int(group.max()) + 1, np.int64)
        left = np.flatnonzero(~near)
        while len(left):  # one round for each row that an id may have in a batch: nearly always one
            numbers, first = np.unique(group[left], return_index=True)
            taken[left[first]] = True
            taken_at[numbers] = times[left[first]]
            left = left[np.abs(times[left] - taken_at[group[left]]) > self._within]
        return taken

    def _near(self, group: Ints, times: Ints, asked_group: Ints, asked_times: Ints) -> Mask:
        """Whether a moment of the same group lies within the span, before or after."""
        if len(group) == 0:
            return np.zeros(len(asked_group), np.bool_)
        before = last_at_or_before(group, times, asked_group, asked_times + self._within)
        return (before >= 0) & (times[before] >= asked_times - self._within)

    def _still_needed(self, table: pa.Table, watermark: int | None) -> pa.Table:
        if watermark is None:
            return table
        return table.filter(pa.array(ints(table, START) + self._span > watermark))

    def _forget(self, watermark: int | None, directory: Directory, store: Store) -> None:
        """Drop buckets of which no id is needed, without reading them."""
        if watermark is None:
            return
        idle = np.flatnonzero((directory.due <= watermark) & (directory.rows > 0))
        if len(idle):
            nothing = _SCHEMA.empty_table()
            self._table.write(idle, nothing, nothing, directory, store)

    def _summary(self, table: pa.Table) -> Summary:
        nothing = np.zeros(table.num_rows, np.int64)
        return Summary(ints(table, START) + self._span, nothing, nothing)


def _numbered(one: Ints, other: Ints) -> Ints:
    """Numbers of the distinct pairs."""
    order = by_group_and_time(np.unique(one, return_inverse=True)[1], other)
    fresh = np.ones(len(order), np.int64)
    fresh[1:] = (one[order][1:] != one[order][:-1]) | (other[order][1:] != other[order][:-1])
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(fresh) - 1
    return numbers
