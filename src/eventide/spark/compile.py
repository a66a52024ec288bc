"""From a physical plan to a streaming DataFrame: the only place that knows all stages in their order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from eventide.connectors.contract import PASSED, Scans, SourceContext, user_schema, with_hidden
from eventide.connectors.embedded.read import controls, inbox_frame
from eventide.connectors.files.fused import decoded, fused_scan, scanned, settings_of
from eventide.connectors.files.read import check_folder, has_partition_folders
from eventide.connectors.readers import source_frame
from eventide.errors import OptionError, SqlError
from eventide.eventtime.resolution import IS_UNDECODABLE
from eventide.kernels.contract import DEDUP, OP, SEQ
from eventide.kernels.intake import IntakeSpec
from eventide.plan.co_location import CoLocation, co_location
from eventide.plan.logical import EmitMode, Filter, Tumble
from eventide.plan.physical import Branch, EventTimeWatermark, Fusion, Physical
from eventide.plan.used_columns import used_columns
from eventide.spark.analysis import Analyzed, analyze, first_sentence
from eventide.spark.arrow_types import to_arrow_schema
from eventide.spark.kernel_spec import kernel_spec
from eventide.spark.pack import ACCOUNT, PACKED_SCHEMA, SIDE, TAG, TAGGED_SCHEMA, Packer, PassingPacker, Unpacker
from eventide.spark.processor import ShardProcessor
from eventide.spark.resolve import CARRIED, MARK, override, resolve_scan
from eventide.spark.shard import SIDE_OUTPUT_SCHEMA, ShardWork
from eventide.spark.sharding import shard_numbers
from eventide.tasks.finishing import finish
from eventide.tasks.fused_scan import FusedScan
from eventide.tasks.packing import HOW, PACKED, Packing, ShardBy
from eventide.tasks.row_groups import RowGroups
from eventide.tasks.select_list import RANK, Finish, WindowIds


@dataclass(frozen=True)
class Compiled:
    """A stream that is ready to start. `frame` has tagged blobs, or TAG, the output columns, SIDE, ACCOUNT and RANK."""

    frame: DataFrame
    spec: IntakeSpec
    outputs: pa.Schema
    originals: pa.Schema
    ordered: bool
    fused: tuple[bool, ...]  # per source: whether tasks read its files by themselves


def compile_stream(
    physical: Physical, context: SourceContext, shards: int, *, typed: bool = False, decodes: bool = False
) -> Compiled:
    """Build the whole query. Raises a clear error for whatever Spark's analysis refuses; starts nothing.

    With `decodes` Spark decodes, behind the fused scans, lines that only it can judge. Without, a scan that meets one
    fails with LinesLeftToSpark: most streams never do, and what stands ready costs every batch.

    What the operator gives are blobs, which the router opens; `typed` gives a user rows instead, and so does a select
    list that only Spark can evaluate.
    """
    inbox = inbox_frame(context)
    numbers = tuple(shard_numbers(shards))
    fusions = [_fusion(context, branch) for branch in physical.branches]
    names = [column.name for column in physical.stream.query.columns]
    rows = [
        _rows(context, physical, branch, fusion, inbox)
        for branch, fusion in zip(physical.branches, fusions, strict=True)
    ]
    frames = _align([_branch(physical, number, frame) for number, frame in enumerate(rows)], names)
    schema = StructType([frames[0].schema[name] for name in names])
    analyzed = analyze(context.spark, physical, schema)
    misfits = [number for number, fusion in enumerate(fusions) if fusion is not None and not _fits(fusion, analyzed)]
    if misfits:
        return compile_stream(unfused(physical, misfits), context, shards, typed=typed, decodes=decodes)
    spec = kernel_spec(physical, analyzed)
    packed = []
    for number, (frame, fusion) in enumerate(zip(frames, fusions, strict=True)):
        packing = _packing(physical, number, numbers, spec)
        if fusion is None or context.scans is None:
            packed.append(
                _to_pack(physical, number, frame, names, analyzed)
                .drop(PASSED)
                .mapInArrow(Packer(packing), PACKED_SCHEMA)
            )
        else:
            scan = fused_scan(
                physical, physical.branches[number].source, fusion, packing, decodes or fusion.left_to_spark
            )
            packed.append(_fused(context, context.scans, physical, number, frames, names, analyzed, scan))
    if inbox is not None:
        told = [controls(inbox, branch.source, number, numbers) for number, branch in enumerate(physical.branches)]
        packed = [rows.union(entries) for rows, entries in zip(packed, told, strict=True)]
    packed = [rows.withWatermark("max_ts", "0 seconds").drop("max_ts") for rows in packed]
    finished = None if typed else _finished_by_tasks(physical, analyzed)
    processor = ShardProcessor(ShardWork(spec, physical.plan_id, numbers, finished))
    shuffled = reduce(DataFrame.union, packed).groupBy("shard")
    frame = shuffled.transformWithState(processor, TAGGED_SCHEMA, outputMode="append", timeMode="EventTime")
    if finished is None:
        decorate = None if physical.window is None else WindowIds(physical.plan_id)
        unpacker = Unpacker(to_arrow_schema(analyzed.main), SIDE_OUTPUT_SCHEMA, decorate)
        frame = _finished_by_spark(physical, frame.mapInArrow(unpacker, _wide_schema(analyzed.main)))
    outputs, originals = to_arrow_schema(analyzed.outputs), to_arrow_schema(schema)
    return Compiled(frame, spec, outputs, originals, physical.ordered, tuple(fusion is not None for fusion in fusions))


def unfused(physical: Physical, numbers: Iterable[int]) -> Physical:
    """The plan with the files of these branches read by Spark."""
    branches = [
        replace(branch, fusion=None) if number in numbers else branch for number, branch in enumerate(physical.branches)
    ]
    return replace(physical, branches=tuple(branches))


def _fusion(context: SourceContext, branch: Branch) -> Fusion | None:
    """How the branch's files are read by tasks; None if Spark reads them."""
    source = branch.source
    if context.scans is None or source.connector != "files":
        return None
    if branch.fusion is not None and not has_partition_folders(source.options["path"]):
        return branch.fusion
    if "target_latency" not in source.options:
        return None
    if source.options.get("format", "json") != "json":
        raise OptionError(
            f"source {source.name}: target_latency is for files that tasks can read by themselves, and here "
            f"{branch.not_fused}",
            help="leave target_latency out, and bound batches with max_files_per_batch",
        )
    return Fusion(
        tuple((column.name, column.type) for column in source.columns), None, None, (), None, left_to_spark=True
    )


