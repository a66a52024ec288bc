"""Batches of a running fluent query for a user's function: rows and payloads as DataFrames.

What came to the driver is a DataFrame of its rows; what tasks have written is read by tasks again, and deleted once the
function has returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from eventide.connectors.arrow_types import from_arrow_type
from eventide.spark.batch_output import Piece, stored
from eventide.spark.router import Router
from eventide.spark.session import frame_of
from eventide.storage.atomic import read_arrow
from eventide.storage.parts import Part
from eventide.storage.paths import AnyPath
from eventide.storage.payloads import PAYLOAD_SCHEMA
from eventide.storage.results import Account, fitted

FrameSink = Callable[[DataFrame, DataFrame, Account], None]
_CHUNK = 65_536


@dataclass
class DeliveringRouter(Router):
    """Hands each batch to a user's function once its account balances. Only the account is kept."""

    sink: FrameSink | None = None

    def _hand_on(self, frame: DataFrame, batch: int) -> None:
        outcome = self._outcome(frame, batch)
        if outcome is None:
            return
        account, side = outcome.account, [outcome.payloads, *outcome.written]
        if self.sink is not None:
            rows = self._frame(frame.sparkSession, outcome.main, self.form.outputs)
            self.sink(rows, self._frame(frame.sparkSession, side, PAYLOAD_SCHEMA), account)
        self.watch.lap("sinks")
        account.took = self.watch.took(account.began)
        self.results.commit([], [], account)
        if any(isinstance(each, Part) for each in stored([*outcome.main, *side])):
            self.results.forget_parts(batch)

    def _frame(self, session: SparkSession, pieces: Sequence[Piece], schema: pa.Schema) -> DataFrame:
        """The rows in their order."""
        found = [each for each in stored(pieces) if isinstance(each, Part) or each.num_rows]
        shape = StructType([StructField(field.name, from_arrow_type(field.type)) for field in schema])
        frames = [
            _read_by_tasks(session, self.results.folder, each, schema, shape)
            if isinstance(each, Part)
            else frame_of(session, fitted(each, schema))
            for each in found
        ]
        return reduce(DataFrame.union, frames) if frames else session.createDataFrame([], shape)


def _read_by_tasks(
    session: SparkSession, results: AnyPath, part: Part, schema: pa.Schema, shape: StructType
) -> DataFrame:
    return session.range(0, 1, 1, 1).mapInArrow(_ReadPart(results / part.name, schema), shape)


@dataclass(frozen=True)
class _ReadPart:
    """mapInArrow function: one row → the rows of a part."""

    path: AnyPath
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if sum(batch.num_rows for batch in batches):
            yield from fitted(read_arrow(self.path), self.schema).to_batches(max_chunksize=_CHUNK)
