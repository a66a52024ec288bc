"""Options of admission as users write them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from eventide.admission.options import (
    DEFAULT_TARGET_LATENCY,
    AdmissionSpec,
    ShedMode,
    ShedSpec,
    SlaBackpressurePolicy,
    parse_admission,
)
from eventide.admission.sla import BucketSpec, Priority, SlaClass, StreamSlaConfig
from eventide.errors import OptionError
from eventide.eventtime.durations import MILLISECOND, SECOND


@pytest.mark.parametrize(
    ("word", "max_lag", "rate", "burst", "priority"),
    [
        ("bronze", 5 * SECOND, 1, 5, Priority.LOW),
        ("silver", 2 * SECOND, 5, 20, Priority.MEDIUM),
        ("gold", 500 * MILLISECOND, 20, 50, Priority.HIGH),
        ("platinum", 100 * MILLISECOND, 100, 200, Priority.CRITICAL),
    ],
)
def test_a_class_has_the_figures_of_the_table(
    word: str, max_lag: int, rate: int, burst: int, priority: Priority
) -> None:
    spec = parse_admission({"sla.class": word})
    assert spec.sla == StreamSlaConfig(SlaClass(word), BucketSpec(Fraction(rate), Fraction(burst)), max_lag)
    assert spec.sla == StreamSlaConfig.of_class(SlaClass(word))
    assert spec.priority == priority
    assert spec.is_on


def test_single_options_override_the_class() -> None:
    spec = parse_admission(
        {
            "sla.class": " Gold ",
            "sla.max_events_per_sec": "0.001",
            "sla.burst": "7.5",
            "sla.max_lag": "3 s",
            "sla.jitter_budget": "250 ms",
            "sla.token_cost": "2",
            "sla.priority": "low",
        }
    )
    bucket = BucketSpec(Fraction(1, 1000), Fraction(15, 2), Fraction(2))
    assert spec.sla == StreamSlaConfig(SlaClass.GOLD, bucket, 3 * SECOND, 250 * MILLISECOND)
    assert spec.priority == Priority.LOW


def test_other_options_of_a_source_are_left_alone_and_nothing_is_on() -> None:
    spec = parse_admission({"connector": "files", "path": "clicks"})
    assert spec == AdmissionSpec()
    assert not spec.is_on


@pytest.mark.parametrize(("options", "burst"), [({}, 20), ({"sla.token_cost": "30"}, 30)])
def test_without_a_burst_the_bucket_holds_a_second_of_tokens_and_at_least_one_row(
    options: dict[str, str], burst: int
) -> None:
    bucket = parse_admission({"sla.max_events_per_sec": "20", **options}).sla.bucket
    assert bucket is not None
    assert bucket.burst == burst


def test_a_priority_may_be_an_expression() -> None:
    sql = "CASE WHEN vip THEN 'critical' ELSE 'low' END"
    spec = parse_admission({"sla.class": "silver", "sla.priority": sql})
    assert (spec.priority, spec.priority_sql) == (Priority.MEDIUM, sql)


def test_nothing_of_platinum_is_less_than_critical() -> None:
    spec = parse_admission({"sla.class": "platinum", "sla.priority": "low"})
    assert (spec.priority, spec.priority_sql) == (Priority.CRITICAL, None)


def test_any_option_of_shedding_turns_it_on() -> None:
    strict = ShedSpec(SlaBackpressurePolicy.STRICT, ShedMode.ROWS, DEFAULT_TARGET_LATENCY)
    assert parse_admission({}).shed is None
    assert parse_admission({"shed.policy": "strict"}).shed == strict
    assert parse_admission({"shed.mode": "rows"}).shed == strict
    assert parse_admission({"shed.target_latency": "2 s"}).shed == ShedSpec(target_latency=2 * SECOND)
    assert parse_admission({"shed.mode": "windows"}, 3 * SECOND).shed == ShedSpec(
        mode=ShedMode.WINDOWS, target_latency=3 * SECOND
    )
    for word, policy in (
        ("prefer_throttle", SlaBackpressurePolicy.PREFER_THROTTLE),
        ("bypass", SlaBackpressurePolicy.BYPASS_SHEDDER),
    ):
        assert parse_admission({"shed.policy": word}).shed == ShedSpec(policy)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sla.class": "titanium"}, "bronze, silver, gold or platinum"),
        ({"sla.klass": "gold"}, "did you mean sla.class"),
        ({"shed.polcy": "strict"}, "did you mean shed.policy"),
        ({"shed.policy": "loose"}, "strict, prefer_throttle or bypass"),
        ({"shed.mode": "keys"}, "rows or windows"),
        ({"shed.target_latency": "0 s"}, "above zero"),
        ({"sla.max_events_per_sec": "0"}, "above zero"),
        ({"sla.max_events_per_sec": "many"}, "sla.max_events_per_sec is 'many'"),
        ({"sla.max_events_per_sec": "nan"}, "write a number"),
        ({"sla.max_events_per_sec": "inf"}, "write a number"),
        ({"sla.max_events_per_sec": "-1"}, "write a number"),
        ({"sla.max_events_per_sec": "0.0000000001"}, "at most 9 digits"),
        ({"sla.burst": "5"}, "add sla.max_events_per_sec"),
        ({"sla.token_cost": "5"}, "add sla.max_events_per_sec"),
        ({"sla.class": "bronze", "sla.token_cost": "6"}, "none could ever be admitted"),
        ({"sla.max_lag": "soon"}, "sla.max_lag: 'soon' is not a duration"),
        ({"sla.max_lag": "0 s"}, "sla.max_lag is 0"),
        ({"sla.jitter_budget": "-5 s"}, "negative"),
        ({"sla.priority": " "}, "low, medium, high or critical"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_way_out(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message) as refused:
        parse_admission(options)
    assert refused.value.help
