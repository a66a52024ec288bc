"""The watermark that Spark reported last, kept in a file: a database that is opened again knows it before its first
batch.
"""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from eventide.spark.clock import from_progress
from eventide.storage.atomic import read_json, write_json
from eventide.storage.paths import AnyPath


class LastWatermark:
    def __init__(self, path: AnyPath) -> None:
        self._path = path
        self.at: int | None = read_json(path)  # microseconds; None before the first row

    def note(self, query: StreamingQuery) -> None:
        told = from_progress(query.lastProgress or {})
        if told is not None and told != self.at:
            self.at = told
            write_json(self._path, told)
