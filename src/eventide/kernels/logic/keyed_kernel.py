"""What happens in each call of a kernel on a `KeyedTable`: time passes first, then the call's own work, then all is
written back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from eventide.kernels.contract import Batch, Clock, Output, Store, united
from eventide.kernels.state.keyed_table import Directory, KeyedTable


class KeyedKernel(ABC):
    """A kernel whose state is one table; what the table holds is left to the window kind."""

    def __init__(self, inputs: int, table: KeyedTable) -> None:
        self._inputs, self._table = inputs, table

    @abstractmethod
    def _pass_time(self, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        """Emit what is due, and forget what is no longer needed."""

    @abstractmethod
    def _take(self, rows: pa.Table, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        """Take rows in; there is at least one, and time has passed up to the watermark."""

    @abstractmethod
    def _give_out(self, until: int, directory: Directory, store: Store, output: Output) -> None:
        """Emit before its time what has begun by `until`."""

    @abstractmethod
    def _gauges(self, directory: Directory) -> dict[str, int]: ...

    def _wake_at(self, directory: Directory) -> int | None:
        return directory.next_due

    def on_rows(self, batch: Batch, clock: Clock, store: Store) -> Output:
        directory, output = self._begin(clock, store)
        if batch:
            self._take(united(batch, self._inputs), clock.watermark, directory, store, output)
        return self._finish(directory, store, output)

    def on_time(self, clock: Clock, store: Store) -> Output:
        directory, output = self._begin(clock, store)
        return self._finish(directory, store, output)

    def on_tick(self, clock: Clock, store: Store) -> Output:
        return self.on_time(clock, store)

    def on_flush(self, until: int, clock: Clock, store: Store) -> Output:
        directory, output = self._begin(clock, store)
        self._give_out(until, directory, store, output)
        return self._finish(directory, store, output)

    def _begin(self, clock: Clock, store: Store) -> tuple[Directory, Output]:
        directory, output = self._table.load(store), Output()
        self._pass_time(clock.watermark, directory, store, output)
        return directory, output

    def _finish(self, directory: Directory, store: Store, output: Output) -> Output:
        self._table.save(directory, store)
        output.wake_at = self._wake_at(directory)
        output.gauges.update(self._gauges(directory), state_bytes=self._table.state_bytes(store))
        return output
