"""kill -9 for the writer and for Spark's Python workers, at moments that are spread over the phases of a batch.

    start      while the process comes up: Python, Spark, the checkpoint
    changing   a stream is about to go on under another text, or does
    written    rows are in the spool, and no stream has seen them
    tick       anywhere in a batch: reading, the operator, state, sinks
    sink       a batch's rows have just reached a sink, and its account is not written
    commit     a few milliseconds later: the account, Spark's commit
    ticked     between a batch and the next

Workers are killed beside that, again and again, but only as the writer makes progress: on a slow machine, too, it must
come to its end. A writer that was killed is started again at once, as a supervisor would do it, while the last breath
of its JVM may still be going on.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.recovery.scenarios import SCENARIOS
from tests.recovery.writer import OUTCOME

ROOT = Path(__file__).resolve().parent.parent.parent
MOMENTS = ("start", "changing", "written", "tick", "sink", "commit", "ticked")
SIGN_OF = {
    "changing": "changing",
    "written": "written",
    "tick": "written",
    "sink": "sink",
    "commit": "sink",
    "ticked": "ticked",
}
LONGEST_SILENCE = 180.0  # seconds without output from the writer: it hangs
MOST_DUE = 4  # worker deaths still pending: on a busy machine Spark needs seconds to start another
LONGEST_PAUSE = 2.0  # seconds between a report of the writer and the death of a worker
MOST_SINKS = 3  # signs of sinks to let pass: few, so that the last batch has enough of them for two deaths
LAST_BREATH = 90.0  # seconds that a killed writer's JVM and workers may live on
# Code that is compiled quickly rather than well suits a JVM that lives for seconds.
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"}


@dataclass
class Plan:
    """When a writer dies, or never (`moment` None), and how many workers do for each thing that the writer says, on
    average.
    """

    moment: str | None
    workers: float
    skipped: int = 0  # signs of the moment to let pass
    delay: float = 0.0  # seconds after the sign

    @classmethod
    def at(cls, moment: str, chance: random.Random, workers: float) -> Plan:
        delays = {"start": (0.0, 12.0), "changing": (0.0, 2.0), "tick": (0.0, 6.0), "commit": (0.002, 0.08)}
        most = {"tick": 0, "changing": 0, "sink": MOST_SINKS, "commit": MOST_SINKS}.get(moment, 1)
        return cls(moment, workers, chance.randint(0, most), chance.uniform(*delays.get(moment, (0.0, 0.0))))


@dataclass
class Killer:
    """Runs the writer on one folder, to its end or to its death, and counts kills."""

    folder: Path
    batches: int
    postgres: str | None
    chance: random.Random
    names: Sequence[str] = tuple(SCENARIOS)
    variables: Mapping[str, str] = field(default_factory=dict)  # of the writer's environment
    longest_silence: float = LONGEST_SILENCE
    drivers: dict[str, int] = field(default_factory=dict)  # killed, by moment
    workers: int = 0
    failures: list[str] = field(default_factory=list)  # of streams, as the writer tells them
    _orphans: list[psutil.Process] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return sum(self.drivers.values()) + self.workers

    def live(self, plan: Plan) -> bool:
        """One life of the writer; returns whether it finished."""
        writer, lines = self._start()
        passed, heard, began = 0, time.monotonic(), time.monotonic()
        due: list[float] = []
        while True:
            with contextlib.suppress(queue.Empty):
                line = lines.get(timeout=0.02)
                heard = time.monotonic()
                if line is None:
                    return self._ended(writer)
                word = line.split()[0]
                if word == "failed":
                    self.failures.append(line.removeprefix("failed ").strip())
                elif len(due) < MOST_DUE:
                    deaths = int(plan.workers + self.chance.random())
                    due += [heard + self.chance.uniform(0, LONGEST_PAUSE) for _ in range(deaths)]
                if plan.moment is not None and word == SIGN_OF.get(plan.moment):
                    passed += 1
                    if passed > plan.skipped:
                        _wait_for_sign(lines, "ticked", plan.delay)
                        return self._kill(writer, plan.moment)
            if plan.moment == "start" and time.monotonic() - began >= plan.delay:
                return self._kill(writer, plan.moment)
            if due and min(due) <= time.monotonic() and self._kill_worker(writer):
                due.remove(min(due))
            if time.monotonic() - heard > self.longest_silence:
                self._kill(writer, "hang")
                raise RuntimeError(f"the writer hangs; {self._told()}")

    def outcome(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / OUTCOME).read_text())
        return found

    def left_behind(self) -> list[str]:
        """Processes of killed writers that do not end on their own; they are killed here."""
        _, alive = psutil.wait_procs(self._orphans, timeout=LAST_BREATH)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return [str(process) for process in alive]

    def _start(self) -> tuple[subprocess.Popen[str], queue.Queue[str | None]]:
        command = [sys.executable, "-m", "tests.recovery.writer", str(self.folder), str(self.batches)]
        command += [",".join(self.names)]
        command += [] if self.postgres is None else [self.postgres]
        with (self.folder / "errors.log").open("a") as errors:
            environment = {**os.environ, **QUICK_JAVA, **self.variables}
            writer = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, env=environment
            )
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_listen, args=(writer, lines), daemon=True).start()
        return writer, lines

    def _ended(self, writer: subprocess.Popen[str]) -> bool:
        if writer.wait() != 0:
            raise RuntimeError(f"the writer failed; {self._told()}")
        return True

    def _told(self) -> str:
        return (self.folder / "errors.log").read_text()[-4000:]

    def _kill(self, writer: subprocess.Popen[str], moment: str) -> bool:
        """-9; False, as the writer has not come to its end, unless it was there already."""
        self._orphans += _family(writer)
        if writer.poll() is not None:
            return self._ended(writer)
        writer.kill()
        writer.wait()
        self.drivers[moment] = self.drivers.get(moment, 0) + 1
        return False

    def _kill_worker(self, writer: subprocess.Popen[str]) -> bool:
        """-9 for one of them, if there is one: mostly one that runs tasks, less often the parent of all that do, which
        takes them along, or any Python: one that starts a stream, which fails after ten seconds, the parent of all or
        what stands for a process.
        """
        family = _family(writer)
        running = [process for process in family if _is_called(process, "ev worker")]
        parents = {process.pid for process in running}
        tasks = [process for process in running if _parent(process) in parents]
        others = [process for process in family if _is_called(process, "ev ") or _is_called(process, "python")]
        dice = self.chance.random()
        workers = others if dice < 0.02 else running if dice < 0.1 else tasks
        if not workers:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            self.chance.choice(workers).kill()
            self.workers += 1
        return True


def _listen(writer: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    if writer.stdout is None:
        raise ValueError("the writer has no standard output")
    with writer.stdout:
        for line in writer.stdout:
            lines.put(line)
    lines.put(None)


def _wait_for_sign(lines: queue.Queue[str | None], sign: str, most: float) -> None:
    """Seconds pass, but no longer than until the writer says `sign` or ends: a fast machine stays in the batch."""
    until = time.monotonic() + most
    with contextlib.suppress(queue.Empty):
        while (left := until - time.monotonic()) > 0:
            line = lines.get(timeout=left)
            if line is None or line.split()[0] == sign:
                return


def _family(writer: subprocess.Popen[str]) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return list(psutil.Process(writer.pid).children(recursive=True))
    return []


def _parent(process: psutil.Process) -> int | None:
    with contextlib.suppress(psutil.Error):
        return int(process.ppid())
    return None


def _is_called(process: psutil.Process, name: str) -> bool:
    """Whether its name begins so: the Python processes of a stream are named for what they do."""
    with contextlib.suppress(psutil.Error):
        return bool(process.name().startswith(name))
    return False
