"""Cold start: a fresh process, from its start to the first closed window of a tiny input.

python -m benchmarks.cold eventide|native      # one process; prints a line when the result is there
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.engines.contract import Run
from benchmarks.figures import COLD, Sample
from benchmarks.workloads import Workload

ENGINES = ("eventide", "native")
TINY = Workload("tiny")
DONE = "first result"


def measure(engine: str) -> Sample:
    """In a separate process, including its start but not its end."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.cold", engine], stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdout is None:
            raise RuntimeError("the process has no output to wait for")
        lines = []
        for line in process.stdout:
            if line.strip() == DONE:
                return {COLD.key: time.perf_counter() - began}
            lines.append(line)
    raise RuntimeError(f"{engine} returned no result:\n{''.join(lines)}")


def first_result(engine: str, folder: Path) -> None:
    watched = folder / "watched"
    watched.mkdir()
    lines = [f'{{"k": 1, "v": {number}, "ts": {number * 60_000}}}\n' for number in (1, 2)]
    (watched / "000000-0.json").write_text("".join(lines))
    with contextlib.closing(start(engine, watched, folder / "checkpoint")) as run:
        run.take()
        if run.totals().rows != 1:
            raise RuntimeError(
                f"{engine} returned {run.totals()} for two rows, the first of which is in a closed window"
            )
        print(DONE, flush=True)


def start(engine: str, watched: Path, checkpoint: Path) -> Run:
    """Imports only what the engine needs: importing is part of a cold start."""
    if engine == "eventide":
        from benchmarks.engines.eventide import Eventide

        return Eventide().start(TINY, watched, checkpoint)
    from benchmarks.engines.native import with_rocksdb
    from eventide.spark.session import acquire

    return with_rocksdb(acquire()).start(TINY, watched, checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    engine = parser.parse_args().engine
    with tempfile.TemporaryDirectory(prefix="bench-cold-") as folder:
        first_result(engine, Path(folder))


if __name__ == "__main__":
    main()
