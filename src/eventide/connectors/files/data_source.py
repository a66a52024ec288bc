"""The fused scan as a Spark source: a Python data source that finds files, hands them out in batches, and packs their
rows.

Spark plans every batch in a separate Python process, which imports this module: so the module imports little at the
top, and the rest where it is needed. Spark calls `latestOffset` in one process per query, on the driver, which lives as
long as the query; `read` runs in tasks, on a copy of the reader. So everything is opened on the first call, not in
`__init__`.
"""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from eventide.connectors.paced_reader import PacedReader, ReadAllAvailable, ReadLimit, ReadMaxFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from eventide.connectors.files.admission import FileAdmission
    from eventide.storage.paths import AnyPath
    from eventide.storage.stores import Store
    from eventide.tasks.byte_ranges import FileRange
    from eventide.tasks.fused_scan import FusedScan
    from eventide.tasks.shared_scan import SharedScan

_FILES, _AT = "files", "at"  # an offset: the number of files, and the time of the batch that ends with them


@dataclass(frozen=True)
class ScanSettings:
    """`state_folder` belongs to one source of one query and must live as long as its checkpoint.

    `scan` is a pickled FusedScan or SharedScan: only tasks load it, and the modules it needs.
    """

    scan: bytes
    path: str
    state_folder: AnyPath
    bound: AnyPath  # see storage.time_bound
    tasks: int
    forget_after: int  # microseconds: how long the name of a file that is gone is remembered
    max_files: int | None = None
    target_latency: float | None = None  # seconds
    watched: bool = False  # whether the driver wants to know how much waits
    splits: bool = True  # whether several tasks may read one file
    orders: AnyPath | None = None  # of the shedder's log, where rows may be shed
    store: Store | None = None  # which the files are in, if they are not on this machine
    full_listing: float | None = None  # seconds, of a store: how often all of its folders are listed


class FusedFiles(DataSource):
    @classmethod
    def name(cls) -> str:
        return "eventide_fused_files"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Reader(self.options["settings"])


@dataclass
class _Share(InputPartition):
    """What one task reads."""

    ranges: list[FileRange]
    at: int
    task: int
    bound: dict[str, int | None]  # as read from storage.time_bound


class _Reader(PacedReader):
    def __init__(self, settings: str) -> None:
        self._text = settings
        self._loaded: ScanSettings | None = None
        self._opened: FileAdmission | None = None

    @property
    def _settings(self) -> ScanSettings:
        if self._loaded is None:
            self._loaded = pickle.loads(base64.b64decode(self._text))
        return self._loaded

    @property
    def _admission(self) -> FileAdmission:
        if self._opened is None:
            from eventide.admission.pacing import batcher_of
            from eventide.admission.shed_log import ShedLog
            from eventide.connectors.files.admission import FileAdmission, Forgetting
            from eventide.connectors.files.discoveries import DiscoveryLog
            from eventide.connectors.files.listing import Listing
            from eventide.connectors.files.store_listing import FULL_EVERY, StoreListing
            from eventide.storage.passed_over import PassedOver

            settings = self._settings
            every = FULL_EVERY if settings.full_listing is None else settings.full_listing

            def listing() -> Listing | StoreListing:
                if settings.store is None:
                    return Listing(settings.path)
                return StoreListing(settings.path, settings.store, every)

            keep = None if settings.orders is None else ShedLog(settings.orders).keep
            self._opened = FileAdmission(
                listing(),
                DiscoveryLog(settings.state_folder),
                batcher_of(settings.target_latency or 1.0, keep),
                self._note_left if settings.watched else None,
                Forgetting(settings.forget_after, lambda: listing().new_files(()), PassedOver(settings.state_folder)),
            )
        return self._opened

    def _note_left(self, left: int) -> None:
        from eventide.connectors.files.waiting import TAKEN
        from eventide.storage.atomic import write_json

        write_json(self._settings.state_folder / TAKEN, {"left": left})

    def initialOffset(self) -> dict[str, int]:
        return {_FILES: 0, _AT: 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        is_limited = self._settings.target_latency is not None or self._settings.max_files is not None
        return ReadMaxFiles(self._settings.max_files or 1 << 30) if is_limited else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._admission.freeze()

    def next_offset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        paced = self._settings.target_latency is not None and not isinstance(limit, ReadAllAvailable)
        admit = self._admission.admit if paced else self._admission.admit_all
        end = admit(start[_FILES], time.monotonic())
        if isinstance(limit, ReadMaxFiles):
            end = min(end, start[_FILES] + limit.max_files)
        return start if end == start[_FILES] else {_FILES: end, _AT: max(time.time_ns() // 1000, start[_AT])}

    def reportLatestOffset(self) -> dict[str, int]:
        return {_FILES: self._admission.known, _AT: 0}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        from eventide.storage.time_bound import TimeBoundFile
        from eventide.storage.unreadable_files import UnreadableFiles
        from eventide.tasks.byte_ranges import FileRange, dealt_out

        found = enumerate(self._admission.files(start[_FILES], end[_FILES]), start[_FILES])
        store = self._settings.store
        gone = UnreadableFiles(self._settings.state_folder.parent).gone(store)
        files = [
            FileRange(file.path, number, file.modified, 0, file.length, store)
            for number, file in found
            if file.path not in gone
        ]
        bound = TimeBoundFile(self._settings.bound).read()
        return [
            _Share(ranges, end[_AT], task, bound)
            for task, ranges in enumerate(dealt_out(files, self._settings.tasks, self._settings.splits))
        ]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        from eventide.kernels.prefold import TimeBound

        scan: FusedScan | SharedScan = pickle.loads(self._settings.scan)
        yield from scan.read(partition.ranges, partition.at, partition.task, TimeBound(**partition.bound))
