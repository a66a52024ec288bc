"""The harness on Spark: engines take turns over a few rows, and one that returns a wrong result is caught."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import runner
from benchmarks.bars import ROCKSDB_STATE
from benchmarks.engines.contract import Timed
from benchmarks.engines.eventide import Eventide
from benchmarks.engines.limit import Limit
from benchmarks.engines.native import with_rocksdb
from benchmarks.figures import CHECKPOINT, CLOSING, CPU, SINGLE, SPEED, STATE
from benchmarks.totals import Totals
from benchmarks.workloads import Data, Workload

TINY = Workload("tiny", Data(keys=10), batch_rows=400, warm_batches=1, batches=1, single_rows=1)


@pytest.mark.slow
def test_engines_agree_and_have_all_figures(keep_spark: Any) -> None:
    results, problems = runner.compare_all(
        [TINY], [Eventide(keep_spark), with_rocksdb(keep_spark)], [Limit()], 1, print
    )
    assert problems == []
    assert set(results["tiny"]) == {"eventide", ROCKSDB_STATE, Limit.name}
    for engine in ("eventide", ROCKSDB_STATE):
        [sample] = results["tiny"][engine]
        assert set(sample) == {figure.key for figure in (SPEED, CPU, SINGLE, CLOSING, STATE, CHECKPOINT)}
        assert all(value > 0 for value in sample.values())


def test_a_wrong_result_is_an_error_and_not_a_figure(tmp_path: Path) -> None:
    material = runner.prepare(TINY, tmp_path)
    assert material.truth is not None
    runner.check("honest", material.truth, material)
    with pytest.raises(runner.WrongResult, match="cheat"):
        runner.check("cheat", material.truth + Totals(rows=1), material)


class Broken(Limit):
    name = "broken"

    def compute(self, workload: Workload, files: list[Path]) -> Timed:
        raise OSError("no disk")


def test_a_workload_that_fails_is_a_problem_and_the_others_go_on() -> None:
    others = [TINY, replace(TINY, name="another")]
    results, problems = runner.compare_all(others, [], [Broken()], 1, print)
    assert results == {}
    assert problems == ["tiny: OSError: no disk", "another: OSError: no disk"]
