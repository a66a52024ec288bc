"""Write, kill, restart, check, for SOAK_SECONDS: `python scripts/soak.py`. Prints one line, and fails unless nothing is amiss.

A writer process runs one scenario (see tests/recovery/scenarios.py) on one checkpoint. It is killed with -9 at random moments, from
its start to the middle of a batch, or one of Spark's Python workers is; then it is started again and goes on. When it comes to
its end its outcome is compared with the reference model's, and the next scenario begins on a new checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.recovery import scenarios  # noqa: E402

BATCHES = 10
MOST_KILLS_OF_A_LIFE = 8
LONGEST_SILENCE = 180.0  # seconds without a word from the writer: a hang


def write(name: str, checkpoint: Path) -> None:
    """The process that is killed."""
    import eventide

    with eventide.connect(checkpoint, shards=2) as db:
        print("open", flush=True)
        got = scenarios.run(name, checkpoint, BATCHES, db, say=lambda line: print(line, flush=True))
    (checkpoint.parent / "outcome.json").write_text(json.dumps(got))
    print("done", flush=True)


@dataclass
class Writer:
    """A running writer, and what it said last."""

    process: subprocess.Popen[str]
    heard: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, name: str, checkpoint: Path, log: Path) -> Writer:
        with log.open("a") as errors:
            command = [sys.executable, __file__, name, str(checkpoint)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT)
        writer = cls(process)
        threading.Thread(target=writer._listen, daemon=True).start()
        return writer

    def _listen(self) -> None:
        for _ in self.process.stdout or ():
            self.heard = time.monotonic()

    @property
    def hangs(self) -> bool:
        return time.monotonic() - self.heard > LONGEST_SILENCE

    def family(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return list(psutil.Process(self.process.pid).children(recursive=True))
        return []

    def kill(self) -> None:
        """-9, and wait for its JVM: two of them on one checkpoint is what the lock cannot see."""
        family = self.family()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        _, alive = psutil.wait_procs(family, timeout=20)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=20)

    def kill_worker(self, chance: random.Random) -> bool:
        """-9 for one of Spark's Python workers, if there is one; whether there was."""
        workers = []
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                if "pyspark.daemon" in " ".join(process.cmdline()):
                    workers.append(process)
        if not workers:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            chance.choice(workers).kill()
        return True


@dataclass
class Tally:
    kills: int = 0
    rows_in: int = 0
    lost: int = 0
    twice: int = 0
    unbalanced: int = 0

    def line(self) -> str:
        return " ".join(f"{name} {value}" for name, value in vars(self).items())


def life(name: str, chance: random.Random, end: float, tally: Tally, say: bool) -> None:
    """One scenario from an empty checkpoint to its end, disturbed on the way."""
    folder = Path(tempfile.mkdtemp(prefix=f"eventide-soak-{name}-"))
    checkpoint, kills, failures = folder / "checkpoint", 0, 0
    try:
        while not (folder / "outcome.json").exists():
            writer = Writer.start(name, checkpoint, folder / "errors.log")
            disturb = kills < MOST_KILLS_OF_A_LIFE and time.monotonic() < end
            kills += watch(writer, chance, disturb)
            failures += writer.process.returncode not in (0, -signal.SIGKILL)
            if failures > MOST_KILLS_OF_A_LIFE:
                raise RuntimeError(f"{name} does not come to its end:\n{(folder / 'errors.log').read_text()[-3000:]}")
        got = json.loads((folder / "outcome.json").read_text())
        lost, twice, unbalanced = scenarios.compare(json.loads(json.dumps(scenarios.expected(name, BATCHES))), got)
        tally.kills += kills
        tally.rows_in += got["accounts"]["rows_in"]
        tally.lost, tally.twice, tally.unbalanced = tally.lost + lost, tally.twice + twice, tally.unbalanced + unbalanced
        if say:
            print(f"  {name}: kills {kills} lost {lost} twice {twice} unbalanced {unbalanced}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def watch(writer: Writer, chance: random.Random, disturb: bool) -> int:
    """Until the writer ends, by itself or killed; gives the number of kills."""
    kills = 0
    due = time.monotonic() + chance.choice((chance.uniform(0, 6), chance.uniform(6, 25)))
    while writer.process.poll() is None:
        if writer.hangs:
            writer.kill()
            raise RuntimeError("the writer hangs")
        if disturb and time.monotonic() >= due:
            if chance.random() < 0.4 and writer.kill_worker(chance):
                kills += 1
                due = time.monotonic() + chance.uniform(0, 8)
                continue
            writer.kill()
            return kills + 1
        time.sleep(0.02)
    return kills


def main() -> int:
    seconds = float(os.environ.get("SOAK_SECONDS", "600"))
    seed = int(os.environ.get("SOAK_SEED", str(random.randrange(1_000_000))))
    print(f"soak for {seconds:g} s, seed {seed}", file=sys.stderr, flush=True)
    chance, tally, end = random.Random(seed), Tally(), time.monotonic() + seconds
    names = list(scenarios.SCENARIOS)
    chance.shuffle(names)
    number = 0
    while time.monotonic() < end:
        life(names[number % len(names)], chance, end, tally, say=True)
        number += 1
    print(tally.line())
    return 0 if tally.lost == tally.twice == tally.unbalanced == 0 else 1


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], Path(sys.argv[2]))
    else:
        sys.exit(main())
