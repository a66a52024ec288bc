"""Another engine, run by an interpreter that has it: a script from `benchmarks.peers`, timed inside its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engines.contract import Timed
from benchmarks.totals import Totals
from benchmarks.workloads import BATCH_SIZES, LAG_MS, Data, Tumble, Workload

SCRIPTS = Path(__file__).parent.parent / "peers"
NAMES = ("bytewax", "pathway")


@dataclass(frozen=True)
class Peer:
    name: str
    python: str

    def can(self, workload: Workload) -> bool:
        """Tumbling windows over JSON with a single batch size, since the files are read in one go. With 100k keys
        Bytewax takes ten minutes.
        """
        return isinstance(workload.window, Tumble) and workload.data == Data("json") and workload not in BATCH_SIZES

    def compute(self, workload: Workload, files: list[Path]) -> Timed:
        if not isinstance(workload.window, Tumble):
            raise ValueError(f"{self.name} is compared on tumbling windows only")
        job = {"files": [str(path) for path in files], "lag_ms": LAG_MS, "size_ms": workload.window.size_ms}
        command = [self.python, str(SCRIPTS / f"{self.name}_windows.py")]
        told = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=True).stdout
        found = json.loads(told.splitlines()[-1])
        return Timed(Totals(*found["totals"]), found["seconds"], found["cpu"])


def peers(pythons: Mapping[str, str]) -> list[Peer]:
    """Those that can be imported, by the interpreter named for them or by this one."""
    found = [Peer(name, pythons.get(name, sys.executable)) for name in NAMES]
    return [peer for peer in found if has(peer.python, peer.name)]


def has(python: str, module: str) -> bool:
    test = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", test], check=False).returncode == 0
