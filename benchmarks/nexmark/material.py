"""What a run reads: the files of the warm-up, those that are measured, and the table that is looked up."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark import files
from benchmarks.nexmark.answers import Answers
from benchmarks.nexmark.events import Events

FILES_PER_BATCH = 4
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Material:
    events: Events
    warm: tuple[Path, ...]
    measured: tuple[Path, ...]
    measured_rows: int
    rows: int
    side_input: Path  # the folder

    @property
    def end_ms(self) -> int:
        """When everything is over: no window is open any more."""
        return self.events.last_ms(self.rows) + _HOUR_MS

    def answers(self) -> Answers:
        has_equal_times = self.events.per_second > 1_000  # times are whole milliseconds
        return Answers((*self.warm, *self.measured), self.side_input / files.SIDE_INPUT, has_equal_times)


def prepare(events: Events, folder: Path, batch_rows: int, warm_batches: int, batches: int) -> Material:
    rows, count = batch_rows * (warm_batches + batches), FILES_PER_BATCH * (warm_batches + batches)
    made = files.write(events, rows, folder / "events", count)
    cut = FILES_PER_BATCH * warm_batches
    files.write_side_input(folder / "side_input")
    return Material(events, tuple(made[:cut]), tuple(made[cut:]), batch_rows * batches, rows, folder / "side_input")


def link(paths: Iterable[Path], folder: Path) -> None:
    """Let an engine that watches `folder` see the files."""
    folder.mkdir(exist_ok=True)
    for path in paths:
        os.link(path, folder / path.name)
