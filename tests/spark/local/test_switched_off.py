"""Without local speed Spark is as it comes, and outcomes are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventide.spark.local.speed import SWITCH
from tests.conftest import DatabaseFactory

TESTS = Path(__file__).parents[2]
CASES = "as_it_comes or (restarting and duplicates) or (row and negative) or (restarting and gap)"


@pytest.mark.slow
def test_part_of_the_suite_with_local_speed_switched_off() -> None:
    """Beside this process, which has a Spark with all of it."""
    files = [TESTS / "spark" / "local" / "as_it_comes.py", TESTS / "spark" / "test_transcripts.py"]
    command = [sys.executable, "-m", "pytest", "-q", *map(str, files), "-m", "not slow", "-k", CASES]
    environment = {**os.environ, SWITCH: "0"}
    told = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert " passed" in told.stdout and "skipped" not in told.stdout


@pytest.mark.slow
def test_a_checkpoint_goes_on_whichever_way_the_switch_is_when_a_batch_runs_again(
    db_factory: DatabaseFactory, tmp_path: Path
) -> None:
    #          on         off        on         off
    #  rows    100, 200   300        400        500, 9000     each run but the first does the last batch once more
    sql = """
        CREATE SOURCE s (v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE STREAM o AS SELECT sum(v) AS t FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)
    """
    commits = tmp_path / "streams" / "o" / "spark" / "commits"
    for number, rows in enumerate([[(1, 100), (2, 200)], [(4, 300)], [(8, 400)], [(16, 500), (32, 9000)]]):
        if number:
            last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
            last.unlink()
            (commits / f".{last.name}.crc").unlink()
        db = db_factory(checkpoint=tmp_path, local_speed=number % 2 == 0)
        db.execute(sql)
        db.write("s", rows)
        db.tick()
        totals, account = [row["t"] for row in db.read("o")], db.accounting("o")
        db.close()
    assert totals == [31] and (account["rows_in"], account["used"]) == (6, 6)
