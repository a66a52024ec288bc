"""What is common to all kernels that keep the value of every open window at hand: emission, closing, ticks, flushing.

A row of the table is one group's window. It waits to be emitted when it has changed since its last emission; the emit
mode says at which moments waiting rows are emitted. Closing always emits what still waits, and in some modes all rows.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates import Aggregation
from eventide.kernels.aggregates.base import present
from eventide.kernels.contract import Clock, Output, Store
from eventide.kernels.logic.emission import in_order, main_table
from eventide.kernels.logic.keyed_kernel import KeyedKernel
from eventide.kernels.state.holding import Holding
from eventide.kernels.state.keyed_table import (
    CHANGED,
    CLEAN,
    END,
    EPOCH,
    FRESH,
    GONE,
    GROUP_STATUS,
    START,
    WAITING,
    Directory,
    KeyedTable,
    Summary,
)
from eventide.kernels.vector.columns import Ints, Mask, column, dense_rank, ints
from eventide.kernels.vector.grouping import group_rows

if TYPE_CHECKING:
    from eventide.kernels.logic.windowed import WindowedAggregation


class OpenGroupsKernel(KeyedKernel):
    """What takes rows in is left to the window kind; `folded` aggregates the rows of a batch before they meet the
    table.
    """

    # What the table keeps of each group beside its bounds, key and partials.
    STATUS: tuple[pa.Field, ...] = GROUP_STATUS

    def __init__(self, spec: WindowedAggregation, folded: Aggregation) -> None:
        self._aggregation, self._folded = spec.aggregation((START, END), self.STATUS), folded
        self._lateness, self._rules, self._past = spec.allowed_lateness, spec.emit_rules, spec.past
        self._side_rows, self._max_groups = spec.side_rows, spec.max_groups
        earlier = self._aggregation.earlier(spec.past)
        super().__init__(
            len(spec.sources),
            KeyedTable("groups", self._aggregation.schema, spec.fingerprint(), self._summary, earlier=earlier),
        )

    @abstractmethod
    def _forget(self, closed: pa.Table, watermark: int | None, directory: Directory, output: Output) -> None:
        """Note that these rows were closed by the watermark."""

    @abstractmethod
    def _flushed(self, table: pa.Table, directory: Directory, output: Output) -> pa.Table:
        """A flush has emitted these rows; what to keep of them so that their windows do not reopen."""

    @abstractmethod
    def _open_windows(self, directory: Directory) -> int: ...

    def holding(self, store: Store) -> Holding:
        directory = self._table.load(store)
        return Holding(self._table.everything(directory, store), flushed=directory.flushed)

    def hold(self, holding: Holding, store: Store) -> None:
        directory = Directory(flushed=holding.flushed, changed=True)
        self._table.fill(holding.rows, directory, store)
        self._note_windows(holding.rows, directory)
        self._table.save(directory, store)

    def _note_windows(self, table: pa.Table, directory: Directory) -> None:
        """Note what the directory of this kind of window says of rows that have moved here."""

    def on_tick(self, clock: Clock, store: Store) -> Output:
        """Emit what waits, if the mode is EVERY."""
        directory, output = self._begin(clock, store)
        buckets = np.flatnonzero(directory.waiting if self._rules.on_tick else ())
        if len(buckets):
            table = self._table.read(buckets, directory, store)
            table = self._emit(table, ints(table, FRESH) != CLEAN, output)
            self._table.write(buckets, table, table.slice(0, 0), directory, store)
        return self._finish(directory, store, output)

    def _give_out(self, until: int, directory: Directory, store: Store, output: Output) -> None:
        buckets = np.flatnonzero(directory.rows)
        if len(buckets):
            table = self._table.read(buckets, directory, store)
            begun = ints(table, START) <= until
            table = self._emit(table, begun & self._emitted_at_close(table), output)
            flushed = self._flushed(table.filter(pa.array(begun)), directory, output)
            kept = pa.concat_tables([table.filter(pa.array(~begun)), flushed])
            self._table.write(buckets, kept.slice(0, 0), kept, directory, store)

    def _closes_at(self, table: pa.Table) -> Ints:
        """The watermark at which each row is forgotten."""
        return ints(table, END) + self._lateness

    def _summary(self, table: pa.Table) -> Summary:
        closes = self._closes_at(table)
        waits = ints(table, FRESH) != CLEAN
        due = np.where(waits, ints(table, END), closes) if self._rules.at_end else closes
        return Summary(due, waits.astype(np.int64), ints(table, GONE))

    def _pass_time(self, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        if watermark is None:
            return
        buckets = np.flatnonzero(directory.due <= watermark)
        if len(buckets):
            table = self._table.read(buckets, directory, store)
            closed = self._closes_at(table) <= watermark
            ended = self._rules.at_end & (ints(table, END) <= watermark) & (ints(table, FRESH) != CLEAN)
            table = self._emit(table, ended | (closed & self._emitted_at_close(table)), output)
            self._table.write(buckets, table.filter(pa.array(~closed)), table.slice(0, 0), directory, store)
            self._forget(table.filter(pa.array(closed)), watermark, directory, output)
        else:
            self._forget(self._aggregation.schema.empty_table(), watermark, directory, output)

    def _emitted_at_close(self, table: pa.Table) -> Mask:
        waits: Mask = ints(table, FRESH) != CLEAN
        is_open: Mask = ints(table, GONE) == 0
        return waits | is_open if self._rules.all_at_close else waits

    def _merge(
        self, held: pa.Table, moved: pa.Table, fresh: pa.Table, watermark: int | None, output: Output
    ) -> pa.Table:
        """Stored rows and new ones merged; what changed is emitted if this is the moment.

        `moved` are the rows of `held` with the bounds of the windows that they end up in, as `fresh` has them already.
        """
        fresh = with_column(fresh, FRESH, np.full(fresh.num_rows, CHANGED))
        parts = pa.concat_tables([moved, fresh])
        merged = self._aggregation.merge(parts)
        changed = ints(merged, FRESH) == CHANGED
        empty = self._emptied(merged)
        if self._rules.retract:
            changed &= ~self._retract(held, parts, merged, changed, empty, output)
        changed &= ~empty
        now = changed & self._rules.on_change
        if self._rules.at_end and watermark is not None:
            now = changed & (ints(merged, END) <= watermark)
        waits = np.minimum(ints(merged, FRESH), WAITING)
        waits = np.where(changed, waits, CLEAN) if self._rules.retract else waits
        emitted = self._emit(with_column(merged, FRESH, waits), now, output)
        return emitted.filter(pa.array(~empty)) if empty.any() else emitted

    def _emptied(self, merged: pa.Table) -> Mask:
        """Which groups have lost their last row, and are no more."""
        return self._aggregation.empty_groups(merged)

    def _retract(
        self, held: pa.Table, parts: pa.Table, merged: pa.Table, changed: Mask, empty: Mask, output: Output
    ) -> Mask:
        """Emit with op -1 the stored rows that changed rows replace; which of the merged rows have the result they
        had. A group that is `empty` has no result any more.
        """
        by = [column(parts, name) for name in self._aggregation.lead + self._aggregation.keys]
        into = present(group_rows(by, [], segments=True).segments).group[: held.num_rows]
        replaced = changed[into] & (ints(held, EPOCH) > 0)
        old, new = held.filter(pa.array(replaced)), merged.take(pa.array(into[replaced]))
        same = (
            (ints(old, START) == ints(new, START)) & (ints(old, END) == ints(new, END)) & self._equal_results(old, new)
        ) & ~empty[into[replaced]]
        old = old.filter(pa.array(~same))
        if old.num_rows:
            old = in_order(self._aggregation, with_column(old, EPOCH, ints(old, EPOCH) - 1))
            output.main.append(self._main(old, -1))
        unchanged = np.zeros(merged.num_rows, np.bool_)
        unchanged[into[replaced][same]] = True
        return unchanged

    def _equal_results(self, one: pa.Table, other: pa.Table) -> Mask:
        equal = np.ones(one.num_rows, np.bool_)
        for left, right in zip(self._aggregation.results(one), self._aggregation.results(other), strict=True):
            ranks = dense_rank(pa.concat_arrays([left, right]))
            equal &= ranks[: len(left)] == ranks[len(left) :]
        return equal

    def _emit(self, table: pa.Table, chosen: Mask, output: Output) -> pa.Table:
        """Emit the chosen rows; the table in which those rows count as emitted."""
        if not chosen.any():
            return table
        rows = in_order(self._aggregation, table.filter(pa.array(chosen)))
        output.main.append(self._main(rows, 1))
        return marked(table, chosen)

    def _main(self, rows: pa.Table, op: int) -> pa.Table:
        return main_table(self._aggregation, rows, ints(rows, START), ints(rows, END), ints(rows, EPOCH), op)

    def _gauges(self, directory: Directory) -> dict[str, int]:
        return {"open_windows": self._open_windows(directory), "open_groups": directory.open_groups}


def with_column(table: pa.Table, name: str, values: Ints) -> pa.Table:
    """The table with other values in one of its integer columns."""
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))


def marked(table: pa.Table, emitted: Mask) -> pa.Table:
    """One emission more, and nothing waiting, for the rows that were emitted."""
    table = with_column(table, EPOCH, ints(table, EPOCH) + emitted)
    return with_column(table, FRESH, np.where(emitted, CLEAN, ints(table, FRESH)))
