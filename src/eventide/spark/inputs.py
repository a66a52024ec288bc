"""One input of a query on Spark: its rows, their event time, filters and projections, and what travels to the operator.

Rows come from Spark, which hands them to Python for packing, or from a fused scan, whose tasks pack what they read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructType

from eventide.connectors.contract import BEGAN, PASSED, Scans, SourceContext, user_schema, with_hidden
from eventide.connectors.files import fused as fused_files
from eventide.connectors.kafka import fused as fused_topics
from eventide.connectors.readers import source_frame
from eventide.connectors.registry import reads
from eventide.connectors.stream import fused as fused_streams
from eventide.errors import EngineError, OptionError, SqlError
from eventide.eventtime.resolution import IS_NO_ROW
from eventide.kernels.contract import DEDUP, ORIGINAL, ROWTIME, SEQ, TS, WINDOW_END, WINDOW_START, WINDOW_TIME
from eventide.plan.logical import Explode, Lookup, Named, Project, Source, Step
from eventide.plan.names import backticked
from eventide.plan.pace import TARGET, pace_of
from eventide.plan.physical import EventTimeWatermark, ForwardRows, Fusion, Input, JoinRows, Physical
from eventide.plan.stream_source import is_stream
from eventide.plan.used_columns import used_columns
from eventide.spark import line_scan
from eventide.spark.analysis import REFUSED, Packed, check_step, first_sentence
from eventide.spark.exploding import exploded
from eventide.spark.guard import Guard
from eventide.spark.leaving_out import with_times_of_the_rest
from eventide.spark.lookup import looked_up, table_frame
from eventide.spark.pack import PACKED_SCHEMA, Packer, PassingPacker
from eventide.spark.resolve import CARRIED_WATERMARK, carried, override, resolve_scan
from eventide.spark.task_lookup import is_for_tasks, task_lookup
from eventide.tasks.early_shedding import goes_unseen
from eventide.tasks.fused_scan import FusedScan
from eventide.tasks.packing import HOW, KEPT, LANE, PACKED, Packing


class _Road(Protocol):
    """How tasks read the sources of a connector by themselves: a module of the connector."""

    def fused_scan(
        self, source: Source, fusion: Fusion, packing: Packing, numbered: bool, decodes: bool
    ) -> FusedScan: ...

    def scanned(self, spark: SparkSession, source: Source, number: int, scan: FusedScan, scans: Scans) -> DataFrame: ...

    def decoded(self, frame: DataFrame, source: Source, scan: FusedScan) -> DataFrame: ...


_ROADS: Mapping[str, _Road] = {"files": fused_files, "kafka": fused_topics}


@dataclass(frozen=True)
class SparkInput:
    """An input and its rows behind the steps, with what they carry; where tasks decode them an empty frame with the
    types.
    """

    number: int
    plan: Input
    rows: DataFrame
    fusion: Fusion | None  # of tasks that read
    inbox: DataFrame | None  # of the stream
    decoding: Fusion | None = None  # of tasks that Spark hands lines to
    spared: frozenset[str] = frozenset()  # packed columns that are not read: see `compile`

    @property
    def schema(self) -> StructType:
        return StructType([self.rows.schema[column.name] for column in self.plan.columns])


def open_input(
    context: SourceContext, number: int, physical: Physical, inbox: DataFrame | None, guard: Guard
) -> SparkInput:
    input = physical.inputs[number]
    fusion = _fusion(context, input)
    if fusion is not None and fusion.lookup is not None and not is_for_tasks(context, fusion.lookup):
        fusion = _left_to_spark(input)
    if fusion is not None and is_stream(input.source) and guard.is_on:
        fusion = None  # whatever raises is then evaluated by Spark
    if fusion is not None and guard.is_on and isinstance(physical.operator, ForwardRows):
        fusion = _guarded(input, fusion)
    decoding = _decoding(context, physical, input, guard) if fusion is None else None
    if fusion is None and decoding is None:
        reading = context if _goes_unseen(input) else replace(context, orders=None)
        rows = source_frame(reading, input.source, inbox, used_columns(input))
    else:
        rows = _no_rows(context, input.source)
    return SparkInput(number, input, _stepped(context, input, rows, guard), fusion, inbox, decoding)


def _no_rows(context: SourceContext, source: Source) -> DataFrame:
    """With the types that the source has; raises what keeps it from being read."""
    schema = user_schema(source)
    rows = with_hidden(context.spark.createDataFrame([], schema), schema, F.lit(None), F.lit(None))
    if is_stream(source):
        return rows.withColumn(BEGAN, F.lit(None).cast("bigint"))
    reads(source.connector).ready(source)
    return rows


def _goes_unseen(input: Input) -> bool:
    """Whether rows of the input may be shed before they are decoded."""
    spec = input.source.admission
    is_free = input.source.dedup is None and all(isinstance(step, Project) for step in input.steps)
    return spec is not None and is_free and goes_unseen(spec)


def common_schema(inputs: list[SparkInput]) -> StructType:
    """The columns of one side: of several inputs, which are a UNION ALL, with the types that Spark gives the union."""
    names = [column.name for column in inputs[0].plan.columns]
    try:
        return reduce(DataFrame.union, [each.rows.select(*map(backticked, names)) for each in inputs]).schema
    except AnalysisException as error:
        raise SqlError(
            f"UNION ALL: {first_sentence(error)}", help="cast the columns to one type in the branches"
        ) from None


def fits(input: SparkInput, packed: Packed) -> bool:
    """Whether a fused scan's columns have the types that Spark gives them."""
    scan = input.fusion or input.decoding
    columns = () if scan is None else scan.packed
    return all(packed[name].dataType.simpleString() == expression.type for name, expression in columns)


