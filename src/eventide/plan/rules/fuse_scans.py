"""Files and messages whose rows need nothing that only Spark can compute are read inside the tasks: decoded, filtered,
projected and packed. Of files that only Spark can read, tasks do the same with the lines that it finds.

It changes no outcome, so a plan's identity does not know of it. An input says why it was not fused, for EXPLAIN.
"""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec

from eventide.connectors.registry import reads
from eventide.eventtime.registry import CustomParser, EpochUnit, Iso8601, SparkTimestamp, event_time_types
from eventide.eventtime.resolution import METADATA_COLUMNS
from eventide.plan.fusion import scan_stages, too_deep
from eventide.plan.logical import Explode, Filter, Lookup, Source
from eventide.plan.physical import EventTimeWatermark, Fusion, Input, Physical
from eventide.plan.rules.fused_lookups import looked_up_names, task_lookup
from eventide.storage.stores import HDFS, SCHEMES
from eventide.tasks.expressions import DATE, TYPES, WHOLE, Column, Expression, columns_of
from eventide.tasks.portable import NotPortableError, conjunction, portable, source_names
from eventide.tasks.struct_types import arrow_type
from eventide.tasks.table_lookup import TableLookup

_STREAM = "stream"


def fuse_scans(plan: Physical) -> Physical:
    return replace(plan, inputs=tuple(_judged(plan, input) for input in plan.inputs))


def _judged(plan: Physical, input: Input) -> Input:
    connector = input.source.connector
    if connector == _STREAM:
        return _of_stream(plan, input)
    if not reads(connector).decoded_in_tasks:
        return replace(input, not_fused=f"{connector} rows are decoded by Spark")
    try:
        fusion = _fusion(plan, input)
    except NotPortableError as reason:
        return replace(input, not_fused=str(reason))
    out_of_reach = _out_of_reach(plan, input.source)
    if out_of_reach is None:
        return replace(input, fusion=fusion)
    is_json = connector == "files" and input.source.options.get("format", "json") == "json"
    has_lines = is_json and fusion.lookup is None
    return replace(input, not_fused=out_of_reach, decoding=fusion if has_lines else None)


def _of_stream(plan: Physical, input: Input) -> Input:
    """What a stream gives lies in tables, which tasks read in any case."""
    try:
        return replace(input, fusion=_fusion(plan, input)) if plan.options.fused_scan else input
    except NotPortableError:
        return input


def _fusion(plan: Physical, input: Input) -> Fusion:
    source = input.source
    refused = too_deep(plan.options, scan_stages(input))
    if refused is not None:
        raise NotPortableError(refused)
    _check_format(source)
    if source.admission is not None and source.admission.priority_sql is not None:
        raise NotPortableError("the priority of rows is evaluated by Spark")
    if source.refuses_empty_rows:
        raise NotPortableError("whether a row is empty is judged by Spark")
    columns = {column.name: column.type for column in source.columns}
    time = _time_column(input, columns)
    names = source_names({name: type for name, type in columns.items() if _is_read(source, type)})
    conditions: list[Expression] = []
    lookup: tuple[TableLookup, int] | None = None  # with the number of conditions in front of it
    for step in input.steps:
        if isinstance(step, Filter):
            conditions.append(_compiled(step.condition, names, columns))
        elif isinstance(step, Explode):
            raise NotPortableError("rows are exploded by Spark")
        elif isinstance(step, Lookup):
            if lookup is not None:
                raise NotPortableError("rows are joined with several tables by Spark")
            lookup = task_lookup(source, step, names), len(conditions)
            names = names | looked_up_names(lookup[0], step)
        else:
            names = {column.name.lower(): _compiled(column.sql, names, columns) for column in step.columns}
    if len({column.name.lower() for column in source.columns}) != len(columns):
        raise NotPortableError("two columns differ only in case")
    packed = tuple((named.name, _packed(named.sql, names, columns)) for named in input.packed)
    identity = _identity(source, columns)
    joined, before = (None, len(conditions)) if lookup is None else lookup
    condition = conjunction(conditions[:before])
    if joined is not None:
        joined = replace(joined, condition=conjunction(conditions[before:]))
    used = ({time} if time is not None else set()) | (set() if joined is None else joined.of_rows)
    for expression in (*(expression for _, expression in packed), condition, identity):
        used |= set() if expression is None else columns_of(expression)
    if joined is not None:
        joined = replace(joined, columns=tuple(column for column in joined.columns if column.name in used))
    read = tuple((name, type) for name, type in columns.items() if name in used)
    return Fusion(read, time, condition, packed, identity, lookup=joined)


