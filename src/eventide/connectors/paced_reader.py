"""A Python data source whose batches have a size: what Spark has for it, and a stand-in where it has nothing.

Spark 4.1 neither bounds a batch nor says where one starts. There a batch starts where the last one ended; the first one
after a start takes all that is there, because nobody says where it begins.

Like the modules of data sources this one travels by value to where Spark plans batches.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:

    class ReadLimit:  # type: ignore[no-redef]
        pass

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        pass

    @dataclass
    class ReadMaxFiles(ReadLimit):  # type: ignore[no-redef]
        max_files: int

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


__all__ = ["Offset", "PacedReader", "ReadAllAvailable", "ReadLimit", "ReadMaxFiles", "ReadMaxRows"]

Offset = dict[str, Any]


class PacedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`next_offset` is where the batch that begins at `start` ends; `start` itself if there is nothing to read."""

    _ended: Offset | None = None

    @abstractmethod
    def next_offset(self, start: Offset, limit: ReadLimit) -> Offset: ...

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        if start is None:
            limit = ReadAllAvailable() if self._ended is None else self.getDefaultReadLimit()
            start = self.initialOffset() if self._ended is None else self._ended
        self._ended = self.next_offset(start, limit or ReadAllAvailable())
        return self._ended
