"""A cluster whose checkpoint is in an object store, and an executor that dies: the outcome is that of a run in one
process that nobody disturbed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eventide.storage.paths import listed, remote_path
from tests.cluster.standalone import Cluster
from tests.cluster.story import EXECUTOR, Story
from tests.cluster.test_faults import PARTS
from tests.connectors.s3_server import S3Server
from tests.recovery import scenarios

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

NAME, BATCHES = "tumble", 2


def test_an_executor_dies_and_nothing_is_lost_or_repeated(cluster: Cluster, s3: S3Server, tmp_path: Path) -> None:
    place = f"s3a://{s3.new_bucket()}/app"
    variables = {
        "WRITER_CHECKPOINT": place,
        "WRITER_CONF": json.dumps(s3.spark_settings),
        "WRITER_NAMES": NAME,
        "WRITER_BATCHES": str(BATCHES),
    }
    story = Story(cluster, tmp_path, variables)
    assert story.live({"written 1": EXECUTOR}) and story.done == [EXECUTOR]
    outcome, wanted = story.outcome()[NAME], json.loads(json.dumps(scenarios.expected(NAME, BATCHES)))
    found = {part: scenarios.difference(wanted[part], outcome[part]) for part in PARTS}
    assert wanted["rows"] and found == dict.fromkeys(PARTS, (0, 0)), "(lost, twice) by part"
    assert outcome["accounts"] == wanted["accounts"]
    assert not (tmp_path / "checkpoint").exists()
    assert listed(remote_path(place, s3.spark_settings) / "streams", "*/spark/state/0/*")