def _fits(fusion: Fusion, analyzed: Analyzed) -> bool:
    """Whether the scan's columns have the types that Spark gives them."""
    return all(analyzed.packed[name].dataType.simpleString() == expression.type for name, expression in fusion.packed)


def _rows(
    context: SourceContext, physical: Physical, branch: Branch, fusion: Fusion | None, inbox: DataFrame | None
) -> DataFrame:
    """The source's rows; of a fused one, whose rows come from the scan, an empty frame with the right types."""
    if fusion is None:
        return source_frame(context, branch.source, inbox, used_columns(physical, branch))
    check_folder(branch.source.name, branch.source.options["path"])
    schema = user_schema(branch.source)
    return with_hidden(context.spark.createDataFrame([], schema), schema, F.lit(None), F.lit(None))


def _fused(
    context: SourceContext,
    scans: Scans,
    physical: Physical,
    number: int,
    frames: list[DataFrame],
    names: list[str],
    analyzed: Analyzed,
    scan: FusedScan,
) -> DataFrame:
    """What the scan has packed, and behind it the lines that it leaves to Spark."""
    source = physical.branches[number].source
    frame = scanned(context.spark, settings_of(source, scan, scans.folder / str(number), scans.bound, scans.tasks))
    if isinstance(scan.reader, RowGroups) or not scan.leaves_lines:
        return frame.select(*PACKED.names)
    lines = _branch(physical, number, decoded(frame, source, scan.reader.columns))
    aligned = _align([lines if n == number else other for n, other in enumerate(frames)], names)[number]
    rows = _to_pack(physical, number, aligned, names, analyzed)
    return rows.mapInArrow(PassingPacker(replace(scan.packing, prefold=None), PASSED), PACKED_SCHEMA)


def _branch(physical: Physical, number: int, rows: DataFrame) -> DataFrame:
    """Event time, filters and projections; rows that a fused scan has packed pass."""
    branch = physical.branches[number]
    event_time, alone = isinstance(branch.watermark, EventTimeWatermark), len(physical.branches) == 1
    frame = resolve_scan(rows, branch.source, user_schema(branch.source), event_time, alone)
    for step in branch.steps:
        if isinstance(step, Filter):
            keeps = (F.col(HOW) == IS_UNDECODABLE) | F.expr(step.condition)
            frame = frame.where(keeps | F.col(PASSED).isNotNull() if PASSED in rows.columns else keeps)
        else:
            frame = frame.select(*[F.expr(c.sql).alias(c.name) for c in step.columns], *CARRIED)
    return frame


