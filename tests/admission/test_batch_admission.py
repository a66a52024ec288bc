"""Whole batches, spread over tasks and shards, against the rules row by row."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from eventide.admission.batch_admission import SLICE_SCHEMA, Arrivals, Survey, Tickets, settle, survey
from eventide.admission.controller import AdmissionState, Admit, StreamAdmissionController
from eventide.admission.options import AdmissionSpec, ShedMode, ShedSpec, SlaBackpressurePolicy
from eventide.admission.shedder import ShedOrder, ShedRatios
from eventide.admission.sla import BucketSpec, Priority, StreamSlaConfig
from eventide.admission.source_admission import Admission, Decided, ShardRows, ShedInput
from eventide.errors import EngineError

SECOND = 1_000_000
ALL_GO = ShedOrder(ShedRatios(1.0, 1.0, 1.0), 1.0, 2.0, "demand")


@dataclass(frozen=True)
class Event:
    """`place` is its order in what the source holds."""

    place: int
    at: int
    event_time: int | None
    goes: bool  # the shedder would drop it
    shard: int


@dataclass(frozen=True)
class Spread:
    """How the rows of a batch are cut into parts, given to tasks, and surveyed in chunks."""

    parts: list[int]  # places at which a part ends
    task_of: list[int]  # of each part, by turns
    chunk: int  # rows


Batches = list[tuple[list[Event], Spread]]


@st.composite
def sla_configs(draw: st.DrawFn) -> StreamSlaConfig:
    cost = draw(st.sampled_from(["1", "0.3", "2.5"]).map(Fraction))
    rate = draw(st.sampled_from(["0.001", "1", "2.5", "333.333", "1000000"]).map(Fraction))
    bucket = BucketSpec(rate, cost * draw(st.integers(1, 8)), cost)
    return StreamSlaConfig(
        None,
        draw(st.none() | st.just(bucket)),
        draw(st.none() | st.integers(1, 3 * SECOND)),
        draw(st.none() | st.integers(1, 2 * SECOND)),
    )


@st.composite
def runs(draw: st.DrawFn, shards: int) -> Batches:
    """Arrivals may be all equal, go back, or be far apart; all rows may be of one shard."""
    step = draw(st.sampled_from([0, 1, 1000, SECOND]))
    shard = st.integers(0, shards - 1) if draw(st.booleans()) else st.just(draw(st.integers(0, shards - 1)))
    batches: Batches = []
    now = 10 * SECOND
    for _ in range(draw(st.integers(1, 4))):
        now += draw(st.integers(-2, 4)) * SECOND
        events = []
        for place in range(draw(st.integers(0, 25))):
            at = now + step * draw(st.integers(-1, 3))
            now = max(now, at) if draw(st.booleans()) else now
            lag = draw(st.none() | st.integers(-SECOND, 4 * SECOND))
            time = None if lag is None else at - lag
            events.append(Event(place, at, time, draw(st.sampled_from([False, False, True])), draw(shard)))
        tasks = draw(st.integers(1, 8))
        spread = Spread(
            sorted(draw(st.sets(st.integers(1, 25), max_size=8))),
            draw(st.lists(st.integers(0, tasks - 1), min_size=9, max_size=9)),
            draw(st.integers(1, 10)),
        )
        batches.append((events, spread))
    return batches


def row_by_row(controller: StreamAdmissionController, events: list[Event]) -> dict[int, tuple[str | None, str | None]]:
    """(reason, error_detail) of each row by its place."""
    found: dict[int, tuple[str | None, str | None]] = {}
    for event in sorted(events, key=lambda event: (event.at, event.place)):
        decision = controller.judge(event.event_time, event.at)
        if not isinstance(decision, Admit):
            found[event.place] = decision.reason, json.dumps(decision.figures)
        elif event.goes:
            found[event.place] = "shed", None
        else:
            controller.take(decision)
            found[event.place] = None, None
    return found


def arrivals(events: list[Event], part: int) -> Arrivals:
    return Arrivals(
        np.array([event.at for event in events], np.int64),
        np.full(len(events), part, np.int64),
        np.array([event.place for event in events], np.int64),
        np.array([event.event_time or 0 for event in events], np.int64),
        np.array([event.event_time is not None for event in events], np.bool_),
    )


def joined(surveyed: list[Arrivals]) -> Arrivals:
    columns = [[vars(each)[name] for each in surveyed] for name in vars(surveyed[0])]
    return Arrivals(*(np.concatenate(column) for column in columns))


def chunks_of_tasks(events: list[Event], spread: Spread) -> dict[int, tuple[list[Event], Arrivals]]:
    """What each survey is made of: a chunk of what a task reads, part after part."""
    bounds = [0, *spread.parts, len(events)]
    read: dict[int, list[tuple[int, list[Event]]]] = {}
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        if events[start:stop]:
            read.setdefault(spread.task_of[number % 9], []).append((start, events[start:stop]))
    chunks: dict[int, tuple[list[Event], Arrivals]] = {}
    for task, parts in read.items():
        rows = [(part, event) for part, some in parts for event in some]
        for number, first in enumerate(range(0, len(rows), spread.chunk)):
            chunk = rows[first : first + spread.chunk]
            some_arrivals = joined([arrivals([event], part) for part, event in chunk])
            chunks[task << 32 | number] = [event for _, event in chunk], some_arrivals
    return chunks


def some_of(tickets: Tickets, which: list[int]) -> Tickets:
    """As they come to a shard: packed as columns."""
    return Tickets.of(pa.table(tickets.columns()).take(pa.array(which, pa.int64())))


class Shards:
    """Each has a state of its own, stored and loaded again around every batch."""

    def __init__(self, config: StreamSlaConfig, shards: int) -> None:
        self._admission = Admission(AdmissionSpec(config, shed=ShedSpec()), ALL_GO)
        self.states = [AdmissionState().to_bytes()] * shards

    def batch(self, events: list[Event], spread: Spread) -> dict[int, tuple[str | None, str | None]]:
        surveys: dict[int, tuple[list[Event], Survey]] = {}
        for key, (some, some_arrivals) in chunks_of_tasks(events, spread).items():
            priorities = [Priority.LOW if event.goes else Priority.CRITICAL for event in some]
            load = ShedInput(np.array(priorities, np.int8), np.zeros(len(some), np.uint64))
            surveys[key] = some, self._admission.survey(some_arrivals, load)
        found: dict[int, tuple[str | None, str | None]] = {}
        for shard in range(len(self.states)):
            found |= self._shard(shard, surveys)
        return found

    def _shard(
        self, shard: int, surveys: dict[int, tuple[list[Event], Survey]]
    ) -> dict[int, tuple[str | None, str | None]]:
        own, places = [], []
        for key, (some, surveyed) in surveys.items():
            which = [number for number, event in enumerate(some) if event.shard == shard]
            times = np.array([some[number].event_time or 0 for number in which], np.int64)
            own.append(ShardRows(key, some_of(surveyed.tickets, which), times))
            places.append([some[number].place for number in which])
        # The order in which slices come to a shard must not matter.
        keys = sorted(surveys, key=lambda key: hash((key, shard)))
        slices = {key: surveys[key][1].slices for key in keys}
        decision = self._admission.decide(AdmissionState.from_bytes(self.states[shard]), slices, own)
        decided, state = decision.rows, decision.state
        self.states[shard] = state.to_bytes()
        return {
            place: (reason, detail)
            for some_places, each in zip(places, decided, strict=True)
            for place, reason, detail in zip(
                some_places, each.reasons.to_pylist(), each.details.to_pylist(), strict=True
            )
        }


def figures(text: str | None) -> object:
    """Numbers as close as floats can be told apart."""
    return None if text is None else pytest.approx(json.loads(text), rel=1e-9, abs=1e-9)


@settings(max_examples=300)
@given(st.data(), sla_configs(), st.integers(1, 7))
def test_shards_admit_what_is_admitted_row_by_row(data: st.DataObject, config: StreamSlaConfig, shards: int) -> None:
    engine, controller = Shards(config, shards), StreamAdmissionController(config)
    for events, spread in data.draw(runs(shards)):
        expected = row_by_row(controller, events)
        found = engine.batch(events, spread)
        assert {place: reason for place, (reason, _) in found.items()} == {
            place: reason for place, (reason, _) in expected.items()
        }
        for place, (_, detail) in found.items():
            assert (None if detail is None else json.loads(detail)) == figures(expected[place][1])
        assert {AdmissionState.from_bytes(state) for state in engine.states} == {controller.state}
        bucket = controller.state.bucket
        assert bucket is None or bucket.is_balanced


@settings(max_examples=100)
@given(st.data(), sla_configs())
def test_borders_between_batches_make_no_difference(data: st.DataObject, config: StreamSlaConfig) -> None:
    steps = data.draw(st.lists(st.integers(0, SECOND), min_size=1, max_size=40))
    times = np.cumsum([10 * SECOND, *steps]).tolist()
    lags = data.draw(st.lists(st.integers(0, 4 * SECOND), min_size=len(times), max_size=len(times)))
    events = [Event(n, at, at - lag, n % 5 == 4, n % 3) for n, (at, lag) in enumerate(zip(times, lags, strict=True))]
    whole = Shards(config, 3)
    expected = whole.batch(events, Spread([], [0] * 9, 100))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(events)))))
    cut, found = Shards(config, 3), {}
    for start, stop in zip([0, *cuts], [*cuts, len(events)], strict=True):
        found |= cut.batch(events[start:stop], Spread([2, 5], [0, 1, 2] * 3, 3))
    assert found == expected
    assert cut.states == whole.states


@settings(max_examples=100)
@given(sla_configs(), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30))
def test_rows_dealt_out_to_tasks_one_by_one_are_parts_of_their_own(
    config: StreamSlaConfig, dealt: list[tuple[int, int]]
) -> None:
    """(arrival in seconds, task) of each row: a row's place is its part, so tasks may interleave as they like."""
    events = [Event(n, at * SECOND, None, False, 0) for n, (at, _) in enumerate(dealt)]
    expected = row_by_row(StreamAdmissionController(config), events)
    surveys, places = {}, {}
    for task in {task for _, task in dealt}:
        some = [event for event, (_, of) in zip(events, dealt, strict=True) if of == task]
        surveys[task] = survey(config, joined([arrivals([event], event.place) for event in some]))
        places[task] = [event.place for event in some]
    settlement, _ = settle(config, AdmissionState(), {task: each.slices for task, each in surveys.items()})
    found = {
        place: outcome == 0
        for task, each in surveys.items()
        for place, outcome in zip(places[task], settlement.outcomes(task, each.tickets), strict=True)
    }
    assert found == {place: reason is None for place, (reason, _) in expected.items()}
    assert settlement.admitted == sum(found.values())


