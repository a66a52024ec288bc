"""The spec of every join of two sides: what makes rows meet, which columns a pair has, and what comes out alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import CHANGE, OLDEST, ROWTIME, WINDOW_END, WINDOW_START, Gauges, InputSpec, Kernel
from eventide.kernels.joins.asof_join import AsofJoin
from eventide.kernels.joins.change_join import ChangeJoin
from eventide.kernels.joins.partner_times import partner_times_of
from eventide.kernels.joins.range_join import RangeJoin
from eventide.kernels.joins.session_join import SessionJoin
from eventide.kernels.side_rows import SideRows
from eventide.kernels.state.past import NO_PAST, Past, StateLayout
from eventide.kernels.windows.grid import grid_of
from eventide.plan.joins import (
    AnyTime,
    Asof,
    Interval,
    JoinBound,
    Nearest,
    OverlappingPanes,
    OverlappingSessions,
    SameWindow,
)
from eventide.plan.modes import JoinKind
from eventide.plan.windows import Cumulate, Hop, PanedWindow, Tumble

_MOMENT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class JoinSpec:
    """Rows of side 0 (left) and side 1 (right) with equal keys that meet as `bound` says. Times in microseconds.

    `keys` are packed columns, of the same name and type on both sides; NULL in a key matches nothing, unless that key
    is `null_safe`. `left` and `right` pair the names of a pair's columns with packed columns. `condition` gives of a
    table of pairs, with the columns of `left` and `right`, which of them match (NULL: not). `sides` says of each input
    to which side it belongs. With `at_close` pairs wait until their window closes. `changes` names, for each side
    that is a change log, the packed column that says which rows are taken back: only joins at any time can do that.
    These have a column CHANGE, and leave out what is taken back unless they are to emit changes.
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
    changes: tuple[str | None, str | None] = (None, None)
    emits_changes: bool = True
    past: Past = NO_PAST

    @property
    def side_rows(self) -> SideRows:
        return SideRows(self.inputs, self.store_late)

    @property
    def main_schema(self) -> pa.Schema:
        if not isinstance(self.bound, AnyTime):
            return self.row_schema
        return self.row_schema.append(pa.field(CHANGE, pa.int32()))

    @property
    def row_schema(self) -> pa.Schema:
        """window_start and window_end are NULL where the bound has no windows."""
        columns = [*zip(self.left, self.left_types, strict=True), *zip(self.right, self.right_types, strict=True)]
        head = [pa.field(name, _MOMENT) for name in (WINDOW_START, WINDOW_END, ROWTIME)]
        return pa.schema([*head, *[pa.field(name, kind) for (name, _), kind in columns]])

    @property
    def tick_every(self) -> int | None:
        return None

    @property
    def horizon(self) -> int:
        """How far behind the watermark a row may be that is still taken; of ASOF and sessions, taken by itself."""
        match self.bound:
            case Interval(lower=lower, upper=upper):
                return max(upper, -lower, 0) + self.lateness
            case SameWindow(window=window):
                return window.size + self.lateness
            case OverlappingPanes(left=left, right=right):
                return left.size + right.size + self.lateness
            case OverlappingSessions(gap=gap):
                return gap + self.lateness
            case Asof(tolerance=tolerance):
                return (tolerance or 0) + self.lateness
            case AnyTime():
                return 0

    def output_watermark(self, watermark: int, gauges: Gauges) -> int | None:
        """No pair and no lone row to come is older: of windows, the start of the oldest open one."""
        match self.bound:
            case SameWindow(window=window):
                grid = grid_of(window, self.lateness, self.past.passed)
                closed = grid.last_closed(watermark)
                return None if closed is None else int(grid.starts(np.array([closed + 1]))[0])
            case OverlappingSessions():
                return min([watermark - self.horizon, *gauges.get(OLDEST, [])])
            case Asof(which=Nearest.EITHER, tolerance=None):
                # a left row may wait for any time, and leave with a right row that is older still
                return None if any(gauges.get("left_buffered", [])) else watermark - self.horizon
            case _:
                return watermark - self.horizon

    def fingerprint(self) -> str:
        keys, left, right = (",".join(map(str, kinds)) for kinds in (self.key_types, self.left_types, self.right_types))
        rules = f"kind={self.kind.value};at_close={self.at_close};condition={self.condition is not None}"
        return f"{self._layout()};{rules};keys={keys};null_safe={self.null_safe};left={left};right={right}"

    @property
    def layout(self) -> StateLayout:
        return StateLayout(self.fingerprint(), shared=self.fingerprint())

    def continuing(self, past: Past) -> JoinSpec:
        """Rows that wait look alike under every text; only how far time has come is to be known."""
        return replace(self, past=past)

    def reached(self, watermark: int | None) -> int | None:
        """The time up to which only late rows come; None before the first row."""
        return None if watermark is None else self.past.reached(watermark, self.lateness)

    def build(self) -> Kernel:
        match self.bound:
            case OverlappingSessions():
                return SessionJoin(self, self.bound)
            case Asof():
                return AsofJoin(self, self.bound)
            case AnyTime():
                return ChangeJoin(self, self.bound)
            case _:
                return RangeJoin(self, partner_times_of(self.bound))

    def _layout(self) -> str:
        """The kernel, the version of its state, and the parameters without which the state means something else."""
        match self.bound:
            case Interval(lower=lower, upper=upper):
                return f"range_join/1;interval={lower},{upper}"
            case SameWindow(window=window):
                return f"range_join/1;window={_window(window)}"
            case OverlappingPanes(left=left, right=right):
                return f"range_join/1;panes={_window(left)},{_window(right)}"
            case OverlappingSessions(gap=gap):
                return f"session_join/1;gap={gap}"
            case Asof(which=which, strict=strict, tolerance=tolerance):
                return f"asof_join/1;which={which.value};strict={strict};tolerance={tolerance}"
            case AnyTime():
                return f"change_join/1;of={self.changes}"


def _window(window: PanedWindow) -> str:
    match window:
        case Tumble(size=size, offset=offset):
            return f"tumble({size},{offset})"
        case Hop(size=size, slide=slide, offset=offset):
            return f"hop({size},{slide},{offset})"
        case Cumulate(size=size, step=step, offset=offset):
            return f"cumulate({size},{step},{offset})"
