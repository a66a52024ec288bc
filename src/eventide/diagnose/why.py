"""Why is nothing coming out? Says in words what keeps a stream's oldest window open, and what would close it.

A pure function of the stream's definition and of its last account: it works on a running stream, and on a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from eventide.diagnose.join_words import gives_on_arrival, kept_text, rule_text
from eventide.diagnose.limit_words import limit_lines
from eventide.diagnose.partition_words import partition_lines
from eventide.diagnose.words import at, conditions, listed
from eventide.eventtime.durations import format_duration
from eventide.plan.logical import (
    Forward,
    Join,
    Over,
    Query,
    Rank,
    Stream,
    WindowAggregate,
)
from eventide.plan.modes import EmitMode
from eventide.plan.physical import EventTimeWatermark, Input, Physical
from eventide.plan.planner import plan
from eventide.plan.reads import relations_of, window_of
from eventide.plan.stream_source import IS_LATE, STREAM, change_log_of, is_stream
from eventide.plan.windows import Calendar, Cumulate, Session, Slide, Unbounded
from eventide.storage.results import Account

_OPEN = ("open_windows", "buffer_size")  # gauges of what is waiting for time to pass, in order of preference
NEXT_CLOSE = "next_close"  # the gauge of the watermark at which a shard will next emit, in microseconds


@dataclass(frozen=True)
class Seen:
    """What is known of a stream: the account of its last batch, and the newest watermark.

    `idle` are the sources that have been silent for longer than their idle timeout, `idle_partitions` such partitions,
    by source.
    """

    stream: Stream
    account: Account | None
    watermark: int | None
    idle: Collection[str] = ()
    idle_partitions: Mapping[str, Collection[str]] = field(default_factory=dict)


def why(
    stream: Stream,
    account: Account | None,
    *,
    watermark: int | None,
    now: int,
    idle: Collection[str] = (),
    read: Callable[[str], Seen] | None = None,
    idle_partitions: Mapping[str, Collection[str]] | None = None,
) -> str:
    """What keeps `stream` from emitting rows: see `Seen`; `now` is the clock, in microseconds.

    `read` tells of the streams that it reads, so that the answer goes down to the sources.
    """
    silent = idle_partitions or {}
    case = _Case(stream, plan(stream), account, watermark, now, frozenset(idle), read, idle_partitions=silent)
    first, *rest = case.chain()
    told = case.lines()
    if len(rest) > 1:
        told.insert(
            0, ", and ".join([f"{first} waits for {rest[0]}", *(f"that for {each}" for each in rest[1:])]) + "."
        )
    return "\n".join(told)


@dataclass(frozen=True)
class _Case:
    stream: Stream
    physical: Physical
    account: Account | None
    watermark: int | None
    now: int
    idle: frozenset[str]
    read: Callable[[str], Seen] | None = None
    idle_partitions: Mapping[str, Collection[str]] = field(default_factory=dict)
    needed: int | None = None  # the watermark for which a reader waits, in place of what is open here

    def chain(self) -> list[str]:
        """The names of what waits, from the stream down to the source at the end; itself alone if nothing waits."""
        name = self.stream.name
        if self._is_clocked or (self.needed is None and (self._gives_at_once or (self._has_rows and not self._open))):
            return [name]
        behind = self._behind if self._has_rows else self._names
        below = self._upstream(behind[0]) if behind else None
        if below is not None:
            return [name, *below.chain()]
        return [name, f"the source {behind[0]}"] if behind else [name]

    def _upstream(self, name: str) -> _Case | None:
        """The stream behind one of the inputs, if it is one, with the watermark that is wanted of it."""
        source = self._inputs[name].source
        if self.read is None or not is_stream(source) or IS_LATE in source.options:
            return None
        seen = self.read(source.options[STREAM])
        target = None if self._next is None else self._next + seen.stream.emit.allowed_lateness
        return _Case(
            seen.stream,
            plan(seen.stream),
            seen.account,
            seen.watermark,
            self.now,
            frozenset(seen.idle),
            self.read,
            seen.idle_partitions,
            target,
        )

    @property
    def _has_rows(self) -> bool:
        return self.account is not None and bool(self.account.totals.get("rows_in"))

    def lines(self) -> list[str]:
        name, account = self.stream.name, self.account
        if account is None:
            return [f"{name} has not run yet. db.tick() or db.start() runs it, or `eventide run` on the command line."]
        if not account.totals.get("rows_in"):
            below = [case for each in self._names if (case := self._upstream(each)) is not None]
            told = [line for case in below for line in case.lines()]
            return [f"{name}: no row has come in from {listed(self._names)}.", *self._filters(), *told]
        if self._gives_at_once:
            return [f"{name} is not waiting for anything: {self._gives_at_once}", *self._asides()]
        if account.totals.get("error", 0) == account.totals["rows_in"]:
            return [
                f"{name}: all {account.totals['rows_in']:,} rows that came in are errors, so nothing is open.",
                *self._about_errors(),
            ]
        if not self._open:
            return [f"{name}: nothing is open. {self._closed}", *self._asides()]
        lines = self._join_lines(self.stream.query) or [f"{name}: {self._oldest}", self._rule]
        if isinstance(self.stream.query, Join) and (gives_on_arrival(self.stream.query) or self._next is None):
            return [*lines, *self._asides()]
        return [*lines, *(self._by_clock() if self._is_clocked else self._by_rows()), *self._asides()]

    # What is open -------------------------------------------------------------------------------------------------

    @property
    def _gives_at_once(self) -> str | None:
        query, window = self.stream.query, window_of(self.stream.query)
        if isinstance(query, Forward) and not query.ordered:
            return "it has no window, and rows are emitted as they come."
        if isinstance(window, Unbounded):
            return "it has no window, and tells of a group in every batch that changes it."
        if isinstance(query, Rank | Over) and change_log_of(self.stream) is not None:
            return "it has no window, and every change is emitted in the batch that brings it."
        if isinstance(window, Slide) and window.lookahead is None:
            return "its windows only look back, and each result is emitted in the batch that brings its row."
        return None

    @property
    def _open(self) -> int:
        """How many windows, sessions or rows are waiting."""
        return sum(self._waiting.values())

    @property
    def _waiting(self) -> dict[str, int]:
        """The same by shard."""
        gauges = [
            (*gauge.partition("#")[::2], value)
            for gauge, value in (self.account.gauges if self.account else {}).items()
        ]
        of_joins = isinstance(self.stream.query, Join)  # theirs are rows, though they may have windows as well
        names = reversed(_OPEN) if of_joins else _OPEN
        wanted = next((name for name in names if any(gauge == name for gauge, _, _ in gauges)), None)
        return {shard: value for gauge, shard, value in gauges if gauge == wanted}

    @property
    def _next(self) -> int | None:
        """The watermark at which the first of them closes, if known; shards without any do not count."""
        if self.needed is not None:
            return self.needed
        gauges = self.account.gauges if self.account else {}
        due = [gauges.get(f"{NEXT_CLOSE}#{shard}") for shard, count in self._waiting.items() if count]
        return min((value for value in due if value is not None), default=None)

    @property
    def _oldest(self) -> str:
        window, lateness = window_of(self.stream.query), self.stream.emit.allowed_lateness
        if self._next is None or self._gives_twice:
            return f"{self._open:,} {self._what(self._open)} open."
        if window is None or isinstance(window, Unbounded):
            return f"the oldest row waiting for its turn has the time {at(self._next)}."
        if isinstance(window, Slide):
            return (
                f"the oldest row waiting for the rows after it has the time {at(self._next - (window.lookahead or 0))}."
            )
        if isinstance(window, Session):
            return f"the oldest open session ends at {at(self._next - lateness)}, unless more of its rows come."
        if isinstance(window, Calendar):
            return f"the oldest open window ends at {at(self._next - lateness)}."
        end, size = self._next - lateness, window.size
        is_part = isinstance(window, Cumulate)  # a cumulating window has grown to `size` only at its last step
        start = (end - 1 - window.offset) // size * size + window.offset if is_part else end - size
        return f"the oldest open window is [{at(start)}, {at(end)})."

    @property
    def _rule(self) -> str:
        window, lateness = window_of(self.stream.query), self.stream.emit.allowed_lateness
        late = f" + {format_duration(lateness)} allowed lateness" if lateness else ""
        if self._next is not None and self._gives_twice:
            return f"The first of them emits when the watermark reaches {at(self._next)}."
        if window is None:
            rule, end = "It is emitted when the watermark reaches {}", "its time"
        elif isinstance(window, Slide):
            rule, end = (
                "It is emitted when the watermark reaches {}",
                f"its time + {format_duration(window.lookahead or 0)} lookahead",
            )
        else:
            rule, end = "It closes when the watermark reaches {}", f"its end{late}"
        if self._next is None:
            return (
                rule.replace("It closes", "A window closes").replace("It leaves", "A row is emitted").format(end) + "."
            )
        return f"{rule.format(at(self._next))} ({end})."

    def _join_lines(self, query: Query) -> list[str]:
        """What a join keeps, and when it gives what; nothing for other queries."""
        if not isinstance(query, Join) or self.account is None:
            return []
        pairs = self.account.totals.get("pairs", 0)
        kept = f"{self.stream.name}: {kept_text(query, self.account.gauges)}; {pairs:,} pairs have been found."
        if gives_on_arrival(query):
            return [kept, f"{rule_text(query)} The watermark only decides how long rows are kept."]
        if self._next is None:
            return [kept, rule_text(query)]
        return [kept, rule_text(query), f"The next is due when the watermark reaches {at(self._next)}."]

    @property
    def _gives_twice(self) -> bool:
        """EMIT ON WATERMARK emits at a window's end and again until it closes: which comes next is not known."""
        return self.stream.emit.mode is EmitMode.ON_WATERMARK and self.stream.emit.allowed_lateness > 0

    def _what(self, count: int) -> str:
        window = window_of(self.stream.query)
        if window is None or isinstance(window, Slide):
            return "row is" if count == 1 else "rows are"
        noun = "session" if isinstance(window, Session) else "window"
        return f"{noun} is" if count == 1 else f"{noun}s are"

    @property
    def _closed(self) -> str:
        totals = self.account.totals if self.account else {}
        closed = totals.get("windows_closed", 0)
        if closed:
            return f"{closed:,} {'window has' if closed == 1 else 'windows have'} closed and emitted their results."
        return "Every row that came in has been emitted, or was not used."

    # What holds it back -------------------------------------------------------------------------------------------

    @property
    def _inputs(self) -> dict[str, Input]:
        return {input.source.name: input for input in self.physical.inputs}

    @property
    def _names(self) -> list[str]:
        return list(self._inputs)

    @property
    def _is_clocked(self) -> bool:
        return not any(isinstance(input.watermark, EventTimeWatermark) for input in self.physical.inputs)

    def _figures(self, source: str) -> Mapping[str, int]:
        return self.account.sources.get(source, {}) if self.account else {}

    def _by_clock(self) -> list[str]:
        running = "The stream must be running then (db.start()), or db.tick() must be called after that time."
        if self._next is None or self._next <= self.now:
            return [
                f"It runs on processing time, so the clock is the watermark, and it is {at(self.now)}: it is "
                f"due. {running}"
            ]
        left = format_duration((self._next - self.now) // 1000 * 1000)
        return [f"It runs on processing time, so the clock is the watermark: that is in {left}. {running}"]

    def _by_rows(self) -> list[str]:
        told = [
            f"The watermark is {at(self.watermark)}: {self._origin}."
            if self.watermark is not None
            else self._no_watermark
        ]
        target = self._next
        if target is not None and self.watermark is not None and self.watermark >= target:
            return [
                *told,
                "That is enough: it closes with the next batch. If the stream is not running, db.tick() or "
                "db.start() runs it.",
            ]
        behind = self._behind
        if not behind:
            return [*told, "Its sources are already past that: it closes with the next batch, which db.tick() runs."]
        below = {name: self._upstream(name) for name in behind}
        sources = [name for name in behind if below[name] is None]
        return [
            *told,
            *(line for name in sources for line in self._holder(name, target, alone=len(behind) == 1)),
            *(line for name in sources for line in self._partitions(name)),
            *(self._ways_out(sources) if sources else ()),
            *(line for case in below.values() if case is not None for line in case.wanted()),
        ]

    @property
    def _behind(self) -> list[str]:
        """The inputs whose watermark has not got as far as is needed."""
        target = self._next
        return [
            name for name in self._names if target is None or self._figures(name).get("watermark", target - 1) < target
        ]

    def wanted(self) -> list[str]:
        """What keeps the stream from getting as far as a reader needs."""
        name = self.stream.name
        if not self._has_rows:
            return self.lines()
        rule = (
            f"It reads {name}."
            if self.needed is None
            else f"It reads {name}, whose input must get to {at(self.needed)}."
        )
        return [rule, *(self._by_clock() if self._is_clocked else self._by_rows())]

    @property
    def _origin(self) -> str:
        known = {name: self._figures(name).get("watermark") for name in self._names}
        if len(known) == 1:
            name = self._names[0]
            top, lag = self._figures(name).get("max_timestamp_seen"), self._lag(name)
            if top is None or known[name] != top - lag:
                return f"that of {name}"
            return f"the newest time in {name}, {at(top)}" + (
                f", less the lag of {format_duration(lag)}" if lag else ""
            )
        each = [
            f"{name} ({'no rows yet' if watermark is None else at(watermark)})" for name, watermark in known.items()
        ]
        return f"the smallest of {listed(each)}"

    @property
    def _no_watermark(self) -> str:
        missing = [name for name in self._names if "watermark" not in self._figures(name)]
        if not missing:
            return "The watermark is not known yet: it moves with the next batch."
        least = ", and the watermark is the smallest of all sources" if len(self._names) > 1 else ""
        return (
            f"There is no watermark yet: {listed(missing)} {'has' if len(missing) == 1 else 'have'} had no "
            f"usable row{least}."
        )

    def _holder(self, name: str, target: int | None, alone: bool) -> list[str]:
        """What is missing from one source."""
        figures, lag = self._figures(name), self._lag(name)
        top, watermark = figures.get("max_timestamp_seen"), figures.get("watermark")
        less = f" and its lag is {format_duration(lag)}" if lag else ""
        if watermark is None:
            found = "it has had no usable row"
        elif top is None or watermark > top - lag:
            found = f"its watermark was set to {at(watermark)}"
        else:
            found = f"its newest row has the time {at(top)}{less}"
        what = "the join" if isinstance(self.stream.query, Join) else "it"
        until = (
            f", so its watermark holds the join at {at(watermark)}" if watermark is not None and what != "it" else ""
        )
        holds = (
            f"{name} holds {what} back: {found}{until}."
            if len(self._names) > 1 or watermark is None
            else f"{name} has not got that far: {found}."
        )
        if target is None:
            return [holds]
        needed = f"a row of {name} with a time of {at(target + lag)} or later" + (
            " would close it" if alone else " is needed"
        )
        return [holds, f"{needed[0].upper()}{needed[1:]}."]

    def _partitions(self, name: str) -> list[str]:
        lanes = self.account.lanes.get(name, {}) if self.account else {}
        idle = self.idle_partitions.get(name, ())
        return partition_lines(name, lanes, self._inputs[name].source.idle_timeout, at, idle)

    def _ways_out(self, behind: list[str]) -> list[str]:
        calls = listed([f"db.advance_watermark('{name}', {self._target_argument})" for name in behind])
        lines = [f"Or, if no earlier row follows: {calls}."]
        others = [name for name in self._names if name not in behind]
        for name in behind:
            timeout = self._inputs[name].source.idle_timeout
            if name in self.idle and others:
                lines.append(
                    f"{name} is idle (no row for {format_duration(timeout or 0)}): it will no longer "
                    "hold the others back."
                )
            elif timeout is not None and others:
                lines.append(
                    f"Or wait: after {format_duration(timeout)} without rows {name} no longer holds "
                    f"{listed(others)} back."
                )
            elif others:
                lines.append(
                    f"Or give {name} an idle_timeout: WITH ('idle_timeout' = '30 seconds'); then it holds "
                    "nobody back while it is silent."
                )
        if not others:
            lines.append("Or db.stop(): a graceful stop emits everything that is open.")
        return lines

    @property
    def _target_argument(self) -> str:
        return "ts" if self._next is None else str(-(-self._next // 1000))

    def _lag(self, name: str) -> int:
        watermark = self._inputs[name].watermark
        return watermark.lag if isinstance(watermark, EventTimeWatermark) else 0

    # What else may be the reason ----------------------------------------------------------------------------------

    def _asides(self) -> list[str]:
        totals = self.account.totals if self.account else {}
        lines = []
        mode, query = self.stream.emit.mode, self.stream.query
        if isinstance(query, WindowAggregate) and mode in (EmitMode.ON_UPDATE, EmitMode.CHANGES):
            lines.append(
                f"EMIT {mode.value.upper()} emits rows after each batch that changes them, before a window closes."
            )
        if isinstance(query, WindowAggregate) and query.having is not None:
            lines.append("HAVING filters out groups that do not meet it.")
        words = (
            ("late", "late"),
            ("error", "an error" if totals.get("error") == 1 else "errors"),
            ("rejected", "rejected"),
            ("shed", "shed"),
        )
        unused = [
            f"{totals[kind]:,} {'is' if totals[kind] == 1 else 'are'} {word}"
            for kind, word in words
            if totals.get(kind)
        ]
        if unused:
            lines.append(
                f"Of {totals.get('rows_in', 0):,} rows so far, {listed(unused)}: "
                f"db.side_output('{self.stream.name}') has them."
            )
        limits = {name: input.source.admission for name, input in self._inputs.items()}
        return [*lines, *limit_lines(limits, self.account.admission if self.account else {})]

    def _about_errors(self) -> list[str]:
        skews = sorted({input.source.max_future_skew for input in self.physical.inputs})
        ahead = listed([format_duration(skew) for skew in skews])
        return [
            f"A time that does not parse, or is more than {ahead} ahead of the clock, is an error and does not "
            "move the watermark.",
            f"db.side_output('{self.stream.name}', 'error') shows them; another EVENT TIME type or "
            "max_future_skew may help.",
        ]

    def _filters(self) -> list[str]:
        asked = [each for relation in relations_of(self.stream.query) for each in conditions(relation)]
        return [f"Rows that do not meet {listed(asked)} do not count."] if asked else []
