"""On a real cluster an executor dies, a worker dies, another joins, one is slow, the driver dies: the outcome is that
of a run in one process that nobody disturbed.
"""

from __future__ import annotations

import json
import sys

import pytest

from tests.cluster.standalone import Cluster
from tests.cluster.story import DRIVER, EXECUTOR, SLOW, WORKER, Story
from tests.cluster.writer import BATCHES, EVENTS, NAMES
from tests.recovery import scenarios

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

PARTS = ("rows", "late", "duplicate", "rejected", "files", "late files", "dead letters", "function")


@pytest.fixture(scope="module")
def story(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Story:
    story = Story(cluster, tmp_path_factory.mktemp("disturbed"))
    assert not story.live({"written 1": EXECUTOR, "written 2": WORKER, "written 3": DRIVER})
    assert story.live({"written 4": SLOW})
    return story


def test_the_cluster_was_disturbed_in_every_way(story: Story) -> None:
    assert story.done == [EXECUTOR, WORKER, DRIVER, SLOW]
    events = "".join(path.read_text() for path in (story.folder / EVENTS).iterdir()).splitlines()
    starts = [json.loads(line)["Task Info"] for line in events if "SparkListenerTaskStart" in line]
    hosts = {start["Host"] for start in starts if start["Speculative"]}
    assert hosts or sys.platform != "linux", "no task was repeated for being slow"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_or_repeated_on_a_cluster(story: Story, name: str) -> None:
    outcome = story.outcome()[name]
    wanted = json.loads(json.dumps(scenarios.expected(name, BATCHES)))
    found = {part: scenarios.difference(wanted[part], outcome[part]) for part in PARTS}
    assert found == dict.fromkeys(PARTS, (0, 0)), "(lost, twice) by part"
    assert outcome["accounts"] == wanted["accounts"] and scenarios.is_balanced(wanted["accounts"])
    assert wanted["rows"]
