"""The rules of admission, row by row. Times in milliseconds unless a name says otherwise."""

from __future__ import annotations

from fractions import Fraction

import pytest

from eventide.admission.controller import AdmissionState, Admit, Reject, StreamAdmissionController
from eventide.admission.sla import BucketSpec, SlaClass, StreamSlaConfig
from eventide.errors import CheckpointError

MS = 1_000


def bucket(rate: float, burst: int, cost: int = 1) -> BucketSpec:
    return BucketSpec(Fraction(str(rate)), Fraction(burst), Fraction(cost))


def outcomes(controller: StreamAdmissionController, rows: list[tuple[int | None, int]]) -> list[str]:
    """Rows are (event time, arrival)."""
    found = []
    for event_time, now in rows:
        decision = controller.try_admit(None if event_time is None else event_time * MS, now * MS)
        found.append("admit" if isinstance(decision, Admit) else decision.reason)
    return found


def test_an_admitted_row_is_told_its_lag_and_the_tokens_left() -> None:
    controller = StreamAdmissionController(StreamSlaConfig.of_class(SlaClass.GOLD))
    assert controller.try_admit(1_000 * MS, 1_250 * MS) == Admit(Fraction(49), 250 * MS)


def test_a_row_exactly_as_late_as_allowed_is_admitted() -> None:
    controller = StreamAdmissionController(StreamSlaConfig(max_lag=100 * MS))
    assert outcomes(controller, [(900, 1000), (899, 1000), (2000, 1000), (None, 1000)]) == [
        "admit",
        "lag",
        "admit",
        "admit",
    ]


def test_a_gap_rejects_one_row_and_does_not_latch() -> None:
    """
    arrivals   0   50        200 210         400
    budget 100             gap ▲   ok      gap ▲
    """
    controller = StreamAdmissionController(StreamSlaConfig(jitter_budget=100 * MS))
    rows = [(None, now) for now in (0, 50, 200, 210, 310, 411)]
    assert outcomes(controller, rows) == ["admit", "admit", "jitter", "admit", "admit", "jitter"]


def test_the_row_behind_a_gap_that_is_rejected_for_its_lag_ends_the_gap() -> None:
    controller = StreamAdmissionController(StreamSlaConfig(max_lag=10 * MS, jitter_budget=100 * MS))
    assert outcomes(controller, [(0, 0), (0, 500), (500, 501)]) == ["admit", "lag", "admit"]


def test_lag_is_asked_before_jitter_and_jitter_before_rate() -> None:
    config = StreamSlaConfig(None, bucket(0.001, 1), 10 * MS, 100 * MS)
    controller = StreamAdmissionController(config)
    rows = [(0, 0), (0, 500), (1000, 1000), (1001, 1001)]
    assert outcomes(controller, rows) == ["admit", "lag", "jitter", "rate"]


def test_a_rejected_row_takes_no_token() -> None:
    config = StreamSlaConfig(None, bucket(0.001, 2), 10 * MS, 100 * MS)
    controller = StreamAdmissionController(config)
    rows = [(0, 0), (0, 50), (500, 500), (501, 501), (502, 502)]
    assert outcomes(controller, rows) == ["admit", "lag", "jitter", "admit", "rate"]


def test_tokens_come_back_between_rows() -> None:
    controller = StreamAdmissionController(StreamSlaConfig(bucket=bucket(1, 1)))
    rows = [(None, now) for now in (0, 999, 1000, 1999, 2500, 2600)]
    assert outcomes(controller, rows) == ["admit", "rate", "admit", "rate", "admit", "rate"]


def test_arrivals_that_go_back_bring_neither_tokens_nor_gaps() -> None:
    controller = StreamAdmissionController(StreamSlaConfig(None, bucket(1, 1), jitter_budget=1_500 * MS))
    rows = [(None, now) for now in (5000, 1000, 5999, 6000)]
    assert outcomes(controller, rows) == ["admit", "rate", "rate", "admit"]


def test_a_rejection_has_its_figures() -> None:
    config = StreamSlaConfig(None, bucket(0.5, 3, 2), 10 * MS, 100 * MS)
    controller = StreamAdmissionController(config)
    controller.try_admit(None, 0)
    assert controller.try_admit(0, 20_500) == Reject("lag", {"lag_ms": 20.5, "max_lag_ms": 10.0})
    assert controller.try_admit(None, 150_000) == Reject("jitter", {"gap_ms": 129.5, "jitter_budget_ms": 100.0})
    assert controller.try_admit(None, 200_000) == Reject(
        "rate", {"tokens_left": 1.1, "token_cost": 2.0, "tokens_per_sec": 0.5, "burst": 3.0}
    )


def test_a_judged_row_that_goes_elsewhere_costs_nothing() -> None:
    controller = StreamAdmissionController(StreamSlaConfig(bucket=bucket(0.001, 1)))
    assert all(isinstance(controller.judge(None, 0), Admit) for _ in range(5))
    assert controller.wait_for(1) == 0
    assert controller.try_admit(None, 0) == Admit(Fraction(0), None)
    assert controller.wait_for(1) == 1_000_000_000


def test_a_restart_goes_on_where_it_was() -> None:
    config = StreamSlaConfig(None, bucket(1, 2), jitter_budget=500 * MS)
    rows = [(None, now) for now in (0, 100, 200, 900, 1000, 1700, 2000)]
    straight = StreamAdmissionController(config)
    expected = outcomes(straight, rows)
    state, found = AdmissionState(), []
    for row in rows:
        controller = StreamAdmissionController(config, AdmissionState.from_bytes(state.to_bytes()))
        found += outcomes(controller, [row])
        state = controller.state
    assert found == expected
    assert state == straight.state
    assert len(state.to_bytes()) < 300


@pytest.mark.parametrize("blob", [b"", b"{}", b'{"version": 2}', b'{"version": 1, "seen": 1, "bucket": {}}'])
def test_a_damaged_state_is_refused(blob: bytes) -> None:
    with pytest.raises(CheckpointError, match="state of admission"):
        AdmissionState.from_bytes(blob)
