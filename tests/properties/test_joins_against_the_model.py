"""The join kernels against the reference model, on random joins and random stories, step by step."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from eventide.kernels.state import row_index
from eventide.plan.joins import Asof
from eventide.plan.logical import Join, Stream
from eventide.testing import KernelRunner, ReferenceModel, Step
from eventide.testing.aggregates import frozen
from tests.properties.join_plans import BOUNDS, Event, joins, stories

EXAMPLES = int(os.environ.get("EVENTIDE_EXAMPLES", "250"))
QUIET = list(HealthCheck)


def tell(runner: ReferenceModel | KernelRunner, event: Event) -> Step:
    match event.verb:
        case "batch":
            return runner.batch(event.rows)
        case "advance":
            sources = ["l", "r"] if event.source == "both" else [event.source]
            return runner.batch(advance=dict.fromkeys(sources, event.at))
        case "flush":
            return runner.flush()
        case "tick":
            return runner.tick()
    if isinstance(runner, KernelRunner):
        runner.restart()
    return Step(watermark=runner.watermark)


def assert_same(stream: Stream, story: list[Event], shards: int = 1) -> None:
    model, runner = ReferenceModel(stream, resolution=1), KernelRunner(stream, shards, resolution=1)
    for event in story:
        wanted, computed = tell(model, event), tell(runner, event)
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


@pytest.mark.parametrize("family", BOUNDS)
@settings(max_examples=40, deadline=None, suppress_health_check=QUIET)
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