def _align(frames: list[DataFrame], names: list[str]) -> list[DataFrame]:
    """The branches of a UNION ALL with the names of the first and the types that Spark gives the union."""
    renamed = [frame.toDF(*names, *CARRIED) for frame in frames]
    try:
        common = reduce(DataFrame.union, [frame.select(*[f"`{n}`" for n in names]) for frame in renamed]).schema
    except AnalysisException as error:
        raise SqlError(
            f"UNION ALL: {first_sentence(error)}", help="cast the columns to one type in the branches"
        ) from None
    casts = [[F.col(f"`{f.name}`").cast(f.dataType).alias(f.name) for f in common.fields] for _ in renamed]
    return [frame.select(*cast, *CARRIED) for frame, cast in zip(renamed, casts, strict=True)]


def _to_pack(physical: Physical, number: int, frame: DataFrame, names: list[str], analyzed: Analyzed) -> DataFrame:
    """The columns that travel to the operator, and those of CARRIED that it needs."""
    branch = physical.branches[number]
    if physical.time is not None:
        frame = override(frame, names, physical.time, branch.source.max_future_skew)
    rows = frame.select(*CARRIED, *[F.expr(named.sql).alias(named.name) for named in physical.packed])
    if not analyzed.needs_arrival:
        rows = rows.drop(SEQ)
    if not analyzed.deduplicates:
        rows = rows.drop(DEDUP)
    if not isinstance(branch.watermark, EventTimeWatermark) or branch.watermark.carried is None:
        rows = rows.drop(MARK)
    return rows


def _packing(physical: Physical, number: int, numbers: tuple[int, ...], spec: IntakeSpec) -> Packing:
    watermark = physical.branches[number].watermark
    is_carried = isinstance(watermark, EventTimeWatermark) and watermark.carried is not None
    lag = watermark.lag if isinstance(watermark, EventTimeWatermark) else 0
    return Packing(number, numbers, _shard_by(physical), lag, MARK if is_carried else None, spec.prefold())


def _shard_by(physical: Physical) -> ShardBy:
    match co_location(physical):
        case CoLocation.EVERYTHING:
            return ShardBy()
        case CoLocation.NOTHING:
            return ShardBy(anywhere=True)
        case CoLocation.IDENTITY:
            return ShardBy((DEDUP,))
        case CoLocation.WINDOW if isinstance(physical.window, Tumble):
            return ShardBy(window=(physical.window.offset, physical.window.size))
        case _:
            return ShardBy(tuple(key.sql for key in physical.keys))


def _wide_schema(main: StructType) -> StructType:
    side = DataType.fromDDL(
        "kind string, reason string, event_time timestamp, window_start timestamp, window_end timestamp, "
        "group_key string, "
        "original_event string, error_detail string, processing_time timestamp, watermark timestamp, plan_id "
        "string, shard int"
    )
    fields = [StructField(TAG, StringType()), *main.fields, StructField(SIDE, side), StructField(ACCOUNT, StringType())]
    return StructType(fields)


def _finished_by_tasks(physical: Physical, analyzed: Analyzed) -> Finish | None:
    """HAVING and the select list, evaluated where the kernel runs; None if only Spark can."""
    columns = {field.name: field.dataType.simpleString() for field in analyzed.main.fields}
    outputs = {named.name: named.sql for named in physical.outputs}
    rank = OP if physical.emit.mode is EmitMode.CHANGES else None
    made = finish(outputs, physical.having, columns, physical.plan_id, rank)
    if made is None or len(outputs) < len(physical.outputs):
        return None
    fits = all(
        field.dataType.simpleString() == each.type
        for field, (_, each) in zip(analyzed.outputs.fields, made.outputs, strict=True)
    )
    return made if fits else None


def _finished_by_spark(physical: Physical, wide: DataFrame) -> DataFrame:
    """HAVING and the select list, evaluated by Spark on rows of the main output only."""
    is_main = F.col(TAG) == "main"
    if physical.having is not None:
        wide = wide.where(~is_main | F.expr(physical.having))
    outputs = [F.expr(named.sql).alias(named.name) for named in physical.outputs]
    rank = F.col(OP) if physical.emit.mode is EmitMode.CHANGES else F.lit(None).cast("int")
    return wide.select(TAG, *outputs, SIDE, ACCOUNT, rank.alias(RANK))
