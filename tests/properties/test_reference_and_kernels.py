"""The bare kernels against the reference model, on random plans and random stories, step by step."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from eventide.testing import KernelRunner, ReferenceModel, Step
from eventide.testing.aggregates import frozen
from tests.properties.events import Event, tell
from tests.properties.examples import examples
from tests.properties.reference_plans import Plan, plans, rows, stories

EXAMPLES = examples(200, 1000)
QUIET = list(HealthCheck)
FAR = 10**6


def main_of(step: Step) -> list[Any]:
    return [frozen(row) for row in step.main]


def sides_of(step: Step) -> Counter[Any]:
    return Counter((payload.kind, payload.reason, payload.event_time) for payload in step.side)


def shards_for(plan: Plan, wanted: int) -> int:
    """On one shard where what must meet may not: where a quota sends rows to the shard of their window while their id
    or a
    reassigned time wants another."""
    return 1 if plan.max_groups and (plan.dedup or "reassign" in plan.sql) else wanted


def assert_same(plan: Plan, story: list[Event], shards: int = 1) -> None:
    stream = plan.stream
    model, runner = ReferenceModel(stream), KernelRunner(stream, shards)
    for event in story:
        wanted, computed = tell(model, event), tell(runner, event)
        assert Counter(main_of(computed)) == Counter(main_of(wanted))
        assert plan.kind != "ordered" or main_of(computed) == main_of(wanted)
        assert sides_of(computed) == sides_of(wanted)
        assert +computed.counts == +wanted.counts
        assert computed.watermark == wanted.watermark


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=QUIET)
@given(st.data())
def test_kernels_give_what_the_reference_model_gives(data: Any) -> None:
    plan = data.draw(plans())
    story = data.draw(stories(plan))
    assert_same(plan, story, shards_for(plan, data.draw(st.sampled_from([1, 3]))))


@settings(max_examples=EXAMPLES // 5, deadline=None, suppress_health_check=QUIET)
@given(st.data(), st.randoms(use_true_random=False))
def test_while_no_window_closes_neither_the_order_of_arrival_nor_batch_borders_matter(data: Any, random: Any) -> None:
    plan = data.draw(plans(("tumble", "hop", "session", "slide"), patient=True))
    arrivals = data.draw(st.lists(st.tuples(st.sampled_from(plan.sources), rows()), max_size=20))
    shuffled = random.sample(arrivals, len(arrivals))
    outcomes = []
    for order, runner in ((arrivals, ReferenceModel(plan.stream)), (shuffled, KernelRunner(plan.stream, 3))):
        step = Step()
        borders = sorted(random.sample(range(len(order) + 1), min(3, len(order))))
        for start, end in zip([0, *borders], [*borders, len(order)], strict=True):
            batch = {name: [row for source, row in order[start:end] if source == name] for name in plan.sources}
            step.side += runner.batch(batch).side
        for name in plan.sources:
            step.main += runner.batch(advance={name: FAR}).main
        outcomes.append((Counter(main_of(step)), sides_of(step), +runner.totals))
    assert outcomes[0] == outcomes[1]


# Where kernels and model once disagreed
# ---------------------------------------------------------------------------------

DEDUPLICATED = (
    "CREATE SOURCE s (id STRING, k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_us, "
    "DEDUPLICATE BY id WITHIN INTERVAL '{within}' MILLISECOND); CREATE STREAM o{options} AS {query}"
)


def deduplicated(kind: str, within: int, query: str, options: str = "") -> Plan:
    return Plan(DEDUPLICATED.format(within=within, query=query, options=options), kind, ("s",), False, "for a while")


def test_whether_an_id_is_forgotten_does_not_depend_on_other_ids() -> None:
    plan = deduplicated("forward", 1, "SELECT k, ts FROM s")
    assert_same(
        plan,
        [Event("batch", {"s": [("a0", "a", 1, 1000), ("b0", "b", 1, 0)]}), Event("batch", {"s": [("b0", "b", 1, 0)]})],
    )


def test_a_row_that_is_reassigned_is_a_duplicate_by_its_own_time() -> None:
    options = " WITH ('late.policy' = 'reassign', 'late.max_lateness' = '4 milliseconds')"
    plan = deduplicated(
        "tumble", 13, "SELECT k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' MILLISECOND)", options
    )
    first = Event("batch", {"s": [(None, "a", 1, 37_000), ("b0", "b", 1, 23_500)]})
    assert_same(plan, [first, Event("batch", {"s": [("b0", "b", 1, 33_000)]}), Event("advance", source="s", at=FAR)])


def test_a_late_row_of_an_ordered_stream_does_not_make_a_duplicate_of_the_next() -> None:
    plan = deduplicated("ordered", 10, "SELECT k, ts FROM s ORDER BY ts")
    late = Event("batch", {"s": [("a0", "a", 1, 0), ("a0", "a", 1, 1000)]})
    assert_same(plan, [Event("batch", {"s": [(None, "a", 1, 0)]}), late])


SOURCE = (
    "CREATE SOURCE s (id STRING, k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_us); CREATE STREAM o"
)


def test_a_flushed_window_is_closed_for_all_groups_alike() -> None:
    plan = Plan(
        f"{SOURCE} AS SELECT k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' MILLISECOND)",
        "tumble",
        ("s",),
        False,
        None,
    )
    after = Event("batch", {"s": [(None, key, 1, 2000) for key in "bcd"]})
    assert_same(plan, [Event("batch", {"s": [(None, "a", 1, 1000)]}), Event("flush"), after], shards=3)


def test_a_row_that_is_reassigned_meets_the_other_rows_of_its_new_window() -> None:
    options = "WITH ('max_groups' = '5', 'late.policy' = 'reassign', 'late.max_lateness' = '20 milliseconds')"
    query = "SELECT window_start, k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' MILLISECOND)"
    plan = Plan(f"{SOURCE} {options} AS {query}", "tumble", ("s",), True, None)
    again = Event("batch", {"s": [(None, "a", 1, ts * 1000) for ts in (7, 8, 9, 10)]})
    assert_same(
        plan, [Event("batch", {"s": [(None, "a", 1, 10_000)]}), again, Event("advance", source="s", at=FAR)], shards=3
    )
