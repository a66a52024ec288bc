"""A stream with its checkpoint in a store gives what it gives with a folder, over restarts and moves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventide.storage.paths import AnyPath, RemotePath, listed, remote_path
from tests.connectors.hdfs_server import HdfsServer
from tests.connectors.s3_server import S3Server
from tests.spark.store_story import ROWS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

ROOT = Path(__file__).resolve().parent.parent.parent


def run(checkpoint: str, conf: dict[str, str], folder: Path, step: int) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.spark.store_story", checkpoint, json.dumps(conf), str(folder), str(step)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def put(folder: Path, to: AnyPath) -> None:
    """Copy a checkpoint."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "lock":
            target = to / str(path.relative_to(folder))
            target.write_bytes(path.read_bytes())


def test_a_store_and_a_folder_give_the_same_and_a_copy_goes_on_in_a_store(s3: S3Server, tmp_path: Path) -> None:
    conf = s3.spark_settings
    place, moved = f"s3a://{s3.new_bucket()}/app", f"s3a://{s3.new_bucket()}/moved"
    local = [run(str(tmp_path / "checkpoint"), {}, tmp_path / "data", 1)]
    put(tmp_path / "checkpoint", remote_path(moved, conf))
    local.append(run(str(tmp_path / "checkpoint"), {}, tmp_path / "data", 2))
    assert [each["wide"][0] for each in local] == [ROWS, ROWS + 10] and len(local[1]["per_minute"]) == 1
    (tmp_path / "data" / "logs" / "2.json").unlink()
    assert run(moved, conf, tmp_path / "data", 2) == local[1]
    (tmp_path / "data" / "logs" / "2.json").unlink()
    assert [run(place, conf, tmp_path / "data", step) for step in (1, 2)] == local
    kept = remote_path(place, conf)
    assert isinstance(kept, RemotePath)
    assert listed(kept / "streams" / "wide" / "results", "[0-9]*.parts/*.arrow"), "tasks have written nothing"
    assert (kept / "streams" / "counted" / "scans" / "0" / "files.log").exists()


def test_hdfs_and_a_folder_give_the_same(hdfs: HdfsServer, tmp_path: Path) -> None:
    local = [run(str(tmp_path / "checkpoint"), {}, tmp_path / "data", step) for step in (1, 2)]
    (tmp_path / "data" / "logs" / "2.json").unlink()
    place = f"{hdfs.new_folder()}/app"
    assert [run(place, {}, tmp_path / "data", step) for step in (1, 2)] == local
    kept = remote_path(place, {})
    assert listed(kept / "streams" / "wide" / "results", "[0-9]*.parts/*.arrow"), "tasks have written nothing"
    assert (kept / "streams" / "counted" / "scans" / "0" / "files.log").exists()
    assert not [path for path in kept.rglob("*.tmp") if path.name.startswith(".")], "what was written is half there"
