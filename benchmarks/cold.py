"""Cold start: a fresh process, from its start to the first closed window of a tiny input.

python -m benchmarks.cold eventide|native      # one process; prints a line when the result is there

Java's archive of classes and the compiled parser, which `make` has written, help both engines where they are. Whoever
installs with pip has neither: see `measure_with_pip`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.engines.contract import Run
from benchmarks.figures import COLD, Sample
from benchmarks.workloads import Workload

ENGINES = ("eventide", "native")
TINY = Workload("tiny")
DONE = "first result"


def measure_with_pip(engine: str) -> tuple[Sample, Sample]:
    """The first time and the second time that somebody runs it who has just installed it: nothing is kept from before
    the first, and what that has kept is there for the second.
    """
    with tempfile.TemporaryDirectory(prefix="bench-home-", ignore_cleanup_errors=True) as home:
        environment = environment_of(Path(home))
        return measure(engine, environment), measure(engine, environment)


def environment_of(home: Path) -> dict[str, str]:
    """Of a user whose home, and so every cache in it, is this folder."""
    return {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}


def measure(engine: str, environment: Mapping[str, str] | None = None) -> Sample:
    """In a separate process, including its start but not its end."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.cold", engine], stdout=subprocess.PIPE, text=True, env=environment
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
