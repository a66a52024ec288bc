"""Slices of long hopping windows, merged in advance: a node is the merged partial of `fan` neighbouring slices.

A window of a thousand slices is then some thirty nodes and, at its ends, some thirty slices. A node is built when a
window that covers it closes, and kept until no window covers it; rows that come later for one of its slices are added
to it too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates import Aggregation
from eventide.kernels.contract import Store
from eventide.kernels.state.codec import Codec
from eventide.kernels.state.slice_log import SLICE, SliceLog
from eventide.kernels.state.time_log import split
from eventide.kernels.vector.columns import Ints, ints
from eventide.kernels.windows.grid import Grid, spans

_SPACE = "nodes"
_WORTH_IT = 64  # slices in a window


@dataclass(frozen=True)
class Part:
    """A table sorted by its leading column, and for each window the range [low, high) of that column that belongs to
    it.
    """

    table: pa.Table
    low: Ints
    high: Ints


class SliceTree:
    """The partials of slices, read window by window; with nodes if windows have many slices."""

    def __init__(self, grid: Grid, aggregation: Aggregation, codec: Codec) -> None:
        self._grid, self._aggregation, self._codec = grid, aggregation, codec
        self._log = SliceLog(aggregation, codec)
        long = grid.per_window >= _WORTH_IT
        self._fan = 1 << (grid.per_window.bit_length() // 2) if long else 0

    def add(self, partial: pa.Table, store: Store) -> None:
        """Append a batch's partial."""
        self._log.add(partial, store)
        known = store.buckets(_SPACE)
        if known:
            node = ints(partial, SLICE) // self._fan
            stale = np.isin(node, known)
            self._append(_led_by(partial.filter(pa.array(stale)), node[stale]), store)

    def parts(self, windows: Ints, slices: Ints, keep_from: int, store: Store) -> list[Part]:
        """The parts of the windows, given all slices that have rows; slices before `keep_from` are forgotten."""
        low, high = self._grid.slices_in(windows)
        if not self._fan:
            wanted = slices[(slices >= low[0]) & (slices < high[-1])]
            return [Part(_sorted(self._log.take(wanted, keep_from, store)), low, high)]
        first = -(-low // self._fan)
        behind = np.maximum(high // self._fan, first)  # a window may be so short that it holds no node
        inner, outer = np.minimum(first * self._fan, high), np.minimum(behind * self._fan, high)
        nodes = np.intersect1d(spans(first, behind - first), slices // self._fan)
        known = np.intersect1d(nodes, store.buckets(_SPACE))
        at_ends = np.concatenate((spans(low, inner - low), spans(outer, high - outer)))
        unknown = ~np.isin(slices // self._fan, known) & np.isin(slices // self._fan, nodes)
        rows = _sorted(self._log.take(slices[unknown | np.isin(slices, at_ends)], keep_from, store))
        merged = self._nodes(rows, nodes, known, keep_from, store)
        return [Part(rows, low, inner), Part(merged, first, behind), Part(rows, outer, high)]

    def everything(self, store: Store) -> pa.Table:
        """All rows of all slices; nodes can be built from them again."""
        return self._log.everything(store)

    def state_bytes(self, store: Store) -> int:
        return self._log.state_bytes(store) + sum(store.size(_SPACE, bucket)[1] for bucket in store.buckets(_SPACE))

    def _nodes(self, rows: pa.Table, nodes: Ints, known: Ints, keep_from: int, store: Store) -> pa.Table:
        """The requested nodes: known ones, and the others built from their slices and kept if they are needed again."""
        node = ints(rows, SLICE) // self._fan
        missing = np.isin(node, np.setdiff1d(nodes, known))
        made = self._aggregation.merge(_led_by(rows.filter(pa.array(missing)), node[missing]))
        self._append(made.filter(pa.array(ints(made, SLICE) * self._fan >= keep_from)), store)
        held = [self._read(bucket, bucket * self._fan >= keep_from, store) for bucket in known.tolist()]
        for bucket in store.buckets(_SPACE):
            if bucket * self._fan < keep_from:
                store.delete(_SPACE, bucket)
        return _sorted(pa.concat_tables([made, *held]))

    def _read(self, bucket: int, wanted_again: bool, store: Store) -> pa.Table:
        blobs = store.read(_SPACE, bucket)
        table = self._codec.decode_all(blobs)
        if wanted_again and len(blobs) > 1:
            table = self._aggregation.sort(self._aggregation.merge(table))
            store.replace(_SPACE, bucket, self._codec.encode(table))
        return table

    def _append(self, nodes: pa.Table, store: Store) -> None:
        for bucket, part in split(nodes, ints(nodes, SLICE)):
            store.append(_SPACE, bucket, self._codec.encode(part))


def _led_by(table: pa.Table, lead: Ints) -> pa.Table:
    return table.set_column(0, SLICE, pa.array(lead))


def _sorted(table: pa.Table) -> pa.Table:
    """The rows sorted by the leading column."""
    lead = ints(table, SLICE)
    return table if (np.diff(lead) >= 0).all() else table.take(pa.array(np.argsort(lead, kind="stable")))
