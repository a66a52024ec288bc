"""From a physical plan to a streaming DataFrame: the only place that knows all stages in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StringType, StructField, StructType

from eventide.admission.options import AdmissionSpec
from eventide.connectors.arrow_types import to_arrow_schema
from eventide.connectors.contract import SourceContext
from eventide.connectors.embedded.read import controls, inbox_frame
from eventide.connectors.readers import OF_INBOX
from eventide.kernels.contract import DEDUP, SIDE_OUTPUT_SCHEMA
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.state.past import NO_PAST, Past
from eventide.plan.fusion import FOLD, Fused, may_fold, may_forward, output_stages, too_deep
from eventide.plan.late_columns import late_only_columns
from eventide.plan.physical import EventTimeWatermark, Physical
from eventide.plan.shedding import shed_window, weight_column
from eventide.plan.stream_source import is_stream
from eventide.spark.analysis import Analyzed, Packed, analyze
from eventide.spark.finishing import WIDE, before_end, checked_sums, finished_by_spark
from eventide.spark.forwarding import ForwardByTasks, forwarding_of
from eventide.spark.guard import Guard
from eventide.spark.inputs import (
    SparkInput,
    common_schema,
    fits,
    fused_scan,
    open_input,
    packed_rows,
    unfused,
    unshared,
)
from eventide.spark.kernel_spec import filtered_by_spark, spec_of
from eventide.spark.moved_state import Moved
from eventide.spark.pack import ACCOUNT, SIDE, TAG, TAGGED_SCHEMA, Unpacker
from eventide.spark.processor import ShardProcessor
from eventide.spark.resolve import CARRIED_WATERMARK
from eventide.spark.shard import ShardWork
from eventide.spark.sharding import shard_by, shard_numbers
from eventide.spark.shared_scans import Together, inputs_together, scanned_together
from eventide.spark.task_output import OutputForm
from eventide.storage.paths import AnyPath, store_in
from eventide.tasks.packing import Packing, spark_ddl
from eventide.tasks.portable import NotPortableError
from eventide.tasks.select_list import WINDOW_ID, Finish, OutputTimes, WindowIds, finish
from eventide.tasks.surveying import Surveying


@dataclass(frozen=True)
class Compiled:
    """A stream that is ready to start. `frame` has tagged blobs, or rows of all kinds; see `finished_by_spark`."""

    physical: Physical
    frame: DataFrame
    spec: IntakeSpec
    outputs: pa.Schema
    originals: tuple[pa.Schema, ...]  # of the rows of each side
    fused: tuple[bool, ...]  # per input: whether tasks read its files by themselves
    stages: Fused
    together: Together  # the inputs that share a scan
    evaluates_rows: bool  # whether Spark does anything with single rows; else it only hands on what tasks have packed
    guarded: tuple[str, ...] = ()  # expressions that make a row for which they raise an error


@dataclass(frozen=True)
class Origin:
    """Where a stream comes from that has had other texts: `plan_id` is that of the first, which names its windows."""

    plan_id: str
    past: Past


@dataclass(frozen=True)
class CompileOptions:
    """With `decodes` Spark decodes, after the fused scans, lines that only it can judge. Without, a scan that meets one
    says so and the batch is taken again: most streams never do, and being ready for one costs every batch.

    What the operator gives are blobs, which the router opens; `typed` gives a user rows instead, and so does a select
    list that only Spark can evaluate. With `guards` a row for which an expression raises becomes an error; see `guard`.
    With `asks`, limits of sources are asked for every row; without, tasks let rows pass while there are tokens for all,
    and a batch in which there are not is taken again: see `admission.trust`. `together` are the inputs that share a
    scan in the checkpoint; None for a stream that begins now. What `spares` does, `_spared` says.
    """

    decodes: bool = False
    guards: bool = False
    asks: bool = False
    spares: bool = True
    typed: bool = False
    together: Together | None = None
    origin: Origin | None = None
    moved: Moved | None = None


def compile_stream(physical: Physical, context: SourceContext, shards: int, options: CompileOptions) -> Compiled:
    """Build the whole query. Raises a clear error for whatever Spark's analysis refuses; starts nothing."""
    opened = _opened(physical, context, options)
    physical, analyzed, inputs, guard = opened.physical, opened.analyzed, opened.inputs, opened.guard
    origin = options.origin or Origin(physical.plan_id, NO_PAST)
    spec = spec_of(physical, analyzed, guard).continuing(origin.past)
    finished = (
        "they are rows of a DataFrame"
        if options.typed
        else _finished_by_tasks(physical, analyzed, spec, origin.plan_id)
    )
    by_tasks = finished if isinstance(finished, Finish) else None
    outputs, originals = to_arrow_schema(analyzed.outputs), tuple(map(to_arrow_schema, opened.schemas))
    form = OutputForm(outputs, originals, physical.stream.routes, store_in(context.inbox))
    forwarding = None if by_tasks is None or guard.is_on else forwarding_of(spec, by_tasks, form)
    trusts = not (options.asks or options.typed)
    numbers = tuple(shard_numbers(shards))
    packings = [_packing(physical, each, numbers, spec, context.orders, forwarding, trusts) for each in inputs]
    together = inputs_together(physical, inputs) if options.together is None else options.together
    packed = _packed(opened, context, packings, options, together)
    work = ShardWork(
        spec, physical.plan_id, numbers, by_tasks, form, _limits(physical), shed_window(physical), options.moved
    )
    shuffled = reduce(DataFrame.union, packed).groupBy("shard")
    frame = shuffled.transformWithState(ShardProcessor(work), TAGGED_SCHEMA, outputMode="append", timeMode="EventTime")
    if by_tasks is None:
        frame = _left_to_spark(opened, spec, frame, origin)
    fused = tuple(each.fusion is not None and not is_stream(each.plan.source) for each in inputs)
    stages = Fused(
        tuple(_further_stages(physical, packing) for packing in packings),
        finished if isinstance(finished, str) else None,
        together,
    )
    evaluates_rows = options.decodes or by_tasks is None or any(each.fusion is None for each in inputs)
    return Compiled(
        physical, frame, spec, outputs, originals, fused, stages, together, evaluates_rows, tuple(guard.guarded)
    )


