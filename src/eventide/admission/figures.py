"""`reason` and `error_detail` of rows that were not admitted: the figures behind the decision, as JSON, many rows at
once.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eventide.admission.batch_admission import Codes, Ints, Outcome, Settlement, Tickets
from eventide.admission.controller import jitter_figures, lag_figures, rate_figures
from eventide.admission.shedder import LoadShedder, Priorities, ShedOrder
from eventide.admission.sla import Priority, StreamSlaConfig


def reasons(outcomes: Codes) -> pa.Array:
    """The `reason` of each row's payload; NULL for rows that were admitted.

    >>> reasons(np.array([0, 3], np.uint8)).to_pylist()
    [None, 'rate']
    """
    if not outcomes.any():
        return pa.nulls(len(outcomes), pa.string())
    words = pa.array([None, *(outcome.word for outcome in Outcome if outcome is not Outcome.ADMITTED)], pa.string())
    return words.take(pa.array(outcomes))


def shed_figures(order: ShedOrder, priority: Priority, ratio: float) -> dict[str, Any]:
    """`ratio` is the share of this priority that goes, `share` that of all rows."""
    return {
        "ratio": ratio,
        "share": round(order.share, 4),
        "priority": priority.word,
        "score": round(order.score, 4),
        "cause": order.cause,
    }


class Figures:
    """`error_detail` for the rows of one source in one batch."""

    def __init__(self, config: StreamSlaConfig, settlement: Settlement, shedder: LoadShedder) -> None:
        self._config = config
        self._settlement = settlement
        self._shedder = shedder

    def details(self, key: int, tickets: Tickets, outcomes: Codes, event_time: Ints) -> pa.Array:
        """One for each row of a survey that was rejected, NULL for the others."""
        found = pa.nulls(len(outcomes), pa.string())
        if not outcomes.any():
            return found
        moment = self._settlement.moments_of(key, tickets)
        for outcome in (Outcome.LAG, Outcome.JITTER, Outcome.RATE):
            is_it = outcomes == outcome
            if is_it.any():
                texts = self._rejected(outcome, moment[is_it], event_time[is_it])
                found = pc.replace_with_mask(found, pa.array(is_it), texts)
        return found

    def _rejected(self, outcome: Outcome, moment: Ints, event_time: Ints) -> pa.Array:
        moments, bucket = self._settlement.moments, self._settlement.bucket
        if outcome is Outcome.LAG:
            lag = (moments.at[moment] - event_time) / 1000
            return _with("lag_ms", lag, lag_figures(0, self._config.max_lag or 0))
        if outcome is Outcome.JITTER or bucket is None:
            return _with("gap_ms", moments.gap[moment] / 1000, jitter_figures(0, self._config.jitter_budget or 0))
        left = moments.level[moment] - moments.most[moment] * bucket.measure.cost
        return _with("tokens_left", (left / bucket.measure.per_token).astype(np.float64), rate_figures(bucket, 0))

    def shed_details(
        self, details: pa.Array, outcomes: Codes, priorities: Priorities, window_starts: Ints | None
    ) -> pa.Array:
        """`details` with those of the rows that were shed."""
        ratios = self._shedder.ratios(priorities, window_starts)
        for priority in Priority:
            is_it = (outcomes == Outcome.SHED) & (priorities == priority)
            if is_it.any():
                texts = _with("ratio", ratios[is_it].round(4), shed_figures(self._shedder.order, priority, 0))
                details = pc.replace_with_mask(details, pa.array(is_it), texts)
        return details


def _with(name: str, values: npt.NDArray[np.float64], figures: dict[str, Any]) -> pa.Array:
    """JSON objects that differ in one number only."""
    others = json.dumps({key: value for key, value in figures.items() if key != name})
    numbers = pa.array(values).cast(pa.string())
    return pc.binary_join_element_wise(f'{{"{name}": ', numbers, f", {others[1:]}", "")
