"""A token bucket whose arithmetic is exact: all amounts are whole numbers of a unit so small that a microsecond's
refill, a row's cost and the burst are each a whole number of it.

What was in it and what came in is what was taken and what is left:

    admitted × cost + level = opening + refilled,    0 <= level <= burst
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from eventide.admission.sla import BucketSpec
from eventide.errors import CheckpointError
from eventide.eventtime.durations import SECOND


@dataclass(frozen=True)
class Measure:
    """A bucket's figures in whole units, of which `per_token` make a token."""

    per_token: int
    refill: int  # per microsecond
    burst: int
    cost: int

    @classmethod
    def of(cls, spec: BucketSpec) -> Measure:
        per_micro = spec.tokens_per_sec / SECOND
        per_token = math.lcm(per_micro.denominator, spec.burst.denominator, spec.token_cost.denominator)
        return cls(per_token, int(per_micro * per_token), int(spec.burst * per_token), int(spec.token_cost * per_token))

    def tokens(self, units: int) -> Fraction:
        return Fraction(units, self.per_token)


@dataclass(frozen=True)
class BucketState:
    """All that must be kept. Amounts are in units of the `measure` with which it was made; `at` is the time up to which
    the bucket was refilled, None before the first row. `opening` is what was in it when counting began.
    """

    measure: Measure
    level: int
    opening: int
    refilled: int = 0
    admitted: int = 0
    at: int | None = None

    def __post_init__(self) -> None:
        if not self.is_balanced or not 0 <= self.level <= self.measure.burst:
            raise CheckpointError(
                f"the token bucket does not balance: {self}", help="restore the checkpoint from a copy"
            )

    @property
    def is_balanced(self) -> bool:
        return self.admitted * self.measure.cost + self.level == self.opening + self.refilled

    @classmethod
    def full(cls, spec: BucketSpec) -> BucketState:
        measure = Measure.of(spec)
        return cls(measure, measure.burst, measure.burst)

    def under(self, spec: BucketSpec) -> BucketState:
        """The same bucket with options that may have changed: it keeps its tokens, as far as they fit."""
        measure = Measure.of(spec)
        if measure == self.measure:
            return self
        level = min(self.level * measure.per_token // self.measure.per_token, measure.burst)
        return BucketState(measure, level, level, at=self.at)

    def to_json(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "measure"}
        return {**own, "measure": list(vars(self.measure).values())}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> BucketState:
        return cls(**{**found, "measure": Measure(*found["measure"])})


class TokenBucket:
    """One row at a time. Time never goes back in it: an earlier `now` brings nothing."""

    def __init__(self, spec: BucketSpec, state: BucketState | None = None) -> None:
        self.state = BucketState.full(spec) if state is None else state.under(spec)

    def refill(self, now: int) -> None:
        state = self.state
        if state.at is None or now > state.at:
            passed = 0 if state.at is None else now - state.at
            came = min(passed * state.measure.refill, state.measure.burst - state.level)
            self.state = replace(state, at=now, level=state.level + came, refilled=state.refilled + came)

    @property
    def has_enough(self) -> bool:
        return self.state.level >= self.state.measure.cost

    def take(self) -> None:
        state = self.state
        self.state = replace(state, level=state.level - state.measure.cost, admitted=state.admitted + 1)

    @property
    def tokens_left(self) -> Fraction:
        return self.state.measure.tokens(self.state.level)

    def wait_for(self, rows: int) -> int:
        """Microseconds until so many rows could be admitted at once, or as many as the bucket can ever hold."""
        state = self.state
        wanted = min(rows * state.measure.cost, state.measure.burst)
        return max(0, -(-(wanted - state.level) // state.measure.refill))
