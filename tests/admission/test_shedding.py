"""What the driver of a running stream decides about load, from the accounts of its batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.admission.gate import offered_as
from eventide.admission.options import parse_admission
from eventide.admission.shed_log import ShedLog
from eventide.admission.shedder import ShedOrder, ShedRatios
from eventide.admission.shedding import Shedding
from eventide.admission.sla import Priority
from eventide.errors import CheckpointError
from eventide.storage.results import Account

SECOND = 1_000_000
SPECS = {"s": parse_admission({"shed.target_latency": "2 seconds", "sla.priority": "p"})}


def batch(number: int, rows: int, seconds: float, shed: int = 0) -> tuple[Account, int]:
    """Batches one after the other, of rows of which two thirds are low and one third is of a source that is never
    shed.
    """
    began = round(number * seconds * SECOND)
    events = {offered_as("s", Priority.LOW): rows * 2 // 3}
    account = Account(number, {"rows_in": rows, "shed": shed}, {}, events, began=began)
    return account, began + round(seconds * SECOND)


def shares(shedding: Shedding, batches: list[tuple[Account, int]]) -> list[float]:
    found = []
    for account, ended in batches:
        shedding.observe(account, ended)
        found.append(float(shedding.figures()["shed_share"]))
    return found


def test_a_stream_whose_batches_last_too_long_sheds_low_rows_and_says_so(tmp_path: Path) -> None:
    log = ShedLog(tmp_path / "orders.json")
    found = shares(Shedding(SPECS, log), [batch(number, 3000, 4.0) for number in range(6)])
    assert found[0] == 0 and 0.1 < found[-1] < 0.5
    order = log.latest()
    assert order.ratios.low == pytest.approx(order.share * 3 / 2, rel=0.01)
    assert (
        order.share == pytest.approx(found[-1], abs=0.001)
        and order.ratios.of(Priority.CRITICAL) == 0
        and order.cause in ("latency", "demand")
    )


def test_a_stream_that_keeps_up_logs_no_order(tmp_path: Path) -> None:
    log = ShedLog(tmp_path / "orders.json")
    assert set(shares(Shedding(SPECS, log), [batch(number, 3000, 1.0) for number in range(10)])) == {0}
    assert not (tmp_path / "orders.json").exists()


def test_a_batch_without_rows_does_not_count(tmp_path: Path) -> None:
    plain, mixed = (Shedding(SPECS, ShedLog(tmp_path / name)) for name in ("plain", "mixed"))
    batches = [batch(number, 3000, 4.0) for number in range(3)]
    again = [each for one in batches for each in (one, batch(99, 0, 60.0))]
    assert shares(plain, batches)[-1] == shares(mixed, again)[-1]


def test_what_waits_counts_as_rows_of_the_length_of_those_that_were_taken(tmp_path: Path) -> None:
    """Batches of 3,000 rows and 600 kB in a second, so that one of two seconds takes about twice as much."""
    shedding = Shedding(SPECS, ShedLog(tmp_path / "orders.json"))
    for number in range(12):
        shedding.observe(*batch(number, 3000, 1.0), taken=600_000, waiting=300_000 * (number == 11))
    assert float(shedding.figures()["load_backlog"]) == pytest.approx(1500 / 6000, rel=0.4)


def test_a_stream_that_only_throttles_measures_its_load_and_sheds_nothing(tmp_path: Path) -> None:
    specs = {"s": parse_admission({"shed.policy": "prefer_throttle", "shed.target_latency": "2 seconds"})}
    shedding = Shedding(specs, ShedLog(tmp_path / "orders.json"))
    for number in range(6):
        shedding.observe(*batch(number, 3000, 4.0))
    assert float(shedding.figures()["load"]) > 1 and "shed_share" not in shedding.figures()
    assert not (tmp_path / "orders.json").exists()


def test_the_ratio_of_whole_windows_holds_from_the_latest_time_that_was_offered(tmp_path: Path) -> None:
    log = ShedLog(tmp_path / "orders.json")
    shedding = Shedding(SPECS, log, kept=10)
    for number in range(4):
        account, ended = batch(number, 3000, 4.0)
        account.sources, account.watermark = {"s": {"offered": 100 * number}}, 100 * number - 50
        shedding.observe(account, ended)
    since = log.latest().since
    assert since and all(start in (101, 201, 301) for start, _ in since)
    assert log.latest().ratios == since[-1][1]


def test_a_restart_goes_on_with_the_last_order(tmp_path: Path) -> None:
    log = ShedLog(tmp_path / "orders.json")
    log.add(5, ShedOrder(ShedRatios(low=0.6), 0.4, 1.7, "latency"))
    assert Shedding(SPECS, log).figures()["shed_share"] == 0.4


def test_a_task_finds_the_order_that_held_when_its_batch_began(tmp_path: Path) -> None:
    log = ShedLog(tmp_path / "orders.json")
    for since in (10, 20):
        log.add(since, ShedOrder(ShedRatios(low=since / 100), 0.1))
    assert [log.at(time).ratios.low for time in (9, 10, 19, 20, 99)] == [0.0, 0.1, 0.1, 0.2, 0.2]


def test_a_log_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "orders.json").write_text('[[1, "{}"]]')
    with pytest.raises(CheckpointError, match=r"orders\.json"):
        ShedLog(tmp_path / "orders.json").latest()
