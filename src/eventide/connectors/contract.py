"""What every source hands to the compiler, whatever its connector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import DataType, StructField, StructType

from eventide.errors import EngineError, OptionError
from eventide.kernels.contract import SEQ
from eventide.kernels.prefold import TimeBound
from eventide.plan.logical import Source
from eventide.plan.names import backticked
from eventide.storage.paths import AnyPath

# Hidden columns that travel with the user's. RECEIVED is what the source itself knows about a row's time; SEQ is its
# place in the order of arrival, or NULL where only the order within a task is known.
RECEIVED, CORRUPT = "__received", "__corrupt"
HIDDEN = (SEQ, RECEIVED, CORRUPT)
# When the row's batch began, in microseconds: only of sources whose rows are read by tasks of ours. A time in Spark's
# own expressions is written into the code that it generates, which is then compiled anew in every batch.
BEGAN = "__began"
PLACE = "__place"  # only of some sources: where a row was found, in words, for one that has a problem
PASSED = "__passed"  # a row that a fused scan has already packed; its other columns mean nothing


@dataclass(frozen=True)
class Scans:
    """What fused scans need: where they log the files they have found, the stream's time bound, and how many tasks
    read.
    """

    folder: AnyPath
    bound: AnyPath
    tasks: int


@dataclass(frozen=True)
class TableFiles:
    """Where tables lie, and which of their versions count for the stream."""

    folder: AnyPath
    log: AnyPath


@dataclass(frozen=True)
class BatchFacts:
    """What tasks are told of a batch: how far the stream's time may have come before it, and when it began, in
    microseconds, as Spark logs it.
    """

    bound: TimeBound
    began: int


@dataclass(frozen=True)
class SourceContext:
    """Where a stream's inbox and its sources' spools are; `frames` are a user's own DataFrames by source name.

    Without an inbox a stream takes no control entries: no external watermarks, idle sources, flush or ticks.
    """

    spark: SparkSession
    inbox: AnyPath | None
    spools: AnyPath
    streams: AnyPath | None = None  # where what other streams gave lies
    scans: Scans | None = None  # None: nothing is fused
    frames: Mapping[str, DataFrame] = field(default_factory=dict)
    orders: AnyPath | None = None  # of the stream's shedder; a reader that knows them leaves out rows that go unseen
    tables: TableFiles | Mapping[str, pa.Table] | None = None  # with versions, or as they are for ever
    streaming: bool = True  # False: all that is there, once
    told: Callable[[], BatchFacts] | None = None  # asked in a task

    def spool(self, source: str) -> AnyPath:
        return self.spools / source

    def facts_for(self, source: Source) -> Callable[[], BatchFacts]:
        """Who tells the tasks that read a source of their batch."""
        if self.told is None:
            raise EngineError(f"nobody can tell the tasks that read {source.name} of their batch")
        return self.told

    def outputs(self, stream: str) -> AnyPath:
        """What another stream gave, batch by batch."""
        if self.streams is None:
            raise OptionError(f"{stream} is a stream, and only streams of the same database can be read")
        return self.streams / stream / "results"


def user_schema(source: Source) -> StructType:
    """The declared columns as Spark types."""
    fields = []
    for column in source.columns:
        try:
            fields.append(StructField(column.name, DataType.fromDDL(column.type)))
        except Exception as error:
            raise OptionError(
                f"source {source.name}: Spark does not know the type {column.type} of column {column.name}"
            ) from error
    return StructType(fields)


def hidden(seq: Column, received: Column, corrupt: Column) -> list[Column]:
    values = (seq.cast("bigint"), received.cast("bigint"), corrupt.cast("string"))
    return [value.alias(name) for value, name in zip(values, HIDDEN, strict=True)]


def with_hidden(frame: DataFrame, schema: StructType, received: Column, corrupt: Column) -> DataFrame:
    """Rows of a Spark source, which has no order of arrival, with the hidden columns."""
    own = [F.col(backticked(field.name)) for field in schema.fields]
    return frame.select(*own, *hidden(F.lit(None), received, corrupt))


def timestamp_of(text: Column) -> Column:
    """The moment that a text names as Spark's cast reads it; NULL for one without a date, in which Spark sees today."""
    return F.when(text.rlike(r"^\s*[+-]?\d{4}"), text.try_cast("timestamp"))
