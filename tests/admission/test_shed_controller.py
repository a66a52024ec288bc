"""The controller of load shedding against simulated engines and load curves.

Load is in shares of the capacity: 2.0 is twice what batches of the target's length can work off. An engine either takes
all that waits into its next batch, or as much as fills a batch. Its first batches may be cold.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, strategies as st

from eventide.admission.load import BatchLoad, LoadMeter, LoadScore
from eventide.admission.pacing import AdaptiveBatcher, BatchPerformancePoint, Pacing
from eventide.admission.shed_controller import ShedController

TARGET = 2.0
THROUGHPUT = 10_000.0  # rows per second, beyond the fixed cost
OVERSHOOT = 0.1
BACK_WITHIN = 10  # batches
Curve = Callable[[int], float]


@dataclass
class Step:
    """One batch: the load while it ran, the ratio under which it ran, and how long it was against the target."""

    load: float
    ratio: float
    latency: float
    share: float = 0.0  # of a full batch, that it kept
    lag: float = 0.0  # targets from the arrival of its oldest row to its end

    @property
    def kept(self) -> float:
        """Of what came, or of a full batch if it was one that worked off what had piled up."""
        return max(self.load * (1 - self.ratio), self.share)


@dataclass
class Engine:
    fixed_share: float = 0.15
    noise: float = 0.0
    knows_waiting: bool = True
    is_paced: bool = False
    cost_of_shed: float = 0.0
    seed: int = 0
    slow_from: int | None = None  # from this batch on, half as fast
    slow_until: int | None = None
    cold: float = 0.0  # seconds that the first batch takes beyond its work; those after it are slow too, ever less
    batcher: AdaptiveBatcher | None = None  # paces it, with as much as it has found out; bytes are rows
    controller: ShedController = field(default_factory=ShedController)

    def run(self, curve: Curve, batches: int) -> list[Step]:
        noise, meter = random.Random(self.seed), LoadMeter(TARGET)
        fixed = self.fixed_share * TARGET
        room = (TARGET - fixed) * THROUGHPUT  # rows of a batch of the target's length
        now, waiting = 0.0, curve(0) * room / 2
        times, came, taken = [-TARGET / 2, 0.0], [0.0, waiting], 0.0  # how many rows had come at each time
        steps = []
        for number in range(batches):
            ratio, speed = self.controller.ratio, THROUGHPUT
            if self.slow_from is not None and self.slow_from <= number < (self.slow_until or batches):
                speed /= 2
            offered = int(min(waiting, self._most(room, ratio)))
            kept = round(offered * (1 - ratio))
            work = (kept + self.cost_of_shed * (offered - kept)) / speed
            seconds = (fixed + work) * math.exp(noise.gauss(0, self.noise))
            if self.cold:
                seconds = seconds * (1 + 0.6 * 0.5**number) + self.cold * (number == 0)
            if self.batcher is not None:
                self.batcher.observe(BatchPerformancePoint(kept, seconds))
            waiting += curve(number) * room / TARGET * seconds - offered
            oldest = float(np.interp(taken, came, times))
            taken, times, came = taken + offered, [*times, now + seconds], [*came, taken + offered + waiting]
            known = int(waiting) if self.knows_waiting else None
            score = meter.observe(BatchLoad(offered, kept, now, now + seconds, known))
            now += seconds
            self.controller.update(score)
            steps.append(Step(curve(number), ratio, seconds / TARGET, kept / room, (now - oldest) / TARGET))
        return steps

    def _most(self, room: float, ratio: float) -> float:
        """Rows that a batch may take: those that are shed cost little, and do not count."""
        if self.batcher is not None:
            return self.batcher.budget / (1 - ratio)
        return room / (1 - ratio) if self.is_paced else math.inf


def step(number: int) -> float:
    return 2.0 if 20 <= number < 70 else 0.5


def ramp(number: int) -> float:
    return 0.4 + 0.025 * number if number < 90 else 0.4


def burst(number: int) -> float:
    return 4.0 if 30 <= number < 40 else 0.6


def saw_tooth(number: int) -> float:
    return 0.4 + 0.1 * (number % 20)


CURVES = [step, ramp, burst, saw_tooth]
ENGINES = [
    pytest.param({}, id="takes all"),
    pytest.param({"is_paced": True}, id="paced"),
    pytest.param({"knows_waiting": False}, id="does not know what waits"),
    pytest.param({"fixed_share": 0.02}, id="no fixed cost"),
    pytest.param({"fixed_share": 0.5}, id="much fixed cost"),
    pytest.param({"is_paced": True, "fixed_share": 0.5}, id="paced, much fixed cost"),
    pytest.param({"cost_of_shed": 0.1}, id="shed rows cost something"),
    pytest.param({"cost_of_shed": 0.3}, id="shed rows cost much"),
]
every_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.__name__)
every_engine = pytest.mark.parametrize("engine", ENGINES)


def overloaded(steps: list[Step]) -> list[Step]:
    """Batches that ran under an overload that the controller could have seen: it was there in the batch before."""
    return [step for before, step in itertools.pairwise(steps) if before.load > 1 and step.load > 1]


def begins(ratios: list[float]) -> int:
    return sum(before == 0 < after for before, after in zip([0.0, *ratios], ratios, strict=False))


def turns(ratios: list[float]) -> int:
    """How often the ratio changed its direction by more than a fiftieth of all rows."""
    moves = [after - before for before, after in itertools.pairwise(ratios) if abs(after - before) > 0.02]
    return sum((first > 0) != (second > 0) for first, second in itertools.pairwise(moves))


@every_curve
@every_engine
def test_no_more_is_shed_than_a_tenth_of_the_capacity_too_much(curve: Curve, engine: dict[str, object]) -> None:
    cost = float(str(engine.get("cost_of_shed", 0.0)))
    for step in overloaded(Engine(**engine).run(curve, 120)):  # type: ignore[arg-type]
        work = step.kept + cost * (step.load - step.kept)
        assert step.ratio == 0 or work >= 1 - OVERSHOOT


@every_curve
@every_engine
def test_it_is_over_ten_batches_after_the_load_is_gone(curve: Curve, engine: dict[str, object]) -> None:
    steps = Engine(**engine).run(lambda number: curve(number) if number < 65 else 0.5, 90)  # type: ignore[arg-type]
    assert any(step.ratio > 0 for step in steps)
    assert all(step.ratio == 0 for step in steps[65 + BACK_WITHIN :])


@every_curve
@every_engine
def test_shedding_begins_once_per_overload_and_does_not_swing(curve: Curve, engine: dict[str, object]) -> None:
    steps = Engine(**engine).run(curve, 120)  # type: ignore[arg-type]
    ratios = [step.ratio for step in steps]
    overloads = sum(before.load <= 1 < after.load for before, after in itertools.pairwise(steps))
    assert begins(ratios) == overloads
    assert turns(ratios) <= 2 * overloads


@every_engine
@pytest.mark.parametrize("load", [0.1, 0.5, 0.8, 0.95])
def test_nothing_is_shed_below_capacity(load: float, engine: dict[str, object]) -> None:
    assert all(step.ratio == 0 for step in Engine(**engine).run(lambda _: load, 100))  # type: ignore[arg-type]


@every_engine
@pytest.mark.parametrize("load", [1.2, 2.0, 5.0])
def test_batches_come_back_to_their_target_while_the_overload_lasts(load: float, engine: dict[str, object]) -> None:
    """Unless what is shed is more work than the engine can do."""
    load = min(load, 0.6 / float(str(engine.get("cost_of_shed", 0.1))))
    steps = Engine(**engine).run(lambda number: load if number >= 20 else 0.5, 120)  # type: ignore[arg-type]
    assert all(step.latency <= 1.1 for step in steps[90:])
    assert all(step.ratio > 0 for step in steps[40:])


@given(seed=st.integers(0, 1 << 30), load=st.floats(1.2, 4.0), is_paced=st.booleans())
def test_noise_does_not_reach_the_rows(seed: int, load: float, is_paced: bool) -> None:
    engine = Engine(noise=0.05, seed=seed, is_paced=is_paced)
    steps = engine.run(lambda number: load if number >= 20 else 0.5, 140)
    ratios = [step.ratio for step in steps]
    settled = steps[40:]
    assert begins(ratios) == 1
    assert sum(before.ratio != after.ratio for before, after in itertools.pairwise(settled)) <= 20
    assert sum(step.kept for step in settled) / len(settled) >= 1 - OVERSHOOT
    assert min(step.kept for step in settled) >= 1 - 1.5 * OVERSHOOT


@given(seed=st.integers(0, 1 << 30), noise=st.floats(0, 0.2), load=st.floats(0.1, 0.7), is_paced=st.booleans())
def test_noise_alone_sheds_nothing(seed: int, noise: float, load: float, is_paced: bool) -> None:
    engine = Engine(noise=noise, seed=seed, is_paced=is_paced, fixed_share=0.1)
    assert all(step.ratio == 0 for step in engine.run(lambda _: load, 100))


def test_an_engine_that_becomes_slower_sheds_what_it_must() -> None:
    """At 0.8 of the capacity, half of which is lost in batch 30."""
    steps = Engine(slow_from=30, fixed_share=0.02).run(lambda _: 0.8, 100)
    assert all(step.ratio == 0 for step in steps[:31])
    for step in steps[80:]:
        assert 0.5 * (1 - OVERSHOOT) <= step.kept <= 0.5 * (1 + OVERSHOOT)


@pytest.mark.parametrize("cost_of_shed", [0.0, 0.3])
def test_an_engine_that_becomes_fast_again_takes_everything_again(cost_of_shed: float) -> None:
    steps = Engine(slow_from=30, slow_until=60, cost_of_shed=cost_of_shed).run(lambda _: 0.8, 100)
    assert any(step.ratio > 0 for step in steps[30:60])
    assert all(step.ratio == 0 for step in steps[60 + BACK_WITHIN :])


def test_a_cold_start_sheds_nothing() -> None:
    """The first batch lasts four times its target, and what has come meanwhile is a long batch too."""
    meter, controller, now = LoadMeter(TARGET), ShedController(), 0.0
    offered = 100
    for number in range(20):
        seconds = 8.0 if number == 0 else 0.1 + offered / THROUGHPUT
        arrived = round(0.7 * THROUGHPUT * seconds)
        score = meter.observe(BatchLoad(offered, offered, now, now + seconds, arrived))
        assert controller.update(score) == 0
        now, offered = now + seconds, arrived


@pytest.mark.parametrize("fixed_share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("load", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("cost_of_shed", [0.0, 0.1])
def test_from_a_cold_start_under_an_overload_rows_are_soon_in_time(
    load: float, fixed_share: float, cost_of_shed: float
) -> None:
    """The first batch lasts seven times its target. What came meanwhile must not make the next ones as long: a row that
    is never shed waits for the batch before its own and for its own.
    """
    pacing = Pacing(TARGET, initial_batch=3 * round(THROUGHPUT), min_batch=100)
    engine = Engine(fixed_share, cost_of_shed=cost_of_shed, cold=6 * TARGET, batcher=AdaptiveBatcher(pacing))
    steps = engine.run(lambda _: load, 60)
    assert all(step.latency < 4 for step in steps[1:])
    assert all(step.lag < 3 for step in steps[12:])
    assert all(step.kept + cost_of_shed * load * step.ratio > 1 - OVERSHOOT for step in steps[30:])


def test_a_full_memory_sheds_though_batches_are_short() -> None:
    controller = ShedController()
    assert controller.update(LoadScore(demand=0.3, latency=0.2, memory=0.99)) == 0
    assert 0 < controller.update(LoadScore(demand=0.3, latency=0.2, memory=1.1)) < 0.2


def test_memory_that_is_in_use_does_not_keep_the_ratio_up() -> None:
    controller = ShedController(0.4)
    ratios = [controller.update(LoadScore(demand=1.5, latency=0.3, memory=0.8)) for _ in range(8)]
    assert ratios[-1] == 0


def test_a_busy_processor_alone_sheds_nothing() -> None:
    meter, controller = LoadMeter(TARGET), ShedController()
    for number in range(20):
        score = meter.observe(BatchLoad(5_000, 5_000, number, number + 0.9, 5_000, cpu=1.5))
        assert score.cpu == 1
        assert controller.update(score) == 0


def test_after_a_restart_the_ratio_stays_until_the_demand_is_known() -> None:
    controller = ShedController(0.4)
    assert controller.update(LoadScore(latency=0.9)) == 0.4
    assert controller.update(LoadScore(demand=2.0, latency=0.9)) > 0.4


def test_a_score_is_its_largest_part_and_names_it() -> None:
    score = LoadScore(demand=None, latency=0.5, backlog=1.5, memory=0.2, cpu=0.9)
    assert (score.value, score.cause) == (1.5, "backlog")
    assert score.parts == {"latency": 0.5, "backlog": 1.5, "memory": 0.2, "cpu": 0.9}


def test_the_parts_are_shares_of_what_the_engine_can_do() -> None:
    """Batches of 1,000 and of 10,000 rows have shown 0.1 s + 0.1 ms per row: 19,000 rows in 2 s, 9,500 a second."""
    meter, now = LoadMeter(TARGET), 0.0
    for number in range(40):
        rows = 10_000 if number % 2 else 1_000
        seconds = 0.1 + rows / 10_000
        score = meter.observe(BatchLoad(rows, rows, now, now + seconds, 9_500, memory=0.45))
        now += seconds
    assert score.latency == pytest.approx(0.55)
    assert score.backlog == pytest.approx(0.5, rel=0.05)
    assert score.memory == pytest.approx(0.5)
    assert score.demand == pytest.approx(11_000 / 1.3 / 9_500, rel=0.1)
