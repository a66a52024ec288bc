"""The windows of the reference model, row by row: each is a plain list of what is open and a few rules.

An operator is told of rows (`take`, all rows of a batch under the watermark before it), of the watermark (`pass_time`),
of the clock (`tick`) and of a graceful stop (`flush`). It emits rows with the columns window_start, window_end,
emit_epoch, op, __k0.., __a0.. and returns, by kind, the rows that it did not use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from eventide.kernels.contract import ROWTIME
from eventide.plan.identity import aggregate_identities
from eventide.plan.modes import EmitMode
from eventide.plan.physical import AggregateWindows, PackedAggregate, Physical
from eventide.plan.windows import Cumulate, Hop, Session, Tumble, Unbounded
from eventide.testing.aggregates import frozen, result
from eventide.testing.expressions import evaluate, unsupported
from eventide.testing.lateness import AllowedLatenessTracker, SideOutputRouter
from eventide.testing.values import moment

FOR_EVER = 1 << 60  # microseconds
LATE, EVICTED, BEHIND = "allowed_lateness_exceeded", "max_groups", "behind_watermark"


@dataclass(frozen=True)
class Timed:
    """A row with the event time that counts for it."""

    time: int
    packed: Mapping[str, Any]
    original: Mapping[str, Any]
    input: int = 0  # the number of the input that it came from
    known: frozenset[str] = frozenset()  # the aggregates that the stream had when it came


@dataclass(frozen=True)
class Refused:
    row: Timed
    reason: str


Sides = SideOutputRouter[Refused]


class Operator(ABC):
    """`emitted` is what was emitted since the last look; `sides` has the channels late and evicted."""

    def __init__(self, physical: Physical) -> None:
        self.physical = physical
        self.sides: Sides = SideOutputRouter()
        self.emitted: list[dict[str, Any]] = []

    @property
    def horizon(self) -> int:
        """How far behind the watermark a row may be and still be used on its own."""
        return 0

    def output_watermark(self, watermark: int) -> int:
        """No row that is emitted later has an event time up to this one."""
        return watermark

    @abstractmethod
    def take(self, rows: list[Timed], watermark: int | None) -> None: ...

    def pass_time(self, watermark: int) -> None:  # noqa: B027
        """The watermark has moved."""

    def tick(self) -> None:  # noqa: B027
        """Processing time has passed."""

    def flush(self, until: int) -> None:  # noqa: B027
        """Emit what has begun by `until`."""

    def go_on_from(self, before: Operator, watermark: int | None) -> None:
        """Take over what another text of the stream has left, under this watermark."""
        raise unsupported(f"a change of {type(before).__name__}")

    def repacked(self, row: Timed) -> Timed:
        """A row that came under another text, with the columns of this one."""
        input = self.physical.inputs[row.input]
        original = {column.name: row.original.get(column.name) for column in input.columns}
        values = {name.lower(): value for name, value in original.items()}
        packed = {named.name: evaluate(named.sql, values) for named in input.packed}
        return replace(row, packed=packed, original=original)


def forwarded(row: Timed) -> dict[str, Any]:
    return {**row.original, ROWTIME: moment(row.time)}


class PlainForward(Operator):
    def go_on_from(self, before: Operator, watermark: int | None) -> None:
        """Nothing is kept."""

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        self.emitted += [forwarded(row) for row in rows]


class OrderedForward(Operator):
    """Rows wait until the watermark passes them; sorting is stable, so equal times keep the order of arrival."""

    def __init__(self, physical: Physical) -> None:
        super().__init__(physical)
        self._waiting: list[Timed] = []
        self._flushed: int | None = None

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        for row in rows:
            if self._flushed is not None and row.time <= self._flushed:
                self.sides.route("late", Refused(row, BEHIND))
            else:
                self._waiting.append(row)

    def pass_time(self, watermark: int) -> None:
        passed = [row for row in self._waiting if row.time <= watermark]
        self._waiting = [row for row in self._waiting if row.time > watermark]
        self.emitted += [forwarded(row) for row in sorted(passed, key=lambda row: row.time)]

    def flush(self, until: int) -> None:
        self._flushed = until
        self.pass_time(until)

    def go_on_from(self, before: Operator, watermark: int | None) -> None:
        if isinstance(before, OrderedForward):
            self._waiting, self._flushed = [self.repacked(row) for row in before._waiting], before._flushed


# Windows --------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Held:
    """One group's open window: its rows, how often it was emitted, and the emissions that a change log must retract."""

    key: Any
    start: int
    end: int
    rows: list[Timed] = field(default_factory=list)
    epoch: int = 0
    waits: bool = True
    shown: list[dict[str, Any]] = field(default_factory=list)
    newest: int = 0  # of a group without a window: the time of its newest row


