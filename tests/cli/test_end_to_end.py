"""The commands as a user starts them, with Spark."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from eventide.cli.app import main

EVENTIDE = [sys.executable, "-m", "eventide"]
PLAIN = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
APP = """
CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)
WITH ('connector' = 'files', 'path' = '{folder}/in', 'format' = 'json');
CREATE STREAM o AS SELECT window_start, k, sum(v) AS total FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
CREATE SINK out FROM o WITH ('connector' = 'files', 'path' = '{folder}/out', 'format' = 'json');
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    file = tmp_path / "app.sql"
    file.write_text(APP.format(folder=tmp_path))
    return file


def put(app: Path, name: str, *rows: tuple[str, int, int]) -> None:
    hidden = app.parent / "in" / f"_{name}"
    hidden.write_text("".join(json.dumps({"k": k, "v": v, "ts": ts}) + "\n" for k, v, ts in rows))
    hidden.rename(app.parent / "in" / name)


def written(app: Path) -> list[tuple[str, int]]:
    files = [file for file in (app.parent / "out").rglob("*.json") if not file.name.startswith((".", "_"))]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return sorted((row["k"], row["total"]) for row in rows)


def test_a_run_continues_where_the_last_one_stopped_until_control_c_emits_what_is_open(
    app: Path, keep_spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first run is in this process, which already has a Spark, and the second in one of its own."""
    arguments = ["run", str(app), "--checkpoint", str(app.parent / "state")]
    put(app, "1.json", ("a", 1, 100), ("a", 2, 1500))
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--once"])
    out, err = capsys.readouterr()
    assert (end.value.code, err) == (0, "")
    assert "o: rows in 2 = used 2 ✓" in out
    assert written(app) == [("a", 1)]
    put(app, "2.json", ("a", 4, 1600), ("a", 8, 2500))
    command = [*EVENTIDE, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PLAIN) as process:
        watchdog = threading.Timer(550, process.kill)
        watchdog.start()
        deadline = time.monotonic() + 500
        while written(app) == [("a", 1)] and time.monotonic() < deadline:
            time.sleep(0.3)
        assert written(app) == [("a", 1), ("a", 6)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        watchdog.cancel()
    assert (process.returncode, err) == (0, "")
    assert written(app) == [("a", 1), ("a", 6), ("a", 8)]
    assert "o: rows in 4 = used 4 ✓" in out


def test_the_shell_takes_a_pipe(
    keep_spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which already has a Spark."""
    monkeypatch.setattr(
        sys,
        "stdin",
        io.StringIO("""
CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE STREAM o AS SELECT k, sum(v) AS total FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
SELEKT 1;
\\d
\\write s [{"k": "a", "v": 41, "ts": 100}, {"k": "a", "v": 1, "ts": 200}]
\\advance s 1000
\\tick
\\read o
\\accounts o
"""),
    )
    with pytest.raises(SystemExit) as end:
        main(["sql"])
    out, err = capsys.readouterr()
    assert end.value.code == 1
    assert err.startswith("error: ") and "SELEKT" in err and "Traceback" not in err
    assert "42" in out and "rows in 2 = used 2 ✓" in out


def test_the_demo_tells_its_story_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [*EVENTIDE, "demo", "--seconds", "14", "--rate", "1000"],
        capture_output=True,
        text=True,
        env={**PLAIN, "TMPDIR": str(tmp_path)},
        timeout=500,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "CREATE STREAM per_page" in done.stdout and "closed:" in done.stdout
    assert "allowed_lateness_exceeded" in done.stdout and "event_time_unparseable" in done.stdout
    assert "14,000 clicks were written\nrows in 14,000 = used" in done.stdout and "✓" in done.stdout
    assert list(tmp_path.iterdir()) == []
