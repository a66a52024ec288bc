"""The join kernels against the reference model, on random joins and random stories, step by step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from eventide.kernels.state import row_index
from eventide.plan.joins import Asof
from eventide.plan.logical import Join, JoinSide, Scan, Stream, Union
from eventide.testing import KernelRunner, ReferenceModel, Step
from eventide.testing.aggregates import frozen
from tests.properties.events import Event, tell
from tests.properties.examples import examples
from tests.properties.join_plans import BOUNDS, SOURCES, joins, row, stories

EXAMPLES = examples(100, 1000)
QUIET = list(HealthCheck)


def assert_same(stream: Stream, story: list[Event], shards: int = 1) -> None:
    model, runner = ReferenceModel(stream, resolution=1), KernelRunner(stream, shards, resolution=1)
    for event in story:
        wanted, computed = tell(model, event, SOURCES), tell(runner, event, SOURCES)
        assert Counter(map(frozen, computed.main)) == Counter(map(frozen, wanted.main))
        assert sides(computed) == sides(wanted)
        assert +computed.counts == +wanted.counts
    if not (isinstance(stream.query, Join) and isinstance(stream.query.bound, Asof)):
        assert [store.spaces() for store in runner.stores] == [[]] * shards


def sides(step: Step) -> Counter[Any]:
    return Counter((payload.kind, payload.reason, payload.event_time) for payload in step.side)


@pytest.mark.parametrize("family", BOUNDS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_a_join_gives_what_the_model_gives(family: str, data: Any) -> None:
    stream, story = data.draw(joins(family)), data.draw(stories())
    assert_same(stream, story, data.draw(st.sampled_from([1, 3])))


@pytest.mark.parametrize("family", ["window", "panes", "interval", "sessions"])
@settings(max_examples=30, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_neither_order_nor_batches_matter_where_nothing_is_late(family: str, data: Any) -> None:
    join = data.draw(joins(family))
    patient = replace(join, query=replace(join.query, left=_patient(join.query.left), right=_patient(join.query.right)))
    rows = [(name, each) for name in SOURCES for each in data.draw(st.lists(row(), max_size=8))]
    shuffled, together = data.draw(st.permutations(rows)), data.draw(st.integers(1, 8))
    batches = [shuffled[at : at + together] for at in range(0, len(shuffled), together)]
    assert outcome(patient, batches) == outcome(patient, [rows])


def _patient(side: JoinSide) -> JoinSide:
    """The side with a watermark that stays behind."""
    match side.input:
        case Scan(source=source):
            return replace(side, input=Scan(source, 10**6))
        case Union(inputs=inputs):
            return replace(side, input=Union(tuple(Scan(part.source, 10**6) for part in inputs)))
    raise AssertionError(side.input)


def outcome(stream: Stream, batches: list[list[tuple[str, Any]]]) -> Counter[Any]:
    runner = KernelRunner(stream, resolution=1)
    steps = [
        runner.batch({name: [row for source, row in batch if source == name] for name in SOURCES}) for batch in batches
    ]
    steps.append(runner.batch(advance=dict.fromkeys(SOURCES, 10**7)))
    assert runner.totals["late"] == 0
    return Counter(frozen(row) for step in steps for row in step.main)


@pytest.mark.parametrize("family", BOUNDS)
@settings(max_examples=30, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_neither_the_number_of_parts_nor_the_size_of_pieces_matters(family: str, data: Any) -> None:
    stream, story = data.draw(joins(family)), data.draw(stories())
    with (
        patch.object(row_index, "PER_PART", 2),
        patch.object(row_index, "_AT_ONCE", 3),
        patch.object(row_index, "_MOST_SLOTS", 2),
        patch.object(row_index, "_MOST_BLOBS", 2),
        patch("eventide.kernels.vector.matching._AT_ONCE", 2),
        patch("eventide.kernels.vector.matching._HASH_BITS", 62),
    ):
        assert_same(stream, story)
