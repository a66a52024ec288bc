"""What the benchmark needs from an engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from benchmarks.totals import Totals
from benchmarks.workloads import Workload

Heard = tuple[float, pa.Table | None]  # when a batch's results came, by the clock, and the starts of their windows


@dataclass(frozen=True)
class Written:
    """Bytes below a checkpoint folder: of state, and of everything else except results."""

    state: int
    checkpoint: int


class Run(Protocol):
    """A running query over one workload, from an empty state. `heard` has what came so far."""

    heard: list[Heard]

    def take(self) -> None:
        """Returns when everything in the watched folder has been processed and the windows that it closed have been
        emitted.
        """

    def totals(self) -> Totals:
        """Of everything emitted so far."""

    def written(self) -> Written: ...

    def close(self) -> None: ...


class Engine(Protocol):
    """A streaming engine. `FILES_PER_BATCH` files make a batch."""

    name: str

    def can(self, workload: Workload) -> bool: ...

    def start(self, workload: Workload, watched: Path, checkpoint: Path) -> Run: ...


@dataclass(frozen=True)
class Timed:
    """What a one-shot engine returned, for all windows, and what it took: seconds and CPU-seconds."""

    totals: Totals
    seconds: float
    cpu: float


class OneShot(Protocol):
    """Reads all files once and returns every window, open ones too: no state, no checkpoint, nothing that comes later.

    The files are alone in their folder.
    """

    @property
    def name(self) -> str: ...

    def can(self, workload: Workload) -> bool: ...

    def compute(self, workload: Workload, files: list[Path]) -> Timed: ...


def written_below(folder: Path, results: str = "results") -> Written:
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    state = sum(size for path, size in sizes.items() if "state" in path.relative_to(folder).parts)
    given = sum(size for path, size in sizes.items() if results in path.relative_to(folder).parts)
    return Written(state, sum(sizes.values()) - state - given)
