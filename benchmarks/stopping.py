"""How long Ctrl-C takes: `python -m benchmarks.stopping [--rounds 3]`.

Runs the app that `eventide init` writes on a checkpoint, presses Ctrl-C some seconds after its first results, and
prints how long it took until the process, with Spark, was gone: it takes in what is there, emits open windows, ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

EVENTIDE = (sys.executable, "-m", "eventide")
LONGEST = 300.0  # seconds that a step may take
RUNS_ON = 5.0  # seconds after the first results


def seconds_to_stop(folder: Path) -> float:
    subprocess.run([*EVENTIDE, "init", "app.toml"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    state = folder / "stopped"
    with (folder / "output").open("wb") as output:
        running = subprocess.Popen(
            [*EVENTIDE, "run", "app.toml", "--checkpoint", str(state)],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    end = time.monotonic() + LONGEST
    while not any(state.glob("streams/*/results/*.main.arrow")):
        if running.poll() is not None or time.monotonic() > end:
            running.kill()
            raise RuntimeError(f"no results; {(folder / 'output').read_text()[-2000:]}")
        time.sleep(0.1)
    time.sleep(RUNS_ON)
    began = time.perf_counter()
    os.killpg(running.pid, signal.SIGINT)
    if running.wait(LONGEST) != 0:
        raise RuntimeError(f"it failed; {(folder / 'output').read_text()[-2000:]}")
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    times = []
    for _ in range(parser.parse_args().rounds):
        with tempfile.TemporaryDirectory(prefix="eventide-stopping-") as folder:
            times.append(seconds_to_stop(Path(folder)))
            load = os.getloadavg()[0]
            print(f"Ctrl-C: {times[-1]:.1f} s (load {load:.1f} on {os.cpu_count()} cores)", flush=True)
    print(f"median {median(times):.1f} s of {len(times)}")


if __name__ == "__main__":
    main()