def put(rows: list[Timed], row: Timed, changes: str | None) -> None:
    """Add a row, or take one back that is the same, as the column `changes` says."""
    if changes is None or row.packed[changes] > 0:
        rows.append(row)
        return
    same = [other for other in rows if other.time == row.time and _values(other, changes) == _values(row, changes)]
    if same:
        rows.remove(same[0])


def _values(row: Timed, changes: str) -> Any:
    return frozen({name: value for name, value in row.packed.items() if name != changes})


class Windows(Operator):
    """What tumbling, hopping and session windows share: emit modes, closing and flushing."""

    def __init__(self, physical: Physical) -> None:
        super().__init__(physical)
        self.aggregates = physical.operator.aggregates if isinstance(physical.operator, AggregateWindows) else ()
        self.mode = physical.emit.mode
        self.lateness = 0 if self.mode is EmitMode.FINAL else physical.emit.allowed_lateness
        self.tracker: AllowedLatenessTracker[Held] = AllowedLatenessTracker(self.lateness)
        self.open: list[Held] = []
        self._meaning = aggregate_identities(physical)

    def go_on_from(self, before: Operator, watermark: int | None) -> None:
        if not isinstance(before, Windows):
            raise unsupported("a change of the operator")
        ended = [] if watermark is None else [watermark - before.lateness]
        passed = ended if before.tracker.passed is None else [*ended, before.tracker.passed]
        self.tracker.passed = max(passed, default=None)
        for held in before.open:
            held.rows = [self.repacked(row) for row in held.rows]
            held.shown = [{**self.row_of(held), "emit_epoch": row["emit_epoch"]} for row in held.shown]
            self.open.append(held)
            self.tracker.track(held, held.end)

    def key_of(self, row: Timed) -> Any:
        return frozen([row.packed[key.sql] for key in self.physical.inputs[0].keys])

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        touched = self.assign(rows, watermark)
        empty = [held for held in touched if self.is_over(held)]
        touched = [held for held in touched if held not in empty]
        for held in touched:
            held.waits = True
            self.tracker.track(held, held.end)
        for held in empty:
            self.open.remove(held)
            self.tracker.forget(held)
        if self.mode is EmitMode.CHANGES:
            self._log_changes(touched, empty)
        elif self.mode is EmitMode.ON_UPDATE:
            self._emit(touched)
        elif self.mode is EmitMode.ON_WATERMARK:
            self._emit([held for held in touched if watermark is not None and watermark >= held.end])

    @property
    def changes(self) -> str | None:
        """The column that says which rows of a change log are taken back."""
        return self.physical.inputs[0].changes

    def is_over(self, held: Held) -> bool:
        """Whether all rows of a window were taken back."""
        return self.changes is not None and not held.rows

    @abstractmethod
    def assign(self, rows: list[Timed], watermark: int | None) -> list[Held]:
        """Put rows into windows, or to the side; returns the windows that have changed, each once."""

    def pass_time(self, watermark: int) -> None:
        if self.mode is EmitMode.ON_WATERMARK:
            self._emit([held for held in self.open if held.waits and watermark >= held.end])
        closed = self.tracker.close(watermark)
        self._emit([held for held in closed if self._emits_at_close(held)])
        self.open = [held for held in self.open if held not in closed]

    def tick(self) -> None:
        if self.mode is EmitMode.EVERY:
            self._emit([held for held in self.open if held.waits])

    def _emits_at_close(self, held: Held) -> bool:
        """The windows changed since their last emission; with EVERY all of them, so that a window's last emission is
        its result.
        """
        return held.waits or self.mode is EmitMode.EVERY

    def flush(self, until: int) -> None:
        begun = [held for held in self.open if self.begins(held) <= until]
        self._emit([held for held in begun if self._emits_at_close(held)])
        for held in begun:
            self.tracker.forget(held)
        self.open = [held for held in self.open if held not in begun]
        self.remember_flushed(begun, until)

    def begins(self, held: Held) -> int:
        return held.start

    def output_watermark(self, watermark: int) -> int:
        return watermark - self.lateness

    @abstractmethod
    def remember_flushed(self, begun: list[Held], until: int) -> None:
        """These windows have emitted their results early, and take no more rows."""

    def results(self, held: Held) -> dict[str, Any]:
        return {call.name: self.result_of(call, held.rows) for call in self.aggregates}

    def row_of(self, held: Held) -> dict[str, Any]:
        keys = {f"__k{number}": held.rows[0].packed[key.sql] for number, key in enumerate(self.physical.inputs[0].keys)}
        results = self.results(held)
        head = {"window_start": moment(held.start), "window_end": moment(held.end), "emit_epoch": held.epoch, "op": 1}
        return {**head, **keys, **results}

    def result_of(self, call: PackedAggregate, rows: list[Timed]) -> Any:
        """NULL if a row came when the stream did not have the aggregate."""
        if any(self._meaning[call.name] not in row.known for row in rows):
            return None
        return result(call, [row.packed for row in rows], [row.time for row in rows])

    def _emit(self, chosen: list[Held]) -> None:
        for held in chosen:
            row = self.row_of(held)
            self.emitted.append(row)
            held.shown, held.waits = [row], False
            held.epoch += 1

    def _log_changes(self, touched: list[Held], empty: list[Held]) -> None:
        changed = []
        for held in touched:
            same = len(held.shown) == 1 and _results(held.shown[0]) == _results(self.row_of(held))
            held.waits = not same
            changed += [] if same else [held]
        self.emitted += [{**row, "op": -1} for held in [*changed, *empty] for row in held.shown]
        self._emit(changed)