def unfused(physical: Physical, numbers: Iterable[int]) -> Physical:
    """The plan with the files of these inputs read by Spark."""
    inputs = [
        replace(input, fusion=None, decoding=None) if number in numbers else input
        for number, input in enumerate(physical.inputs)
    ]
    return replace(physical, inputs=tuple(inputs))


def unshared(physical: Physical, cast: tuple[frozenset[str], ...]) -> Physical:
    """The plan with a column for what is shown of a key, and another for what is compared, where a key is cast."""
    changed = [_unshared(input, cast[input.side]) for input in physical.inputs]
    renamed = {input.side: names for input, names in changed}
    if not any(renamed.values()) or not isinstance(physical.operator, JoinRows):
        return physical
    left, right = (
        tuple(replace(column, sql=renamed[side].get(column.sql, column.sql)) for column in columns)
        for side, columns in enumerate((physical.operator.left, physical.operator.right))
    )
    operator = replace(physical.operator, left=left, right=right)
    return replace(physical, inputs=tuple(input for input, _ in changed), operator=operator)


def _unshared(input: Input, cast: frozenset[str]) -> tuple[Input, dict[str, str]]:
    """The input, and the new names of packed columns that were keys and originals in one."""
    shared = sorted(cast & {original.sql for original in input.originals})
    if not shared:
        return input, {}
    sql = {column.name: column.sql for column in input.packed}
    first = sum(name.startswith(ORIGINAL) for name in sql)
    renamed = {name: f"{ORIGINAL}{first + number}" for number, name in enumerate(shared)}
    added = [Named(new, sql[name]) for name, new in renamed.items()]
    originals = tuple(replace(each, sql=renamed.get(each.sql, each.sql)) for each in input.originals)
    return replace(input, packed=(*input.packed, *added), originals=originals, fusion=None, decoding=None), renamed


