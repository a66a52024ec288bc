"""Jobs of Flink SQL, run by an interpreter that has apache-flink: see `peers/flink_jobs.py`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FLINK_ROCKSDB, FLINK_MEMORY = "Flink, RocksDB", "Flink, memory"
BACKENDS = {FLINK_ROCKSDB: "rocksdb", FLINK_MEMORY: "hashmap"}
LONG = 30.0  # seconds: what Java must learn first does not matter then
_SCRIPT = Path(__file__).parent / "peers" / "flink_jobs.py"


class FlinkFailed(Exception):
    """The process in which Flink runs has ended with an error."""


@dataclass(frozen=True)
class Job:
    name: str
    statement: str


@dataclass(frozen=True)
class Outcome:
    """What a job took, or why it failed."""

    name: str
    seconds: float = 0.0
    cpu: float = 0.0
    error: str | None = None


def run(python: str, engine: str, before: Sequence[str], jobs: Sequence[Job]) -> list[Outcome]:
    """One after the other, in one process, after the statements `before`. Of a job that takes long, or fails, what has
    the same name is left out.
    """
    task = {
        "backend": BACKENDS[engine],
        "long": LONG,
        "before": list(before),
        "jobs": [(job.name, job.statement) for job in jobs],
    }
    ended = subprocess.run([python, str(_SCRIPT)], input=json.dumps(task), capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise FlinkFailed(f"{engine}: {ended.stderr.strip()[-500:]}")
    return [Outcome(**json.loads(line)) for line in ended.stdout.splitlines() if line.startswith("{")]
