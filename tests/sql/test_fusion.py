"""Which stages run as one, and the options that say how many may."""

from __future__ import annotations

import pytest

from eventide.errors import SqlError
from eventide.plan.explain import Known, explain
from eventide.plan.fusion import FOLD, Fused, may_fold, output_stages, pack_stages, scan_stages, too_deep
from eventide.plan.physical import Physical
from eventide.plan.planner import plan
from tests.sql.support import stream

FILES = """
CREATE SOURCE f (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'files', 'path' = '/in');
"""
QUERY = "SELECT k, count(*) AS n FROM f WHERE v > 1 GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND) HAVING count(*) > 2"


def planned(options: str = "") -> Physical:
    given = f" WITH ({options})" if options else ""
    return plan(stream(f"CREATE STREAM o{given} AS {QUERY}", FILES))


def test_everything_that_can_be_is_fused() -> None:
    made = planned()
    assert scan_stages(made.inputs[0]) == ("scan", "filter", "pack")
    assert output_stages(made) == ("window", "having", "select list")
    assert made.inputs[0].fusion is not None and may_fold(made, made.inputs[0])


def test_lines_that_only_spark_can_find_are_decoded_in_tasks() -> None:
    made = planned("'fused_scan' = 'false'")
    (input,) = made.inputs
    assert (input.fusion, input.not_fused) == (None, "fused_scan is false")
    assert input.decoding is not None and pack_stages(input) == ("decode", "filter", "pack")
    assert made.plan_id == planned().plan_id


@pytest.mark.parametrize(
    ("options", "scan", "folds", "outputs"),
    [
        ("'fusion.max_depth' = '4'", True, True, True),
        ("'fusion.max_depth' = '3'", True, False, True),
        ("'fusion.max_depth' = '2'", False, True, False),  # pack → fold, behind Spark's reader
        ("'fusion.max_depth' = '1'", False, False, False),
        ("'fusion.enabled' = 'false'", False, False, False),
        ("'fusion.enabled' = 'true'", True, True, True),
    ],
)
def test_no_more_stages_run_as_one_than_the_options_say(options: str, scan: bool, folds: bool, outputs: bool) -> None:
    made = planned(options)
    assert (made.inputs[0].fusion is not None) == scan
    assert may_fold(made, made.inputs[0]) == folds
    assert (too_deep(made.options, output_stages(made)) is None) == outputs
    assert made.plan_id == planned().plan_id  # it changes no outcome


def test_explain_shows_the_stages_and_why_they_end() -> None:
    text = explain(planned(), known=Known(fused=lambda name: Fused(((FOLD,),))))
    assert "fused: scan → filter → pack → fold, in the task that reads; the shuffle ends it" in text
    assert "fused: window → having → select list, in the task of a shard" in text
    text = explain(planned("'fusion.max_depth' = '2'"), known=Known(fused=lambda name: Fused(((),), "k is a map")))
    assert "not fused: scan, filter and pack are 3 stages, and fusion.max_depth is 2" in text
    assert "not fused: k is a map" in text
    assert "not fused: fusion is off" in explain(planned("'fusion.enabled' = 'false'"))


def test_a_depth_of_what_is_not_fused_is_refused() -> None:
    with pytest.raises(SqlError, match="nothing is fused"):
        planned("'fusion.enabled' = 'false', 'fusion.max_depth' = '3'")
