"""kill -9 of the driver with its checkpoint in an object store, in HDFS, or in a folder that is mounted: the outcome is
that of a run that nobody disturbed, as with a folder of the disk.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventide.storage.paths import remote_path
from tests.connectors.hdfs_server import HdfsServer
from tests.connectors.s3_server import S3Server
from tests.recovery import scenarios
from tests.recovery.killer import Killer, Plan
from tests.recovery.test_kill import PARTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

BATCHES = 3
NAMES = ("tumble", "session")
MOUNTED = Path("/dev/shm")
SILENCE = 900.0  # seconds: a store makes hundreds of requests of a batch, and machines may be busy


@pytest.fixture
def mounted() -> Iterator[Path]:
    """A folder on another file system than that of temporary files."""
    if not MOUNTED.is_dir() or MOUNTED.stat().st_dev == os.stat(tempfile.gettempdir()).st_dev:
        pytest.skip("no other file system is mounted here")
    folder = Path(tempfile.mkdtemp(prefix="eventide-", dir=MOUNTED))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def killed(tmp_path: Path, variables: dict[str, str]) -> Killer:
    killer = Killer(tmp_path, BATCHES, None, random.Random(7), NAMES, variables, SILENCE)
    for moment in ("tick", "commit"):
        killer.live(Plan.at(moment, killer.chance, 0.0))
    assert killer.live(Plan(None, 0.0))
    assert sum(killer.drivers.values()) == 2 and killer.left_behind() == []
    return killer


def check(killer: Killer) -> None:
    outcome = killer.outcome()
    for name in NAMES:
        wanted = json.loads(json.dumps(scenarios.expected(name, BATCHES)))
        found = {part: scenarios.difference(wanted[part], outcome[name][part]) for part in PARTS}
        assert wanted["rows"] and found == dict.fromkeys(PARTS, (0, 0)), f"{name}: (lost, twice) by part"
        assert outcome[name]["accounts"] == wanted["accounts"]


def test_in_an_object_store(s3: S3Server, tmp_path: Path) -> None:
    place = f"s3a://{s3.new_bucket()}/app"
    killer = killed(tmp_path, {"WRITER_CHECKPOINT": place, "WRITER_CONF": json.dumps(s3.spark_settings)})
    check(killer)
    assert not (tmp_path / "checkpoint").exists()
    kept = remote_path(place, s3.spark_settings)
    assert (kept / "catalog.json").exists() and list((kept / "owners").glob("*.json")) == []
    assert not any(b"secret-of-tests" in path.read_bytes() for path in kept.rglob("*.json") if path.is_file())


def test_in_hdfs(hdfs: HdfsServer, tmp_path: Path) -> None:
    place = f"{hdfs.new_folder()}/app"
    check(killed(tmp_path, {"WRITER_CHECKPOINT": place, "WRITER_CONF": "{}"}))
    assert not (tmp_path / "checkpoint").exists()
    kept = remote_path(place, {})
    assert (kept / "catalog.json").exists() and list((kept / "owners").glob("*.json")) == []


def test_in_a_folder_that_is_mounted(mounted: Path, tmp_path: Path) -> None:
    check(killed(tmp_path, {"WRITER_CHECKPOINT": str(mounted / "app")}))