@dataclass(frozen=True)
class _Opened:
    """A plan's inputs with their types, which fit the plan. `schemas` are those of the sides."""

    physical: Physical
    inputs: list[SparkInput]
    schemas: tuple[StructType, ...]
    analyzed: Analyzed
    inbox: DataFrame | None
    guard: Guard


def _opened(physical: Physical, context: SourceContext, options: CompileOptions) -> _Opened:
    """The plan may become another one, when Spark has told the types."""
    guard, inbox = Guard(options.guards), inbox_frame(context)
    inputs = [open_input(context, number, physical, inbox, guard) for number in range(len(physical.inputs))]
    sides = range(1 + max(input.side for input in physical.inputs))
    schemas = tuple(common_schema([each for each in inputs if each.plan.side == side]) for side in sides)
    analyzed = analyze(context.spark, physical, schemas)
    apart = unshared(physical, analyzed.cast)
    if apart is not physical:
        return _opened(apart, context, options)
    misfits = [each.number for each in inputs if not fits(each, analyzed.packed[each.plan.side])]
    if misfits:
        return _opened(unfused(physical, misfits), context, options)
    inputs = [replace(each, spared=_spared(physical, inputs, each, options)) for each in inputs]
    return _Opened(physical, inputs, schemas, analyzed, inbox, guard)


def _limits(physical: Physical) -> dict[int, AdmissionSpec]:
    found = {number: input.source.admission for number, input in enumerate(physical.inputs)}
    return {number: limits for number, limits in found.items() if limits is not None}


def _left_to_spark(opened: _Opened, spec: IntakeSpec, frame: DataFrame, origin: Origin) -> DataFrame:
    """HAVING and the select list, evaluated by Spark on what the operator gives."""
    physical, analyzed = opened.physical, opened.analyzed
    sums = checked_sums(physical, analyzed.results)
    main = StructType([StructField(f.name, WIDE) if f.name in sums else f for f in analyzed.main.fields])
    decorate = WindowIds(origin.plan_id) if WINDOW_ID in main.names else None
    unpacker = Unpacker(to_arrow_schema(main), SIDE_OUTPUT_SCHEMA, decorate)
    wide = frame.mapInArrow(unpacker, _wide_schema(main))
    return finished_by_spark(physical, filtered_by_spark(physical, spec), wide, sums, opened.guard)


def _spared(
    physical: Physical, inputs: Sequence[SparkInput], input: SparkInput, options: CompileOptions
) -> frozenset[str]:
    """Packed columns that Spark need not decode, as only payloads show them: where it reads rows from outside, and
    somebody takes a batch again in which a row is put aside.
    """
    sources = {each.source.connector for each in physical.inputs}
    has_limits = any(each.source.admission is not None for each in physical.inputs)
    is_read_by_tasks = any(each.fusion is not None or each.decoding is not None for each in inputs)
    if not options.spares or options.typed or has_limits or is_read_by_tasks or sources & OF_INBOX.keys():
        return frozenset()
    return late_only_columns(physical, input.plan)


