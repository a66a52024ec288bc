"""Limits and load together: what becomes of a row, and what the driver decides from batch to batch.

    limits admit it?  no  →  Reject
          │ yes
    shedder drops it? no  →  Admit: it takes its token
          │ yes
          ├─ strict            →  Shed      no token is taken
          └─ prefer_throttle   →  Throttle  no token is taken; the caller waits and comes again

With `bypass` the shedder is not asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eventide.admission.controller import Admit, Reject, StreamAdmissionController
from eventide.admission.load import BatchLoad, LoadMeter, LoadScore
from eventide.admission.options import ShedSpec, SlaBackpressurePolicy
from eventide.admission.shed_controller import ShedController
from eventide.admission.shedder import LoadShedder, ShedOrder, ShedRatios
from eventide.admission.sla import Priority
from eventide.eventtime.durations import SECOND

_LONGEST_WAIT = 10  # times the target


@dataclass(frozen=True)
class Shed:
    ratio: float  # of the row's priority


@dataclass(frozen=True)
class Throttle:
    ratio: float
    wait: int  # microseconds


Decision = Admit | Reject | Shed | Throttle


def throttle_wait(share: float, target_latency: int) -> int:
    """How long a producer should wait, in microseconds: as long as the engine needs for what came in excess while one
    batch of the target's length ran.

    >>> throttle_wait(0.5, 2_000_000)
    2000000
    """
    excess = _LONGEST_WAIT if share >= 1 else min(share / (1 - share), _LONGEST_WAIT)
    return round(excess * target_latency)


class SlaBackpressureCoordinator:
    """One source, row by row, in order of arrival. `order` is the one in force; None: nothing is to be shed."""

    def __init__(
        self, controller: StreamAdmissionController, shed: ShedSpec | None = None, order: ShedOrder | None = None
    ) -> None:
        self._controller = controller
        self._shed = shed
        self.follow(order)

    def follow(self, order: ShedOrder | None) -> None:
        """From the next row on."""
        self._shedder = None if order is None else LoadShedder(order)

    def decide(
        self, event_time: int | None, now: int, priority: Priority = Priority.MEDIUM, row_hash: int = 0
    ) -> Decision:
        """`row_hash` is the row's, of `shedder.row_hashes`."""
        judged = self._controller.judge(event_time, now)
        if isinstance(judged, Reject):
            return judged
        ratio = self._ratio(priority, row_hash)
        if self._shed is None or ratio is None:
            return self._controller.take(judged)
        if self._shed.policy is SlaBackpressurePolicy.PREFER_THROTTLE:
            return Throttle(ratio, throttle_wait(ratio, self._shed.target_latency))
        return Shed(ratio)

    def _ratio(self, priority: Priority, row_hash: int) -> float | None:
        """The ratio under which the row would be dropped; None if it would not, or nobody asks."""
        if self._shedder is None or self._shed is None or self._shed.policy is SlaBackpressurePolicy.BYPASS_SHEDDER:
            return None
        dropped = self._shedder.rows(np.array([priority], np.int8), np.array([row_hash], np.uint64))
        return self._shedder.order.ratios.of(priority) if dropped[0] else None


class LoadSheddingManager:
    """What the driver asks after each batch of a stream: the order for the next, and `keep`, the share of all rows that
    it leaves. A source of policy `prefer_throttle` reads `wait` instead.

    After a restart `order` is the last one that was logged; how loaded the engine is it learns anew.
    """

    def __init__(
        self, target_latency: int, order: ShedOrder | None = None, controller: ShedController | None = None
    ) -> None:
        self._target = target_latency
        self._meter = LoadMeter(target_latency / SECOND)
        self.order = order or ShedOrder()
        self._controller = controller or ShedController(self.order.share)
        self._mix: Counter[Priority] = Counter()
        self.score = LoadScore()

    def observe(
        self, batch: BatchLoad, mix: Mapping[Priority, int], seen: int | None = None, oldest: int | None = None
    ) -> ShedOrder:
        """A batch has ended. `mix` are its rows by priority before shedding; rows of sources that are never shed count
        as CRITICAL. For mode `windows`: `seen` is the latest event time so far, `oldest` the start of the oldest window
        that may still get rows.
        """
        self.score = self._meter.observe(batch)
        share = self._controller.update(self.score)
        self._mix = Counter({priority: (self._mix[priority] + mix.get(priority, 0) + 1) // 2 for priority in Priority})
        ratios = ShedRatios.of_share(share, self._mix)
        since = self.order.changed(ratios, seen, oldest)
        self.order = ShedOrder(ratios, share, self.score.value, self.score.cause, since)
        return self.order

    @property
    def keep(self) -> float:
        rows = sum(self._mix.values())
        shed = sum(count * self.order.ratios.of(priority) for priority, count in self._mix.items())
        return 1 - shed / rows if rows else 1 - self.order.share

    @property
    def wait(self) -> int:
        return throttle_wait(self.order.share, self._target)
