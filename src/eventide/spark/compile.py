"""From a physical plan to a streaming DataFrame: the only place that knows all stages in their order."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, StringType, StructField, StructType

from eventide.errors import SqlError
from eventide.kernels.contract import DEDUP, OP, PROBLEM, SEQ, TS, WINDOW_END, WINDOW_START, KernelSpec
from eventide.plan.logical import EmitMode, Filter, Tumble
from eventide.plan.meeting import Meet, meeting
from eventide.plan.physical import Branch, EventTimeWatermark, Physical
from eventide.spark.analysis import Analyzed, analyze, first_sentence
from eventide.spark.kernels import kernel_spec
from eventide.spark.pack import ACCOUNT, KIND, PACKED_SCHEMA, RANK, SHARD, SIDE, TAG, TAGGED_SCHEMA, Packer, Unpacker
from eventide.spark.processor import SIDE_OUTPUT_SCHEMA, ShardProcessor
from eventide.spark.resolve import CARRIED, MARK, UNDECODABLE, override, resolve_scan
from eventide.spark.sharding import shard_numbers
from eventide.spark.sources.common import SourceContext, user_schema
from eventide.spark.sources.embedded import inbox_frame
from eventide.spark.sources.registry import source_frame
from eventide.spark.types import to_arrow_schema

WINDOW_ID = "window_id"


@dataclass(frozen=True)
class Compiled:
    """A stream that is ready to start. `frame` has TAG, the output columns, SIDE and ACCOUNT."""

    frame: DataFrame
    spec: KernelSpec
    outputs: pa.Schema
    originals: pa.Schema
    ordered: bool


@dataclass(frozen=True)
class WindowIds:
    """Adds WINDOW_ID = hash(plan_id, start, end in nanoseconds): one hash per distinct window, not per row."""

    plan_id: str

    def __call__(self, table: pa.Table) -> pa.Table:
        starts = table[WINDOW_START].cast(pa.int64()).to_pylist()
        ends = table[WINDOW_END].cast(pa.int64()).to_pylist()
        known: dict[tuple[int | None, int | None], str | None] = {(None, None): None}
        for pair in zip(starts, ends, strict=True):
            if pair not in known:
                text = f"{self.plan_id}:{pair[0] * 1000}:{pair[1] * 1000}"
                known[pair] = hashlib.sha256(text.encode()).hexdigest()[:32]
        ids = pa.array([known[pair] for pair in zip(starts, ends, strict=True)], pa.string())
        return table.append_column(WINDOW_ID, ids)


def compile_stream(physical: Physical, context: SourceContext, shards: int) -> Compiled:
    """Build the whole query. Raises a clear error for whatever Spark's analysis refuses; starts nothing."""
    inbox = inbox_frame(context)
    frames = [_branch(context, branch, inbox, first=number == 0) for number, branch in enumerate(physical.branches)]
    frames = _align(frames, [c.name for c in physical.stream.query.columns])
    users = frames[0].columns[: -len(CARRIED)]
    schema = StructType([frames[0].schema[name] for name in users])
    analyzed = analyze(context.spark, physical, schema)
    spec = kernel_spec(physical, analyzed)
    numbers = tuple(shard_numbers(shards))
    packed = [_packed(physical, number, frame, users, analyzed, numbers) for number, frame in enumerate(frames)]
    tagged = (
        reduce(DataFrame.union, packed)
        .groupBy("shard")
        .transformWithState(ShardProcessor(spec, physical.plan_id, numbers), TAGGED_SCHEMA, outputMode="append", timeMode="EventTime")
    )
    decorate = None if physical.window is None else WindowIds(physical.plan_id)
    unpacker = Unpacker(to_arrow_schema(analyzed.main), SIDE_OUTPUT_SCHEMA, decorate)
    wide = tagged.mapInArrow(unpacker, _wide_schema(analyzed.main))
    return Compiled(_finish(physical, wide), spec, to_arrow_schema(analyzed.outputs), to_arrow_schema(schema), physical.ordered)


def _branch(context: SourceContext, branch: Branch, inbox: DataFrame | None, first: bool) -> DataFrame:
    schema = user_schema(branch.source)
    rows = source_frame(context, branch.source, inbox, first)
    frame = resolve_scan(rows, branch.source, schema, isinstance(branch.watermark, EventTimeWatermark))
    for step in branch.steps:
        if isinstance(step, Filter):
            passes = (F.col(KIND) != "rows") | F.coalesce(F.col(PROBLEM) == UNDECODABLE, F.lit(False))
            frame = frame.where(passes | F.expr(step.condition))
        else:
            frame = frame.select(*[F.expr(c.sql).alias(c.name) for c in step.columns], *CARRIED)
    return frame


