"""The spec of every join of two sides: what makes rows meet, which columns a pair has, and what comes out alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from eventide.errors import EngineError
from eventide.kernels.contract import ROWTIME, WINDOW_END, WINDOW_START, InputSpec, Kernel
from eventide.kernels.side_rows import SideRows
from eventide.plan.joins import JoinBound
from eventide.plan.modes import JoinKind

_MOMENT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class JoinSpec:
    """Rows of side 0 (left) and side 1 (right) with equal keys that meet as `bound` says. Times in microseconds.

    `keys` are packed columns, of the same name and type on both sides; NULL in a key matches nothing, unless that key
    is `null_safe`. `left` and `right` pair the names of a pair's columns with packed columns. `condition` gives of a
    table of pairs, with the columns of `left` and `right`, which of them match (NULL: not). `sides` says of each input
    to which side it belongs. With `at_close` pairs wait until their window closes.
    """

    kind: JoinKind
    bound: JoinBound
    lateness: int = 0
    keys: tuple[str, ...] = ()
    key_types: tuple[pa.DataType, ...] = ()
    null_safe: tuple[bool, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    left_types: tuple[pa.DataType, ...] = ()
    right: tuple[tuple[str, str], ...] = ()
    right_types: tuple[pa.DataType, ...] = ()
    condition: Callable[[pa.Table], pa.Array] | None = None
    at_close: bool = False
    store_late: bool = True
    sides: tuple[int, ...] = (0, 1)
    inputs: tuple[InputSpec, ...] = (InputSpec("l"), InputSpec("r"))

    @property
    def side_rows(self) -> SideRows:
        return SideRows(self.inputs, self.store_late)

    @property
    def main_schema(self) -> pa.Schema:
        """window_start and window_end are NULL where the bound has no windows."""
        columns = [*zip(self.left, self.left_types, strict=True), *zip(self.right, self.right_types, strict=True)]
        head = [pa.field(name, _MOMENT) for name in (WINDOW_START, WINDOW_END, ROWTIME)]
        return pa.schema([*head, *[pa.field(name, kind) for (name, _), kind in columns]])

    @property
    def tick_every(self) -> int | None:
        return None

    @property
    def horizon(self) -> int:
        raise EngineError("joins cannot run yet")

    def fingerprint(self) -> str:
        raise EngineError("joins cannot run yet")

    def build(self) -> Kernel:
        raise EngineError("joins cannot run yet")
