"""`eventide.stream(df)` on a session of Spark Connect: what works does, the rest is refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parent.parent.parent
ROWS = [("ann", 5, 1_000), ("ann", 7, 9_000), ("bob", 1, 4_000), ("bob", 2, 20_000), ("bob", 9, 1_500)]


def test_a_remote_session_gives_rows_and_late_rows(tmp_path: Path) -> None:
    """In a process of its own: one that has talked to a server can have no classic session."""
    (tmp_path / "in").mkdir()
    for number, (k, v, ts) in enumerate(ROWS):
        path = tmp_path / "in" / f"{number}.json"
        path.write_text(json.dumps({"k": k, "v": v, "ts": ts}))
        os.utime(path, (1000 + number, 1000 + number))  # Spark takes files of one millisecond in any order
    command = [sys.executable, "-m", "tests.fluent.remote_client", str(tmp_path)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["rows"] == [["ann", 2, 12], ["bob", 1, 1]]
    assert found["late"] == ["allowed_lateness_exceeded"]
    for call in ("start", "connect"):
        assert "remote (Spark Connect)" in found[call] and "eventide.stream(df) gives" in found[call]
    assert found["column"].startswith("where(): a Column of a remote session (Spark Connect)")