def decided(spec: AdmissionSpec, order: ShedOrder, rows: Arrivals, load: ShedInput) -> Decided:
    """One task, one shard, one batch."""
    admission = Admission(spec, order)
    surveyed = admission.survey(rows, load)
    own = ShardRows(0, surveyed.tickets, rows.event_time, load.priorities, load.window_starts)
    (found,) = admission.decide(AdmissionState(), {0: surveyed.slices}, [own]).rows
    return found


def some_rows(count: int) -> Arrivals:
    return arrivals([Event(n, SECOND, SECOND, False, 0) for n in range(count)], 0)


BUCKET_OF_TWO = StreamSlaConfig(bucket=BucketSpec(Fraction("0.001"), Fraction(2)))


def test_a_row_that_is_shed_leaves_its_token_to_the_next() -> None:
    load = ShedInput(np.array([0, 0, 3, 0, 3, 3, 0], np.int8), np.zeros(7, np.uint64))
    found = decided(AdmissionSpec(BUCKET_OF_TWO, shed=ShedSpec()), ALL_GO, some_rows(7), load)
    assert found.reasons.to_pylist() == ["shed", "shed", None, "shed", None, "rate", "rate"]
    assert found.counts() == {"admitted": 2, "shed": 3, "rate": 2}
    assert found.admitted.tolist() == [False, False, True, False, True, False, False]