def packed_rows(
    context: SourceContext,
    physical: Physical,
    input: SparkInput,
    schema: StructType,
    packed: Packed,
    packing: Packing,
    decodes: bool,
    guard: Guard,
) -> DataFrame:
    """The input's rows as PACKED. `schema` and `packed` are the types of its side's columns and packed columns.

    With `decodes` Spark decodes, behind a fused scan, what only it can.
    """
    source, stream = input.plan.source, None if context.inbox is None else str(context.inbox.parent)
    if input.fusion is None and input.decoding is None:
        rows = _to_pack(physical, input.plan, input.rows, schema, packed, guard, input.spared)
        return rows.drop(PASSED).mapInArrow(Packer(packing, stream=stream), PACKED_SCHEMA)
    scan = fused_scan(context, physical, input, packing, decodes)
    if is_stream(source) and input.inbox is not None:
        return fused_streams.scanned(context, source, scan, input.inbox)
    road = _ROADS[source.connector]
    if input.decoding is not None or context.scans is None:
        frame = line_scan.scanned(context, source, scan, stream)
    else:
        frame = road.scanned(context.spark, source, input.number, scan, context.scans)
    if not scan.leaves_lines or (source.connector == "files" and source.options.get("format") == "parquet"):
        return frame.select(*PACKED.names)
    lines = _stepped(context, input.plan, road.decoded(frame, source, scan), guard)
    rows = _to_pack(physical, input.plan, lines, schema, packed, guard)
    return rows.mapInArrow(PassingPacker(replace(scan.packing, prefold=None, forwarding=None), PASSED), PACKED_SCHEMA)


def fused_scan(
    context: SourceContext, physical: Physical, input: SparkInput, packing: Packing, decodes: bool
) -> FusedScan:
    """What tasks do with the files, messages or lines of the input."""
    source, fusion = input.plan.source, input.fusion or input.decoding
    if fusion is None:
        raise EngineError(f"source {source.name} is read by Spark")
    is_numbered = physical.needs_arrival or source.admission is not None
    decodes = decodes or fusion.left_to_spark
    made_by = fused_streams.fused_scan if is_stream(source) else _ROADS[source.connector].fused_scan
    scan = made_by(source, fusion, packing, is_numbered, decodes)
    return scan if fusion.lookup is None else replace(scan, lookup=task_lookup(context, fusion.lookup))


def _fusion(context: SourceContext, input: Input) -> Fusion | None:
    """How the input's files, or messages, are read by tasks; None if Spark reads them."""
    source = input.source
    if is_stream(source):
        return input.fusion
    if context.scans is None or source.connector not in _ROADS:
        return None
    if source.connector == "kafka":
        return input.fusion or _left_to_spark(input)
    if input.fusion is not None:
        return input.fusion
    if pace_of(source) is None:
        return None
    if source.options.get("format", "json") == "parquet":
        option = TARGET if TARGET in source.options else "'shed.policy' = 'prefer_throttle'"
        raise OptionError(
            f"source {source.name}: {option} is for files that tasks can read by themselves, and here "
            f"{input.not_fused}",
            help=f"leave {option} out, and bound batches with max_files_per_batch",
        )
    return _left_to_spark(input)


def _decoding(context: SourceContext, physical: Physical, input: Input, guard: Guard) -> Fusion | None:
    """How tasks decode the lines that Spark reads; None if Spark decodes too."""
    if input.decoding is None or not context.streaming or (guard.is_on and isinstance(physical.operator, ForwardRows)):
        return None
    return input.decoding if line_scan.has_all_columns(context, input.source) else None


def _guarded(input: Input, fusion: Fusion) -> Fusion:
    """Of rows that are forwarded, Spark evaluates the select list before they are packed: a row for which it raises is
    an error then, as it is where Spark reads. Parquet is read as columns, and not handed over.
    """
    is_columnar = input.source.options.get("format", "json") == "parquet"
    return fusion if is_columnar else _left_to_spark(input)


def _left_to_spark(input: Input) -> Fusion:
    used = used_columns(input)
    columns = tuple((column.name, column.type) for column in input.source.columns if column.name in used)
    return Fusion(columns, None, None, (), None, left_to_spark=True)


