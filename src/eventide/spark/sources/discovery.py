"""A streaming DataFrame of the files in a folder, one row a file, in batches that last about as long as the user wants.

Spark asks `latestOffset` in one Python process per query, on the driver, which lives as long as the query; `read` runs in
tasks, on a copy of the reader. So whatever is opened, is opened on the first call and not in `__init__`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from eventide.admission.files import FileAdmission
from eventide.admission.pacing import AdaptiveBatcher, Pacing
from eventide.errors import OptionError, SourceError
from eventide.spark.session import default_shards
from eventide.storage.discoveries import DiscoveryLog
from eventide.storage.listing import FoundFile, Listing, local_path

SCHEMA = "path string, modified long, length long"
_ARROW = pa.schema([("path", pa.string()), ("modified", pa.int64()), ("length", pa.int64())])
_OFFSET = "files"
_SECOND = 1_000_000


def discovered(spark: SparkSession, path: str, target_latency: int, state_folder: Path) -> DataFrame:
    """The files that `path` names, new ones as they come: `path`, `modified` (microseconds) and `length`.

    `target_latency`, in microseconds, is how long a batch should last. `state_folder` belongs to one query and must
    live as long as its checkpoint.
    """
    if target_latency <= 0:
        raise OptionError("a target_latency of zero cannot be met", help="write how long a batch should last, such as '2 seconds'")
    spark.dataSource.register(DiscoveredFiles)
    reader = spark.readStream.format(DiscoveredFiles.name())
    reader = reader.option("folder", local_path(path)).option("target_latency", target_latency)
    return reader.option("state_folder", str(state_folder)).option("tasks", default_shards(spark)).load()


class DiscoveredFiles(DataSource):
    @classmethod
    def name(cls) -> str:
        return "eventide_discovered_files"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Reader(
            self.options["folder"],
            Path(self.options["state_folder"]),
            Pacing(int(self.options["target_latency"]) / _SECOND),
            int(self.options["tasks"]),
        )


@dataclass
class _Files(InputPartition):
    files: list[FoundFile]


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, folder: str, state_folder: Path, pacing: Pacing, tasks: int) -> None:
        self._folder = folder
        self._state_folder = state_folder
        self._pacing = pacing
        self._tasks = tasks
        self._opened: FileAdmission | None = None

    @property
    def _admission(self) -> FileAdmission:
        if self._opened is None:
            self._opened = FileAdmission(Listing(self._folder), DiscoveryLog(self._state_folder), AdaptiveBatcher(self._pacing))
        return self._opened

    def initialOffset(self) -> dict[str, int]:
        return {_OFFSET: 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self._pacing.max_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        self._admission.freeze()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        admit = self._admission.admit_all if isinstance(limit, ReadAllAvailable) else self._admission.admit
        return {_OFFSET: admit(start[_OFFSET], time.monotonic())}

    def reportLatestOffset(self) -> dict[str, int]:
        return {_OFFSET: self._admission.known}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [_Files(files) for files in self._admission.partitions(start[_OFFSET], end[_OFFSET], self._tasks)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        for file in partition.files:
            if not os.path.exists(file.path):
                raise SourceError(
                    f"the file {file.path} has gone since the stream found it",
                    help="put it back; delete or move files only after the stream has taken them in",
                )
        yield pa.RecordBatch.from_pylist([file._asdict() for file in partition.files], schema=_ARROW)
