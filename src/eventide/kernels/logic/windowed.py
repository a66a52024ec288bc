"""The spec of every windowed aggregation: a window, and what is done in it. Which kernel runs it is decided here."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from eventide.errors import OptionError
from eventide.kernels.aggregates import AggregateSpec, Aggregation
from eventide.kernels.contract import ROWTIME, Gauges, InputSpec, Kernel
from eventide.kernels.logic.aggregate_at_close import AggregateAtClose
from eventide.kernels.logic.aggregate_early import AggregateEarly
from eventide.kernels.logic.aggregate_unbounded import AggregateUnbounded
from eventide.kernels.logic.emission import EMIT_RULES, EmitRules, main_schema
from eventide.kernels.logic.sessions import Sessions
from eventide.kernels.logic.slides import Slides
from eventide.kernels.prefold import Prefold
from eventide.kernels.side_rows import SideRows
from eventide.kernels.state.past import NO_PAST, Past, StateLayout
from eventide.kernels.windows.calendar import any_grid
from eventide.kernels.windows.check import check_window
from eventide.plan.modes import EmitMode
from eventide.plan.windows import Calendar, Cumulate, Hop, Session, Slide, Tumble, Unbounded, Window

_ONCE = (EmitMode.ON_WINDOW_CLOSE, EmitMode.FINAL)


@dataclass(frozen=True)
class WindowedAggregation:
    """Rows grouped by keys and `window`. Times in microseconds.

    `keys` and `originals` pair the user's names with packed columns. `max_groups` is how many groups a window may hold
    in one shard; of sessions, how many may be open. `sources` name the inputs, which are alike. `changes` is the packed
    column that says of rows of a change log whether they are added (1) or taken back (-1).
    """

    window: Window
    lateness: int = 0
    keys: tuple[tuple[str, str], ...] = ()
    key_types: tuple[pa.DataType, ...] = ()
    originals: tuple[tuple[str, str], ...] = ()
    aggregates: tuple[AggregateSpec, ...] = ()
    emit: EmitMode = EmitMode.ON_WINDOW_CLOSE
    every: int | None = None
    max_groups: int | None = None
    sources: tuple[str, ...] = ("",)
    changes: str | None = None
    past: Past = NO_PAST

    def __post_init__(self) -> None:
        check_window(self.window)
        if self.emit is EmitMode.EVERY and not self.every:
            raise OptionError("EMIT EVERY needs an interval", help="write EMIT EVERY INTERVAL '10' SECOND")
        if self.lateness < 0:
            raise OptionError("allowed lateness cannot be negative")
        if isinstance(self.window, Slide):
            self._check_slide()
        if isinstance(self.window, Unbounded) and self.emit not in (EmitMode.ON_UPDATE, EmitMode.CHANGES):
            raise OptionError("groups without a window never close", help="write EMIT ON UPDATE or EMIT CHANGES")
        if self.changes is not None and isinstance(self.window, Session | Slide):
            raise OptionError("rows of a change log have no sessions and no sliding windows", help="use another window")

    def _check_slide(self) -> None:
        if self.emit not in _ONCE:
            raise OptionError(
                f"a sliding window emits one row per input row, not {self.emit.value}", help="leave EMIT out"
            )
        if self.max_groups is not None:
            raise OptionError("max_groups does not apply to sliding windows", help="leave it out")

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        return tuple(InputSpec(source, self.keys, self.originals) for source in self.sources)

    @property
    def side_rows(self) -> SideRows:
        return SideRows(self.inputs, store_late=self.emit is not EmitMode.FINAL)

    @property
    def allowed_lateness(self) -> int:
        return 0 if self.emit is EmitMode.FINAL else self.lateness

    @property
    def emit_rules(self) -> EmitRules:
        return EMIT_RULES[self.emit]

    @property
    def main_schema(self) -> pa.Schema:
        schema = main_schema(self.aggregation(()))
        is_timed = isinstance(self.window, Unbounded)
        return schema.append(pa.field(ROWTIME, pa.timestamp("us", tz="UTC"))) if is_timed else schema

    @property
    def tick_every(self) -> int | None:
        return self.every if self.emit is EmitMode.EVERY else None

    @property
    def horizon(self) -> int:
        """How far behind the watermark a row may be that the kernel still takes; with sessions, takes by itself."""
        match self.window:
            case Tumble(size=size) | Hop(size=size) | Cumulate(size=size):
                return size + self.allowed_lateness
            case Calendar():
                return self.window.longest + self.allowed_lateness
            case Session(gap=gap):
                return gap + self.allowed_lateness
            case Slide(lookahead=lookahead):
                return (lookahead or 0) + self.allowed_lateness
            case Unbounded():
                return 0

    def output_watermark(self, watermark: int, gauges: Gauges) -> int | None:
        """Every window that is still to emit ends later than this; of sliding ones, belongs to a later row."""
        return watermark - (self.horizon if isinstance(self.window, Slide) else self.allowed_lateness)

    def aggregation(self, lead: tuple[str, ...], status: tuple[pa.Field, ...] = ()) -> Aggregation:
        keys = [packed for _, packed in self.keys]
        return Aggregation(lead, keys, self.key_types, self.aggregates, status, self.changes)

    def fingerprint(self) -> str:
        aggregates = ",".join(spec.describe() for spec in self.aggregates)
        return f"{self._layout()};keys={self._kinds};aggregates={aggregates}{self._of_changes}{self.past.suffix}"

    @property
    def _kinds(self) -> str:
        return ",".join(map(str, self.key_types))

    @property
    def _of_changes(self) -> str:
        return "" if self.changes is None else ";of changes"

    @property
    def layout(self) -> StateLayout:
        """What another text of the stream must know to read the state."""
        shared = f"{self._layout()};keys={self._kinds}{self._of_changes}"
        return StateLayout(self.fingerprint(), shared, self.aggregation(()).parts, not self._only_at_close)

    def continuing(self, past: Past) -> WindowedAggregation:
        """The same, going on from state that other texts have left."""
        parts = self.aggregation(()).parts
        aggregates = tuple(
            replace(spec, begun_late=not past.knows(part)) for spec, part in zip(self.aggregates, parts, strict=True)
        )
        return replace(self, aggregates=aggregates, past=past)

    def prefold(self) -> Prefold | None:
        """How rows may be folded before the kernel gets them; None if it needs them one by one."""
        if isinstance(self.window, Session | Slide | Unbounded) or self.changes is not None:
            return None
        if not self._only_at_close or not self.aggregation(()).is_simple:
            return None
        return Prefold(self, any_grid(self.window, self.allowed_lateness, self.past.passed))

    def build(self) -> Kernel:
        match self.window:
            case Session():
                return Sessions(self, self.window)
            case Slide():
                return Slides(self, self.window)
            case Unbounded():
                return AggregateUnbounded(self, self.window)
            case _:
                grid = any_grid(self.window, self.allowed_lateness, self.past.passed)
                return AggregateAtClose(self, grid) if self._only_at_close else AggregateEarly(self, grid)

    @property
    def _only_at_close(self) -> bool:
        """Whether groups need not be looked up before their window closes."""
        return self.emit in _ONCE and self.max_groups is None and not self.past.keeps_groups

    def _layout(self) -> str:
        """The kernel, the version of its state, and the parameters without which the state means something else."""
        kernel = "closing/1" if self._only_at_close else "eager/1"
        match self.window:
            case Tumble(size=size, offset=offset):
                return f"{kernel};size={size};slide={size};offset={offset}"
            case Hop(size=size, slide=slide, offset=offset):
                return f"{kernel};size={size};slide={slide};offset={offset}"
            case Cumulate(size=size, step=step, offset=offset):
                return f"cumulate/1;{kernel};size={size};slide={step};offset={offset}"
            case Calendar(unit=unit, count=count, zone=zone, first_day=first_day):
                return f"calendar/1;{kernel};{count} {unit.value};zone={zone};first_day={first_day}"
            case Session(gap=gap):
                return f"session/1;gap={gap}"
            case Slide(lookback=lookback, lookahead=lookahead):
                return f"slide/1;lookback={lookback};lookahead={lookahead}"
            case Unbounded():
                return "unbounded/2"
