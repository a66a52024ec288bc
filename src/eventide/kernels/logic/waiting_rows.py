"""Rows that wait until the watermark passes them: what each call of such a kernel does. What comes behind the watermark
is late.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from eventide.kernels.contract import TS, USED, Batch, Clock, Output, Store, united
from eventide.kernels.side_rows import STRICT_REASON, SideRows
from eventide.kernels.vector.columns import Mask, ints


class Buffer(Protocol):
    """What is known of the rows that wait; `flushed` is the time up to which a flush has let rows go."""

    flushed: int | None


Held = TypeVar("Held", bound=Buffer)


class WaitingRows(ABC, Generic[Held]):
    def __init__(self, inputs: int, side_rows: SideRows) -> None:
        self._inputs, self._side_rows = inputs, side_rows

    @abstractmethod
    def _load(self, store: Store) -> Held: ...

    @abstractmethod
    def _hold(self, rows: pa.Table, buffer: Held, store: Store) -> None:
        """Let rows wait; there is at least one."""

    @abstractmethod
    def _release(self, until: int | None, buffer: Held, store: Store, output: Output) -> None:
        """Emit the rows up to `until`."""

    @abstractmethod
    def _save(self, buffer: Held, store: Store, output: Output) -> Output: ...

    def _without_late(self, rows: pa.Table, late: Mask, output: Output) -> pa.Table:
        return self._side_rows.put(output, rows, late, "late", STRICT_REASON)

    def on_rows(self, batch: Batch, clock: Clock, store: Store) -> Output:
        buffer, output = self._load(store), Output()
        self._release(clock.watermark, buffer, store, output)
        if batch:
            rows = united(batch, self._inputs)
            passed = [moment for moment in (clock.watermark, buffer.flushed) if moment is not None]
            if passed:
                rows = self._without_late(rows, ints(rows, TS) <= max(passed), output)
            output.counts[USED] += rows.num_rows
            if rows.num_rows:
                self._hold(rows, buffer, store)
        return self._save(buffer, store, output)

    def on_time(self, clock: Clock, store: Store) -> Output:
        buffer, output = self._load(store), Output()
        self._release(clock.watermark, buffer, store, output)
        return self._save(buffer, store, output)

    def on_tick(self, clock: Clock, store: Store) -> Output:
        return self.on_time(clock, store)

    def on_flush(self, until: int, clock: Clock, store: Store) -> Output:
        buffer, output = self._load(store), Output()
        self._release(until, buffer, store, output)
        buffer.flushed = until
        return self._save(buffer, store, output)