def _stepped(context: SourceContext, input: Input, rows: DataFrame, guard: Guard) -> DataFrame:
    """Event time, filters and projections; rows that a fused scan has packed pass."""
    is_event_time = isinstance(input.watermark, EventTimeWatermark)
    frame = resolve_scan(rows, input.source, user_schema(input.source), is_event_time, guard)
    for step in input.steps:
        try:
            frame = _after(context, input, step, frame, PASSED in rows.columns, guard)
        except REFUSED:
            check_step(frame, step)
            raise
    return frame


def _after(
    context: SourceContext, input: Input, step: Step, frame: DataFrame, some_passed: bool, guard: Guard
) -> DataFrame:
    if isinstance(step, Explode):
        frame, (elements,) = guard.of_rows(frame, [Named("elements", step.sql)])
        return exploded(frame, guard.cleared(frame).columns, step, elements, partial(_kept, input))
    if isinstance(step, Lookup):
        return looked_up(frame, step, table_frame(context, step), carried(input.source), partial(_kept, input))
    if isinstance(step, Project):
        frame, values = guard.of_rows(frame, step.columns)
        columns = [value.alias(c.name) for value, c in zip(values, step.columns, strict=True)]
        return frame.select(*columns, *carried(input.source))
    frame, (condition,) = guard.of_rows(frame, [Named("condition", step.condition)])
    keeps = (F.col(HOW) >= IS_NO_ROW) | condition
    return guard.cleared(_kept(input, frame, keeps | F.col(PASSED).isNotNull() if some_passed else keeps))


def _kept(input: Input, frame: DataFrame, keeps: Column) -> DataFrame:
    """The rows that a step keeps. Limits of the source judge the others as well. Their time counts, unless the query
    itself says what the time is of the rows that it takes.
    """
    if input.source.admission is not None:
        return frame.withColumn(KEPT, F.coalesce(F.when(F.col(KEPT), keeps), F.lit(False)))
    if input.time is not None:
        return frame.where(keeps)
    return with_times_of_the_rest(frame, keeps, carried(input.source))


def _to_pack(
    physical: Physical,
    input: Input,
    rows: DataFrame,
    schema: StructType,
    packed: Packed,
    guard: Guard,
    spared: frozenset[str] = frozenset(),
) -> DataFrame:
    """The columns that travel to the operator, and those beside them that it needs."""
    extra = carried(input.source)
    frame = rows.select(*[F.col(backticked(f.name)).cast(f.dataType).alias(f.name) for f in schema.fields], *extra)
    if input.time is not None:
        frame = override(frame, schema.names, input.time, input.source.max_future_skew, guard)
    if isinstance(physical.operator, ForwardRows) and guard.is_on:
        # what the select list makes of a row is known behind the operator, where the row has been used
        timed = frame.withColumn(ROWTIME, F.timestamp_micros(TS))
        if physical.operator.window is not None:  # what is made of the bounds is known when they are
            unknown = F.lit(None).cast("timestamp")
            timed = timed.withColumns(dict.fromkeys((WINDOW_START, WINDOW_END, WINDOW_TIME), unknown))
        frame = guard.cleared(guard.of_rows(timed, physical.outputs)[0])
    travelling = [named for named in input.packed if named.name not in spared]
    frame, values = guard.of_rows(frame, travelling)
    columns = [
        value.cast(packed[named.name].dataType).alias(named.name)
        for value, named in zip(values, travelling, strict=True)
    ]
    frame = frame.select(*extra, *columns).drop(BEGAN)
    if not _has_lanes(input):
        frame = frame.drop(LANE)
    if not physical.needs_arrival and input.source.admission is None:
        frame = frame.drop(SEQ)
    if input.source.dedup is None:
        frame = frame.drop(DEDUP)
    if not isinstance(input.watermark, EventTimeWatermark) or input.watermark.carried is None:
        frame = frame.drop(CARRIED_WATERMARK)
    return frame


def _has_lanes(input: Input) -> bool:
    return isinstance(input.watermark, EventTimeWatermark) and input.watermark.by_partition
