"""The logical plan: what a stream means, free of how it runs.

Nodes are immutable and hold no behaviour. Scalar expressions are Spark SQL text that names the columns of the node's
input; Spark evaluates them. All durations and offsets are microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eventide.admission.options import AdmissionSpec
from eventide.plan.joins import JoinBound
from eventide.plan.modes import EmitMode, JoinKind, LatePolicy, RankFunction
from eventide.plan.side_output import Route
from eventide.plan.trigger import Trigger
from eventide.plan.windows import Calendar, Frame, PanedWindow, Window


@dataclass(frozen=True)
class Column:
    name: str
    type: str  # Spark DDL, lower case: "bigint", "decimal(10,2)", "struct<a:int>"


@dataclass(frozen=True)
class EventTime:
    column: str  # a column, or message.field for a column that holds a message
    type: str  # a name in the event-time type registry


@dataclass(frozen=True)
class Dedup:
    columns: tuple[str, ...]  # a column, or column.field of one that is a struct
    within: int


@dataclass(frozen=True)
class Source:
    """CREATE SOURCE. Options that have a field of their own here are not in `options`."""

    name: str
    columns: tuple[Column, ...]
    connector: str = "embedded"
    event_time: EventTime | None = None
    watermark_lag: int | None = None  # None: not declared, which means 0
    watermark_sql: str | None = None  # an expression that carries the watermark, in place of event time - lag
    messages: tuple[EventTime, ...] = ()  # one per message, where rows hold several; `event_time` is then the first
    dedup: Dedup | None = None
    idle_timeout: int | None = None
    keep: int | None = (
        None  # how long written rows are kept that all streams have taken, in microseconds; None: for ever
    )
    max_future_skew: int = 300_000_000
    refuses_empty_rows: bool = False  # whether a row in which every declared column is NULL is an error
    admission: AdmissionSpec | None = None  # None: every row is admitted
    metadata: Mapping[str, str] = field(default_factory=dict)  # columns that are no part of a message's content
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """CREATE TABLE: rows that are looked up, read anew every `refresh`; None: only when somebody asks for it."""

    name: str
    columns: tuple[Column, ...]
    connector: str = "files"
    refresh: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Named:
    """An expression and the name of the column that it gives."""

    name: str
    sql: str


# Relations: what stands in FROM and WHERE -----------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    source: Source
    watermark_lag: int | None = None  # set by FROM STREAM s WATERMARK ... or WATERMARK(...), in place of the source's
    alias: str | None = None


@dataclass(frozen=True)
class Filter:
    input: Relation
    condition: str


@dataclass(frozen=True)
class Project:
    input: Relation
    columns: tuple[Named, ...]


@dataclass(frozen=True)
class Explode:
    """A row for every element of the array or map `sql`, which `names` hold; `position` puts its number in front.

    A row without elements is left out, unless it is `outer`.
    """

    input: Relation
    sql: str
    names: tuple[str, ...]
    outer: bool = False
    position: bool = False


@dataclass(frozen=True)
class Lookup:
    """Each row with every row of `table` for which `condition` holds; without any it is left out, unless it is `outer`.

    `names` are what the table's columns are called from here on, and in `condition`.
    """

    input: Relation
    table: Table
    condition: str
    names: tuple[str, ...]
    outer: bool = False


@dataclass(frozen=True)
class Union:
    inputs: tuple[Relation, ...]


Step = Filter | Project | Explode | Lookup
Relation = Scan | Step | Union


@dataclass(frozen=True)
class Emit:
    mode: EmitMode = EmitMode.ON_WINDOW_CLOSE
    every: int | None = None
    allowed_lateness: int = 0
    late_to: str | None = None


@dataclass(frozen=True)
class AggregateCall:
    """`function` over Spark SQL `inputs`, its result named `name`.

    FILTER has become part of the inputs: each is NULL where the condition does not hold. Where a NULL counts as a value
    (first, last, aggregates of the user's own) the condition is one more input, and the parameter FILTERED says so.
    """

    name: str  # "__a0", "__a1", ...
    function: str  # lower case: count, sum, min, max, avg, ...
    inputs: tuple[str, ...]  # empty for count(*)
    distinct: bool = False
    parameters: tuple[str, ...] = ()
    returns: str | None = None  # Spark DDL; only for an aggregate that the user has defined


# Queries --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowAggregate:
    """Rows of `input`, grouped by `keys` and `window`.

    `outputs` and `having` name the columns __k0.. (keys, in order), __a0.. (aggregates), window_start, window_end,
    window_id, emit_epoch and op. `time` is the SQL expression that overrides the sources' event time, or None.
    `columns` are the columns of `input`, in order: the original event of a side-output payload. `changes` is the column
    that says of the rows of a change log whether they are added (1) or taken back (-1); None if `input` is none.
    """

    input: Relation
    columns: tuple[Column, ...]
    window: Window
    keys: tuple[Named, ...]
    aggregates: tuple[AggregateCall, ...]
    outputs: tuple[Named, ...]
    having: str | None = None
    time: str | None = None
    changes: str | None = None


@dataclass(frozen=True)
class Forward:
    """Rows of `input` as they come, or in event-time order when `ordered`; `outputs` name columns of `input`.

    With `changes`, as in `WindowAggregate`, what is forwarded is a change log as well. With `window` a row comes once
    for every window that holds it; `outputs` and `where` then name window_start, window_end and window_time, too.
    """

    input: Relation
    columns: tuple[Column, ...]
    outputs: tuple[Named, ...]
    ordered: bool = False
    time: str | None = None
    changes: str | None = None
    window: PanedWindow | Calendar | None = None
    where: str | None = None  # only with `window`; what names columns of `input` alone is a part of that


@dataclass(frozen=True)
class JoinSide:
    """One side of a join. `keys` are Spark SQL over `columns`; the sides have equally many."""

    input: Relation
    columns: tuple[Column, ...]  # of `input`, in order: the original event of a side-output payload
    keys: tuple[str, ...]
    time: str | None = None  # the SQL expression that overrides the sources' event time
    changes: str | None = None  # the column that says which rows of a change log are taken back


@dataclass(frozen=True)
class Join:
    """Pairs of rows with equal keys that meet in time, and, as `kind` says, rows that have no partner.

    `condition`, `where` and `outputs` name the columns __l0.. and __r0.. (those of the sides, in order), __time (the
    event time of a pair) and, where the bound has windows, window_start, window_end and window_id. `condition` takes
    part in the matching, `where` filters what comes out. `null_safe` says of each key whether NULL equals NULL.
    """

    left: JoinSide
    right: JoinSide
    kind: JoinKind
    bound: JoinBound
    outputs: tuple[Named, ...]
    null_safe: tuple[bool, ...] = ()
    condition: str | None = None
    where: str | None = None
    at_close: bool = False  # pairs wait until their window closes


@dataclass(frozen=True)
class SortItem:
    sql: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class Rank:
    """Rows of `input` with their place among those that agree in `partition`.

    `where` and `outputs` name columns of `input`, and __place. With `windowed` a row comes when no further one can come
    on time. Without, a change log tells which rows have the places that `where` lets through; of equal rows the last to
    come is the better if `latest_first`. It has __op, too; `ttl` is how long a partition outlives its newest row.
    With `window` rows are ranked in every window that holds them, as if its bounds were part of `partition`; `where`
    and `outputs` name window_start, window_end and window_time, too.
    """

    input: Relation
    columns: tuple[Column, ...]
    function: RankFunction
    partition: tuple[str, ...]
    order: tuple[SortItem, ...]
    outputs: tuple[Named, ...]
    where: str | None = None
    time: str | None = None
    windowed: bool = True
    latest_first: bool = False
    ttl: int | None = None
    changes: str | None = None
    window: PanedWindow | Calendar | None = None


@dataclass(frozen=True)
class Over:
    """Rows of `input` in event-time order, each with aggregates over a frame of those before it that agree with it in
    `partition`, when no earlier row can come on time. With `order` a change log instead: rows in that order, emitted
    again when their frame changes; it has __op, too.

    `where` and `outputs` name columns of `input`, and __a0.. (aggregates). `ttl` is how long what is kept of a
    partition outlives its newest row.
    """

    input: Relation
    columns: tuple[Column, ...]
    partition: tuple[str, ...]
    frame: Frame
    aggregates: tuple[AggregateCall, ...]
    outputs: tuple[Named, ...]
    where: str | None = None
    time: str | None = None
    ttl: int | None = None
    order: tuple[SortItem, ...] = ()
    changes: str | None = None


Query = WindowAggregate | Forward | Join | Rank | Over


@dataclass(frozen=True)
class StreamOptions:
    late_policy: LatePolicy = LatePolicy.WINDOW
    max_lateness: int | None = None
    max_groups: int | None = None
    shards: int | None = None
    event_time: bool = True  # False ('eventtime.enabled' = 'false'): the time at which a row is processed counts
    fused_scan: bool = True  # whether tasks may read files by themselves; changes no outcome
    fusion_depth: int | None = None  # how many stages may run as one; None: any number. Changes no outcome
    checked_sums: bool = False  # whether a sum of integers that BIGINT cannot hold is an error, or wraps around
    # how long rows and payloads are kept that all have read, in microseconds; None: for ever. Changes no outcome
    keep: int | None = None
    trigger: Trigger = field(default_factory=Trigger)  # when batches begin in the background; changes no outcome


@dataclass(frozen=True)
class Stream:
    name: str
    query: Query
    emit: Emit = Emit()
    options: StreamOptions = StreamOptions()
    routes: Mapping[str, Route] = field(default_factory=dict)  # of side output, by kind


@dataclass(frozen=True)
class Sink:
    name: str
    stream: str | None  # a stream, or stream$late, or the name in LATE DATA TO; None: side outputs name it
    connector: str
    options: Mapping[str, str] = field(default_factory=dict)
