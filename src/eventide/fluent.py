"""The fluent API: a stream over any streaming DataFrame, in steps.

    eventide.stream(df, name="clicks").event_time("ts", type="unixtimestamp_ms", lag="5 seconds")
        .where("v > 0").group_by("k").window(eventide.tumble("10 seconds")).agg(n="count(*)", total="sum(v)")

Every step gives a new object and leaves the old one as it was. Expressions are Spark SQL or Columns. The steps are put
together to the SQL that says the same and lowered as SQL is, so that both give equal plans, and the same errors.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Union

from eventide.errors import EngineError, OptionError, suggest
from eventide.eventtime.durations import parse_duration
from eventide.plan.explain import explain
from eventide.plan.logical import EmitMode, LatePolicy, Slide, Source, Stream, Window, WindowAggregate
from eventide.plan.names import backticked, quoted
from eventide.plan.planner import plan
from eventide.plan.validate import validate
from eventide.sql.cursor import Cursor
from eventide.sql.dialect import tokenize
from eventide.sql.fragments import Assembled, Fragment, Literal, Part, checked, with_clause
from eventide.sql.lower import lower
from eventide.sql.parser import parse_statements
from eventide.sql.query import parse_query
from eventide.sql.statements import CreateSource, CreateStream
from eventide.sql.tokens import Span, calls
from eventide.sql.window_functions import window_of_call

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from eventide.spark.frames import FluentQuery, Sink

Duration = str | dt.timedelta
Expression = Union[str, "Column"]  # Spark SQL, or a Column of PySpark
Item = tuple[Part, ...]  # of a select list

_EMITS = {mode.value: mode for mode in EmitMode if mode is not EmitMode.EVERY}


def stream(df: DataFrame, name: str = "stream") -> FluentStream:
    """A stream of the rows of `df`, a streaming DataFrame of any Spark session that `eventide.configure` has prepared.

    `name` is how plans, errors and Spark's pages call it.
    """
    from eventide.connectors.dataframe.read import declared_columns

    origin = Origin(name, declared_columns(df), df)
    origin.source()
    return FluentStream((origin,), (backticked(name),))


# Windows --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowStep:
    """A window for `FluentStream.window`; made by `tumble`, `hop`, `session` and `slide`."""

    window: Window
    call: tuple[Part, ...]  # the SQL of it, in front of and behind the time column
    on: Expression | None = None


def tumble(size: Duration, *, offset: Duration | None = None, on: Expression | None = None) -> WindowStep:
    """Windows of `size`, one after the other. `on` is a timestamp expression to use in place of the event time."""
    return _window("tumble", {"size": size, "offset": offset}, on)


def hop(size: Duration, slide: Duration, *, offset: Duration | None = None, on: Expression | None = None) -> WindowStep:
    """Windows of `size`, one beginning every `slide`."""
    return _window("hop", {"size": size, "slide": slide, "offset": offset}, on)


def session(gap: Duration, *, on: Expression | None = None) -> WindowStep:
    """Windows that end when no row came for longer than `gap`."""
    return _window("session", {"gap": gap}, on)


def slide(lookback: Duration, lookahead: Duration | None = None) -> WindowStep:
    """For each row the rows up to `lookback` before it and `lookahead` after it."""
    back = parse_duration(_duration(lookback))
    if back == 0:
        raise OptionError("slide(lookback): the length of a window is above 0", help="write slide('10 seconds')")
    return WindowStep(Slide(back, None if lookahead is None else parse_duration(_duration(lookahead))), ())


def _window(function: str, lengths: Mapping[str, Duration | None], on: Expression | None) -> WindowStep:
    parts: list[Part] = []
    for name, length in lengths.items():
        if length is not None:
            parts += [f", {name.upper()} => ", Literal(f"{function}({name})", _duration(length))]
    time = checked(_fragment(f"{function}(on)", on)) if on is not None else "ts"
    text = Assembled(f"{function}()", f"{function.upper()}(", time, *parts, ")")
    with text.errors():
        call = next(calls(Span(text.text, tuple(tokenize(text.text)))))
        return WindowStep(window_of_call(call).window, (f"{function.upper()}(", time, *parts, ")"), on)


def _fragment(label: str, expression: Expression) -> Fragment:
    """An argument as a piece of SQL."""
    if isinstance(expression, str):
        return Fragment(label, expression)
    from eventide.spark.column_sql import column_sql

    return Fragment(label, column_sql(expression, label))


def _duration(value: Duration) -> str:
    if isinstance(value, dt.timedelta):
        return f"{value // dt.timedelta(microseconds=1)} microseconds"
    if not isinstance(value, str):
        raise OptionError(f"a duration is text or a timedelta, not {value!r}", help="write '10 seconds'")
    return value


# What a stream reads --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Origin:
    """A DataFrame as a source: its columns with their types, and what is declared of its rows' time."""

    name: str
    columns: tuple[tuple[str, str], ...]
    frame: DataFrame | None = None
    options: tuple[tuple[str, Literal], ...] = ()
    dedup: tuple[Part, ...] = ()

    def source(self) -> Source:
        """The source of the plan; raises what is wrong with it."""
        columns = [f"{quoted(name)} {type}" for name, type in self.columns]
        listed: list[Part] = [", ".join(columns), *self.dedup]
        options = with_clause(dict(self.options))
        text = Assembled(
            self.name, "CREATE SOURCE ", Fragment("name", backticked(self.name)), " (", *listed, ")", *options
        )
        with text.errors():
            (statement,) = parse_statements(text.text)
        if not isinstance(statement, CreateSource):
            raise EngineError(f"{text.text} is not a CREATE SOURCE")
        return replace(statement.source, connector="dataframe")


