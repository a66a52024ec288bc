"""The physical plan: the stages of one Spark streaming query, in the order in which rows pass them.

    branch (scan, resolve event time, filter, project) ... one per source of a UNION ALL
      -> watermark -> pack -> shard -> kernel -> unpack -> finish (having, outputs) -> route

`planner.plan` makes it from a logical `Stream`; `spark.compile` turns it into DataFrames; `explain` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

from eventide.plan.logical import Emit, Named, Source, Step, Stream, StreamOptions, Window
from eventide.tasks.expressions import Expression


@dataclass(frozen=True)
class EventTimeWatermark:
    """W = max(event time) - lag, per source, or max(`carried`) where rows carry it; `time` is for EXPLAIN."""

    lag: int
    time: str
    carried: str | None = None


@dataclass(frozen=True)
class ProcessTimeWatermark:
    """The event time of a row is the time at which its batch began."""


@dataclass(frozen=True)
class Fusion:
    """A branch that tasks compute by themselves from the files: what they read and what they make of it."""

    columns: tuple[tuple[str, str], ...]  # that are read, by name and type
    time: str | None  # the column of the event time
    condition: Expression | None
    packed: tuple[tuple[str, Expression], ...]
    identity: Expression | None  # what tells a row from its re-delivery
    left_to_spark: bool = False  # tasks only read lines, and Spark makes rows of them


@dataclass(frozen=True)
class Branch:
    """One source of the query, and the steps between it and the operator, innermost first."""

    source: Source
    steps: tuple[Step, ...]  # their `input` fields are not to be read: the order is the tuple's
    watermark: EventTimeWatermark | ProcessTimeWatermark
    fusion: Fusion | None = None
    not_fused: str | None = None  # why files are read by Spark


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
class Physical:
    """One streaming query.

    `packed` are the columns that travel to the operator, each a Spark SQL expression over the branches' output
    columns; equal expressions travel once. `keys` and `originals` pair the user's names with packed columns.
    `window` is None for a query that forwards rows; then `outputs` name the user's columns.
    """

    stream: Stream
    plan_id: str  # hex, stable across machines and restarts; changes when the query means something else
    branches: tuple[Branch, ...]
    time: str | None  # SQL override of the event time, over the branches' output columns
    packed: tuple[Named, ...]
    keys: tuple[Named, ...]  # name: user's name, sql: packed column
    originals: tuple[Named, ...]  # name: user's column, sql: packed column
    aggregates: tuple[PackedAggregate, ...]
    window: Window | None
    ordered: bool
    having: str | None
    outputs: tuple[Named, ...]
    emit: Emit
    options: StreamOptions
