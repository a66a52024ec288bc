"""What the command line chooses to run."""

from __future__ import annotations

import sys

import pytest

from benchmarks.__main__ import arguments, chosen
from benchmarks.bars import (
    ALONE,
    BARS,
    COLD_AGAIN,
    COLD_FIRST,
    COLD_START,
    LATENCY,
    LONG_RUN,
    MANY_STREAMS,
    SCALING_OF_CORES,
    alone_of,
)
from benchmarks.engines.peer import has
from benchmarks.runner import rotated
from benchmarks.workloads import BATCH_SIZES, EVERYTHING


def names(*given: str) -> list[str]:
    return [workload.name for workload in chosen(arguments(given))]


def test_everything_runs_unless_something_is_named() -> None:
    assert names() == [workload.name for workload in EVERYTHING]
    assert names("--only", "sessions", "json, 1k keys") == ["json, 1k keys", "sessions"]


def test_the_bar_runs_just_what_it_judges() -> None:
    of_their_own = {COLD_START, COLD_FIRST, COLD_AGAIN, LONG_RUN, MANY_STREAMS, SCALING_OF_CORES, *LATENCY.values()}
    of_their_own |= {alone_of(workload) for workload in ALONE}
    assert set(names("--bar")) == {bar.workload for bar in BARS} - of_their_own
    assert not set(names("--bar")) & {workload.name for workload in BATCH_SIZES}


def test_workloads_have_names_of_their_own() -> None:
    assert len(set(names())) == len(names())


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(SystemExit, match="no such workload: sesions"):
        names("--only", "sesions")


def test_what_is_not_a_workload_can_be_named_too() -> None:
    assert names("--only", "latency", "scaling") == []
    assert names("--bar", "--only", "memory", "sessions") == ["sessions"]


def test_memory_is_measured_for_one_workload_of_each_kind() -> None:
    assert len(ALONE) == 7


def test_a_scale_changes_the_rows_and_nothing_else() -> None:
    [workload] = chosen(arguments(["--only", "json, 100k keys", "--scale", "0.01"]))
    assert (workload.batch_rows, workload.batches, workload.rows) == (10_000, 4, 40_000)


def test_engines_take_turns_at_being_first() -> None:
    engines: list[str] = ["a", "b", "c"]
    assert [rotated(engines, turn) for turn in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


def test_a_peer_is_there_if_its_interpreter_can_import_it() -> None:
    assert has(sys.executable, "json")
    assert not has(sys.executable, "no_such_engine")
