"""From the load score to the share of rows that must go.

Shedding begins when the engine suffers: a batch longer than its target, more waiting than one batch can take, memory
beyond its share. How much goes is not found by trial. It is what the demand exceeds the capacity by, and a little more
as long as there is something to catch up on. So there is no swinging to and fro, and below capacity it is nothing.

    wanted = 1 − (1 − headroom) / demand        while demand > 1

A batch far below its target, time after time, shows that more could be kept, though nobody knows how much: as long as
all batches have one size, nothing tells what of a batch is fixed cost. Then the ratio falls by steps.

A ratio stays as it is until the wanted one differs from it by more than a step, so that noise does not reach the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eventide.admission.load import LoadScore


@dataclass(frozen=True)
class ShedTuning:
    """How hastily the ratio follows. Shares and factors, found with the curves of `tests/admission`."""

    step: float = 0.03  # the least change, as a share of what is kept
    haste: float = 0.8  # the part of a rise that is made at once
    headroom: tuple[float, float] = (
        0.02,
        0.07,
    )  # of the capacity, kept free: always; when there is much to catch up on
    jump: float = 1.35  # a change of demand that is believed at once
    weight: float = 0.25  # of a smaller one against what was known
    begin: float = 1.05  # the suffering at which shedding begins
    calm: float = 0.5  # the suffering below which no more is shed, whatever the demand seems to be
    patience: int = 2  # batches of it after which less is tried
    probe: float = 0.1  # how much less
    most: float = 0.99


class ShedController:
    """`update` with the score of each batch; `ratio` is the share of rows to shed in the next. While the demand is not
    known, as after a restart, the ratio stays what it was.
    """

    def __init__(self, ratio: float = 0.0, tuning: ShedTuning | None = None) -> None:
        self._tuning = tuning or ShedTuning()
        self._demand: float | None = None
        self._calm = 0  # batches in a row
        self.ratio = ratio

    def update(self, score: LoadScore) -> float:
        if score.demand is None:
            return self.ratio
        memory = score.memory if score.memory > 1 else 0.0  # what is not full does not hurt
        demand = self._smoothed(max(score.demand, memory))
        suffering = max(score.latency, score.backlog, memory)
        if demand <= 1 or (self.ratio == 0 and suffering <= self._tuning.begin):
            self.ratio = 0.0
            return self.ratio
        self._calm = self._calm + 1 if suffering < self._tuning.calm else 0
        if self._calm >= self._tuning.patience:
            self._calm = 0
            self.ratio = max(0.0, self.ratio - self._tuning.probe)
            return self.ratio
        wanted = min(1 - (1 - self._headroom(suffering)) / demand, self._tuning.most)
        rise = wanted - self.ratio
        if rise > 0 and suffering < self._tuning.calm:
            return self.ratio
        if abs(rise) > self._tuning.step * (1 - self.ratio):
            self.ratio += rise * self._tuning.haste if rise > 0 else rise
        return self.ratio

    def _headroom(self, suffering: float) -> float:
        least, most = self._tuning.headroom
        return min(most, least + 0.1 * max(0.0, suffering - 1))

    def _smoothed(self, demand: float) -> float:
        """In proportions, so that a half and a double weigh the same."""
        demand = max(demand, 1e-3)
        if self._demand is None or not 1 / self._tuning.jump < demand / self._demand < self._tuning.jump:
            self._demand = demand
        else:
            self._demand *= math.pow(demand / self._demand, self._tuning.weight)
        return self._demand
