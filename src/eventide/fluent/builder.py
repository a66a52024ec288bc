"""The fluent API: a stream over any streaming DataFrame, in steps.

    eventide.stream(df, name="clicks").event_time("ts", type="unixtimestamp_ms", lag="5 seconds")
        .where("v > 0").group_by("k").window(eventide.tumble("10 seconds")).agg(n="count(*)", total="sum(v)")

Every step returns a new object and leaves the old one as it was. Expressions are Spark SQL or Columns. The steps are
assembled into the equivalent SQL and lowered like any SQL, so that both have equal plans and the same errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eventide.admission.options import ADMISSION_OPTIONS
from eventide.errors import EngineError, OptionError, suggest
from eventide.fluent.expressions import Expression, fragment
from eventide.fluent.joins import JoinInput, asof_join, join, join_table
from eventide.fluent.origins import Origin, Sources
from eventide.fluent.tables import FluentTable
from eventide.fluent.windows import Duration, IntervalStep, WindowStep, duration_text
from eventide.plan.explain import explain
from eventide.plan.logical import Stream, Table, WindowAggregate
from eventide.plan.modes import EmitMode, LatePolicy
from eventide.plan.names import backticked, quoted
from eventide.plan.planner import plan
from eventide.plan.validate import validate
from eventide.plan.windows import Slide
from eventide.sql.cursor import Cursor
from eventide.sql.dialect import tokenize
from eventide.sql.fragments import Assembled, Fragment, Literal, Part, checked, with_clause
from eventide.sql.lower import lower
from eventide.sql.parser import parse_statements
from eventide.sql.query import parse_query
from eventide.sql.statements import CreateStream
from eventide.sql.tokens import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventide.spark.delivery import FrameSink
    from eventide.spark.frames import FluentQuery

Item = tuple[Part, ...]  # of a select list

_EMITS = {mode.value: mode for mode in EmitMode if mode is not EmitMode.EVERY}


def stream(df: DataFrame, name: str = "stream") -> FluentStream:
    """A stream of the rows of `df`, a streaming DataFrame of any Spark session that `eventide.configure` has prepared.

    `name` is used in plans, errors and Spark's UI.
    """
    from eventide.connectors.dataframe.read import declared_columns

    origin = Origin(name, declared_columns(df), df)
    origin.source()
    return FluentStream((origin,), (backticked(name),))


@dataclass(frozen=True)
class FluentStream:
    """See `stream`. Steps come in the order in which the clauses of SQL take effect."""

    _origins: tuple[Origin, ...]
    _from: tuple[Part, ...]
    _filters: tuple[Fragment, ...] = ()
    _items: tuple[Item, ...] = ()
    _aggregates: tuple[Item, ...] = ()  # from `agg`, which puts the window and the keys first
    _keys: tuple[Fragment, ...] = ()
    _window: WindowStep | None = None
    _having: Fragment | None = None
    _order: Fragment | None = None
    _emit: tuple[Part, ...] = ()
    _mode: EmitMode | None = None
    _lateness: tuple[Part, ...] = ()
    _options: tuple[tuple[str, Literal], ...] = ()
    _tables: tuple[Table, ...] = ()

    # Rows and their time ------------------------------------------------------------------------------------------

    def event_time(
        self,
        column: str,
        type: str | None = None,
        lag: Duration | None = None,
        max_future_skew: Duration | None = None,
        idle_timeout: Duration | None = None,
    ) -> FluentStream:
        """Which column holds a row's time, how to parse it (`eventide.event_time_types.list()`), and the watermark's
        lag.

        Without `type` the column is a TIMESTAMP or DATE.
        """
        durations = {"watermark.lag": ("lag", lag), "max_future_skew": ("max_future_skew", max_future_skew)}
        durations["idle_timeout"] = ("idle_timeout", idle_timeout)
        given = [("eventtime.column", Literal("event_time(column)", column))]
        if type is not None:
            given.append(("eventtime.type", Literal("event_time(type)", type)))
        for option, (argument, value) in durations.items():
            if value is not None:
                given.append((option, Literal(f"event_time({argument})", duration_text(value))))
        return self._redeclared("event_time", self._origins[0].with_options(given, _is_of_time))

    def admit(
        self,
        sla_class: str | None = None,
        *,
        max_lag: Duration | None = None,
        rate: float | str | None = None,
        burst: float | str | None = None,
        jitter_budget: Duration | None = None,
        token_cost: float | str | None = None,
    ) -> FluentStream:
        """What the source promises: rows at most `max_lag` old, at most `rate` a second with up to `burst` at once, no
        gap above `jitter_budget`. Other rows are payloads of kind `rejected`. A class sets what is not given.
        """
        spans = {"max_lag": max_lag, "jitter_budget": jitter_budget}
        texts = {name: None if value is None else duration_text(value) for name, value in spans.items()}
        figures = {
            "max_events_per_sec": ("rate", rate),
            "burst": ("burst", burst),
            "token_cost": ("token_cost", token_cost),
        }
        words = {
            "class": ("sla_class", sla_class),
            **{name: (name, text) for name, text in texts.items()},
            **{name: (argument, None if value is None else str(value)) for name, (argument, value) in figures.items()},
        }
        given = [
            (f"sla.{name}", Literal(f"admit({argument})", text))
            for name, (argument, text) in words.items()
            if text is not None
        ]
        if not given:
            raise OptionError("admit() needs a limit", help="write admit(max_lag='5 seconds', rate=100, burst=200)")
        return self._redeclared("admit", self._origins[0].with_options(given, _is_limit))

    def deduplicate(self, *columns: str, within: Duration) -> FluentStream:
        """Use one row per value of `columns`; others within that time are duplicates."""
        if not columns:
            raise OptionError("deduplicate() needs a column", help="write deduplicate('id', within='10 minutes')")
        names = ", ".join(quoted(column) for column in columns)
        length = Literal("deduplicate(within)", duration_text(within))
        parts = (", DEDUPLICATE BY ", Fragment("deduplicate()", names), " WITHIN ", length)
        return self._redeclared("deduplicate", replace(self._origins[0], dedup=parts))

    def processing_time(self) -> FluentStream:
        """Use the time at which a row is processed, whatever its event time."""
        return self._with_option("eventtime.enabled", "processing_time()", "false")

    # FROM, WHERE and SELECT ---------------------------------------------------------------------------------------

    def where(self, condition: Expression) -> FluentStream:
        """Keep the rows for which `condition` holds; several conditions must all hold."""
        if self._is_grouped:
            raise OptionError("where() comes before group_by() and window()", help="filter groups with having()")
        inner = self._nested() if self._items else self
        return replace(inner, _filters=(*inner._filters, checked(fragment("where()", condition), "a condition")))

    def select(self, *items: Expression) -> FluentStream:
        """The columns for the next steps; after `group_by` and `window`, the stream's select list, aggregates
        included.
        """
        if not items:
            raise OptionError("select() needs a column", help="write select('k', 'v * 2 AS w'), or select('*')")
        inner = self._nested() if self._items and not self._is_grouped else self
        return replace(
            inner, _items=tuple((checked(fragment("select()", item)), "\n") for item in items), _aggregates=()
        )

    def union(self, other: FluentStream) -> FluentStream:
        """The rows of both, with the smaller of their watermarks. Columns go by position."""
        parts = ("(", *self._select(), "\nUNION ALL ", *other._select(), ")")
        return self._together("union", other, parts)

    def join(
        self,
        other: FluentStream | FluentTable,
        on: str | Sequence[str],
        within: WindowStep | IntervalStep | tuple[WindowStep, WindowStep] | None = None,
        how: str = "inner",
    ) -> FluentStream:
        """Pairs of rows of both that meet in time; columns are named as in `clicks.k`, by the streams' names.

        `on` names columns that both have, or is a condition. `within` is a window, `eventide.interval(...)`, or a
        tumbling and a sliding window; without it `on` bounds the time. `how`: inner, left, right, full, semi, anti.
        Rows of an `eventide.table` are looked up, inner or left, without `within`.
        """
        if isinstance(other, FluentTable):
            self._refuse_more_than_rows("join")
            parts = join_table(self._side(), other.name, on, within, how)
            known = {**{table.name: table for table in self._tables}, other.name: other.definition}
            return FluentStream(self._origins, parts, _tables=tuple(known.values()))
        return self._together("join", other, join(self._side(), other._side(), on, within, how))

    def join_asof(
        self,
        other: FluentStream,
        on: str | Sequence[str],
        direction: str = "backward",
        tolerance: Duration | None = None,
        how: str = "inner",
        allow_exact_matches: bool = True,
    ) -> FluentStream:
        """For each row the closest one of `other`: backward (not later), forward (not earlier) or nearest."""
        sides = self._side(), other._side()
        parts = asof_join(*sides, on, direction, tolerance, how, allow_exact_matches)
        return self._together("join_asof", other, parts)

    # GROUP BY -----------------------------------------------------------------------------------------------------

    def group_by(self, *keys: Expression) -> FluentStream:
        """The keys of the groups: columns, or expressions such as `upper(x) AS u`."""
        fragments = tuple(checked(fragment("group_by()", key)) for key in keys)
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

        The stream has window_start, window_end, the keys and these, in this order; use `select` for any other list.
        """
        if not items and not named:
            raise OptionError("agg() needs an aggregate", help="write agg(n='count(*)')")
        listed: list[Item] = [(checked(fragment("agg()", item), "an aggregate"), "\n") for item in items]
        for name, item in named.items():
            listed.append((checked(fragment(f"agg({name})", item), "an aggregate"), f"\n AS {backticked(name)}"))
        inner = self._nested() if self._items and not self._is_grouped else self
        return replace(inner, _items=(), _aggregates=tuple(listed))

    def having(self, condition: Expression) -> FluentStream:
        """Keep the groups for which `condition` holds; it may use aggregates and the stream's columns."""
        return replace(self, _having=checked(fragment("having()", condition), "a condition"))

    def order_by(self, column: Expression) -> FluentStream:
        """Emit rows in event-time order, as the watermark passes them; `column` is the event time."""
        return replace(self, _order=checked(fragment("order_by()", column), "the event-time column"))

    # When rows are emitted, and what happens to late ones
    # ---------------------------------------------------------------

    def emit(self, mode: str | None = None, *, every: Duration | None = None) -> FluentStream:
        """When a window emits: on window close, on update, on watermark, changes, final; or `every` interval."""
        if (mode is None) == (every is None):
            raise OptionError(
                "emit() takes a mode or every=", help="write emit('on update') or emit(every='5 seconds')"
            )
        if every is not None:
            parts: tuple[Part, ...] = ("\nEMIT EVERY ", Literal("emit(every)", duration_text(every)))
            return replace(self, _emit=parts, _mode=EmitMode.EVERY)
        known = " ".join((mode or "").lower().split()).removeprefix("emit ")
        if known not in _EMITS:
            raise OptionError(f"emit(): there is no mode '{mode}'", help=suggest(known, _EMITS))
        return replace(self, _emit=("\nEMIT ", Fragment("emit()", known.upper())), _mode=_EMITS[known])

    def allow_lateness(self, lateness: Duration) -> FluentStream:
        """Keep windows open that long after their end."""
        return replace(self, _lateness=("\nALLOW LATENESS ", Literal("allow_lateness()", duration_text(lateness))))

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
        return chosen._with_option("late.max_lateness", "late_policy(max_lateness)", duration_text(max_lateness))

    def max_groups(self, count: int) -> FluentStream:
        """How many groups a window may hold; rows of further ones are evicted."""
        return self._with_option("max_groups", "max_groups()", str(count))

    def sum_overflow(self, policy: str) -> FluentStream:
        """`error`: a sum of whole numbers that BIGINT cannot hold is an error payload; `wrap`: it wraps around."""
        return self._with_option("sum.overflow", "sum_overflow()", policy)

    def shards(self, count: int) -> FluentStream:
        """How many parts the state is split into; must not change for the life of a checkpoint."""
        return self._with_option("shards", "shards()", str(count))

    # Results ------------------------------------------------------------------------------------------------------

    def plan(self) -> Stream:
        """The logical plan, equal to that of the same SQL. Raises an error for any mistake in the steps."""
        text = Assembled(self.name, *self._statement())
        with text.errors():
            (statement,) = parse_statements(text.text)
            if not isinstance(statement, CreateStream):
                raise EngineError(f"{text.text} is not a CREATE STREAM")
            sources = {origin.name: origin.source() for origin in self._origins}
            tables = {table.name: table for table in self._tables}
            lowered = lower(statement, Sources(sources, tables=tables))
        if lowered.inner:
            raise OptionError(
                "a stream over DataFrames is one query of Spark, and this would be several",
                help="write the rows of the first to a topic or files, and read them; or use SQL with db.execute",
            )
        made = lowered.stream
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
        """A streaming DataFrame of the rows that the stream emits."""
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
        """Everything in one streaming DataFrame: `__tag` (main, side, account), and the columns of each."""
        from eventide.spark.frames import tagged

        return tagged(self.plan(), self.frames())

    def start(self, checkpoint: str, sink: FrameSink | None = None) -> FluentQuery:
        """Run the stream in the background: one query, one state, every row accounted for.

        For each batch `sink(rows, side, account)` is called with two DataFrames and the batch's account.
        """
        from eventide.spark.frames import start

        return start(self.plan(), self.frames(), checkpoint, sink)

    # Putting it together ------------------------------------------------------------------------------------------

    @property
    def _is_grouped(self) -> bool:
        return bool(self._keys) or self._window is not None

    def _refuse_more_than_rows(self, step: str) -> None:
        if self._is_grouped or self._order or self._options or self._emit or self._lateness:
            raise OptionError(f"{step}() takes rows, before group_by(), window() and what comes after them")

    def _together(self, step: str, other: FluentStream, parts: tuple[Part, ...]) -> FluentStream:
        """What `parts` make of both; an error where one of them is more than rows, or where names are not unique."""
        for one in (self, other):
            one._refuse_more_than_rows(step)
        twice = {origin.name.lower() for origin in self._origins} & {origin.name.lower() for origin in other._origins}
        if twice:
            raise OptionError(
                f"two streams are called {min(twice)}", help="give each one a name: eventide.stream(df, name='clicks')"
            )
        return FluentStream((*self._origins, *other._origins), parts, _tables=(*self._tables, *other._tables))

    def _side(self) -> JoinInput:
        """This stream as one side of a join, under its name."""
        plain = self._from == (backticked(self.name),) and not self._items and not self._filters
        source = self._from if plain else ("(", *self._select(), ")")
        return JoinInput(source, self.name, self._origins[0].time_column)

    def _redeclared(self, step: str, origin: Origin) -> FluentStream:
        if self._from != (backticked(self.name),) or self._items or self._is_grouped:
            raise OptionError(
                f"{step}() applies to the DataFrame's own columns",
                help="put it before select(), union() and group_by()",
            )
        origin.source()
        return replace(self, _origins=(origin,))

    def _with_option(self, option: str, label: str, value: str) -> FluentStream:
        rest = tuple(known for known in self._options if known[0] != option)
        return replace(self, _options=(*rest, (option, Literal(label, value))))

    def _select(self, items: tuple[Item, ...] | None = None) -> list[Part]:
        """SELECT ... FROM ... WHERE ..., without the keys and what follows them."""
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
        """The stream's select list."""
        if not self._aggregates:
            if self._is_grouped and not self._items:
                raise OptionError(
                    f"{self.name}: group_by() and window() alone select nothing", help="add agg(n='count(*)')"
                )
            return self._items
        if self._window is None:
            raise OptionError(
                f"{self.name}: agg() without a window would never emit anything",
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
        """The window as SQL. A window on the event time names no column, which only two functions of the SQL allow: one
        of them is a placeholder until `plan` puts in the window itself.
        """
        if step.on is not None:
            return step.call
        if not isinstance(step.window, Slide):
            return ("tumblingwindow('ms', 1)",)
        return ("slidingwindow('ms', 1)" if step.window.lookahead is None else "slidingwindow('ms', 1, 1)",)


def _is_limit(option: str) -> bool:
    return option in ADMISSION_OPTIONS


def _is_of_time(option: str) -> bool:
    return not _is_limit(option)


def _expression(key: Fragment) -> Fragment:
    """A key without its alias."""
    text = f"SELECT {key.text}\nFROM x"
    item = parse_query(Cursor(Span(text, tuple(tokenize(text))))).selects[0].items[0]
    return Fragment(key.label, item.expression.text)