def _results(row: dict[str, Any]) -> Any:
    """What makes one emission of a group differ from the one before."""
    return frozen({name: value for name, value in row.items() if name not in ("emit_epoch", ROWTIME)})


class Panes(Windows):
    """Tumbling and hopping windows: a row is in every window [start, start + size) that holds its time."""

    def __init__(self, physical: Physical, window: Tumble | Hop | Cumulate) -> None:
        super().__init__(physical)
        self._size, self._offset = window.size, window.offset
        self._slide = window.slide if isinstance(window, Hop) else window.size
        self._flushed: int | None = None  # windows that begin by then are closed

    @property
    def horizon(self) -> int:
        return self._size + self.lateness

    def go_on_from(self, before: Operator, watermark: int | None) -> None:
        super().go_on_from(before, watermark)
        if isinstance(before, Panes):
            self._flushed = before._flushed

    def windows(self, time: int) -> list[tuple[int, int]]:
        """(start, end) of the windows that hold this time."""
        last = (time - self._offset) // self._slide * self._slide + self._offset
        return [(start, start + self._size) for start in range(last, time - self._size, -self._slide)]

    def assign(self, rows: list[Timed], watermark: int | None) -> list[Held]:
        touched: list[Held] = []
        for row in rows:
            key = self.key_of(row)
            windows = [w for w in self.windows(row.time) if self._is_open(w, watermark)]
            fitting = [window for window in windows if self._has_room(window, key)]
            if not fitting:
                self.sides.route("evicted" if windows else "late", Refused(row, EVICTED if windows else LATE))
            for window in fitting:
                held = self._find(window, key)
                put(held.rows, row, self.changes)
                touched += [] if held in touched else [held]
        return touched

    def remember_flushed(self, begun: list[Held], until: int) -> None:
        self._flushed = until

    def _is_open(self, window: tuple[int, int], watermark: int | None) -> bool:
        return self.tracker.is_open(window[1], watermark) and (self._flushed is None or window[0] > self._flushed)

    def _has_room(self, window: tuple[int, int], key: Any) -> bool:
        most = self.physical.options.max_groups
        groups = [held.key for held in self.open if (held.start, held.end) == window]
        return most is None or key in groups or len(groups) < most

    def _find(self, window: tuple[int, int], key: Any) -> Held:
        for held in self.open:
            if (held.start, held.end, held.key) == (*window, key):
                return held
        self.open.append(Held(key, *window))
        return self.open[-1]


class Cumulations(Panes):
    """Windows that begin every `size` and grow by `step` at a time: a row is in those that end after it."""

    def __init__(self, physical: Physical, window: Cumulate) -> None:
        super().__init__(physical, window)
        self._step = window.step

    def windows(self, time: int) -> list[tuple[int, int]]:
        start = (time - self._offset) // self._size * self._size + self._offset
        return [(start, end) for end in range(start + self._step, start + self._size + 1, self._step) if end > time]


