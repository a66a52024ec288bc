"""kill -9 between the decision that a source is idle and its effect: the decision is data, and the next run acts on
it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eventide.storage.results import Results
from tests.conftest import DatabaseFactory
from tests.recovery.idle_writer import SQL
from tests.recovery.killer import QUICK_JAVA, ROOT


@pytest.mark.slow  # an idle decision without a crash is in test_time
def test_an_idle_decision_survives_the_driver_that_took_it(tmp_path: Path, db_factory: DatabaseFactory) -> None:
    command = [sys.executable, "-m", "tests.recovery.idle_writer", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **QUICK_JAVA}, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    found = {}
    for name in ("decided", "undecided"):
        before = Results(tmp_path / name / "streams" / "o" / "results").latest()
        assert before is not None and before.totals.get("windows_closed", 0) == 0, "nothing has come of it yet"
        with db_factory(checkpoint=tmp_path / name, shards=2) as db:
            db.execute(SQL)
            db.tick()
            found[name] = ([row["t"] for row in db.read("o")], db.watermark("o"))
    assert found == {"decided": ([5], 9000), "undecided": ([], 500)}, (
        "only what was decided has an effect, without another minute"
    )
