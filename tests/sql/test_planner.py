"""The physical plan: inputs, packed columns and the rules that make them better."""

from __future__ import annotations

from eventide.plan.difference import canonical, difference
from eventide.plan.logical import Filter, Named, Project
from eventide.plan.physical import EventTimeWatermark, ForwardRows, ProcessTimeWatermark
from eventide.plan.planner import plan
from tests.sql.support import stream


def test_equal_columns_travel_once() -> None:
    made = plan(stream("SELECT k, sum(v), max(v), count(DISTINCT k) FROM n GROUP BY k, TUMBLE(t, '1s')"))
    (read,), calls = made.inputs, made.operator.aggregates  # type: ignore[union-attr]
    assert read.packed == (Named("__k0", "k"), Named("__i0", "v"), Named("__o0", "t"))
    assert [call.inputs for call in calls] == [("__i0",), ("__i0",), ("__k0",)]
    assert read.originals == (Named("k", "__k0"), Named("v", "__i0"), Named("t", "__o0"))
    assert read.keys == (Named("k", "__k0"),)
    assert [call.sql for call in calls] == ["sum(v)", "max(v)", "count(DISTINCT k)"]


def test_filters_and_projections_reach_every_input() -> None:
    made = plan(
        stream(
            """SELECT sum(v) FROM (SELECT v, ts FROM s WHERE v > 0 UNION ALL SELECT v, ts FROM w) AS x
               WHERE x.v < 9 GROUP BY TUMBLE(x.ts, '1s')"""
        )
    )
    first, second = made.inputs
    assert [type(step) for step in first.steps] == [Filter, Project, Filter]
    assert [type(step) for step in second.steps] == [Project, Filter]
    assert first.watermark == EventTimeWatermark(0, "ts as unixtimestamp_ms")
    assert second.watermark == EventTimeWatermark(5_000_000, "ts as spark")


def test_filters_that_follow_each_other_become_one() -> None:
    made = plan(stream("SELECT k FROM (SELECT * FROM n WHERE v > 0 OR v < -9) WHERE k = 'a'"))
    assert [step.condition for step in made.inputs[0].steps if isinstance(step, Filter)] == [
        "(v > 0 OR v < -9) AND (k = 'a')"
    ]


def test_a_projection_of_all_columns_goes_away() -> None:
    assert plan(stream("SELECT k FROM (SELECT k, v, t FROM n)")).inputs[0].steps == ()
    assert len(plan(stream("SELECT k FROM (SELECT v, k, t FROM n)")).inputs[0].steps) == 1


def test_a_forward_packs_the_columns_of_its_input() -> None:
    made = plan(stream("SELECT k || 'x' AS y FROM n WHERE v > 0"))
    assert made.operator == ForwardRows(ordered=False)
    assert made.inputs[0].originals == (Named("k", "__o0"), Named("v", "__o1"), Named("t", "__o2"))
    assert made.outputs == (Named("y", "k || 'x'"),)


def test_processing_time_where_no_event_time_is_declared_or_wanted() -> None:
    assert (
        plan(stream("SELECT count(*) FROM n GROUP BY tumblingwindow('ss', 1)")).inputs[0].watermark
        == ProcessTimeWatermark()
    )
    off = "CREATE STREAM o WITH ('eventtime.enabled' = 'false') AS SELECT count(*) FROM s GROUP BY TUMBLE(ts, '1s')"
    assert plan(stream(off)).inputs[0].watermark == ProcessTimeWatermark()


def test_a_difference_names_what_changed_and_nothing_else() -> None:
    old = canonical(stream("SELECT k, sum(v) AS t FROM s GROUP BY k, TUMBLE(ts, '1s')"))
    new = canonical(stream("SELECT k, sum(v) AS t FROM s GROUP BY k, TUMBLE(ts, '2s')"))
    assert difference(old, new) == "  - window: tumble size 1s\n  + window: tumble size 2s"
    assert difference(old, old) == "  no difference"


def test_a_target_latency_may_change_but_not_come_or_go() -> None:
    def text(options: str) -> str:
        source = f"CREATE SOURCE f (k STRING) WITH ('connector' = 'files', 'path' = 'in'{options})"
        return canonical(stream("SELECT k FROM f", sources=source))

    assert (
        text(", 'target_latency' = '1s'")
        == text(", 'target_latency' = '5s'")
        != text("")
        == text(", 'max_files_per_batch' = '1'")
    )
