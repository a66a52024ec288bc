"""What happens in each call of a kernel with state: it is loaded and time passes, then the call does its own work, then
all is written back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from eventide.kernels.contract import Batch, Clock, Output, Store

State = TypeVar("State")


class StatefulKernel(ABC, Generic[State]):
    """A kernel as `contract.Kernel` wants it, by the parts in which kernels differ."""

    @abstractmethod
    def _begin(self, clock: Clock, store: Store) -> tuple[State, Output]:
        """The state, and what is due now that time has passed up to the clock's watermark."""

    @abstractmethod
    def _take(self, batch: Batch, state: State, store: Store, output: Output) -> None:
        """Take rows in; there is at least one."""

    @abstractmethod
    def _flush(self, until: int, state: State, store: Store, output: Output) -> None:
        """Emit before its time what has begun by `until`."""

    @abstractmethod
    def _finish(self, state: State, store: Store, output: Output) -> Output:
        """Write the state back; the output with its gauges and when to wake."""

    def on_rows(self, batch: Batch, clock: Clock, store: Store) -> Output:
        state, output = self._begin(clock, store)
        if batch:
            self._take(batch, state, store, output)
        return self._finish(state, store, output)

    def on_time(self, clock: Clock, store: Store) -> Output:
        state, output = self._begin(clock, store)
        return self._finish(state, store, output)

    def on_tick(self, clock: Clock, store: Store) -> Output:
        return self.on_time(clock, store)

    def on_flush(self, until: int, clock: Clock, store: Store) -> Output:
        state, output = self._begin(clock, store)
        self._flush(until, state, store, output)
        return self._finish(state, store, output)
