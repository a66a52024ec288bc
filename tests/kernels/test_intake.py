import pyarrow as pa
import pytest

from eventide.errors import OptionError
from eventide.kernels.aggregates import AggregateSpec, UserAggregate
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.trial import Trial
from eventide.plan.modes import LatePolicy
from tests.kernels.harness import KEYED_SUMS, Driver, micros, paned_spec

TUMBLE = paned_spec(10, 10, **KEYED_SUMS)


def test_a_problem_row_becomes_an_error_payload_and_the_rest_are_used() -> None:
    driver = Driver(TUMBLE)
    driver.batch([(1, "A", 1), (None, "A", 2), (9, "A", 4)])
    assert driver.advance(10) == [(0, 10, 0, 1, "A", 2, 5)]
    (payload,) = driver.side
    assert (payload["kind"], payload["reason"], payload["error_detail"]) == (
        "error",
        "event_time_unparseable",
        "'yesterday'",
    )
    assert payload["event_time"] is None
    assert payload["original_event"] == '{"k": "A", "v": 2}'
    assert driver.counts == {"used": 2, "error": 1}


def test_strict_uses_no_row_at_or_behind_the_watermark() -> None:
    driver = Driver(IntakeSpec(TUMBLE, LatePolicy.STRICT))
    driver.batch([(1, "A", 1)])
    driver.batch([(5, "A", 2), (6, "A", 4)], watermark=5)
    assert driver.advance(10) == [(0, 10, 0, 1, "A", 2, 5)]
    assert [(p["kind"], p["reason"], micros(p["event_time"])) for p in driver.side] == [("late", "behind_watermark", 5)]


def test_reassign_moves_a_slightly_late_row_to_the_watermark() -> None:
    #  0         10        20
    #  |  x  y   |      W  |      max_lateness 10: y moves to W, x is too old
    driver = Driver(IntakeSpec(TUMBLE, LatePolicy.REASSIGN, max_lateness=10))
    driver.batch([(3, "A", 1), (7, "A", 2)], watermark=17)
    assert driver.advance(20) == [(10, 20, 0, 1, "A", 1, 2)]
    assert driver.events["reassigned"] == 1
    assert [(p["reason"], micros(p["event_time"])) for p in driver.side] == [("behind_watermark", 3)]
    assert driver.counts == {"used": 1, "late": 1}


def test_before_the_first_watermark_nothing_is_late() -> None:
    driver = Driver(IntakeSpec(TUMBLE, LatePolicy.STRICT))
    driver.batch([(-1_000_000, "A", 1)])
    assert driver.counts == {"used": 1}


def test_a_policy_without_its_bound_is_refused() -> None:
    with pytest.raises(OptionError, match=r"late\.max_lateness"):
        IntakeSpec(TUMBLE, LatePolicy.REASSIGN)


def reciprocal(state: float, rows: pa.RecordBatch) -> float:
    return state + sum(1 / value for value in rows.column(0).to_pylist())


@pytest.mark.parametrize("parameters", [(), ("filtered",)])
def test_a_row_that_an_aggregate_of_the_users_own_refuses_is_an_error(parameters: tuple[str, ...]) -> None:
    user = UserAggregate(
        lambda: 0.0, reciprocal, lambda one, other: one + other, lambda state: state, "double", "double"
    )
    inputs = ("v", "passes") if parameters else ("v",)
    kinds = (pa.int64(), pa.bool_())[: len(inputs)]
    spec = AggregateSpec("__a0", "r", inputs, kinds, pa.float64(), False, parameters, user, pa.float64())
    rows = pa.table({"v": [2, 0, 0], "passes": [True, True, None]})
    found = Trial(spec, "r(v)").failures(rows).to_pylist()
    refused = "r(v) raised an error for 0: ZeroDivisionError: division by zero"
    assert found == [None, refused, None if parameters else refused]
