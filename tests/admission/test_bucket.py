"""The token bucket: nothing is lost, nothing comes from nowhere, and sums over runs are what single steps give."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from eventide.admission.bucket import BucketState, Measure, TokenBucket
from eventide.admission.bucket_runs import levels
from eventide.admission.sla import BucketSpec
from eventide.errors import CheckpointError
from eventide.eventtime.durations import SECOND

figures = st.decimals(min_value="0.001", max_value=2000, places=3).map(Fraction)


@st.composite
def buckets(draw: st.DrawFn) -> BucketSpec:
    cost = draw(figures)
    return BucketSpec(draw(figures), cost + draw(st.just(Fraction(0)) | figures), cost)


@given(buckets(), st.lists(st.tuples(st.integers(-2 * SECOND, 4 * SECOND), st.booleans()), max_size=60))
def test_a_bucket_is_the_sum_of_what_came_in_and_went_out(spec: BucketSpec, rows: list[tuple[int, bool]]) -> None:
    bucket = TokenBucket(spec)
    tokens, now, latest = spec.burst, 1_000 * SECOND, None
    taken, refilled = 0, Fraction(0)
    for passed, takes in rows:
        now += passed
        if latest is not None and now > latest:
            came = min(spec.burst - tokens, spec.tokens_per_sec * (now - latest) / SECOND)
            tokens, refilled = tokens + came, refilled + came
        latest = now if latest is None else max(latest, now)
        bucket.refill(now)
        assert bucket.has_enough == (tokens >= spec.token_cost)
        if takes and bucket.has_enough:
            bucket.take()
            tokens, taken = tokens - spec.token_cost, taken + 1
        assert bucket.tokens_left == tokens
        assert 0 <= bucket.tokens_left <= spec.burst
        assert taken * spec.token_cost + bucket.tokens_left == spec.burst + refilled
        assert bucket.state.measure.tokens(bucket.state.refilled) == refilled
        bucket = TokenBucket(spec, BucketState.from_json(bucket.state.to_json()))


def test_it_starts_full_and_time_before_the_first_row_brings_nothing() -> None:
    bucket = TokenBucket(BucketSpec(Fraction(1), Fraction(5)))
    bucket.refill(123_456)
    assert bucket.tokens_left == 5
    assert bucket.state.refilled == 0


@given(buckets(), st.integers(0, 20), st.integers(1, 30))
def test_who_waits_as_long_as_was_said_is_served_and_not_a_microsecond_earlier(
    spec: BucketSpec, taken: int, rows: int
) -> None:
    bucket = TokenBucket(spec)
    bucket.refill(0)
    for _ in range(taken):
        if bucket.has_enough:
            bucket.take()
    wait = bucket.wait_for(rows)
    wanted = min(rows * spec.token_cost, spec.burst)
    if wait:
        early = TokenBucket(spec, bucket.state)
        early.refill(wait - 1)
        assert early.tokens_left < wanted
    bucket.refill(wait)
    assert bucket.tokens_left >= wanted


def test_other_options_keep_the_tokens_that_fit() -> None:
    bucket = TokenBucket(BucketSpec(Fraction(1), Fraction(10)))
    bucket.refill(0)
    for _ in range(4):
        bucket.take()
    finer = TokenBucket(BucketSpec(Fraction("0.003"), Fraction("10.5")), bucket.state)
    smaller = TokenBucket(BucketSpec(Fraction(1), Fraction(2)), bucket.state)
    assert (finer.tokens_left, smaller.tokens_left) == (6, 2)
    assert finer.state.is_balanced
    assert finer.state.at == 0


def test_a_state_that_does_not_balance_is_refused() -> None:
    found = BucketState.full(BucketSpec(Fraction(1), Fraction(10))).to_json()
    with pytest.raises(CheckpointError, match="does not balance"):
        BucketState.from_json({**found, "admitted": 1})


def one_by_one(measure: Measure, level: int, passed: list[int], wanted: list[int]) -> tuple[list[int], int]:
    found = []
    for micros, rows in zip(passed, wanted, strict=True):
        level = min(measure.burst, level + micros * measure.refill)
        found.append(level)
        for _ in range(rows):
            if level < measure.cost:
                break
            level -= measure.cost
    return found, level


SPECS = [
    BucketSpec(Fraction(1000), Fraction(50)),
    BucketSpec(Fraction(500_000), Fraction(40), Fraction("1.5")),
    BucketSpec(Fraction("0.001"), Fraction(5)),
    BucketSpec(Fraction("333.333333333"), Fraction(10**9), Fraction("0.7")),
    BucketSpec(Fraction(7), Fraction(7), Fraction(7)),
]


@settings(max_examples=60)
@given(
    spec=st.sampled_from(SPECS),
    seed=st.integers(0, 1 << 30),
    moments=st.integers(0, 3000),
    pace=st.sampled_from([1, 100, 2_000, 100_000]),
    rows=st.sampled_from([1, 3, 60]),
    quiet=st.sampled_from([0.0, 0.02, 0.5, 0.99]),
)
def test_levels_over_runs_are_those_of_single_steps(
    spec: BucketSpec, seed: int, moments: int, pace: int, rows: int, quiet: float
) -> None:
    """Loads come in spells, so that plenty and want both last for a while, and for a moment."""
    random = np.random.default_rng(seed)
    spell = np.repeat(random.integers(0, 2, moments // 20 + 1), 20)[:moments]
    passed = random.integers(0, 2 * pace, moments) * np.where(random.random(moments) < quiet, 50, 1)
    wanted = random.integers(0, rows + 1, moments) * spell
    measure = Measure.of(spec)
    level = int(random.integers(0, measure.burst, endpoint=True)) if measure.burst < 1 << 62 else measure.burst
    found, last = levels(measure, level, passed, wanted)
    assert (found.tolist(), last) == one_by_one(measure, level, passed.tolist(), wanted.tolist())
