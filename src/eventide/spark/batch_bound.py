"""How far a stream's time may have come before a batch, told to the tasks that pack its rows.

By a local property of Spark, which names the stream: threads hand their properties on to those that they start, and a
bound of another stream must not count.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import DataFrame

from eventide.kernels.prefold import TimeBound
from eventide.storage.time_bound import time_bound

if TYPE_CHECKING:
    from eventide.storage.results import Account

_PROPERTY = "eventide.time_bound"


def tell_bound(frame: DataFrame, stream: str, before: Account | None) -> None:
    """Tell the tasks of a batch, which `frame` is, of the account before it. `stream` is its folder."""
    context = getattr(frame.sparkSession, "sparkContext", None)  # which a remote session does not have
    if context is not None:
        context.setLocalProperty(_PROPERTY, json.dumps({"stream": stream, "bound": time_bound(before)}))


def told_bound(stream: str | None) -> TimeBound | None:
    """What the task that runs here was told about the stream; None if nothing."""
    context = TaskContext.get()
    text = None if context is None or stream is None else context.getLocalProperty(_PROPERTY)
    told = {} if text is None else json.loads(text)
    return TimeBound(**told["bound"]) if told.get("stream") == stream is not None else None
