"""kill -9 at random moments: the outcome is that of a run that nobody disturbed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import eventide
from tests.recovery import writer

KILLS = 10
BATCHES = 14


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    if process.stdout is None:
        raise ValueError("the writer has no standard output")
    yield from process.stdout


def run_and_kill(checkpoint: Path, sink: Path, chance: random.Random) -> str:
    """Start the writer and kill it: during its start, or up to a second after one of its first lines. Gives its last line."""
    command = [sys.executable, "-m", "tests.recovery.writer", str(checkpoint), str(sink), str(BATCHES)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    wait_for = chance.randint(0, 4)
    last = ""
    for number, line in enumerate(lines_of(process)):
        last = line.strip()
        if number == wait_for or last == "done":
            break
    if last != "done":
        time.sleep(chance.random())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return last


def wait_for_orphans(checkpoint: Path) -> None:
    """The killed driver's JVM notices within moments; a database opened before would race with its last breath."""
    time.sleep(1.0)


def outcome(checkpoint: Path, sink: Path, db: eventide.Database) -> dict[str, Any]:
    rows = [tuple(row.values()) for row in db.read("totals")]
    late = Counter(payload["original_event"]["id"] for payload in db.side_output("totals", kind="late"))
    errors = Counter(payload["original_event"]["id"] for payload in db.side_output("totals", kind="error"))
    in_files = [tuple(row.values()) for row in pq.read_table(sink).to_pylist()]
    late_files = Counter(row["id"] for row in pq.read_table(f"{sink}-late").to_pylist())
    return {
        "rows": Counter(rows),
        "late": late,
        "errors": errors,
        "files": Counter(in_files),
        "late files": late_files,
        "accounts": db.accounting("totals"),
    }


@pytest.fixture
def undisturbed(tmp_path: Path, keep_spark: Any) -> dict[str, Any]:
    checkpoint, sink = tmp_path / "calm", tmp_path / "calm-out"
    with eventide.connect(checkpoint, shards=2) as db:
        writer.run(checkpoint, sink, BATCHES, db)
        return outcome(checkpoint, sink, db)


def test_ten_kills_at_random_moments_change_nothing(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    seed = int(os.environ.get("EVENTIDE_KILL_SEED", "20"))
    chance = random.Random(seed)
    checkpoint, sink = tmp_path / "killed", tmp_path / "killed-out"
    for _ in range(KILLS):
        run_and_kill(checkpoint, sink, chance)
        wait_for_orphans(checkpoint)
    with eventide.connect(checkpoint, shards=2) as db:
        writer.run(checkpoint, sink, BATCHES, db)
        disturbed = outcome(checkpoint, sink, db)
    assert disturbed["accounts"]["rows_in"] == BATCHES * 200
    assert disturbed["accounts"]["late"] > 0 and disturbed["accounts"]["error"] > 0
    assert set(disturbed["rows"].values()) == {1}, "a row came twice"
    assert disturbed == undisturbed
