"""What a level costs: how long a row takes through a chain of streams, each of which reads the one before it.

    python -m benchmarks.chain [--levels 3] [--rounds 30] [--every 0.5]

The streams run in the background. A row is written, and every level notes when the row is in its sink: the first level
tells what one batch takes from a row to its result, the others what each of them adds. A row is written when the one
before it is through (`alone`), and then one every so often, whatever is still on its way (`steady`). The first rows are
not counted.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import threading
import time
from collections.abc import Callable

import pyarrow as pa

import eventide

_WARM_ROUNDS = 8
_PATIENCE = 120.0  # seconds


class Chain:
    """Level 1 reads the source, level 2 level 1, and so on; the last of them groups what comes."""

    def __init__(self, db: eventide.Database, levels: int) -> None:
        self._db, self.levels = db, levels
        self._heard: dict[tuple[int, int], float] = {}  # when a row was in the sink of a level, by number and level
        self._came = threading.Condition()
        db.execute("CREATE SOURCE s (n BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)")
        for level in range(1, levels + 1):
            read = "s" if level == 1 else f"level{level - 1}"
            grouped = f"SELECT n, count(*) AS times FROM {read} GROUP BY n EMIT ON UPDATE"
            db.execute(
                f"CREATE STREAM level{level} WITH ('state_ttl' = '1 minute') AS {grouped}"
                if level == levels and levels > 1
                else f"CREATE STREAM level{level} AS SELECT n, ts FROM {read}"
            )
            db.foreach(f"level{level}", self._hearing(level))

    def _hearing(self, level: int) -> Callable[[int, pa.Table], None]:
        def hear(batch: int, rows: pa.Table) -> None:
            now = time.perf_counter()
            with self._came:
                self._heard.update({(number, level): now for number in rows["n"].to_pylist()})
                self._came.notify_all()

        return hear

    def write(self, number: int) -> float:
        """The moment at which a row was handed over."""
        began = time.perf_counter()
        self._db.write("s", [(number, 1_000_000 + number)])
        return began

    def wait(self, number: int) -> None:
        """Until a row is through."""
        with self._came:
            if not self._came.wait_for(lambda: (number, self.levels) in self._heard, _PATIENCE):
                raise TimeoutError(f"row {number} is not through after {_PATIENCE:g} seconds")

    def steps(self, number: int, written: float) -> list[float]:
        """Seconds from one level to the next, the first from the write on."""
        moments = [written, *(self._heard[number, level] for level in range(1, self.levels + 1))]
        return [after - before for before, after in itertools.pairwise(moments)]


def alone(chain: Chain, numbers: range) -> list[list[float]]:
    found = []
    for number in numbers:
        written = chain.write(number)
        chain.wait(number)
        found.append(chain.steps(number, written))
    return found


def steady(chain: Chain, numbers: range, every: float) -> list[list[float]]:
    written = {}
    for number in numbers:
        written[number] = chain.write(number)
        time.sleep(max(0.0, written[number] + every - time.perf_counter()))
    for number in numbers:
        chain.wait(number)
    return [chain.steps(number, at) for number, at in written.items()]


def show(how: str, found: list[list[float]]) -> None:
    by_level = [sorted(steps) for steps in zip(*found, strict=True)]
    batch = statistics.median(by_level[0])
    for level, steps in enumerate(by_level, 1):
        p50, p90 = statistics.median(steps), steps[int(len(steps) * 0.9)]
        added = "one batch, from row to sink" if level == 1 else f"added: {p50 / batch:.2f} of a batch"
        print(f"{how:7} level {level}  p50 {p50:6.3f} s  p90 {p90:6.3f} s  {added}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.chain", description=__doc__)
    parser.add_argument("--levels", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--every", type=float, default=0.5)
    given = parser.parse_args()
    with eventide.connect() as db:
        chain = Chain(db, given.levels)
        db.start()
        alone(chain, range(_WARM_ROUNDS))
        last = _WARM_ROUNDS + given.rounds
        show("alone", alone(chain, range(_WARM_ROUNDS, last)))
        show("steady", steady(chain, range(last, last + given.rounds), given.every))


if __name__ == "__main__":
    main()
