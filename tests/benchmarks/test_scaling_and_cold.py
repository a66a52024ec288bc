"""What runs in processes of its own: on how many cores, and with which caches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import alone, cold, data, scaling
from benchmarks.figures import SCALING
from benchmarks.workloads import Data, Workload


def test_the_second_core_is_judged_by_the_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = {1: [10.0, 90.0, 20.0], 2: [36.0, 5.0, 50.0]}
    monkeypatch.setattr(scaling, "_in_a_process", lambda engine, cores, count: turns[cores])
    told: list[str] = []
    assert scaling.measure("eventide", 3, told.append) == {SCALING.key: 1.8}
    assert told[0] == "  eventide, cores 1: 20 rows/s (10 .. 90)"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux can tell a process which cores to use")
def test_a_pinned_process_starts_others_on_the_same_core() -> None:
    count = "import os; print(len(os.sched_getaffinity(0)))"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {count!r}])"
    pinned = f"from benchmarks.scaling import pin; pin(1); {starts}"
    told = subprocess.run([sys.executable, "-c", pinned], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "1"


def test_a_new_user_has_no_caches(tmp_path: Path) -> None:
    found = cold.environment_of(tmp_path)
    assert found["HOME"] == str(tmp_path)
    assert Path(found["XDG_CACHE_HOME"]).is_relative_to(tmp_path)
    assert found["PATH"] == os.environ["PATH"]


def test_a_second_start_has_what_the_first_has_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    homes = []

    def measure(engine: str, environment: dict[str, str]) -> dict[str, float]:
        homes.append(environment["HOME"])
        return {"seconds": float(len(homes))}

    monkeypatch.setattr(cold, "measure", measure)
    assert cold.measure_with_pip("eventide") == ({"seconds": 1.0}, {"seconds": 2.0})
    assert len(set(homes)) == 1
    assert not Path(homes[0]).exists()


def test_files_for_an_engine_alone_know_their_batch(tmp_path: Path) -> None:
    workload = Workload("tiny", Data(keys=10), batch_rows=400, warm_batches=1, batches=1)
    alone.write_files(workload, tmp_path)
    assert sorted(data.batch_of(path) for path in tmp_path.iterdir()) == [0, 0, 0, 0, 1, 1, 1, 1, 4]
