"""Batch sizes on a simulated engine: fixed cost, throughput, noise, and changes in all of them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings, strategies as st

from eventide.admission.pacing import GIB, KIB, MIB, AdaptiveBatcher, BatchPerformancePoint, Pacing, SheddingBatcher

COLD = 8.0  # extra seconds that the first batch takes


@dataclass
class Engine:
    """Takes what the batcher allows, in whole files; `lengths` are how long each batch would have taken without
    noise.
    """

    fixed: float
    throughput: float
    noise: float = 0.0
    pauses: float = 0.0
    file: int = 1
    seed: int = 0
    lengths: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(self, batcher: AdaptiveBatcher, batches: int, waiting: int | None = None) -> None:
        """`waiting` bytes are available for each batch; None: always more than it may take."""
        for _ in range(batches):
            allowed = batcher.budget if waiting is None else min(waiting, batcher.budget)
            size = max(1, round(allowed / self.file)) * self.file
            length = self.fixed + size / self.throughput
            cold = COLD if not self.lengths else 0.0
            cold += 2 * length if self._random.random() < self.pauses else 0.0
            self.lengths.append(length)
            self.sizes.append(size)
            batcher.observe(BatchPerformancePoint(size, cold + length * math.exp(self._random.gauss(0, self.noise))))


def share_within(lengths: list[float], target: float, tolerance: float = 0.3) -> float:
    return sum(abs(length / target - 1) <= tolerance for length in lengths) / len(lengths)


def test_a_small_batch_that_lasts_far_too_long_shows_that_the_budget_is_too_large() -> None:
    batcher = AdaptiveBatcher(Pacing(2.0))
    for _ in range(4):
        batcher.observe(BatchPerformancePoint(MIB, 12.0))
    assert batcher.budget < MIB / 3


def test_rows_that_are_shed_do_not_count() -> None:
    """10 MiB/s; nine of ten rows are shed from the eighth batch on, and none from the sixteenth on."""
    keeps = iter([1.0] * 7 + [0.1] * 8 + [1.0] * 8)
    batcher, lengths = SheddingBatcher(Pacing(2.0), lambda: keep), []
    for keep in keeps:
        size = batcher.budget
        seconds = 0.2 + keep * size / (10 * MIB)
        lengths.append(seconds)
        batcher.observe(BatchPerformancePoint(size, seconds))
    assert all(1.4 < seconds < 2.6 for seconds in lengths[5:])


targets = st.floats(0.3, 30)
throughputs = st.floats(6, 8.5).map(lambda exponent: 10**exponent)
shares = st.floats(0, 0.95)
seeds = st.integers(0, 1 << 30)


@settings(max_examples=200, deadline=None)
@given(target=targets, fixed_share=shares, throughput=throughputs)
def test_batches_come_to_the_target_within_a_dozen_and_stay(
    target: float, fixed_share: float, throughput: float
) -> None:
    engine = Engine(fixed_share * target, throughput)
    engine.run(AdaptiveBatcher(Pacing(target)), 60)
    assert share_within(engine.lengths[12:], target) == 1


@settings(max_examples=200, deadline=None)
@given(target=targets, fixed_share=st.floats(0, 0.7), throughput=throughputs, seed=seeds)
def test_noisy_measurements_do_not_make_it_swing(
    target: float, fixed_share: float, throughput: float, seed: int
) -> None:
    engine = Engine(fixed_share * target, throughput, noise=0.15, seed=seed)
    engine.run(AdaptiveBatcher(Pacing(target)), 80)
    assert share_within(engine.lengths[15:], target) >= 0.9


@settings(max_examples=200, deadline=None)
@given(
    target=st.floats(1, 10),
    fixed_share=st.floats(0, 0.5),
    throughput=st.floats(6.5, 8.5),
    change=st.floats(0.15, 6),
    seed=seeds,
)
def test_an_engine_that_becomes_slower_or_faster_is_followed(
    target: float, fixed_share: float, throughput: float, change: float, seed: int
) -> None:
    engine = Engine(fixed_share * target, 10**throughput, noise=0.08, seed=seed)
    batcher = AdaptiveBatcher(Pacing(target))
    engine.run(batcher, 40)
    engine.throughput *= change
    engine.run(batcher, 40)
    assert share_within(engine.lengths[55:], target) >= 0.9


@settings(max_examples=100, deadline=None)
@given(target=targets, times=st.floats(1, 4), throughput=throughputs)
def test_a_target_below_the_fixed_cost_does_not_starve_the_stream(
    target: float, times: float, throughput: float
) -> None:
    engine = Engine(times * target, throughput)
    assume(engine.fixed * throughput > MIB)
    engine.run(AdaptiveBatcher(Pacing(target)), 80)
    settled = engine.lengths[50:]
    assert max(settled) <= 1.35 * engine.fixed
    assert sum(settled) / len(settled) >= 1.1 * engine.fixed


@settings(max_examples=100, deadline=None)
@given(fixed=st.floats(0.1, 1), times=st.floats(1.7, 20), throughput=throughputs, seed=seeds)
def test_a_machine_that_is_busy_with_other_things_does_not_starve_the_stream(
    fixed: float, times: float, throughput: float, seed: int
) -> None:
    """Two thirds of the batches are up to 40 % off, and one in twenty is three times as long."""
    engine = Engine(fixed, throughput, noise=0.35, pauses=0.05, file=256 * KIB, seed=seed)
    assume((times - 1) * fixed * throughput > 4 * engine.file)
    engine.run(AdaptiveBatcher(Pacing(times * fixed)), 150)
    mean = sum(engine.sizes[20:]) / len(engine.sizes[20:])
    assert 0.3 * (times - 1) * fixed * throughput <= mean <= 2 * (times - 1) * fixed * throughput


@settings(max_examples=200, deadline=None)
@given(
    seconds=st.lists(st.one_of(st.floats(1e-6, 1e6), st.sampled_from([0.0, -1.0, math.inf, math.nan])), max_size=60),
    target=targets,
)
def test_whatever_is_measured_the_next_batch_may_take_something_and_not_too_much(
    seconds: list[float], target: float
) -> None:
    batcher = AdaptiveBatcher(Pacing(target))
    for length in seconds:
        before = batcher.budget
        batcher.observe(BatchPerformancePoint(before, length))
        assert 64 * KIB <= batcher.budget <= 16 * GIB
        assert batcher.budget <= 4 * before


@pytest.mark.parametrize("file", [10 * KIB, MIB, 300 * MIB])
def test_whole_files_of_any_size_keep_batches_as_near_to_the_target_as_they_allow(file: int) -> None:
    engine = Engine(0.4, 100e6, noise=0.05, file=file)
    engine.run(AdaptiveBatcher(Pacing(2.0)), 40)
    shortest = 0.4 + file / 100e6
    assert share_within(engine.lengths[10:], max(2.0, shortest)) == 1


def test_the_first_batch_is_not_counted() -> None:
    batcher = AdaptiveBatcher(Pacing(2.0))
    batcher.observe(BatchPerformancePoint(batcher.budget, 60.0))
    assert batcher.budget == Pacing(2.0).initial_batch and batcher.cost is None


def test_a_batch_far_over_the_target_is_followed_by_a_smaller_one_at_once() -> None:
    engine, batcher = Engine(0.2, 50e6), AdaptiveBatcher(Pacing(2.0))
    engine.run(batcher, 20)
    before = batcher.budget
    batcher.observe(BatchPerformancePoint(before, 10.0))
    assert batcher.budget < before / 4


def test_one_slow_batch_is_forgotten_two_are_believed() -> None:
    engine, batcher = Engine(0.2, 50e6), AdaptiveBatcher(Pacing(2.0))
    engine.run(batcher, 20)
    usual = batcher.budget
    batcher.observe(BatchPerformancePoint(usual, 10.0))
    engine.run(batcher, 3)
    assert batcher.budget == pytest.approx(usual, rel=0.1)
    for _ in range(2):
        batcher.observe(BatchPerformancePoint(batcher.budget, 0.2 + batcher.budget / 10e6))
    assert batcher.budget == pytest.approx(1.8 * 10e6, rel=0.3)


def test_a_quiet_time_with_small_batches_does_not_forget_what_the_engine_can_do() -> None:
    engine, batcher = Engine(0.3, 80e6, noise=0.1), AdaptiveBatcher(Pacing(2.0))
    engine.run(batcher, 20)
    usual = batcher.budget
    engine.run(batcher, 200, waiting=2_000)
    assert batcher.budget == pytest.approx(usual, rel=0.2)
    engine.run(batcher, 5)
    assert share_within(engine.lengths[-5:], 2.0) == 1


def test_a_stream_that_keeps_up_from_the_start_stays_at_small_steps() -> None:
    batcher = AdaptiveBatcher(Pacing(2.0))
    Engine(0.3, 80e6).run(batcher, 100, waiting=2_000)
    assert batcher.budget == Pacing(2.0).initial_batch
