"""Session windows: events of a group no more than `gap` apart belong together; the window ends `gap` after the last.

A batch is first cut into islands by itself; the islands then meet the stored sessions of the same groups, and whatever
touches is merged. Only the buckets of groups that the batch names are read; see `keyed_table` for what that costs.

A row is late if its island, joined with the open sessions that it touches, is closed under the watermark: so a row that
is too old by itself is taken when an open session, or a newer row of the same batch, takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates import Aggregation
from eventide.kernels.aggregates.base import present
from eventide.kernels.contract import TS, USED, Batch, Clock, Output, Store
from eventide.kernels.logic.open_groups import OpenGroupsKernel, with_column
from eventide.kernels.side_rows import EVICTED_REASON, LATE_REASON
from eventide.kernels.state.keyed_table import (
    CLEAN,
    END,
    EPOCH,
    FRESH,
    GONE,
    START,
    BucketRows,
    Directory,
    hashes_of,
    new_groups,
)
from eventide.kernels.vector.columns import Ints, Mask, column, ints
from eventide.kernels.vector.grouping import group_rows
from eventide.kernels.vector.intervals import Runs, covered, islands, overlapping
from eventide.plan.windows import Session

ISLAND = "island"

if TYPE_CHECKING:
    from eventide.kernels.logic.windowed import WindowedAggregation


@dataclass(frozen=True)
class _Found:
    """The stored rows of the batch's groups, with the numbers that the groups have in the batch (or others, if
    none).
    """

    bucket_rows: BucketRows
    hashes: Ints  # by the number of the group
    open: pa.Table
    open_group: Ints
    gone: pa.Table
    gone_group: Ints


class Sessions(OpenGroupsKernel):
    def __init__(self, spec: WindowedAggregation, window: Session) -> None:
        super().__init__(spec, Aggregation((ISLAND,), (), (), spec.aggregates))
        self._gap = window.gap

    def on_rows(self, batch: Batch, clock: Clock, store: Store) -> Output:
        return _closed_by("watermark", super().on_rows(batch, clock, store))

    def on_time(self, clock: Clock, store: Store) -> Output:
        return _closed_by("timer", super().on_time(clock, store))

    def _take(self, rows: pa.Table, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        keys, group = self._groups(rows)
        found = self._find(keys, directory, store)
        rows, group = self._without_flushed(rows, group, found, output)
        runs = islands(group, ints(rows, TS), self._gap)
        late = self._late(runs, found, watermark)
        self._put_aside(rows, runs, late, "late", LATE_REASON, output)
        evicted = self._evicted(runs, late, found, directory)
        self._put_aside(rows, runs, evicted, "evicted", EVICTED_REASON, output)
        used = ~(late | evicted)[runs.number]
        output.counts[USED] += int(used.sum())
        if used.any():
            fresh, fresh_group = self._fold(rows.filter(pa.array(used)), runs, runs.number[used], keys, found.hashes)
            merged = self._join(found, fresh, fresh_group, watermark, output)
            bucket_rows = found.bucket_rows
            self._table.write(
                bucket_rows.buckets, bucket_rows.others, pa.concat_tables([merged, found.gone]), directory, store
            )

    def _groups(self, rows: pa.Table) -> tuple[list[pa.Array], Ints]:
        """The distinct keys of the rows, and for each row the number of its key."""
        columns = self._aggregation.key_columns(rows)
        if not columns:
            return [], np.zeros(rows.num_rows, np.int64)
        groups = group_rows(columns, [], segments=True)
        return groups.keys, present(groups.segments).group

    def _find(self, keys: list[pa.Array], directory: Directory, store: Store) -> _Found:
        count = len(keys[0]) if keys else 1
        hashes = hashes_of(keys, count)
        bucket_rows = self._table.find(hashes, directory, store)
        held = bucket_rows.asked
        group = np.zeros(held.num_rows, np.int64)
        if keys and held.num_rows:
            both = [
                pa.concat_arrays([mine, column(held, name)])
                for mine, name in zip(keys, self._aggregation.keys, strict=True)
            ]
            numbers = present(group_rows(both, [], segments=True).segments).group
            meaning = np.arange(count, 2 * count + held.num_rows)
            meaning[numbers[:count]] = np.arange(count)
            group = meaning[numbers[count:]]
        gone = ints(held, GONE) == 1
        return _Found(
            bucket_rows, hashes, held.filter(pa.array(~gone)), group[~gone], held.filter(pa.array(gone)), group[gone]
        )

    def _without_flushed(self, rows: pa.Table, group: Ints, found: _Found, output: Output) -> tuple[pa.Table, Ints]:
        """Rows that would have joined a session that a flush has emitted are late for it."""
        ts = ints(rows, TS)
        hit = covered(found.gone_group, ints(found.gone, START) - self._gap, ints(found.gone, END), group, ts, ts)
        rows = self._side_rows.put(
            output, rows, hit, "late", LATE_REASON, windows=lambda: (ts[hit], ts[hit] + self._gap)
        )
        return rows, group[~hit]

    def _late(self, runs: Runs, found: _Found, watermark: int | None) -> Mask:
        """Which islands are closed under the watermark and touch no open session."""
        late = np.zeros(len(runs.start), np.bool_)
        if watermark is None:
            return late
        old = np.flatnonzero(runs.end <= self._past.reached(watermark, self._lateness))
        late[old] = ~self._touching(runs, old, found)
        return late

    def _touching(self, runs: Runs, some: Ints, found: _Found) -> Mask:
        held = (found.open_group, ints(found.open, START), ints(found.open, END))
        return covered(*held, runs.group[some], runs.start[some], runs.end[some])

    def _evicted(self, runs: Runs, late: Mask, found: _Found, directory: Directory) -> Mask:
        """Which islands would open a session more than may be open, first come first served."""
        evicted = np.zeros(len(late), np.bool_)
        if self._max_groups is not None:
            newcomers = np.flatnonzero(~late)
            newcomers = newcomers[~self._touching(runs, newcomers, found)]
            _, first_rows = np.unique(runs.number, return_index=True)
            in_turn = newcomers[np.argsort(first_rows[newcomers])]
            evicted[in_turn[max(0, self._max_groups - directory.open_groups) :]] = True
        return evicted

    def _put_aside(self, rows: pa.Table, runs: Runs, chosen: Mask, kind: str, reason: str, output: Output) -> None:
        aside = chosen[runs.number]
        number = runs.number[aside]
        windows = (runs.start[number], runs.end[number])
        self._side_rows.put(output, rows, aside, kind, reason, windows=lambda: windows)

    def _fold(
        self, rows: pa.Table, runs: Runs, number: Ints, keys: list[pa.Array], hashes: Ints
    ) -> tuple[pa.Table, Ints]:
        """One row per island, and its group."""
        partial = self._folded.fold(rows, [pa.array(number)])
        island = ints(partial, ISLAND)
        group = runs.group[island]
        bounds = [pa.array(runs.start[island]), pa.array(runs.end[island])]
        columns = [*bounds, *[key.take(pa.array(group)) for key in keys], *partial.columns[1:]]
        return new_groups(columns, hashes[group], self._aggregation.schema), group

    def _join(self, found: _Found, fresh: pa.Table, group: Ints, watermark: int | None, output: Output) -> pa.Table:
        """Stored sessions and new islands merged where they touch."""
        held, count = found.open, found.open.num_rows
        start, end = (np.concatenate((ints(held, name), ints(fresh, name))) for name in (START, END))
        runs = overlapping(np.concatenate((found.open_group, group)), start, end)
        start, end = runs.start[runs.number], runs.end[runs.number]
        moved = with_column(with_column(held, START, start[:count]), END, end[:count])
        grown = (ints(held, START) != start[:count]) | (ints(held, END) != end[:count])
        moved = with_column(moved, EPOCH, np.where(grown, 0, ints(held, EPOCH)))  # another window, never emitted
        fresh = with_column(with_column(fresh, START, start[count:]), END, end[count:])
        stored = np.bincount(runs.number[:count], minlength=len(runs.start))
        output.events["windows_opened"] += int((stored == 0).sum())
        output.events["sessions_merged"] += int(np.maximum(stored - 1, 0).sum())
        return self._merge(held, moved, fresh, watermark, output)

    def _forget(self, closed: pa.Table, watermark: int | None, directory: Directory, output: Output) -> None:
        output.events["windows_closed"] += int((ints(closed, GONE) == 0).sum())

    def _flushed(self, table: pa.Table, directory: Directory, output: Output) -> pa.Table:
        output.events["windows_closed"] += int((ints(table, GONE) == 0).sum())
        gone = with_column(table, GONE, np.ones(table.num_rows, np.int64))
        return with_column(gone, FRESH, np.full(table.num_rows, CLEAN))

    def _open_windows(self, directory: Directory) -> int:
        return directory.open_groups


def _closed_by(what: str, output: Output) -> Output:
    """The sessions that a call closed, counted also by what the call was: the timer of the shard, or rows that met a
    watermark.
    """
    output.events[f"sessions_closed_by_{what}"] += output.events["windows_closed"]
    return output
