"""The fused scan in a streaming query: the rows that tasks have packed, and the lines that they left to Spark."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructType

from eventide.connectors import paced_reader
from eventide.connectors.contract import CORRUPT, PASSED, Scans, hidden, user_schema
from eventide.connectors.files import data_source as fused_files
from eventide.connectors.files.connector import FORGET_AFTER
from eventide.connectors.files.csv import reader_of, rows_of_texts
from eventide.connectors.files.data_source import FusedFiles, ScanSettings
from eventide.connectors.files.folder_values import with_folder_values
from eventide.connectors.files.lines import LINE, rows_of_lines
from eventide.connectors.files.listing import local_path, root_of
from eventide.connectors.files.read import folders_named_after_columns
from eventide.connectors.files.store_listing import first_folders
from eventide.connectors.files.stores import is_in_store, reached, store_of_path
from eventide.connectors.fused_time import resolution_of
from eventide.eventtime.durations import SECOND, parse_duration
from eventide.plan.logical import Source
from eventide.plan.names import backticked
from eventide.plan.pace import pace_of, pace_with_load
from eventide.plan.physical import Fusion
from eventide.tasks.csv_lines import CsvLines
from eventide.tasks.expressions import columns_of
from eventide.tasks.fused_scan import RECEIVED, ROW, SCANNED, FusedScan
from eventide.tasks.json_lines import JsonLines, RawLines
from eventide.tasks.packing import PACKED, Packing, spark_ddl
from eventide.tasks.partition_folders import FOLDERS, InFolders
from eventide.tasks.row_groups import RowGroups
from eventide.tasks.shared_scan import SharedScan

_SCANNED = pa.schema([*SCANNED, (FOLDERS, pa.string())])


def scanned(spark: SparkSession, source: Source, number: int, scan: FusedScan | SharedScan, scans: Scans) -> DataFrame:
    """Packed rows, and lines that Spark must decode; `number` is the input's."""
    for module in (fused_files, paced_reader):  # so that planning a batch imports nothing
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    spark.createDataFrame(
        [], "nothing int"
    )  # makes this session the active one, which is where Spark looks up data sources
    try:
        spark.dataSource.register(FusedFiles)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # another source of this session has registered it
            raise
    text = base64.b64encode(pickle.dumps(_settings(source, number, scan, scans))).decode()
    return spark.readStream.format(FusedFiles.name()).schema(spark_ddl(scan.scanned)).option("settings", text).load()


def fused_scan(source: Source, fusion: Fusion, packing: Packing, numbered: bool, decodes: bool) -> FusedScan:
    """`numbered`: whether rows say in which order they arrived; `decodes`: whether Spark decodes, after the scan, what
    only it can.
    """
    format, resolution = source.options.get("format", "json"), resolution_of(source, fusion)
    reader: JsonLines | RawLines | CsvLines | RowGroups
    if format == "csv":
        reader = reader_of(source, fusion.columns, resolution.iso, fusion.left_to_spark)
    elif fusion.left_to_spark:
        reader = RawLines(fusion.columns)
    elif format == "parquet":
        reader = RowGroups(fusion.columns)
    else:
        reader = JsonLines(fusion.columns, resolution.iso, _wanted(fusion, packing))
    known = frozenset(map(str.lower, _folder_columns(source))) if decodes else None
    return FusedScan(
        InFolders(root_of(source.options["path"]), reader, known),
        resolution,
        fusion.condition,
        fusion.packed,
        packing,
        fusion.identity,
        numbered,
        decodes,
        _SCANNED,
    )


def _folder_columns(source: Source) -> tuple[str, ...]:
    """The columns after which the folders that are there now are named."""
    path = source.options["path"]
    return first_folders(reached(source.name, path)) if is_in_store(path) else folders_named_after_columns(path)


