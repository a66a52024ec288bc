"""Write, kill, restart, check, for SOAK_SECONDS: `python scripts/soak.py`. Prints one line, and fails if anything is
wrong.

A writer process runs all scenarios, every kind of stream with every kind of sink, on one checkpoint
(tests/recovery/scenarios.py). It is killed with -9 in all phases of a batch, and Spark's Python workers more often
(tests/recovery/killer.py). It is restarted each time; when it has finished, its results are compared with the reference
model's, and everything starts over on a new checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.connectors import postgres_server  # noqa: E402
from tests.recovery import scenarios  # noqa: E402
from tests.recovery.killer import MOMENTS, Killer, Plan  # noqa: E402

BATCHES = 8
DEATHS = 8  # of the writer, before it may finish
WORKERS = 3.0  # that are killed for each thing the writer reports


@dataclass
class Tally:
    kills: int = 0
    rows_in: int = 0
    lost: int = 0
    twice: int = 0
    unbalanced: int = 0

    def line(self) -> str:
        return " ".join(f"{name} {value}" for name, value in vars(self).items())

    def add(self, killer: Killer) -> None:
        """Compare what a writer left with what it should have left."""
        self.kills += killer.kills
        for name, got in killer.outcome().items():
            wanted = json.loads(json.dumps(scenarios.expected(name, killer.batches)))
            if killer.postgres is not None:
                got["table"] = scenarios.in_table(name, killer.postgres)
            for part in got.keys() - {"accounts"}:
                lost, twice = scenarios.difference(wanted[part], got[part])
                self.lost, self.twice = self.lost + lost, self.twice + twice
                if lost or twice:
                    say(f"  {name}, {part}: lost {lost} twice {twice}")
            self.rows_in += got["accounts"]["rows_in"]
            self.unbalanced += not (scenarios.is_balanced(got["accounts"]) and got["accounts"] == wanted["accounts"])


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run(folder: Path, postgres: str | None, chance: random.Random, end: float) -> Killer:
    """Run all scenarios from an empty checkpoint to their end, with kills on the way."""
    killer = Killer(folder, BATCHES, postgres, chance)
    if postgres is not None:
        scenarios.drop_tables(postgres)
    for number in range(DEATHS):
        if time.monotonic() >= end:
            break
        moment = MOMENTS[number % len(MOMENTS)] if number < len(MOMENTS) else chance.choice(MOMENTS)
        if killer.live(Plan.at(moment, chance, WORKERS)):
            return killer
    killer.live(Plan(None, WORKERS if time.monotonic() < end else 0.0))
    return killer


def main() -> int:
    seconds = float(os.environ.get("SOAK_SECONDS", "600"))
    seed = int(os.environ.get("SOAK_SEED", str(random.randrange(1_000_000))))
    chance, tally, end = random.Random(seed), Tally(), time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(postgres_server.server()).url if postgres_server.binaries() is not None else None
        say(
            f"soak for {seconds:g} s, seed "
            f"{seed}{'' if postgres else f'; without the postgres sink: {postgres_server.MISSING}'}"
        )
        while time.monotonic() < end:
            folder = Path(tempfile.mkdtemp(prefix="eventide-soak-"))
            killer = run(folder, postgres, chance, end)
            tally.add(killer)
            say(
                f"  drivers {killer.drivers} workers {killer.workers}, streams failed {len(killer.failures)}: "
                f"{tally.line()}"
            )
            for failure in sorted(set(killer.failures)):
                say(f"    {failure}")
            shutil.rmtree(folder, ignore_errors=True)
            if left := killer.left_behind():
                say(f"  left behind: {left}")
    print(tally.line())
    return 0 if tally.lost == tally.twice == tally.unbalanced == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
