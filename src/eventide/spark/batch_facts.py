"""What the tasks that pack a stream's rows are told of a batch: how far the stream's time may have come before it, and
when it began.

By a local property of Spark, which names the stream: threads hand their properties on to those that they start, and
what is said of another stream must not count.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import DataFrame

from eventide.connectors.contract import BatchFacts
from eventide.errors import EngineError
from eventide.kernels.prefold import TimeBound
from eventide.storage.time_bound import time_bound

if TYPE_CHECKING:
    from eventide.storage.results import Account

_PROPERTY = "eventide.batch"


@dataclass(frozen=True)
class Told:
    bound: TimeBound
    began: int | None  # in microseconds, as Spark logs it; None where nobody needs it


@dataclass(frozen=True)
class FactsOf:
    """Asked in a task of the stream, whose folder it knows, where a batch cannot do without."""

    stream: str

    def __call__(self) -> BatchFacts:
        facts = told(self.stream)
        if facts is None or facts.began is None:
            raise EngineError(f"nobody has told when the batch began, to a task of {self.stream}")
        return BatchFacts(facts.bound, facts.began)


def tell_tasks(frame: DataFrame, stream: str, before: Account | None, began: int | None) -> None:
    """Tell the tasks of a batch, which `frame` is, of the account before it. `stream` is its folder."""
    context = getattr(frame.sparkSession, "sparkContext", None)  # which a remote session does not have
    if context is not None:
        facts = {"stream": stream, "bound": time_bound(before), "began": began}
        context.setLocalProperty(_PROPERTY, json.dumps(facts))


def told(stream: str | None) -> Told | None:
    """What the task that runs here was told about the stream; None if nothing."""
    context = TaskContext.get()
    text = None if context is None or stream is None else context.getLocalProperty(_PROPERTY)
    if text is None:
        return None
    facts = json.loads(text)
    return Told(TimeBound(**facts["bound"]), facts["began"]) if facts["stream"] == stream else None
