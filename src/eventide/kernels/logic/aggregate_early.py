"""Tumbling, hopping and cumulating windows whose groups are looked up with every batch: for modes that emit before the
close, and
for a limit on the groups of a window."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates.base import present
from eventide.kernels.contract import TS, USED, Output, Store
from eventide.kernels.logic.open_groups import OpenGroupsKernel
from eventide.kernels.side_rows import EVICTED_REASON, LATE_REASON
from eventide.kernels.state.keyed_table import END, HASH, Directory, hashes_of, new_groups
from eventide.kernels.state.slice_log import SLICE
from eventide.kernels.vector.columns import Ints, Mask, column, ints
from eventide.kernels.vector.grouping import group_rows
from eventide.kernels.windows.grid import Grid, latest

if TYPE_CHECKING:
    from eventide.kernels.logic.windowed import WindowedAggregation


class AggregateEarly(OpenGroupsKernel):
    """Rows are folded by slice and spread over the open windows of their slices, one table row per window and group."""

    def __init__(self, spec: WindowedAggregation, grid: Grid) -> None:
        super().__init__(spec, spec.aggregation((SLICE,)))
        self._grid = grid

    def _take(self, rows: pa.Table, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        slices = self._grid.slices_of(ints(rows, TS))
        late = self._grid.all_closed(slices, self._last_closed(watermark, directory))
        rows = self._put_aside(rows, slices, late, "late", LATE_REASON, output)
        slices = slices[~late]
        output.counts[USED] += rows.num_rows
        if rows.num_rows == 0:
            return
        folded = self._folded.fold(rows, [pa.array(slices)])
        source, fresh = self._spread(folded, watermark, directory)
        bucket_rows = self._table.find(ints(fresh, HASH), directory, store)
        held = bucket_rows.asked
        if self._max_groups is not None:
            # `fold` numbers the groups of the rows in the same way, so that group n is row n of `folded`.
            groups = present(
                group_rows([pa.array(slices), *self._folded.key_columns(rows)], [], segments=True).segments
            )
            first_rows = groups.order[groups.starts[:-1]]
            admitted = self._admitted(held, fresh, first_rows[source], self._max_groups, directory)
            evicted = ~np.isin(groups.group, source[admitted])
            self._put_aside(rows, slices, evicted, "evicted", EVICTED_REASON, output)
            output.counts[USED] -= int(evicted.sum())
            fresh = fresh.filter(pa.array(admitted))
        merged = self._merge(held, held, fresh, watermark, output)
        self._count_windows(ints(merged, END), ints(held, END), directory, output)
        self._table.write(bucket_rows.buckets, bucket_rows.others, merged, directory, store)

    def _spread(self, folded: pa.Table, watermark: int | None, directory: Directory) -> tuple[Ints, pa.Table]:
        """One row per open window of each partial, and from which partial each came."""
        source, windows = self._grid.windows_of_each(ints(folded, SLICE), self._last_closed(watermark, directory))
        spread = folded.take(pa.array(source)).drop_columns([SLICE])
        bounds = [pa.array(self._grid.starts(windows)), pa.array(self._grid.ends(windows))]
        hashes = hashes_of([column(folded, name) for name in self._folded.keys], folded.num_rows)
        return source, new_groups([*bounds, *spread.columns], hashes[source], self._aggregation.schema)

    def _admitted(self, held: pa.Table, fresh: pa.Table, arrival: Ints, most: int, directory: Directory) -> Mask:
        """Which new rows belong to groups that are known in their window or still fit into it, first come first
        served.
        """
        both = pa.concat_tables([held, fresh])
        by = [column(both, name) for name in (END, *self._aggregation.keys)]
        group = present(group_rows(by, [], segments=True).segments).group
        known, group = group[: held.num_rows], group[held.num_rows :]
        in_turn = np.argsort(arrival, kind="stable")
        newcomers, first = np.unique(group[in_turn], return_index=True)
        is_new = ~np.isin(newcomers, known)
        newcomers, first = newcomers[is_new], first[is_new]
        ends = ints(fresh, END)[in_turn[first]]
        order = np.lexsort((first, ends))
        window, begins, counts = np.unique(ends[order], return_index=True, return_counts=True)
        place = np.arange(len(order)) - np.repeat(begins, counts)
        room = np.repeat(most - _looked_up(directory, window), counts)
        return np.isin(group, known) | np.isin(group, newcomers[order][place < room])

    def _put_aside(
        self, rows: pa.Table, slices: Ints, chosen: Mask, kind: str, reason: str, output: Output
    ) -> pa.Table:
        windows = partial(self._grid.last_window_bounds, slices[chosen])
        return self._side_rows.put(output, rows, chosen, kind, reason, windows=windows)

    def _count_windows(self, after: Ints, before: Ints, directory: Directory, output: Output) -> None:
        """Keep the number of groups per window up to date; windows are known by their ends."""
        ends, groups = np.unique(np.concatenate((directory.windows, after, before)), return_inverse=True)
        counts = np.zeros(len(ends), np.int64)
        counts[np.searchsorted(ends, directory.windows)] = directory.groups
        known = len(directory.windows)
        counts += np.bincount(groups[known : known + len(after)], minlength=len(ends))
        counts -= np.bincount(groups[known + len(after) :], minlength=len(ends))
        output.events["windows_opened"] += len(ends) - known
        directory.windows, directory.groups = ends, counts

    def _note_windows(self, table: pa.Table, directory: Directory) -> None:
        self._count_windows(ints(table, END), np.empty(0, np.int64), directory, Output())

    def _forget(self, closed: pa.Table, watermark: int | None, directory: Directory, output: Output) -> None:
        last = self._grid.last_closed(watermark)
        if last is None:
            return
        is_open = directory.windows > self._grid.ends(np.array([last]))[0]
        is_over = directory.flushed is not None and directory.flushed <= last
        directory.changed |= not is_open.all() or is_over
        output.events["windows_closed"] += int((~is_open).sum())
        directory.windows, directory.groups = directory.windows[is_open], directory.groups[is_open]
        directory.flushed = None if is_over else directory.flushed

    def _give_out(self, until: int, directory: Directory, store: Store, output: Output) -> None:
        super()._give_out(until, directory, store, output)
        directory.flushed, directory.changed = self._grid.last_begun(until), True

    def _flushed(self, table: pa.Table, directory: Directory, output: Output) -> pa.Table:
        is_open = ~np.isin(directory.windows, ints(table, END))
        output.events["windows_closed"] += int((~is_open).sum())
        directory.windows, directory.groups = directory.windows[is_open], directory.groups[is_open]
        return table.slice(0, 0)

    def _last_closed(self, watermark: int | None, directory: Directory) -> int | None:
        """The last window that the watermark or a flush has closed."""
        return latest(self._grid.last_closed(watermark), directory.flushed)

    def _wake_at(self, directory: Directory) -> int | None:
        due = directory.next_due
        return self._grid.closes_at(directory.flushed) if due is None and directory.flushed is not None else due

    def _open_windows(self, directory: Directory) -> int:
        return len(directory.windows)


def _looked_up(directory: Directory, windows: Ints) -> Ints:
    """The number of groups that each of these windows holds."""
    counts = np.zeros(len(windows), np.int64)
    known = np.isin(windows, directory.windows)
    counts[known] = directory.groups[np.searchsorted(directory.windows, windows[known])]
    return counts
