"""When Spark runs the batches of a query: a stream's trigger in Spark's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eventide.plan.trigger import Trigger


def spark_trigger(trigger: Trigger) -> dict[str, Any]:
    """As Spark takes it; empty for batch after batch."""
    if trigger.ends:
        return {"availableNow": True}
    return {} if trigger.every is None else {"processingTime": f"{trigger.every // 1000} milliseconds"}


def ends_by_itself(trigger: Mapping[str, Any]) -> bool:
    """Whether a query with one of Spark's triggers takes in what is there when it starts, and nothing that comes
    later.
    """
    return not trigger.keys().isdisjoint(("availableNow", "once"))
