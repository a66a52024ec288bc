"""The fused scan as a source of Spark's: a Python data source that finds files, hands them out in batches, and packs their rows.

Spark asks `latestOffset` in one Python process per query, on the driver, which lives as long as the query; `read` runs in
tasks, on a copy of the reader. So whatever is opened, is opened on the first call and not in `__init__`.
"""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from eventide.admission.files import FileAdmission
from eventide.admission.pacing import AdaptiveBatcher, Pacing
from eventide.errors import EngineError, SourceError
from eventide.eventtime.durations import SECOND, parse_duration
from eventide.eventtime.registry import CustomParser, Iso8601, event_time_types
from eventide.kernels.prefold import Line
from eventide.plan.logical import Source
from eventide.plan.physical import Fusion, Physical
from eventide.scan.fused import FusedScan, Resolution
from eventide.scan.lines import JsonLines, RawLines
from eventide.scan.packing import Packing
from eventide.scan.ranges import FileRange, dealt_out
from eventide.scan.row_groups import RowGroups
from eventide.spark.pack import PACKED_SCHEMA
from eventide.spark.resolve import PASSED
from eventide.spark.session import default_shards
from eventide.spark.sources.common import CORRUPT, hidden, user_schema
from eventide.storage.discoveries import DiscoveryLog
from eventide.storage.late_line import LateLine
from eventide.storage.listing import Listing, local_path

_SCHEMA = f"{PACKED_SCHEMA}, row string, received long, seq long"
_FILES, _AT = "files", "at"  # an offset: how many files, and the time of the batch that ends with them


@dataclass(frozen=True)
class ScanSettings:
    """`state_folder` belongs to one source of one query and must live as long as its checkpoint."""

    scan: FusedScan
    path: str
    state_folder: Path
    line: Path  # see storage.late_line
    tasks: int
    max_files: int | None = None
    target_latency: float | None = None  # seconds


def scanned(spark: SparkSession, settings: ScanSettings) -> DataFrame:
    """Packed rows, and lines that Spark must decode."""
    spark.createDataFrame([], "nothing int")  # makes this session the active one, which is where Spark looks data sources up
    try:
        spark.dataSource.register(FusedFiles)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # another source of this session has registered it
            raise
    text = base64.b64encode(pickle.dumps(settings)).decode()
    return spark.readStream.format(FusedFiles.name()).option("settings", text).load()


def fused_scan(physical: Physical, source: Source, fusion: Fusion, packing: Packing) -> FusedScan:
    parser = None if fusion.time is None or source.event_time is None else event_time_types.resolve(source.event_time.type)
    if isinstance(parser, CustomParser):
        raise EngineError(f"source {source.name}: a custom event-time type cannot be fused")
    reader: JsonLines | RawLines | RowGroups
    if fusion.left_to_spark:
        reader = RawLines(fusion.columns)
    elif source.options.get("format", "json") == "parquet":
        reader = RowGroups(fusion.columns)
    else:
        reader = JsonLines(fusion.columns, fusion.time if isinstance(parser, Iso8601) else None)
    resolution = Resolution(fusion.time, parser, source.max_future_skew)
    numbered = physical.ordered or any(branch.source.dedup is not None for branch in physical.branches)
    return FusedScan(reader, resolution, fusion.condition, fusion.packed, packing, fusion.identity, numbered)


def settings_of(spark: SparkSession, source: Source, scan: FusedScan, state_folder: Path, line: Path) -> ScanSettings:
    most, target = source.options.get("max_files_per_batch"), source.options.get("target_latency")
    return ScanSettings(
        scan,
        local_path(source.options["path"]),
        state_folder,
        line,
        default_shards(spark),
        None if most is None else int(most),
        None if target is None else parse_duration(target) / SECOND,
    )


def decoded(frame: DataFrame, source: Source, columns: tuple[tuple[str, str], ...]) -> DataFrame:
    """The lines that a scan left to Spark as rows of the source; packed rows pass in the column PASSED.

    A line that is an array is a row per element, as in Spark's own reader. Only `columns` are decoded.
    """
    schema, names = user_schema(source), {name for name, _ in columns}
    read = StructType([field for field in schema.fields if field.name in names])
    one = StructType([*read.fields, StructField(CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "timeZone": "UTC"}
    single = F.array(F.from_json("row", one, options))
    several = F.transform(
        F.from_json("row", ArrayType(read), {"timeZone": "UTC"}),
        lambda each: F.struct(*[each[field.name].alias(field.name) for field in read.fields], F.lit(None).cast("string").alias(CORRUPT)),
    )
    values = F.when(F.ltrim("row").startswith("["), F.coalesce(several, single)).otherwise(single)
    packed = [name.split()[0] for name in PACKED_SCHEMA.split(", ")]
    passed = F.when(F.col("row").isNull(), F.struct(*packed)).alias(PASSED)
    rows = frame.select(passed, "seq", "received", F.explode(values).alias("value"))
    own = [
        (F.col(f"value.`{field.name}`") if field.name in names else F.lit(None).cast(field.dataType)).alias(field.name)
        for field in schema.fields
    ]
    return rows.select(*own, *hidden(F.col("seq"), F.col("received"), F.col(f"value.{CORRUPT}")), PASSED)


class FusedFiles(DataSource):
    @classmethod
    def name(cls) -> str:
        return "eventide_fused_files"

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Reader(pickle.loads(base64.b64decode(self.options["settings"])))


@dataclass
class _Share(InputPartition):
    """What one task reads."""

    ranges: list[FileRange]
    at: int
    task: int
    line: Line


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, settings: ScanSettings) -> None:
        self._settings = settings
        self._opened: FileAdmission | None = None

    @property
    def _admission(self) -> FileAdmission:
        if self._opened is None:
            settings = self._settings
            pacing = Pacing(settings.target_latency or 1.0)
            self._opened = FileAdmission(Listing(settings.path), DiscoveryLog(settings.state_folder), AdaptiveBatcher(pacing))
        return self._opened

    def initialOffset(self) -> dict[str, int]:
        return {_FILES: 0, _AT: 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        is_limited = self._settings.target_latency is not None or self._settings.max_files is not None
        return ReadMaxFiles(self._settings.max_files or 1 << 30) if is_limited else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._admission.freeze()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        paced = self._settings.target_latency is not None and not isinstance(limit, ReadAllAvailable)
        admit = self._admission.admit if paced else self._admission.admit_all
        end = admit(start[_FILES], time.monotonic())
        if isinstance(limit, ReadMaxFiles):
            end = min(end, start[_FILES] + limit.max_files)
        return start if end == start[_FILES] else {_FILES: end, _AT: max(time.time_ns() // 1000, start[_AT])}

    def reportLatestOffset(self) -> dict[str, int]:
        return {_FILES: self._admission.known, _AT: 0}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        found = self._admission.files(start[_FILES], end[_FILES])
        files = [FileRange(file.path, start[_FILES] + n, file.modified, 0, file.length) for n, file in enumerate(found)]
        line = Line(**LateLine(self._settings.line).read())
        return [_Share(ranges, end[_AT], task, line) for task, ranges in enumerate(dealt_out(files, self._settings.tasks))]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._settings.scan.read(partition.ranges, partition.at, partition.task, partition.line)
        except FileNotFoundError as error:
            raise SourceError(
                f"the file {error.filename} has gone since the stream found it",
                help="put it back; delete or move files only after the stream has taken them in",
            ) from None
