"""Rows of an outer or anti join that wait for a partner: those that find none come out when their time is over.

Rows and matches are two logs by time, to which batches append. When time passes, both are read up to it: what is in the
first and not in the second comes out. So a match costs a few bytes, and no row is rewritten because of it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import TS, Store
from eventide.kernels.joins.sides import Side
from eventide.kernels.state.codec import Codec
from eventide.kernels.state.time_log import TimeLog
from eventide.kernels.vector.columns import Ints, Mask, ints

DUE = "due"  # when the watermark is here, nothing can match the row any more; without the allowed lateness
ENTRY = "entry"  # which row, and which of its windows
WINDOW = "window"
FOR_EVER = np.iinfo(np.int64).max
_MATCHED = pa.schema([(DUE, pa.int64()), (ENTRY, pa.int64())])


class Unmatched:
    """The rows of one side, each once for every window in which it waits."""

    def __init__(self, side: Side, fingerprint: str) -> None:
        self._side = side
        head = [pa.field(name, pa.int64()) for name in (DUE, ENTRY, WINDOW, TS)]
        self.schema = pa.schema([*head, *side.shown_schema])
        self._rows = TimeLog(f"{side.name}_waiting", Codec(fingerprint, self.schema), DUE)
        self._matches = TimeLog(f"{side.name}_matched", Codec(fingerprint, _MATCHED), DUE)

    def wait(self, rows: pa.Table, at: Ints, entry: Ints, window: Ints, due: Ints, store: Store) -> None:
        """Rows, by their places, begin to wait."""
        if len(at) == 0:
            return
        head = [pa.array(values) for values in (due, entry, window, ints(rows, TS)[at])]
        shown = [values.take(pa.array(at)) for values in self._side.columns(rows)]
        self._rows.add(pa.Table.from_arrays([*head, *shown], schema=self.schema), store)

    def match(self, entry: Ints, due: Ints, store: Store) -> None:
        """Rows that wait have found a partner."""
        if len(entry):
            self._matches.add(pa.Table.from_arrays([pa.array(due), pa.array(entry)], schema=_MATCHED), store)

    def take(self, until: int, store: Store) -> pa.Table:
        """The rows whose time is over and that found nobody, in the order of their times; all are forgotten."""
        if self.earliest(store) is None:
            return self.schema.empty_table()
        rows = self._rows.take(until, store)
        matches = self._matches.take(until, store)
        alone = ~np.isin(ints(rows, ENTRY), ints(matches, ENTRY))
        rows = rows.filter(pa.array(alone)).combine_chunks()
        return rows.take(pa.array(np.lexsort((ints(rows, ENTRY), ints(rows, DUE)))))

    def earliest(self, store: Store) -> int | None:
        """No row is due before this."""
        found = [log.earliest(store) for log in (self._rows, self._matches)]
        return min((moment for moment in found if moment is not None), default=None)

    def put_back(self, rows: pa.Table, store: Store) -> None:
        if rows.num_rows:
            self._rows.add(rows, store)

    def state_bytes(self, store: Store) -> int:
        return self._rows.state_bytes(store) + self._matches.state_bytes(store)


def among(some: Ints, all_of: list[Ints]) -> Mask:
    """Which of the numbers are in one of the lists."""
    if not all_of:
        return np.zeros(len(some), np.bool_)
    return np.isin(some, np.concatenate(all_of))