def _wanted(fusion: Fusion, packing: Packing) -> frozenset[str] | None:
    """The columns that every row needs; None: all of them."""
    if not packing.late_only:
        return None
    used = [expression for name, expression in fusion.packed if name not in packing.late_only]
    used += [each for each in (fusion.condition, fusion.identity) if each is not None]
    others = set() if fusion.lookup is None else fusion.lookup.of_rows
    times = set() if fusion.time is None else {fusion.time}
    return frozenset(times.union(others, *map(columns_of, used)))


def shared_scan(source: Source, scans: Sequence[FusedScan]) -> SharedScan:
    """The scans of several inputs of the source as one, which reads what any of them needs. If one leaves all lines to
    Spark, all do.
    """
    leaves_lines = any(scan.leaves_lines for scan in scans)
    reader = _common_reader(source, [scan.reader for scan in scans if isinstance(scan.reader, InFolders)])
    return SharedScan(tuple(replace(scan, reader=reader, leaves_lines=leaves_lines) for scan in scans))


def _common_reader(source: Source, readers: Sequence[InFolders]) -> InFolders:
    names = {name for reader in readers for name, _ in reader.columns}
    columns = tuple((column.name, column.type) for column in source.columns if column.name in names)
    found = [each.reader for each in readers if isinstance(each.reader, JsonLines)]
    if len(found) < len(readers):
        return replace(readers[0], reader=RawLines(columns))
    wanted = frozenset[str]().union(*(_names(each) if each.wanted is None else each.wanted for each in found))
    iso = next((each.iso for each in found if each.iso is not None), None)
    reader = replace(found[0], columns=columns, iso=iso, wanted=None if wanted == names else wanted)
    return replace(readers[0], reader=reader)


def _names(reader: JsonLines) -> set[str]:
    return {name for name, _ in reader.columns}


def _settings(source: Source, number: int, scan: FusedScan | SharedScan, scans: Scans) -> ScanSettings:
    path = source.options["path"]
    most, full = source.options.get("max_files_per_batch"), source.options.get("full_listing")
    store = store_of_path(path)
    if store is not None:
        reached(source.name, path)
    target = pace_with_load(source) if most is None else pace_of(source)
    return ScanSettings(
        pickle.dumps(scan),
        local_path(path) if store is None else path,
        scans.folder / str(number),
        scans.bound,
        scans.tasks,
        parse_duration(source.options.get("forget_after", FORGET_AFTER)),
        None if most is None else int(most),
        None if target is None else target / SECOND,
        source.admission is not None and source.admission.is_load_measured,
        source.options.get("format") != "csv",
        None if scan.packing.surveying is None else scan.packing.surveying.orders,
        store,
        None if full is None else parse_duration(full) / SECOND,
    )


def decoded(frame: DataFrame, source: Source, scan: FusedScan) -> DataFrame:
    """The lines that a scan left to Spark as rows of the source; packed rows pass in the column PASSED.

    Only the columns that the scan reads are decoded.
    """
    schema, passed = user_schema(source), F.when(F.col(ROW).isNull(), F.struct(*PACKED.names)).alias(PASSED)
    columns = {name for name, _ in scan.reader.columns}
    lines = frame.select(passed, "seq", RECEIVED, FOLDERS, F.col(ROW).alias(LINE))
    named = {name.lower() for name in _folder_columns(source)}
    inside = StructType([field for field in schema.fields if field.name.lower() not in named])
    decode = rows_of_lines if source.options.get("format", "json") != "csv" else partial(rows_of_texts, source=source)
    rows = decode(lines, schema=inside, columns=columns)
    texts = F.from_json(FOLDERS, "map<string,string>")
    by_folder = {name: texts[name] for name in schema.names if name not in inside.names}
    rows = with_folder_values(rows, schema, by_folder, columns)
    own = [F.col(backticked(field.name)) for field in schema.fields]
    return rows.select(*own, *hidden(F.col("seq"), F.col(RECEIVED), F.col(CORRUPT)), PASSED)
