"""From the load score to the share of rows that must go.

Shedding begins when the engine suffers: a batch longer than its target, more waiting than one batch can take, memory
beyond its share. How much goes is not found by trial. It is what the demand exceeds the capacity by, and a little more
as long as there is something to catch up on. So there is no swinging to and fro, and below capacity it is nothing.

    wanted = 1 − (1 − headroom) / demand        while demand > 1

That keeps up with what comes. What has piled up before, in a batch that was cold or slow, would be worked off by the
headroom alone, and the rows that are never shed would wait so long. So while much more waits than a batch can take, the
next one keeps less of it: most of what is beyond a batch goes at once.

A batch far below its target, time after time, shows that more could be kept, though nobody knows how much: as long as
all batches have one size, nothing tells what of a batch is fixed cost. Then the ratio falls by steps, each twice as
large as the one before.

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
    headroom: tuple[float, float] = (0.02, 0.07)  # of the capacity, kept free: always; when a batch was too long
    behind: float = 1.25  # batches that wait and would be kept, beyond which the next one catches up
    firmness: float = 0.7  # how much of what is beyond goes at once: 0 nothing, 1 all of it
    jump: float = 1.35  # a change of demand that is believed at once
    weight: float = 0.25  # of a smaller one against what was known
    begin: float = 1.05  # the suffering at which shedding begins
    calm: float = 0.6  # the suffering below which no more is shed, whatever the demand seems to be
    patience: int = 2  # batches of it after which less is tried
    probe: float = 0.1  # how much less at first
    most: float = 0.99


class ShedController:
    """`update` with the score of each batch; `ratio` is the share of rows to shed in the next. While the demand is not
    known, as after a restart, the ratio stays what it was.
    """

    def __init__(self, ratio: float = 0.0, tuning: ShedTuning | None = None) -> None:
        self._tuning = tuning or ShedTuning()
        self._demand: float | None = None
        self._calm = 0  # batches in a row
        self._lasting = ratio  # what keeps up with the demand
        self.ratio = ratio

    def update(self, score: LoadScore) -> float:
        if score.demand is None:
            return self.ratio
        memory = score.memory if score.memory > 1 else 0.0  # what is not full does not hurt
        demand = self._smoothed(max(score.demand, memory))
        suffering = max(score.latency, score.backlog, memory)
        if demand <= 1 or (self.ratio == 0 and suffering <= self._tuning.begin):
            self._lasting, self._calm = 0.0, 0
        else:
            self._follow(demand, suffering)
        wanted = min(1 - (1 - self._lasting) * self._catching_up(score.queue), self._tuning.most)
        if wanted == self._lasting or self._differs(wanted, self.ratio):
            self.ratio = wanted
        return self.ratio

    def _differs(self, wanted: float, ratio: float) -> bool:
        return abs(wanted - ratio) > self._tuning.step * (1 - ratio)

    def _follow(self, demand: float, suffering: float) -> None:
        tuning = self._tuning
        self._calm = self._calm + 1 if suffering < tuning.calm else 0
        if self._calm >= tuning.patience:
            self._lasting = max(0.0, self._lasting - tuning.probe * 2 ** (self._calm - tuning.patience))
            return
        wanted = min(1 - (1 - self._headroom(suffering)) / demand, tuning.most)
        rise = wanted - self._lasting
        if rise > 0 and suffering < tuning.calm:
            return
        if self._differs(wanted, self._lasting):
            self._lasting += rise * tuning.haste if rise > 0 else rise

    def _catching_up(self, queue: float) -> float:
        """The share of what would be kept of all that waits that the next batch keeps."""
        ahead = queue * (1 - self._lasting)
        if self._lasting == 0 or ahead <= self._tuning.behind:
            return 1.0
        return float((self._tuning.behind / ahead) ** self._tuning.firmness)

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
