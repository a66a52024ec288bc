"""Admission row by row: the rules, in the order in which they are asked. `batch_admission` gives the same answers for
whole batches.

    lag      now − event time > max_lag
    jitter   now − the arrival of the last row > jitter_budget: one rejection per gap, since every row is a last row
    rate     the bucket holds less than the row costs

A rejected row takes no token. `now` is when the row arrived. Arrivals that go back count as no time passed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from eventide.admission.bucket import BucketState, TokenBucket
from eventide.admission.sla import StreamSlaConfig
from eventide.errors import CheckpointError

LAG, JITTER, RATE = "lag", "jitter", "rate"
_VERSION = 1


@dataclass(frozen=True)
class Admit:
    """`lag` in microseconds; None where the row has no event time. `tokens_left` is None where there is no bucket."""

    tokens_left: Fraction | None
    lag: int | None


@dataclass(frozen=True)
class Reject:
    reason: str  # LAG, JITTER or RATE
    figures: dict[str, Any]


StreamAdmissionDecision = Admit | Reject


@dataclass(frozen=True)
class AdmissionState:
    """What a source's admission must remember: the latest arrival, and the bucket."""

    seen: int | None = None
    bucket: BucketState | None = None

    def under(self, config: StreamSlaConfig) -> AdmissionState:
        """The same state for options that may have changed since it was stored."""
        if config.bucket is None:
            return replace(self, bucket=None)
        bucket = BucketState.full(config.bucket) if self.bucket is None else self.bucket.under(config.bucket)
        return replace(self, bucket=bucket)

    def to_bytes(self) -> bytes:
        bucket = None if self.bucket is None else self.bucket.to_json()
        return json.dumps({"version": _VERSION, "seen": self.seen, "bucket": bucket}).encode()

    @classmethod
    def from_bytes(cls, blob: bytes) -> AdmissionState:
        try:
            found = json.loads(blob)
            if found["version"] != _VERSION:
                raise CheckpointError(
                    f"the state of admission has version {found['version']}, and {_VERSION} is known here",
                    help="run the version of Eventide that wrote the checkpoint, or a newer one",
                )
            return cls(found["seen"], None if found["bucket"] is None else BucketState.from_json(found["bucket"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"the state of admission is damaged: {error}", help="restore the checkpoint from a copy"
            ) from error


def lag_figures(lag: int, max_lag: int) -> dict[str, Any]:
    return {"lag_ms": _ms(lag), "max_lag_ms": _ms(max_lag)}


def jitter_figures(gap: int, budget: int) -> dict[str, Any]:
    return {"gap_ms": _ms(gap), "jitter_budget_ms": _ms(budget)}


def rate_figures(bucket: BucketState, level: int) -> dict[str, Any]:
    """`level` is what the bucket held when the row asked."""
    measure = bucket.measure
    return {
        "tokens_left": float(measure.tokens(level)),
        "token_cost": float(measure.tokens(measure.cost)),
        "tokens_per_sec": float(measure.tokens(measure.refill) * 1_000_000),
        "burst": float(measure.tokens(measure.burst)),
    }


def _ms(micros: int) -> float:
    return micros / 1000


class StreamAdmissionController:
    """`try_admit` for each row of one source in order of arrival; `state` may be stored after any of them."""

    def __init__(self, config: StreamSlaConfig, state: AdmissionState | None = None) -> None:
        self._config = config
        state = (state or AdmissionState()).under(config)
        self._seen = state.seen
        self._bucket = None if config.bucket is None else TokenBucket(config.bucket, state.bucket)

    @property
    def state(self) -> AdmissionState:
        return AdmissionState(self._seen, None if self._bucket is None else self._bucket.state)

    def try_admit(self, event_time: int | None, now: int) -> StreamAdmissionDecision:
        decision = self.judge(event_time, now)
        return self.take(decision) if isinstance(decision, Admit) else decision

    def judge(self, event_time: int | None, now: int) -> StreamAdmissionDecision:
        """The row has arrived; what would become of it. No token is taken yet, so that a row that goes elsewhere
        costs none.
        """
        gap = 0 if self._seen is None else now - self._seen
        self._seen = now if self._seen is None else max(now, self._seen)
        if self._bucket is not None:
            self._bucket.refill(now)
        lag = None if event_time is None else now - event_time
        max_lag, budget = self._config.max_lag, self._config.jitter_budget
        if lag is not None and max_lag is not None and lag > max_lag:
            return Reject(LAG, lag_figures(lag, max_lag))
        if budget is not None and gap > budget:
            return Reject(JITTER, jitter_figures(gap, budget))
        if self._bucket is not None and not self._bucket.has_enough:
            return Reject(RATE, rate_figures(self._bucket.state, self._bucket.state.level))
        return Admit(None if self._bucket is None else self._bucket.tokens_left, lag)

    def take(self, admitted: Admit) -> Admit:
        """The row that was judged last goes on: it pays."""
        if self._bucket is None:
            return admitted
        self._bucket.take()
        return replace(admitted, tokens_left=self._bucket.tokens_left)

    def wait_for(self, rows: int) -> int:
        """Microseconds until so many rows could be admitted at once; 0 where no rate is set."""
        return 0 if self._bucket is None else self._bucket.wait_for(rows)