@dataclass(frozen=True)
class _Sources:
    """The part of a catalog that lowering needs."""

    sources: Mapping[str, Source]
    streams: Mapping[str, Stream] = field(default_factory=dict)


# The builder ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FluentStream:
    """See `stream`. The steps may come in the order in which the clauses of SQL take effect."""

    _origins: tuple[Origin, ...]
    _from: tuple[Part, ...]
    _filters: tuple[Fragment, ...] = ()
    _items: tuple[Item, ...] = ()
    _aggregates: tuple[Item, ...] = ()  # of `agg`, which puts the window and the keys in front
    _keys: tuple[Fragment, ...] = ()
    _window: WindowStep | None = None
    _having: Fragment | None = None
    _order: Fragment | None = None
    _emit: tuple[Part, ...] = ()
    _mode: EmitMode | None = None
    _lateness: tuple[Part, ...] = ()
    _options: tuple[tuple[str, Literal], ...] = ()

    # Rows and their time ------------------------------------------------------------------------------------------

    def event_time(
        self,
        column: str,
        type: str | None = None,
        lag: Duration | None = None,
        max_future_skew: Duration | None = None,
        idle_timeout: Duration | None = None,
    ) -> FluentStream:
        """Where a row's time is, how it is read (`eventide.event_time_types.list()`) and how late rows may come.

        Without `type` the column is a TIMESTAMP or DATE.
        """
        durations = {"watermark.lag": ("lag", lag), "max_future_skew": ("max_future_skew", max_future_skew)}
        durations["idle_timeout"] = ("idle_timeout", idle_timeout)
        given = [("eventtime.column", Literal("event_time(column)", column))]
        if type is not None:
            given.append(("eventtime.type", Literal("event_time(type)", type)))
        for option, (argument, value) in durations.items():
            if value is not None:
                given.append((option, Literal(f"event_time({argument})", _duration(value))))
        return self._redeclared("event_time", replace(self._origins[0], options=tuple(given)))

    def deduplicate(self, *columns: str, within: Duration) -> FluentStream:
        """Use one row for each value of `columns`; the others within that time are duplicates."""
        if not columns:
            raise OptionError("deduplicate() needs a column", help="write deduplicate('id', within='10 minutes')")
        names = ", ".join(quoted(column) for column in columns)
        length = Literal("deduplicate(within)", _duration(within))
        parts = (", DEDUPLICATE BY ", Fragment("deduplicate()", names), " WITHIN ", length)
        return self._redeclared("deduplicate", replace(self._origins[0], dedup=parts))

    def processing_time(self) -> FluentStream:
        """Let the time at which a row is processed count, whatever its event time."""
        return self._with_option("eventtime.enabled", "processing_time()", "false")

    # FROM, WHERE and SELECT ---------------------------------------------------------------------------------------

    def where(self, condition: Expression) -> FluentStream:
        """Keep the rows for which `condition` holds; several conditions must all hold."""
        if self._is_grouped:
            raise OptionError("where() comes before group_by() and window()", help="filter groups with having()")
        inner = self._nested() if self._items else self
        return replace(inner, _filters=(*inner._filters, checked(_fragment("where()", condition), "a condition")))

    def select(self, *items: Expression) -> FluentStream:
        """The columns to go on with; behind `group_by` and `window` what the stream gives, aggregates included."""
        if not items:
            raise OptionError("select() needs a column", help="write select('k', 'v * 2 AS w'), or select('*')")
        inner = self._nested() if self._items and not self._is_grouped else self
        return replace(
            inner, _items=tuple((checked(_fragment("select()", item)), "\n") for item in items), _aggregates=()
        )

    def union(self, other: FluentStream) -> FluentStream:
        """The rows of both, with the smaller of their watermarks. Columns go by position."""
        for one in (self, other):
            if one._is_grouped or one._order or one._options:
                raise OptionError("union() joins rows, before group_by(), window() and what comes behind them")
        twice = {origin.name.lower() for origin in self._origins} & {origin.name.lower() for origin in other._origins}
        if twice:
            raise OptionError(
                f"two streams are called {min(twice)}", help="give each one a name: eventide.stream(df, name='clicks')"
            )
        united = ("(", *self._select(), "\nUNION ALL ", *other._select(), ")")
        return FluentStream((*self._origins, *other._origins), united)

    # GROUP BY -----------------------------------------------------------------------------------------------------

    def group_by(self, *keys: Expression) -> FluentStream:
        """The keys of the groups: columns, or expressions such as `upper(x) AS u`."""
        fragments = tuple(checked(_fragment("group_by()", key)) for key in keys)
        inner = self._nested() if self._items and not self._is_grouped else self
        return replace(inner, _keys=(*inner._keys, *fragments))

    def window(self, window: WindowStep) -> FluentStream:
        """The window: `eventide.tumble`, `hop`, `session` or `slide`."""
        if not isinstance(window, WindowStep):
            raise OptionError(
                f"window() takes a window, not {window!r}", help="write window(eventide.tumble('10 seconds'))"
            )
        inner = self._nested() if self._items and not self._is_grouped else self
        return replace(inner, _window=window)

    def agg(self, *items: Expression, **named: Expression) -> FluentStream:
        """What to compute: `n="count(*)"`, or "count(*) AS n".

        The stream gives window_start, window_end, the keys and these, in this order; `select` gives another list.
        """
        if not items and not named:
            raise OptionError("agg() needs an aggregate", help="write agg(n='count(*)')")
        listed: list[Item] = [(checked(_fragment("agg()", item), "an aggregate"), "\n") for item in items]
        for name, item in named.items():
            listed.append((checked(_fragment(f"agg({name})", item), "an aggregate"), f"\n AS {backticked(name)}"))
        inner = self._nested() if self._items and not self._is_grouped else self
        return replace(inner, _items=(), _aggregates=tuple(listed))

    def having(self, condition: Expression) -> FluentStream:
        """Keep the groups for which `condition` holds; it may name aggregates and what the stream gives."""
        return replace(self, _having=checked(_fragment("having()", condition), "a condition"))

    def order_by(self, column: Expression) -> FluentStream:
        """Give rows in event-time order, as the watermark passes them; `column` is the event time."""
        return replace(self, _order=checked(_fragment("order_by()", column), "the event-time column"))

    # When rows leave, and what becomes of late ones ---------------------------------------------------------------

    def emit(self, mode: str | None = None, *, every: Duration | None = None) -> FluentStream:
        """When a window gives its rows: on window close, on update, on watermark, changes, final; or `every` so
        often.
        """
        if (mode is None) == (every is None):
            raise OptionError(
                "emit() takes a mode or every=", help="write emit('on update') or emit(every='5 seconds')"
            )
        if every is not None:
            parts: tuple[Part, ...] = ("\nEMIT EVERY ", Literal("emit(every)", _duration(every)))
            return replace(self, _emit=parts, _mode=EmitMode.EVERY)
        known = " ".join((mode or "").lower().split()).removeprefix("emit ")
        if known not in _EMITS:
            raise OptionError(f"emit(): there is no mode '{mode}'", help=suggest(known, _EMITS))
        return replace(self, _emit=("\nEMIT ", Fragment("emit()", known.upper())), _mode=_EMITS[known])

    def allow_lateness(self, lateness: Duration) -> FluentStream:
        """Keep windows open that long after their end."""
        return replace(self, _lateness=("\nALLOW LATENESS ", Literal("allow_lateness()", _duration(lateness))))

    def late_policy(self, policy: str, max_lateness: Duration | None = None) -> FluentStream:
        """window (the default), strict, or reassign with `max_lateness`."""
        if policy not in [known.value for known in LatePolicy]:
            raise OptionError(
                f"late_policy(): there is no policy '{policy}'",
                help=suggest(policy, [known.value for known in LatePolicy]),
            )
        kept = replace(self, _options=tuple(option for option in self._options if not option[0].startswith("late.")))
        chosen = kept._with_option("late.policy", "late_policy()", policy)
        if max_lateness is None:
            return chosen
        return chosen._with_option("late.max_lateness", "late_policy(max_lateness)", _duration(max_lateness))

    def max_groups(self, count: int) -> FluentStream:
        """How many groups a window may hold; rows of further ones are evicted."""
        return self._with_option("max_groups", "max_groups()", str(count))

    def shards(self, count: int) -> FluentStream:
        """Into how many parts the state is divided; must not change while a checkpoint is in use."""
        return self._with_option("shards", "shards()", str(count))

    # Results ------------------------------------------------------------------------------------------------------

    def plan(self) -> Stream:
        """The logical plan, equal to that of the same SQL. Raises what is wrong with it."""
        text = Assembled(self.name, *self._statement())
        with text.errors():
            (statement,) = parse_statements(text.text)
            if not isinstance(statement, CreateStream):
                raise EngineError(f"{text.text} is not a CREATE STREAM")
            made = lower(statement, _Sources({origin.name: origin.source() for origin in self._origins})).stream
        if self._window is not None and self._window.on is None and isinstance(made.query, WindowAggregate):
            made = replace(made, query=replace(made.query, window=self._window.window))
        validate(made)
        return made

    def explain(self) -> str:
        """The plan as a tree."""
        return explain(plan(self.plan()))

    @property
    def name(self) -> str:
        return self._origins[0].name

    def frames(self) -> dict[str, DataFrame]:
        """The DataFrames that it reads, by name."""
        return {origin.name: origin.frame for origin in self._origins if origin.frame is not None}

    def rows(self) -> DataFrame:
        """A streaming DataFrame of what the stream gives."""
        from eventide.spark.frames import rows

        return rows(self.plan(), self.frames())

    def side_output(self, kind: str | None = None) -> DataFrame:
        """A streaming DataFrame of the payloads of rows that the stream does not use, of one kind or of all."""
        from eventide.spark.frames import side_output

        return side_output(self.plan(), self.frames(), kind)

    def late(self) -> DataFrame:
        """The payloads of late rows."""
        return self.side_output("late")

    def tagged(self) -> DataFrame:
        """Everything in one streaming DataFrame: `__tag` (main, side, account), the columns of each."""
        from eventide.spark.frames import tagged

        return tagged(self.plan(), self.frames())

    def start(self, checkpoint: str, sink: Sink | None = None) -> FluentQuery:
        """Run the stream in the background: one query, one state, every row accounted for.

        For each batch `sink(rows, side, account)` is called with two DataFrames and the batch's account.
        """
        from eventide.spark.frames import start

        return start(self.plan(), self.frames(), checkpoint, sink)

    # Putting it together ------------------------------------------------------------------------------------------

    @property
    def _is_grouped(self) -> bool:
        return bool(self._keys) or self._window is not None

    def _redeclared(self, step: str, origin: Origin) -> FluentStream:
        if self._from != (backticked(self.name),) or self._items or self._is_grouped:
            raise OptionError(
                f"{step}() is about the DataFrame's own columns",
                help="let it come before select(), union() and group_by()",
            )
        origin.source()
        return replace(self, _origins=(origin,))

    def _with_option(self, option: str, label: str, value: str) -> FluentStream:
        rest = tuple(known for known in self._options if known[0] != option)
        return replace(self, _options=(*rest, (option, Literal(label, value))))

    def _select(self, items: tuple[Item, ...] | None = None) -> list[Part]:
        """SELECT ... FROM ... WHERE ..., the keys and what comes behind them left out."""
        parts: list[Part] = ["SELECT "]
        for number, item in enumerate(items or self._items or (("*",),)):
            parts += [", " if number else "", *item]
        parts += ["\nFROM ", *self._from]
        if len(self._filters) == 1:
            return [*parts, "\nWHERE ", *self._filters, "\n"]
        for number, condition in enumerate(self._filters):
            parts += ["\nAND (" if number else "\nWHERE (", condition, "\n)"]
        return parts

    def _nested(self) -> FluentStream:
        return replace(self, _from=("(", *self._select(), ")"), _items=(), _filters=())

    def _listed(self) -> tuple[Item, ...]:
        """What the stream gives."""
        if not self._aggregates:
            if self._is_grouped and not self._items:
                raise OptionError(
                    f"{self.name}: group_by() and window() alone give nothing", help="add agg(n='count(*)')"
                )
            return self._items
        if self._window is None:
            raise OptionError(
                f"{self.name}: agg() without a window would never give anything",
                help="add window(tumble('10 seconds'))",
            )
        operation: tuple[Item, ...] = (("op",),) if self._mode is EmitMode.CHANGES else ()
        return (("window_start",), ("window_end",), *operation, *((key, "\n") for key in self._keys), *self._aggregates)

    def _statement(self) -> list[Part]:
        options = with_clause(dict(self._options))
        parts: list[Part] = ["CREATE STREAM ", backticked(self.name), *options, " AS ", *self._select(self._listed())]
        groups: list[Item] = [(_expression(key), "\n") for key in self._keys]
        if self._window is not None:
            groups.append(self._window_call(self._window))
        for number, group in enumerate(groups):
            parts += [", " if number else "\nGROUP BY ", *group]
        for clause, condition in (("HAVING", self._having), ("ORDER BY", self._order)):
            if condition is not None:
                parts += [f"\n{clause} ", condition, "\n"]
        return [*parts, *self._emit, *self._lateness]

    def _window_call(self, step: WindowStep) -> tuple[Part, ...]:
        """The window as SQL. On the event time no column needs to be named, which SQL can say in two spellings only:
        one of them stands for all until `plan` puts the window itself in."""
        if step.on is not None:
            return step.call
        if not isinstance(step.window, Slide):
            return ("tumblingwindow('ms', 1)",)
        return ("slidingwindow('ms', 1)" if step.window.lookahead is None else "slidingwindow('ms', 1, 1)",)


def _expression(key: Fragment) -> Fragment:
    """A key without its alias."""
    text = f"SELECT {key.text}\nFROM x"
    item = parse_query(Cursor(Span(text, tuple(tokenize(text))))).selects[0].items[0]
    return Fragment(key.label, item.expression.text)