class Sessions(Windows):
    """Rows of a group no more than `gap` apart are in one window, which ends `gap` after the last of them.

    The rows of a batch are first split into islands, so their order does not matter. An island is late if it touches no
    open session and would be a closed session on its own.
    """

    def __init__(self, physical: Physical, window: Session) -> None:
        super().__init__(physical)
        self._gap = window.gap
        self._flushed: list[Held] = []

    @property
    def horizon(self) -> int:
        return self._gap + self.lateness

    def go_on_from(self, before: Operator, watermark: int | None) -> None:
        super().go_on_from(before, watermark)
        if isinstance(before, Sessions):
            self._flushed = before._flushed

    def assign(self, rows: list[Timed], watermark: int | None) -> list[Held]:
        self._flushed = [held for held in self._flushed if self.tracker.is_open(held.end, watermark)]
        joining = []
        for row in rows:
            if any(
                held.key == self.key_of(row) and held.start - self._gap <= row.time <= held.end
                for held in self._flushed
            ):
                self.sides.route("late", Refused(row, LATE))
            else:
                joining.append(row)
        touched: list[Held] = []
        most, before = self.physical.options.max_groups, len(self.open)
        for island in self._islands(joining):
            met = [
                held
                for held in self.open
                if held.key == island.key and island.start <= held.end and held.start <= island.end
            ]
            if not met and not self.tracker.is_open(island.end, watermark):
                self._refuse(island, "late", LATE)
            elif not met and most is not None and before >= most:
                self._refuse(island, "evicted", EVICTED)
            else:
                before += not met
                touched = [held for held in touched if held not in met] + [self._merge(island, met)]
        return touched

    def remember_flushed(self, begun: list[Held], until: int) -> None:
        self._flushed += begun

    def _islands(self, rows: list[Timed]) -> list[Held]:
        """Sessions of these rows alone, in the order in which their first rows arrived."""
        islands: list[Held] = []
        for row in sorted(rows, key=lambda row: row.time):
            key = self.key_of(row)
            last = next((held for held in reversed(islands) if held.key == key), None)
            if last is None or row.time > last.end:
                islands.append(Held(key, row.time, row.time + self._gap, [row]))
            else:
                last.end = row.time + self._gap
                last.rows.append(row)
        return sorted(islands, key=lambda island: min(rows.index(row) for row in island.rows))

    def _merge(self, island: Held, met: list[Held]) -> Held:
        """Merge the island and the sessions it touches into one window; equal bounds mean the same window."""
        for held in met:
            self.open.remove(held)
            self.tracker.forget(held)
        parts = [*met, island]
        whole = Held(
            island.key, min(p.start for p in parts), max(p.end for p in parts), [row for p in parts for row in p.rows]
        )
        whole.shown = [row for part in met for row in part.shown]
        whole.epoch = next((held.epoch for held in met if (held.start, held.end) == (whole.start, whole.end)), 0)
        self.open.append(whole)
        return whole

    def _refuse(self, island: Held, kind: str, reason: str) -> None:
        for row in island.rows:
            self.sides.route(kind, Refused(row, reason))


class Groups(Windows):
    """Groups without a window, forgotten when the watermark is `ttl` past their newest row."""

    def __init__(self, physical: Physical, window: Unbounded) -> None:
        super().__init__(physical)
        self.ttl = window.ttl

    def assign(self, rows: list[Timed], watermark: int | None) -> list[Held]:
        touched: list[Held] = []
        for row in rows:
            key = self.key_of(row)
            held = next((held for held in self.open if held.key == key), None)
            if held is None:
                held = Held(key, 0, 0, newest=row.time)
                self.open.append(held)
            put(held.rows, row, self.changes)
            held.newest = max(held.newest, row.time)
            held.end = held.newest + (self.ttl or FOR_EVER)
            touched += [held] if held not in touched else []
        return touched

    def is_over(self, held: Held) -> bool:
        """A query without keys has its one group even if that is empty."""
        return super().is_over(held) and bool(self.physical.inputs[0].keys)

    def _emit(self, chosen: list[Held]) -> None:
        """A group that has nothing but its keys is told once."""
        super()._emit([held for held in chosen if self.aggregates or held.epoch == 0])

    def flush(self, until: int) -> None:
        """Nothing waits."""

    def remember_flushed(self, begun: list[Held], until: int) -> None:
        """Never called."""

    def row_of(self, held: Held) -> dict[str, Any]:
        keys = {f"__k{number}": held.rows[0].packed[key.sql] for number, key in enumerate(self.physical.inputs[0].keys)}
        results = self.results(held)
        return {"emit_epoch": held.epoch, "op": 1, **keys, **results, ROWTIME: moment(held.newest)}