@pytest.mark.parametrize("policy", [SlaBackpressurePolicy.PREFER_THROTTLE, SlaBackpressurePolicy.BYPASS_SHEDDER])
def test_rows_that_were_read_are_shed_by_the_strict_policy_only(policy: SlaBackpressurePolicy) -> None:
    load = ShedInput(np.zeros(3, np.int8), np.zeros(3, np.uint64))
    found = decided(AdmissionSpec(BUCKET_OF_TWO, shed=ShedSpec(policy)), ALL_GO, some_rows(3), load)
    assert found.reasons.to_pylist() == [None, None, "rate"]


def test_a_shed_row_says_the_ratio_that_was_in_force_for_its_window() -> None:
    order = ShedOrder(ShedRatios(), 0.0, 0.4, "latency", ((0, ShedRatios(1.0)), (20, ShedRatios())))
    load = ShedInput(np.zeros(2, np.int8), np.zeros(2, np.uint64), np.array([10, 20]))
    spec = AdmissionSpec(shed=ShedSpec(mode=ShedMode.WINDOWS))
    found = decided(spec, order, some_rows(2), load)
    assert found.reasons.to_pylist() == ["shed", None]
    assert json.loads(found.details[0].as_py()) == {
        "ratio": 1.0,
        "share": 0.0,
        "priority": "low",
        "score": 0.4,
        "cause": "latency",
    }


def test_a_batch_without_rows_changes_nothing() -> None:
    state = AdmissionState(5, None).under(BUCKET_OF_TWO)
    assert settle(BUCKET_OF_TWO, state, {})[1] == state
    assert settle(BUCKET_OF_TWO, state, {0: SLICE_SCHEMA.empty_table()})[1] == state
    assert survey(BUCKET_OF_TWO, arrivals([], 0)).slices.num_rows == 0


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (
        lambda: settle(BUCKET_OF_TWO, AdmissionState(), {})[0].outcomes(7, survey(BUCKET_OF_TWO, some_rows(1)).tickets),
        "without the slices of their survey 7",
    ),
    (
        lambda: Admission(AdmissionSpec(shed=ShedSpec(mode=ShedMode.WINDOWS))).survey(
            some_rows(1), ShedInput(np.zeros(1, np.int8), np.zeros(1, np.uint64))
        ),
        "window of each row",
    ),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_what_the_engine_forgot_is_said(mistake: Callable[[], object], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        mistake()


def test_equal_arrivals_make_one_slice_however_many_rows_there_are() -> None:
    rows = Arrivals(*(np.zeros(100_000, np.int64),) * 2, np.arange(100_000), np.zeros(100_000, np.int64))
    surveyed = survey(BUCKET_OF_TWO, rows)
    assert surveyed.slices.to_pylist() == [{"at": 0, "part": 0, "start": 0, "takers": 100_000, "first_takes": True}]
