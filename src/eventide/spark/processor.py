"""The stateful operator, as Spark's transformWithState calls it: with a shard's packed rows, or when the shard's timer
has expired.

For every query Spark starts a Python process that does nothing but ask which states `init` declares. So this module
imports little: the kernel and all that it needs are loaded when the first rows come.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, ValueState

    from eventide.spark.shard import ShardWork, ShardWorker

# As types and not as text, which Spark would send to the JVM to parse in every task.
_VALUE = StructType([StructField("value", BinaryType())])
_PLACE = StructType(
    [StructField("space", StringType()), StructField("bucket", LongType()), StructField("number", IntegerType())]
)


class States(NamedTuple):
    """See `spark.state_store`."""

    listing: ValueState
    blobs: MapState


class ShardProcessor(StatefulProcessor):
    def __init__(self, work: ShardWork) -> None:
        self._work: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        self._worker: ShardWorker | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._states = States(handle.getValueState("index", _VALUE), handle.getMapState("blobs", _PLACE, _VALUE))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        return self._loaded().on_rows(key, rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        return self._loaded().on_timer(key, timerValues)

    def close(self) -> None:
        pass

    def _loaded(self) -> ShardWorker:
        if self._worker is None:
            from eventide.spark.shard import ShardWorker

            self._worker = ShardWorker(pickle.loads(self._work), self._handle, self._states)
        return self._worker
