"""Whether a bar is met."""

from __future__ import annotations

from benchmarks.bars import (
    BARS,
    MEMORY_STATE,
    ROCKSDB_STATE,
    AtLeast,
    AtMost,
    NotFarBehind,
    Reaches,
    all_met,
    is_judged,
    verdicts,
)
from benchmarks.figures import COLD, CPU, MEMORY, SCALING, SINGLE, SPEED, Results
from benchmarks.flink_jobs import BACKENDS, FLINK_MEMORY, FLINK_ROCKSDB
from benchmarks.workloads import OTHERS, TUMBLING

FAST: Results = {
    "w": {"eventide": [{SPEED.key: 200.0, SINGLE.key: 0.8}], ROCKSDB_STATE: [{SPEED.key: 100.0, SINGLE.key: 0.4}]}
}


def bars_of(workload: str) -> dict[tuple[str, str], float]:
    return {
        (bar.figure.key, bar.against): bar.times
        for bar in BARS
        if isinstance(bar, AtLeast) and bar.workload == workload and bar.against not in BACKENDS
    }


def test_a_ratio_that_reaches_its_bar_exactly_meets_it() -> None:
    assert AtLeast("w", SPEED, ROCKSDB_STATE, 2.0).verdict(FAST).is_met
    assert not AtLeast("w", SPEED, ROCKSDB_STATE, 2.01).verdict(FAST).is_met


def test_twice_as_long_is_half_as_good() -> None:
    found = AtLeast("w", SINGLE, ROCKSDB_STATE, 0.5).verdict(FAST)
    assert found.is_met
    assert found.value == 0.5


def test_what_was_not_measured_is_missed() -> None:
    for bar in (AtLeast("w", CPU, ROCKSDB_STATE, 1.0), AtLeast("w", SPEED, MEMORY_STATE, 1.0), AtMost("w", COLD, 15.0)):
        found = bar.verdict(FAST)
        assert found.value is None
        assert not found.is_met


def test_a_limit_holds_for_our_median() -> None:
    results: Results = {"cold": {"eventide": [{COLD.key: 9.0}, {COLD.key: 14.0}, {COLD.key: 20.0}]}}
    assert AtMost("cold", COLD, 15.0).verdict(results).is_met
    assert not AtMost("cold", COLD, 13.0).verdict(results).is_met


def test_another_engine_may_be_ahead_by_a_margin() -> None:
    results: Results = {"cold": {"eventide": [{COLD.key: 9.0}], "native": [{COLD.key: 8.2}]}}
    assert NotFarBehind("cold", COLD, "native", 1.0).verdict(results).is_met
    assert not NotFarBehind("cold", COLD, "native", 0.5).verdict(results).is_met
    assert not NotFarBehind("cold", COLD, "other", 1.0).verdict(results).is_met


def test_a_limit_from_below_holds_for_our_median() -> None:
    results: Results = {"cores": {"eventide": [{SCALING.key: 1.8}]}}
    assert Reaches("cores", SCALING, 1.8).verdict(results).is_met
    assert not Reaches("cores", SCALING, 1.81).verdict(results).is_met
    assert Reaches("other", SCALING, 1.0).verdict(results).value is None


def test_less_memory_is_better() -> None:
    results: Results = {"alone": {"eventide": [{MEMORY.key: 900.0}], ROCKSDB_STATE: [{MEMORY.key: 1_000.0}]}}
    assert AtLeast("alone", MEMORY, ROCKSDB_STATE, 1.0).verdict(results).is_met
    assert not AtLeast("alone", MEMORY, ROCKSDB_STATE, 1.2).verdict(results).is_met


def test_a_bar_against_an_engine_that_nobody_asked_for_is_listed_and_fails_nothing() -> None:
    bar = AtLeast("w", SPEED, FLINK_MEMORY, 2.0)
    [found] = verdicts(FAST, [bar], BACKENDS)
    assert (found.value, found.is_met, found.is_asked) == (None, False, False)
    assert all_met([found])
    assert not all_met(verdicts(FAST, [bar]))
    slow: Results = {"w": {"eventide": [{SPEED.key: 2.0}], FLINK_MEMORY: [{SPEED.key: 2.0}]}}
    assert not all_met(verdicts(slow, [bar], BACKENDS))


def test_flink_is_judged_on_what_both_run() -> None:
    found = {
        (bar.figure, bar.against): bar.times for bar in BARS if isinstance(bar, AtLeast) and bar.workload == "sessions"
    }
    assert [found[figure, FLINK_ROCKSDB] for figure in (SPEED, CPU)] == [3.0, 3.0]
    assert [found[figure, FLINK_MEMORY] for figure in (SPEED, CPU)] == [2.0, 2.0]
    assert is_judged("sessions", FLINK_MEMORY)
    assert not is_judged("parquet, 1k keys", FLINK_MEMORY)


def test_one_bar_missed_is_a_failure() -> None:
    met, missed = AtLeast("w", SPEED, ROCKSDB_STATE, 2.0), AtLeast("w", SPEED, ROCKSDB_STATE, 3.0)
    assert all_met(verdicts(FAST, [met]))
    assert not all_met(verdicts(FAST, [met, missed]))


def test_the_bar_is_the_one_that_was_asked_for() -> None:
    speed, cpu, single = SPEED.key, CPU.key, SINGLE.key
    floor = {(single, ROCKSDB_STATE): 1.0, (single, MEMORY_STATE): 1.0}
    cheap = {(cpu, ROCKSDB_STATE): 2.0, (cpu, MEMORY_STATE): 2.0}
    few, many = (
        {(speed, ROCKSDB_STATE): 1.0, (speed, MEMORY_STATE): 0.9},
        {(speed, ROCKSDB_STATE): 2.0, (speed, MEMORY_STATE): 1.0},
    )
    assert bars_of("json, 1k keys") == few | cheap | floor
    assert bars_of("json, 100k keys") == bars_of("json, 1M keys") == many | cheap
    assert bars_of("parquet, 1k keys") == {(speed, ROCKSDB_STATE): 2.0, (speed, MEMORY_STATE): 1.5}
    assert bars_of("sessions") == bars_of("deduplication") == {(speed, ROCKSDB_STATE): 4.0, (speed, MEMORY_STATE): 2.0}
    assert bars_of("wide rows") == {(speed, ROCKSDB_STATE): 3.0}
    assert bars_of("parquet, 100k keys") == bars_of("parquet, 1M keys") == many


def test_engines_without_a_bar_need_not_run() -> None:
    assert is_judged("sessions", "eventide")
    assert is_judged("sessions", ROCKSDB_STATE)
    assert not is_judged("wide rows", MEMORY_STATE)
    assert is_judged("json, 1k keys", MEMORY_STATE)


def test_every_workload_that_native_spark_can_do_has_a_bar() -> None:
    for workload in (*TUMBLING, *OTHERS):
        assert (SPEED.key, ROCKSDB_STATE) in bars_of(workload.name)
