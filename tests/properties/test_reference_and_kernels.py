"""The bare kernels against the reference model, on random plans and random stories, step by step."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from eventide.testing import KernelRunner, ReferenceModel, Step
from eventide.testing.aggregates import frozen
from tests.properties.reference_plans import Event, Plan, plans, stories

EXAMPLES = settings(max_examples=int(os.environ.get("EVENTIDE_EXAMPLES", "1000")), deadline=None, suppress_health_check=list(HealthCheck))
FAR = 10**6


def tell(runner: ReferenceModel | KernelRunner, event: Event) -> Step:
    match event.verb:
        case "batch":
            return runner.batch(event.rows)
        case "advance":
            return runner.batch(advance={event.source: event.at})
        case "flush":
            return runner.flush()
        case "tick":
            return runner.tick()
    if isinstance(runner, KernelRunner):
        runner.restart()
    return Step(watermark=runner.watermark)


def main_of(step: Step) -> list[Any]:
    return [frozen(row) for row in step.main]


def sides_of(step: Step, plan: Plan) -> Counter[Any]:
    """Payloads. What is late and a duplicate too may be called either."""
    either = ("late", "duplicate") if plan.dedup else ()
    return Counter(("late or duplicate", p.event_time) if p.kind in either else (p.kind, p.reason, p.event_time) for p in step.side)


def counts_of(step: Step, plan: Plan) -> Counter[str]:
    counts = Counter(step.counts)
    if plan.dedup:
        counts["late"] += counts.pop("duplicate", 0)
    return +counts


def shards_for(plan: Plan, story: list[Event], wanted: int) -> int:
    """A limit on groups and a flush count per shard, so that they are compared on one."""
    return 1 if plan.max_groups or any(event.verb == "flush" for event in story) else wanted


@EXAMPLES
@given(st.data())
def test_kernels_give_what_the_reference_model_gives(data: Any) -> None:
    plan = data.draw(plans())
    story = data.draw(stories(plan))
    stream = plan.stream
    model, runner = ReferenceModel(stream), KernelRunner(stream, shards_for(plan, story, data.draw(st.sampled_from([1, 3]))))
    for event in story:
        wanted, given_ = tell(model, event), tell(runner, event)
        assert Counter(main_of(given_)) == Counter(main_of(wanted))
        assert plan.kind != "ordered" or main_of(given_) == main_of(wanted)
        assert sides_of(given_, plan) == sides_of(wanted, plan)
        assert counts_of(given_, plan) == counts_of(wanted, plan)
        assert given_.watermark == wanted.watermark
