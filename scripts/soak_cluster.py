"""A real cluster on this machine, disturbed for SOAK_SECONDS: `python scripts/soak_cluster.py`. Prints one line, and
fails if anything is wrong.

A driver runs a window, a stream that reads it and a join on a master and two workers (tests/cluster). At random signs
executors, workers and the driver are killed with -9, workers join, executors stand still with speculation on. When the
driver has finished, its results are compared with the reference model's, and everything starts over on a new cluster.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.cluster.standalone import running  # noqa: E402
from tests.cluster.story import FAULTS, Story  # noqa: E402
from tests.cluster.writer import BATCHES  # noqa: E402
from tests.recovery import scenarios  # noqa: E402

SHARE = 0.6  # of the signs at which something happens
DEATHS = 3  # of the driver, before it may finish


def faults(chance: random.Random, may_die: bool) -> dict[str, str]:
    kinds = FAULTS if may_die else FAULTS[:-1]
    signs = [f"{word} {number}" for number in range(BATCHES) for word in ("written", "ticked")]
    return {sign: chance.choice(kinds) for sign in signs if chance.random() < SHARE}


def add(tally: Counter[str], outcome: dict[str, dict[str, object]]) -> None:
    """Compare what the driver left with what it should have left."""
    for name, got in outcome.items():
        wanted = json.loads(json.dumps(scenarios.expected(name, BATCHES)))
        for part in got.keys() - {"accounts"}:
            lost, twice = scenarios.difference(wanted[part], got[part])
            tally.update(lost=lost, twice=twice)
        balanced = scenarios.is_balanced(got["accounts"]) and got["accounts"] == wanted["accounts"]
        tally.update(rows_in=got["accounts"]["rows_in"], unbalanced=int(not balanced))


def main() -> int:
    seconds = float(os.environ.get("SOAK_SECONDS", "600"))
    seed = int(os.environ.get("SOAK_SEED", str(random.randrange(1_000_000))))
    chance, end = random.Random(seed), time.monotonic() + seconds
    tally = Counter(faults=0, rows_in=0, lost=0, twice=0, unbalanced=0)
    print(f"soak of a cluster for {seconds:g} s, seed {seed}", file=sys.stderr, flush=True)
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), *sys.path]))}
    while time.monotonic() < end:
        folder = Path(tempfile.mkdtemp(prefix="eventide-soak-"))
        with running(folder / "cluster", environment) as cluster:
            story = Story(cluster, folder)
            for life in range(DEATHS + 1):
                if story.live(faults(chance, may_die=life < DEATHS and time.monotonic() < end)):
                    break
            tally.update(faults=len(story.done))
            add(tally, story.outcome())
        print(f"  {dict(Counter(story.done))}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    print(" ".join(f"{name} {value}" for name, value in tally.items()))
    return 0 if tally["lost"] == tally["twice"] == tally["unbalanced"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
