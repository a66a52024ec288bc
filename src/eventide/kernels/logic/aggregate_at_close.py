"""Tumbling, hopping and cumulating windows that emit once, when they close.

    rows -> fold by (slice, keys) -> one blob per touched slice            every batch
    watermark -> read the slices of due windows, merge, emit, forget       when a window closes

A row is folded once, however many windows it is in. A window that the watermark has closed is emitted before new rows
are folded, so that the outcome does not depend on whether a batch without data came in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.errors import EngineError
from eventide.kernels.contract import TS, USED, Batch, Clock, Output, Store, united
from eventide.kernels.logic.emission import in_order, main_table
from eventide.kernels.side_rows import LATE_REASON
from eventide.kernels.state.codec import Codec, unchanged
from eventide.kernels.state.holding import Holding
from eventide.kernels.state.slice_log import SLICE
from eventide.kernels.state.slice_tree import Part, SliceTree
from eventide.kernels.vector.columns import Ints, ints
from eventide.kernels.windows.grid import Grid, latest, spans

if TYPE_CHECKING:
    from eventide.kernels.logic.windowed import WindowedAggregation

META = "meta"
_CLOSED, _SLICE, _FLUSHED = 0, 1, 2
_INDEX_SCHEMA = pa.schema([("what", pa.int8()), ("value", pa.int64())])
_MERGED_AT_ONCE = 1_000_000  # rows


@dataclass
class _Index:
    """What is open: the slices that have rows, and the last window that the watermark, or a flush ahead of it, has
    closed.
    """

    closed: int | None = None
    slices: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    flushed: int | None = None
    changed: bool = False  # so that it must be written back

    @property
    def last_closed(self) -> int | None:
        return latest(self.closed, self.flushed)

    def open_windows(self, grid: Grid) -> Ints:
        return grid.windows_over(self.slices, self.last_closed)


class AggregateAtClose:
    def __init__(self, spec: WindowedAggregation, grid: Grid) -> None:
        self._grid, self._aggregation = grid, spec.aggregation((SLICE,))
        self._side_rows, self._inputs = spec.side_rows, len(spec.sources)
        plan, earlier = spec.fingerprint(), self._aggregation.earlier(spec.past)
        self._tree = SliceTree(grid, self._aggregation, Codec(plan, self._aggregation.schema, earlier))
        self._codec = Codec(plan, _INDEX_SCHEMA, unchanged([each.fingerprint for each in earlier], _INDEX_SCHEMA))

    def on_rows(self, batch: Batch, clock: Clock, store: Store) -> Output:
        index, output = self._load(store), Output()
        self._pass_time(clock.watermark, index, store, output)
        before = len(index.open_windows(self._grid))
        if batch:
            self._fold(united(batch, self._inputs), index, store, output)
        return self._save(index, store, output, opened_since=before)

    def on_folded(self, folded: pa.Table, rows: int, clock: Clock, store: Store) -> Output:
        """As `on_rows`, for rows that were folded on their way, as many as `rows`; see `prefold`."""
        index, output = self._load(store), Output()
        self._pass_time(clock.watermark, index, store, output)
        before = len(index.open_windows(self._grid))
        if self._grid.all_closed(ints(folded, SLICE), index.last_closed).any():
            raise EngineError(
                "rows were folded that are late", help="this is a bug in Eventide; 'fused_scan' = 'false' avoids it"
            )
        output.counts[USED] += rows
        self._add(self._aggregation.merge(folded), index, store)
        return self._save(index, store, output, opened_since=before)

    def on_time(self, clock: Clock, store: Store) -> Output:
        index, output = self._load(store), Output()
        self._pass_time(clock.watermark, index, store, output)
        return self._save(index, store, output)

    def on_tick(self, clock: Clock, store: Store) -> Output:
        return self.on_time(clock, store)

    def on_flush(self, until: int, clock: Clock, store: Store) -> Output:
        index, output = self._load(store), Output()
        self._pass_time(clock.watermark, index, store, output)
        begun = self._grid.last_begun(until)
        if index.last_closed is None or begun > index.last_closed:
            self._close(begun, index, store, output)
            index.flushed, index.changed = begun, True
        return self._save(index, store, output)

    def holding(self, store: Store) -> Holding:
        index = self._load(store)
        return Holding(self._tree.everything(store), index.closed, index.flushed)

    def hold(self, holding: Holding, store: Store) -> None:
        index = _Index(holding.closed, flushed=holding.flushed, changed=True)
        if holding.rows.num_rows:
            self._add(holding.rows, index, store)
        self._save(index, store, Output())

    def _fold(self, rows: pa.Table, index: _Index, store: Store, output: Output) -> None:
        slices = self._grid.slices_of(ints(rows, TS))
        late = self._grid.all_closed(slices, index.last_closed)
        windows = partial(self._grid.last_window_bounds, slices[late])
        rows, slices = self._side_rows.put(output, rows, late, "late", LATE_REASON, windows=windows), slices[~late]
        output.counts[USED] += rows.num_rows
        if rows.num_rows:
            self._add(self._aggregation.fold(rows, [pa.array(slices)]), index, store)

    def _add(self, folded: pa.Table, index: _Index, store: Store) -> None:
        self._tree.add(folded, store)
        index.slices = np.union1d(index.slices, ints(folded, SLICE))
        index.changed = True

    def _pass_time(self, watermark: int | None, index: _Index, store: Store, output: Output) -> None:
        closed = self._grid.last_closed(watermark)
        if closed is None or (index.closed is not None and closed <= index.closed):
            return
        self._close(closed, index, store, output)
        index.closed = closed
        if index.flushed is not None and index.flushed <= closed:
            index.flushed, index.changed = None, True

    def _close(self, last: int, index: _Index, store: Store, output: Output) -> None:
        """Emit and forget the open windows up to `last`."""
        windows = index.open_windows(self._grid)
        due = windows[windows <= last]
        keep_from = self._grid.first_needed(last)
        if len(due):
            self._emit(due, self._tree.parts(due, index.slices, keep_from, store), output)
            index.changed = True
        output.events["windows_closed"] += len(due)
        index.slices = index.slices[index.slices >= keep_from]

    def _emit(self, windows: Ints, parts: list[Part], output: Output) -> None:
        for by_window in self._by_window(windows, parts):
            merged = self._aggregation.merge(by_window)
            merged = merged.filter(pa.array(~self._aggregation.empty_groups(merged)))
            output.main.append(self._main_table(in_order(self._aggregation, merged)))

    def _by_window(self, windows: Ints, parts: list[Part]) -> Iterator[pa.Table]:
        """The partials that make up each window, the leading column naming the window; some windows at a time."""
        if self._grid.per_window == 1:
            yield parts[0].table
            return
        leads = [ints(part.table, SLICE) for part in parts]
        starts = [np.searchsorted(lead, part.low) for lead, part in zip(leads, parts, strict=True)]
        lengths = [
            np.searchsorted(lead, part.high) - start for lead, part, start in zip(leads, parts, starts, strict=True)
        ]
        turn = np.cumsum(np.sum(lengths, axis=0)) // _MERGED_AT_ONCE
        for some in (turn == number for number in np.unique(turn)):
            rows = [spans(start[some], length[some]) for start, length in zip(starts, lengths, strict=True)]
            picked = [part.table.take(pa.array(chosen)) for part, chosen in zip(parts, rows, strict=True)]
            lead = np.concatenate([np.repeat(windows[some], length[some]) for length in lengths])
            yield pa.concat_tables(picked).set_column(0, SLICE, pa.array(lead))

    def _main_table(self, merged: pa.Table) -> pa.Table:
        windows = ints(merged, SLICE)
        epoch = np.zeros(len(windows), np.int64)
        return main_table(self._aggregation, merged, self._grid.starts(windows), self._grid.ends(windows), epoch, 1)

    def _load(self, store: Store) -> _Index:
        blobs = store.read(META, 0)
        if not blobs:
            return _Index()
        table = self._codec.decode(blobs[0])
        what, value = ints(table, "what"), ints(table, "value")
        closed, flushed = (
            int(value[what == kind][-1]) if (what == kind).any() else None for kind in (_CLOSED, _FLUSHED)
        )
        return _Index(closed, value[what == _SLICE], flushed)

    def _save(self, index: _Index, store: Store, output: Output, opened_since: int | None = None) -> Output:
        """Write the index back if it changed, nothing if nothing is open; add gauges and the next wake-up."""
        windows = index.open_windows(self._grid)
        waits_for = int(windows[0]) if len(windows) else index.flushed
        if waits_for is None:
            store.delete(META, 0)
        else:
            output.wake_at = self._grid.closes_at(waits_for)
            if index.changed:
                store.replace(META, 0, self._encoded(index))
        if opened_since is not None:
            output.events["windows_opened"] += len(windows) - opened_since
        output.gauges.update(open_windows=len(windows), state_bytes=self._tree.state_bytes(store))
        return output

    def _encoded(self, index: _Index) -> bytes:
        closed, flushed = (
            np.array([] if window is None else [window], np.int64) for window in (index.closed, index.flushed)
        )
        what = np.repeat([_CLOSED, _SLICE, _FLUSHED], [len(closed), len(index.slices), len(flushed)]).astype(np.int8)
        value = np.concatenate([closed, index.slices, flushed])
        return self._codec.encode(pa.Table.from_arrays([pa.array(what), pa.array(value)], schema=_INDEX_SCHEMA))
