"""Rows in any format that Spark can write, batch by batch.

Spark's writers know nothing of batches, so one that comes again is written again. `{batch}` and `{identity}` in the
path and in options stand for the batch's number and the stream's identity: with them some formats keep a batch once.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from eventide.connectors.declaration import Opening
from eventide.connectors.spark.connector import PREFIX
from eventide.errors import SinkError


class SparkSink:
    def __init__(self, opening: Opening) -> None:
        self._opening = opening

    def write(self, batch: int, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        told = {name: self._filled(value, batch) for name, value in self._opening.options.items()}
        options = {name.removeprefix(PREFIX): value for name, value in told.items() if name.startswith(PREFIX)}
        spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        try:
            writer = (
                spark.createDataFrame(rows.combine_chunks())
                .write.format(told["format"])
                .mode(told.get("mode", "append"))
            )
            writer.options(**options).save(told.get("path"))
        except Exception as error:
            first = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise SinkError(
                f"sink {self._opening.name}: batch {batch} could not be written as {told['format']}: "
                f"{self._opening.hide(first)}",
                help="mend the cause and run the stream again: the batch is written again",
            ) from None

    def close(self) -> None:
        pass

    def _filled(self, value: str, batch: int) -> str:
        return value.replace("{batch}", str(batch)).replace("{identity}", self._opening.identity)
