"""The physical plan: the stages of one Spark streaming query, in the order in which rows pass them.

    input (scan, event time, steps, watermark, pack) ... each with a schema of its own
      -> shard -> intake per input -> operator -> finish (having, outputs) -> route

`planner.plan` makes it from a logical `Stream`; `spark.compile` turns it into DataFrames; `explain` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

from eventide.kernels.contract import CHANGE, OP
from eventide.plan.joins import JoinBound
from eventide.plan.logical import Column, Emit, Named, Source, Step, Stream, StreamOptions
from eventide.plan.modes import EmitMode, JoinKind, RankFunction
from eventide.plan.windows import Calendar, Frame, PanedWindow, Window
from eventide.tasks.expressions import Expression
from eventide.tasks.table_lookup import TableLookup


@dataclass(frozen=True)
class EventTimeWatermark:
    """W = max(event time) - lag, per source, or max(`carried`) where rows carry it; `time` is for EXPLAIN.

    `told`: rows never move it; the stream that gives them tells it. `by_partition`: the least over the partitions of
    the source, see `eventtime.lanes`; it is told when a batch has ended.
    """

    lag: int
    time: str
    carried: str | None = None
    told: bool = False
    by_partition: bool = False


@dataclass(frozen=True)
class ProcessTimeWatermark:
    """The event time of a row is the time at which its batch began."""


@dataclass(frozen=True)
class Fusion:
    """An input that tasks compute by themselves from the files: what they read and what they make of it."""

    columns: tuple[tuple[str, str], ...]  # that are read, by name and type
    time: str | None  # the column of the event time
    condition: Expression | None
    packed: tuple[tuple[str, Expression], ...]
    identity: Expression | None  # what tells a row from its re-delivery
    left_to_spark: bool = False  # tasks only read lines, and Spark makes rows of them
    lookup: TableLookup | None = None  # of rows that `condition` keeps


@dataclass(frozen=True)
class Input:
    """One thing that the query reads, and what becomes of its rows on their way to the operator.

    `steps` are the filters, projections and explosions behind the source, innermost first; `columns` is what they
    give, and the original event of a payload. `packed` are the columns that travel, each a Spark SQL expression
    over `columns`; equal expressions travel once. `keys` and `originals` pair the user's names with packed columns.
    `side` is 1 for the right side of a join, else 0.
    """

    source: Source
    columns: tuple[Column, ...]
    steps: tuple[Step, ...]  # their `input` fields are not to be read: the order is the tuple's
    time: str | None  # SQL override of the event time, over `columns`
    watermark: EventTimeWatermark | ProcessTimeWatermark
    packed: tuple[Named, ...]
    keys: tuple[Named, ...]  # name: user's name, sql: packed column
    originals: tuple[Named, ...]  # name: user's column, sql: packed column
    side: int = 0
    changes: str | None = None  # the packed column that says of rows of a change log whether they are taken back
    fusion: Fusion | None = None
    not_fused: str | None = None  # why files are read by Spark
    decoding: Fusion | None = None  # how tasks decode lines that Spark reads; None: Spark decodes too, or reads nothing


# Operators: what is done with the rows of the inputs --------------------------------------------------------------


@dataclass(frozen=True)
class PackedAggregate:
    """An aggregate over packed columns."""

    name: str  # "__a0"
    function: str
    inputs: tuple[str, ...]  # names of packed columns
    distinct: bool
    parameters: tuple[str, ...] = ()
    sql: str = ""  # the call as Spark would write it over the relation's columns: Spark tells its result type
    returns: str | None = None  # what it returns where Spark does not know the function


@dataclass(frozen=True)
class AggregateWindows:
    """Groups of rows by the inputs' keys and `window`."""

    window: Window
    aggregates: tuple[PackedAggregate, ...]


@dataclass(frozen=True)
class ForwardRows:
    """Rows as they come, or in event-time order; with `window` once for every window that holds them."""

    ordered: bool
    window: PanedWindow | Calendar | None = None


@dataclass(frozen=True)
class JoinRows:
    """Pairs of rows of side 0 and side 1 with equal keys. `left` and `right` name the columns of a pair.

    They pair "__l0", "__r0", ... with packed columns of that side; only those that `condition` or the outputs use.
    """

    kind: JoinKind
    bound: JoinBound
    null_safe: tuple[bool, ...]
    condition: str | None
    at_close: bool
    left: tuple[Named, ...]
    right: tuple[Named, ...]


@dataclass(frozen=True)
class SortColumn:
    column: str  # a packed column
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class ToldPlaces:
    """The places of which a change log tells, both ends included.

    `shows_place`: a row whose place changes is told anew. `shown` are packed columns in which rows differ to who reads
    them. Of rows that are equal in the order the last to come is the better if `latest_first`, else the first. A
    partition is forgotten when the watermark is `ttl` past its newest row.
    """

    first: int
    last: int
    shows_place: bool
    shown: tuple[str, ...]
    latest_first: bool
    ttl: int | None


@dataclass(frozen=True)
class RankRows:
    """The place of rows among those that agree in the inputs' keys, when their windows have closed; or, told as a
    change log, the rows of some places. With `window` in every window that holds them; of equal rows the last to come
    is then the better if `latest_first`.
    """

    function: RankFunction
    order: tuple[SortColumn, ...]
    told: ToldPlaces | None = None
    window: PanedWindow | Calendar | None = None
    latest_first: bool = False


@dataclass(frozen=True)
class OverRows:
    """Aggregates over a frame of rows that agree in the inputs' keys, in event-time order as the watermark passes them.

    With `order` as a change log, for rows in that order; `shown` are packed columns in which rows differ to who reads
    them.
    """

    frame: Frame
    aggregates: tuple[PackedAggregate, ...]
    ttl: int | None = None
    order: tuple[SortColumn, ...] = ()
    shown: tuple[str, ...] = ()


Operator = AggregateWindows | ForwardRows | JoinRows | RankRows | OverRows


@dataclass(frozen=True)
class Physical:
    """One streaming query. `outputs` and `having` are over what the operator gives."""

    stream: Stream
    plan_id: str  # hex, stable across machines and restarts; changes when the query means something else
    inputs: tuple[Input, ...]
    operator: Operator
    having: str | None
    outputs: tuple[Named, ...]
    emit: Emit
    options: StreamOptions

    @property
    def deduplicates(self) -> bool:
        return any(input.source.dedup is not None for input in self.inputs)

    @property
    def aggregates(self) -> tuple[PackedAggregate, ...]:
        return self.operator.aggregates if isinstance(self.operator, AggregateWindows | OverRows) else ()

    @property
    def change_column(self) -> str | None:
        """The column of the operator's rows that says which are taken back; None if they are no change log."""
        if isinstance(self.operator, ForwardRows):
            changes = self.inputs[0].changes
            return next((column.name for column in self.inputs[0].originals if column.sql == changes), None)
        if self.emit.mode is not EmitMode.CHANGES:
            return None
        return OP if isinstance(self.operator, AggregateWindows) else CHANGE

    @property
    def needs_arrival(self) -> bool:
        """Whether the operator must know in which order rows of a batch came."""
        in_order = isinstance(self.operator, ForwardRows) and self.operator.ordered
        ranked = self.operator if isinstance(self.operator, RankRows) else None
        in_turn = ranked is not None and (ranked.told is not None or ranked.window is not None)
        is_numbered = in_turn or isinstance(self.operator, JoinRows | OverRows)
        return in_order or self.deduplicates or is_numbered
