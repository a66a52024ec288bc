"""A Delta table as a Spark source: a Python data source whose offsets are versions, and whose tasks read the files that
versions have added. No jars are needed.

As in `connectors.kafka.data_source`, the module travels by value and imports the rest where it is needed.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from eventide.connectors.paced_reader import Offset, PacedReader, ReadAllAvailable, ReadLimit, ReadMaxRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from eventide.connectors.delta.versions import AddedFile, Versions

SETTINGS = "secret_settings"  # an option whose name tells Spark not to show it: it may hold passwords
_VERSION = "version"
_NOTHING = -1  # a version in front of the first


@dataclass(frozen=True)
class TableSettings:
    versions: Versions
    schema: pa.Schema  # of what is given: the declared columns, and when the rows were received
    received: str
    start: int | None  # the last version that is not read; None: what is there when the stream first runs
    most: int | None = None  # versions in a batch


class AddedRows(DataSource):
    @classmethod
    def name(cls) -> str:
        return "eventide_delta_versions"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Reader(self.options[SETTINGS])


@dataclass
class _Share(InputPartition):
    file: AddedFile


class _Reader(PacedReader):
    def __init__(self, settings: str) -> None:
        self._text = settings
        self._last: int | None = None

    @property
    def _settings(self) -> TableSettings:
        settings: TableSettings = pickle.loads(base64.b64decode(self._text))
        return settings

    def initialOffset(self) -> Offset:
        start = self._settings.start
        return {_VERSION: self._settings.versions.latest() if start is None else start}

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._settings.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._settings.versions.latest()

    def next_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        latest = self._settings.versions.latest() if self._last is None else self._last
        begun = start[_VERSION]
        if isinstance(limit, ReadMaxRows) and begun >= 0:
            latest = min(latest, begun + limit.max_rows)
        return {_VERSION: max(latest, begun)}

    def reportLatestOffset(self) -> Offset:
        return {_VERSION: self._settings.versions.latest()}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        found = self._settings.versions.files(start[_VERSION], end[_VERSION])
        return [_Share(file) for file in found]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        from eventide.connectors.delta.rows import rows_of

        yield from rows_of(self._settings, partition.file)
