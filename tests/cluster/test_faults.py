"""On a real cluster an executor dies, a worker dies, another joins, one is slow, the driver dies: the outcome is that
of a run in one process that nobody disturbed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cluster.standalone import Cluster, Node
from tests.cluster.writer import BATCHES, EVENTS, NAMES, OUTCOME
from tests.recovery import scenarios
from tests.recovery.killer import QUICK_JAVA, ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

PARTS = ("rows", "late", "duplicate", "rejected", "files", "late files", "dead letters", "function")
LONGEST_SILENCE = 240.0
SLOW_SECONDS = 5.0


@dataclass
class Story:
    """Lives of the writer on one checkpoint, and what was done to them."""

    cluster: Cluster
    folder: Path
    done: list[str] = field(default_factory=list)

    def live(self, until: str | None) -> None:
        """One life; up to a sign, at which the driver is killed, or to its end."""
        with self._writer() as (writer, lines):
            while True:
                line = lines.get(timeout=LONGEST_SILENCE)
                if line is None:
                    assert writer.wait() == 0, (self.folder / "errors.log").read_text()[-4000:]
                    return
                if line.strip() == until:
                    writer.kill()
                    self.done.append("driver killed")
                    return
                self._disturb(line.strip())

    def _disturb(self, line: str) -> None:
        if line == "written 1":
            _busy(self.cluster.workers[0]).kill()
            self.done.append("executor killed")
        elif line == "written 2":
            self.cluster.workers[0].kill()
            self.done.append("worker killed")
            self.cluster.add_worker()
            self.done.append("worker joined")
        elif line == "written 4":
            threading.Thread(target=self._slow_down, args=(_busy(self.cluster.workers[-1]),), daemon=True).start()

    def _slow_down(self, executor: psutil.Process) -> None:
        """Its machine stands still for a while, as if it swapped: JVM and Python workers alike."""
        family = [executor, *executor.children(recursive=True)]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            time.sleep(SLOW_SECONDS if number is signal.SIGSTOP else 0)
        self.done.append("executor slow")

    @contextlib.contextmanager
    def _writer(self) -> Iterator[tuple[subprocess.Popen[str], queue.Queue[str | None]]]:
        command = [sys.executable, "-m", "tests.cluster.writer", str(self.folder), self.cluster.url]
        lines: queue.Queue[str | None] = queue.Queue()
        with (self.folder / "errors.log").open("a") as errors:
            environment = {**os.environ, **QUICK_JAVA}
            writer = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, env=environment
            )
        threading.Thread(target=_listen, args=(writer, lines), daemon=True).start()
        try:
            yield writer, lines
        finally:
            writer.kill()
            writer.wait()


def _listen(writer: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    with contextlib.closing(writer.stdout or open(os.devnull)) as told:
        for line in told:
            lines.put(line)
    lines.put(None)


def _busy(worker: Node) -> psutil.Process:
    """The executor of a worker, when it has one."""
    end = time.monotonic() + LONGEST_SILENCE
    while time.monotonic() < end:
        found = worker.executors()
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"{worker.name} has no executor")


@pytest.fixture(scope="module")
def story(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Story:
    story = Story(cluster, tmp_path_factory.mktemp("disturbed"))
    story.live(until="written 3")
    story.live(until=None)
    return story


def test_the_cluster_was_disturbed_in_every_way(story: Story) -> None:
    assert story.done == ["executor killed", "worker killed", "worker joined", "driver killed", "executor slow"]
    events = "".join(path.read_text() for path in (story.folder / EVENTS).iterdir()).splitlines()
    starts = [json.loads(line)["Task Info"] for line in events if "SparkListenerTaskStart" in line]
    hosts = {start["Host"] for start in starts if start["Speculative"]}
    assert hosts or sys.platform != "linux", "no task was repeated for being slow"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_or_repeated_on_a_cluster(story: Story, name: str) -> None:
    outcome: dict[str, Any] = json.loads((story.folder / OUTCOME).read_text())[name]
    wanted = json.loads(json.dumps(scenarios.expected(name, BATCHES)))
    found = {part: scenarios.difference(wanted[part], outcome[part]) for part in PARTS}
    assert found == dict.fromkeys(PARTS, (0, 0)), "(lost, twice) by part"
    assert outcome["accounts"] == wanted["accounts"] and scenarios.is_balanced(wanted["accounts"])
    assert wanted["rows"]
