"""Lives of a writer on a cluster, and what is done to it and to the cluster meanwhile."""

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.cluster.standalone import Cluster, Node
from tests.cluster.writer import OUTCOME
from tests.recovery.killer import QUICK_JAVA, ROOT

EXECUTOR, WORKER, SLOW, DRIVER = "executor killed", "worker killed, another joined", "executor slow", "driver killed"
FAULTS = (EXECUTOR, WORKER, SLOW, DRIVER)
LONGEST_SILENCE = 240.0
SLOW_SECONDS = 5.0


@dataclass
class Story:
    """On one checkpoint. `done` are the faults, in their order; `variables` are of the writer's environment."""

    cluster: Cluster
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    _slow: threading.Thread | None = None

    def live(self, faults: Mapping[str, str]) -> bool:
        """One life of the writer, with faults by the sign at which they happen; whether it came to its end."""
        with self._writer() as (writer, lines):
            while True:
                line = lines.get(timeout=LONGEST_SILENCE)
                if line is None:
                    if writer.wait() != 0:
                        raise RuntimeError((self.folder / "errors.log").read_text()[-4000:])
                    break
                fault = faults.get(line.strip())
                if fault == DRIVER:
                    writer.kill()
                    self.done.append(DRIVER)
                    return False
                if fault is not None:
                    self._disturb(fault)
        if self._slow is not None:
            self._slow.join()
        return True

    def outcome(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / OUTCOME).read_text())
        return found

    def _disturb(self, fault: str) -> None:
        if fault == EXECUTOR:
            _executor(self._alive[0]).kill()
        elif fault == WORKER:
            self._alive[0].kill()
            self.cluster.add_worker()
        else:
            self._slow = threading.Thread(target=_slow_down, args=(_executor(self._alive[-1]),), daemon=True)
            self._slow.start()
        self.done.append(fault)

    @property
    def _alive(self) -> list[Node]:
        return [worker for worker in self.cluster.workers if worker.process.poll() is None]

    @contextlib.contextmanager
    def _writer(self) -> Iterator[tuple[subprocess.Popen[str], queue.Queue[str | None]]]:
        command = [sys.executable, "-m", "tests.cluster.writer", str(self.folder), self.cluster.url]
        lines: queue.Queue[str | None] = queue.Queue()
        with (self.folder / "errors.log").open("a") as errors:
            writer = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env={**os.environ, **QUICK_JAVA, **self.variables},
            )
        threading.Thread(target=_listen, args=(writer, lines), daemon=True).start()
        try:
            yield writer, lines
        finally:
            writer.kill()
            writer.wait()


def _slow_down(executor: psutil.Process) -> None:
    """Its machine stands still for a while, as if it swapped: JVM and Python workers alike."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [executor, *executor.children(recursive=True)]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            time.sleep(SLOW_SECONDS if number is signal.SIGSTOP else 0)


def _listen(writer: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    if writer.stdout is None:
        raise ValueError("the writer has no standard output")
    with writer.stdout:
        for line in writer.stdout:
            lines.put(line)
    lines.put(None)


def _executor(worker: Node) -> psutil.Process:
    """The executor of a worker, when it has one."""
    end = time.monotonic() + LONGEST_SILENCE
    while time.monotonic() < end:
        found = worker.executors()
        if found:
            return found[0]
        time.sleep(0.1)
    raise RuntimeError(f"{worker.name} has no executor")