def _align(frames: list[DataFrame], names: list[str]) -> list[DataFrame]:
    """The branches of a UNION ALL with the names of the first and the types that Spark gives the union."""
    renamed = [frame.toDF(*names, *CARRIED) for frame in frames]
    try:
        common = reduce(DataFrame.union, [frame.select(*[f"`{n}`" for n in names]) for frame in renamed]).schema
    except AnalysisException as error:
        raise SqlError(f"UNION ALL: {first_sentence(error)}", help="cast the columns to one type in the branches") from None
    casts = [[F.col(f"`{f.name}`").cast(f.dataType).alias(f.name) for f in common.fields] for _ in renamed]
    return [frame.select(*cast, *CARRIED) for frame, cast in zip(renamed, casts, strict=True)]


def _packed(
    physical: Physical, number: int, frame: DataFrame, users: list[str], analyzed: Analyzed, numbers: tuple[int, ...]
) -> DataFrame:
    branch = physical.branches[number]
    if physical.time is not None:
        frame = override(frame, users, physical.time, branch.source.max_future_skew)
    columns = [_normalised(F.expr(named.sql), analyzed.packed[named.name]).alias(named.name) for named in physical.packed]
    rows = frame.select(*CARRIED, *columns)
    rows = rows.withColumn(SHARD, _shard(physical, len(numbers)))
    if not analyzed.needs_arrival:
        rows = rows.drop(SEQ)
    if not analyzed.deduplicates:
        rows = rows.drop(DEDUP)
    is_carried = isinstance(branch.watermark, EventTimeWatermark) and branch.watermark.carried is not None
    if not is_carried:
        rows = rows.drop(MARK)
    lag = branch.watermark.lag if isinstance(branch.watermark, EventTimeWatermark) else 0
    packed = rows.mapInArrow(Packer(number, numbers, lag, MARK if is_carried else None), PACKED_SCHEMA)
    return packed.withWatermark("max_ts", "0 seconds").drop("max_ts")


def _shard(physical: Physical, shards: int) -> Column:
    match meeting(physical):
        case Meet.EVERYTHING:
            return F.lit(0)
        case Meet.NOTHING:
            return F.pmod(F.spark_partition_id(), F.lit(shards)).cast("int")
        case Meet.IDENTITY:
            meet = [F.col(DEDUP)]
        case Meet.WINDOW if isinstance(physical.window, Tumble):
            meet = [F.floor((F.col(TS) - F.lit(physical.window.offset)) / F.lit(physical.window.size))]
        case _:
            meet = [F.col(key.sql) for key in physical.keys]
    return F.pmod(F.hash(*meet), F.lit(shards)).cast("int")


def _normalised(column: Column, field: StructField) -> Column:
    """Floats as Spark groups them: one NaN, and no negative zero."""
    if isinstance(field.dataType, FloatType | DoubleType) and field.name.startswith("__k"):
        return F.when(F.isnan(column), F.lit("NaN").cast(field.dataType)).when(column == 0, F.lit(0).cast(field.dataType)).otherwise(column)
    return column


def _wide_schema(main: StructType) -> StructType:
    side = DataType.fromDDL(
        "kind string, reason string, event_time timestamp, window_start timestamp, window_end timestamp, group_key string, "
        "original_event string, error_detail string, processing_time timestamp, watermark timestamp, plan_id string, shard int"
    )
    fields = [StructField(TAG, StringType()), *main.fields, StructField(SIDE, side), StructField(ACCOUNT, StringType())]
    return StructType(fields)


def _finish(physical: Physical, wide: DataFrame) -> DataFrame:
    """HAVING and the select list, evaluated by Spark on rows of the main output only."""
    is_main = F.col(TAG) == "main"
    if physical.having is not None:
        wide = wide.where(~is_main | F.expr(physical.having))
    outputs = [F.expr(named.sql).alias(named.name) for named in physical.outputs]
    rank = F.col(OP) if physical.emit.mode is EmitMode.CHANGES else F.lit(None).cast("int")
    return wide.select(TAG, *outputs, SIDE, ACCOUNT, rank.alias(RANK))