def _is_read(source: Source, type: str) -> bool:
    if source.options.get("format", "json") == "json":
        return arrow_type(type) is not None
    return type in TYPES or (type == DATE and source.connector == "files")


def _packed(sql: str, names: dict[str, Expression], columns: dict[str, str]) -> Expression:
    """A nested column may travel as it is."""
    column = names.get(sql.strip("`").lower()) if re.fullmatch(r"`[^`]+`|\w+", sql) else None
    return column if isinstance(column, Column) else _compiled(sql, names, columns)


def _compiled(sql: str, names: dict[str, Expression], columns: dict[str, str]) -> Expression:
    try:
        return portable(sql, names)
    except NotPortableError as error:
        column = str(error).strip("`").lower()
        others = [f"{name} is {type}" for name, type in columns.items() if name.lower() == column and type not in TYPES]
        raise NotPortableError(others[0] if others else f"{error} is evaluated by Spark") from None


def _check_format(source: Source) -> None:
    format = source.options.get("format", "json")
    if source.connector != _STREAM and format not in reads(source.connector).decoded_in_tasks:
        raise NotPortableError(f"{format} is decoded by Spark")


def _out_of_reach(plan: Physical, source: Source) -> str | None:
    """Why tasks cannot read by themselves what they could decode; None if they can."""
    if not plan.options.fused_scan:
        return "fused_scan is false"
    if source.connector != "files":
        return None
    elsewhere = re.match(r"^(?!file:)([A-Za-z][A-Za-z0-9+.-]*):/", source.options["path"])
    if elsewhere and elsewhere[1] not in SCHEMES:
        return "the files are neither on a local or mounted file system nor in a store that tasks can read"
    if elsewhere and elsewhere[1] == HDFS and find_spec("hdfs_native") is None:
        return "tasks read hdfs:// by the package hdfs-native, which is not installed"
    return "where the files are is known only when they are opened" if "${" in source.options["path"] else None


def _time_column(input: Input, columns: dict[str, str]) -> str | None:
    """The column of the event time; None if the time of the batch counts."""
    source = input.source
    if input.time is not None:
        raise NotPortableError("the query itself says what the event time is")
    if not isinstance(input.watermark, EventTimeWatermark) or source.event_time is None:
        return None
    if input.watermark.carried is not None or source.messages:
        raise NotPortableError(
            "rows carry the watermark" if input.watermark.carried is not None else "rows hold messages"
        )
    if any(name.lower() in METADATA_COLUMNS for name in columns):
        raise NotPortableError("rows say when they were received")
    declared = source.event_time
    name = next((name for name in columns if name.lower() == declared.column.lower()), None)
    parser = event_time_types.resolve(declared.type)
    format = "metadata" if name in source.metadata else source.options.get("format", "json")
    if name is None or not _is_known(parser, columns[name], format):
        raise NotPortableError(f"the event time {declared.column} as {declared.type} is parsed by Spark")
    return name


def _is_known(parser: EpochUnit | Iso8601 | SparkTimestamp | CustomParser, type: str, format: str) -> bool:
    match parser:
        case EpochUnit():
            return type in WHOLE
        case Iso8601():
            return type == "string" and format in ("json", "csv")
        case SparkTimestamp():
            return type == "timestamp"
        case _:
            return False


def _identity(source: Source, columns: dict[str, str]) -> Expression | None:
    if source.dedup is None:
        return None
    if len(source.dedup.columns) > 1:
        raise NotPortableError("rows are told apart by more than one column")
    name = next((name for name in columns if name.lower() == source.dedup.columns[0].lower()), None)
    if name is None:
        raise NotPortableError("rows are told apart by a field of a struct")
    if columns[name] not in TYPES:
        raise NotPortableError(f"{name} is {columns[name]}")
    return Column(name, columns[name])