def _packed(
    opened: _Opened,
    context: SourceContext,
    packings: Sequence[Packing],
    options: CompileOptions,
    together: Together,
) -> list[DataFrame]:
    """The rows of the inputs as PACKED, with what the inbox says of them, and the watermark that they allow."""
    physical, inputs, guard = opened.physical, opened.inputs, opened.guard

    def types(input: SparkInput) -> tuple[StructType, Packed]:
        return opened.schemas[input.plan.side], opened.analyzed.packed[input.plan.side]

    shared = {number for numbers in together for number in numbers}
    found: list[tuple[DataFrame, tuple[int, ...]]] = []
    for each in inputs:
        if each.number not in shared:
            packing = packings[each.number]
            rows = packed_rows(context, physical, each, *types(each), packing, options.decodes, guard)
            found.append((rows, (each.number,)))
    for numbers in together:
        sharing = [replace(inputs[number], fusion=inputs[number].plan.fusion) for number in numbers]
        scans = [fused_scan(context, physical, each, packings[each.number], options.decodes) for each in sharing]
        found.append((scanned_together(context, sharing, scans, guard), numbers))
    if opened.inbox is not None:
        shards = packings[0].numbers
        shards = (*shards, *(() if options.moved is None else options.moved.orphans(shards)))
        found = [(_with_controls(opened.inbox, rows, [inputs[n] for n in of], shards), of) for rows, of in found]
    return [rows.withWatermark("max_ts", "0 seconds").drop("max_ts") for rows, _ in found]


def _with_controls(inbox: DataFrame, rows: DataFrame, inputs: Sequence[SparkInput], shards: Sequence[int]) -> DataFrame:
    told = [controls(inbox, each.plan.source, each.number, tuple(shards)) for each in inputs]
    return reduce(DataFrame.union, [rows, *told])


def _further_stages(physical: Physical, packing: Packing) -> tuple[str, ...]:
    """What is done before the shuffle with rows that are packed."""
    if packing.forwarding is not None:
        return output_stages(physical)
    return () if packing.prefold is None else (FOLD,)


def _packing(
    physical: Physical,
    input: SparkInput,
    numbers: tuple[int, ...],
    spec: IntakeSpec,
    orders: AnyPath | None,
    forwarding: ForwardByTasks | None,
    trusts: bool,
) -> Packing:
    watermark = input.plan.watermark
    is_carried = isinstance(watermark, EventTimeWatermark) and watermark.carried is not None
    lag = watermark.lag if isinstance(watermark, EventTimeWatermark) else 0
    admission = input.plan.source.admission
    has_no_gate = admission is None or trusts
    forwards = forwarding if has_no_gate and may_forward(physical, input.plan) else None
    spared = late_only_columns(physical, input.plan) if forwards is None else forwards.unused
    return Packing(
        input.number,
        numbers,
        shard_by(physical, input.plan),
        lag,
        carried=CARRIED_WATERMARK if is_carried else None,
        prefold=spec.prefold() if has_no_gate and may_fold(physical, input.plan) else None,
        told=isinstance(watermark, EventTimeWatermark) and (watermark.told or watermark.by_partition),
        lanes=isinstance(watermark, EventTimeWatermark) and watermark.by_partition,
        surveying=None if admission is None else _surveying(physical, input, admission, orders),
        late_only=spared if has_no_gate and not spec.trials else frozenset(),
        horizon=spec.inner.horizon,
        forwarding=forwards,
        trusts=admission is not None and trusts,
    )


def _surveying(physical: Physical, input: SparkInput, admission: AdmissionSpec, orders: AnyPath | None) -> Surveying:
    source = input.plan.source
    return Surveying(
        admission,
        physical.needs_arrival,
        orders if admission.sheds else None,
        None if source.dedup is None else DEDUP,
        tuple(key.sql for key in input.plan.keys),
        shed_window(physical),
        weight_column(input.plan),
        source.connector == "embedded" or input.fusion is not None or input.decoding is not None,
        input.plan.time is None,
    )


def _wide_schema(main: StructType) -> StructType:
    side = DataType.fromDDL(spark_ddl(SIDE_OUTPUT_SCHEMA))
    fields = [StructField(TAG, StringType()), *main.fields, StructField(SIDE, side), StructField(ACCOUNT, StringType())]
    return StructType(fields)


def _finished_by_tasks(physical: Physical, analyzed: Analyzed, spec: IntakeSpec, windows_of: str) -> Finish | str:
    """HAVING and the select list, evaluated where the kernel runs; if only Spark can, why. `windows_of` is the plan
    that names the windows.
    """
    refused = too_deep(physical.options, output_stages(physical))
    if refused is not None:
        return refused
    left = filtered_by_spark(physical, spec)
    if left is not None:
        return f"{left} is evaluated by Spark"
    sums = checked_sums(physical, analyzed.results)
    if sums:
        return f"{sums[0]} may not wrap around, which Spark checks"
    columns = {field.name: field.dataType.simpleString() for field in analyzed.main.fields}
    outputs = {named.name: named.sql for named in physical.outputs}
    rank = physical.change_column
    if len(outputs) < len(physical.outputs):
        return "two columns have one name"
    try:
        made = finish(outputs, physical.having, columns, windows_of, rank, OutputTimes(before_end(physical)))
    except NotPortableError as error:
        return f"{error} is evaluated by Spark"
    for field, (name, each) in zip(analyzed.outputs.fields, made.outputs, strict=True):
        if field.dataType.simpleString() != each.type:
            return f"{name} is {field.dataType.simpleString()}"
    return made
