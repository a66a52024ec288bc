"""Tables on the driver: when they are read, and from which batch on a stream uses what was read.

TableReader   reads files into versions, for all streams of a database
StreamTables  decides, between two batches of one stream, which versions count from the next one on
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from eventide.connectors.registry import TABLES
from eventide.errors import EventideError, SourceError
from eventide.plan.logical import Table
from eventide.spark.analysis import first_sentence
from eventide.spark.batch_times import newest_batch_time
from eventide.storage.layout import Layout
from eventide.storage.paths import AnyPath
from eventide.storage.tables import TableState, TableVersions, VersionLog, table_figures

_LOG = logging.getLogger("eventide")


class TableReader:
    def __init__(self, layout: Layout, session: Callable[[], SparkSession]) -> None:
        self._layout = layout
        self._session = session
        self._reading = threading.Lock()  # held while files are read
        self.publishing = threading.Lock()  # held while versions come and go, or somebody settles on one

    def versions(self, table: str) -> TableVersions:
        return TableVersions(self._layout.tables / table)

    def state(self, table: str) -> TableState:
        return self.versions(table).state()

    def read(self, table: Table) -> bool:
        """Read a table if its files have changed; says whether they have. Raises why they cannot be read."""
        with self._reading:
            versions, now = self.versions(table.name), _now()
            try:
                mark, latest = TABLES[table.connector].mark(table), versions.state().latest
                if latest is not None and mark is not None and mark == latest.fingerprint:
                    versions.unchanged(now)
                    return False
                rows = TABLES[table.connector].read(self._session(), table)
            except Exception as error:
                failure = _failure(table, error)
                versions.failed(now, failure.message)
                raise failure from error
            with self.publishing:
                versions.publish(rows, now, mark)
                versions.forget_all_but(self._needed(table.name))
            return True

    def rows(self, table: Table) -> pa.Table:
        """The newest version; it is read if there is none yet."""
        if self.state(table.name).latest is None:
            self.read(table)
        latest = self.state(table.name).latest
        if latest is None:
            raise SourceError(f"table {table.name}: there is no version of it")
        return self.versions(table.name).read(latest.number)

    def keep_fresh(self, tables: Iterable[Table]) -> None:
        """Read the tables that are due. One that cannot be read keeps its last version, and says so."""
        for table in tables:
            if self._is_due(table):
                try:
                    self.read(table)
                except EventideError as error:
                    _LOG.warning("%s; its last version stays in use", error.message)

    def _is_due(self, table: Table) -> bool:
        state = self.state(table.name)
        if table.refresh is None or state.latest is None or state.checked_at is None:
            return False  # what was never read is read when its first stream starts
        return _now() >= state.checked_at + table.refresh

    def _needed(self, table: str) -> list[int]:
        logs = [VersionLog(path) for path in (self._layout.root / "streams").glob("*/tables.json")]
        return [versions[table] for log in logs for versions in log.needed() if table in versions]


def _now() -> int:
    return time.time_ns() // 1000


def _failure(table: Table, error: Exception) -> EventideError:
    if isinstance(error, EventideError):
        return error
    return SourceError(
        f"table {table.name} cannot be read: {first_sentence(error)}", help="mend its files, or its path"
    )


@dataclass(frozen=True)
class StreamTables:
    """The tables of one stream. `offsets` is where Spark logs its batches before it runs them."""

    tables: Mapping[str, Table]
    reader: TableReader
    log: VersionLog
    offsets: AnyPath

    def begin(self) -> None:
        """Before the query starts: there is a version of every table, and new batches use the newest."""
        for table in self.tables.values():
            if self.reader.state(table.name).latest is None:
                self.reader.read(table)
        self.change()

    @property
    def is_behind(self) -> bool:
        """Whether there is a newer version than those that count."""
        return self.newest() != self.log.latest()

    def newest(self) -> dict[str, int]:
        latest = {name: self.reader.state(name).latest for name in self.tables}
        return {name: version.number for name, version in latest.items() if version is not None}

    def change(self) -> None:
        """Let the newest versions count from the next batch on. To be called when no batch runs, or at one's end."""
        with self.reader.publishing:
            if self.is_behind:
                self.log.add(_now(), newest_batch_time(self.offsets), self.newest())

    def figures(self) -> dict[str, dict[str, Any]]:
        """Of each table: the version in use and how it is doing. Times are milliseconds."""
        return {name: table_figures(self.reader.state(name), self.log.latest().get(name)) for name in self.tables}
