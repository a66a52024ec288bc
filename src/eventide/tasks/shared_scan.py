"""The scan of several inputs of one source: files are read and decoded once, and each input makes its own of the rows.

What is left to Spark comes once, for Spark to decode for each input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from eventide.kernels.prefold import TimeBound
from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.fused_scan import FusedScan
from eventide.tasks.packing import Packing


@dataclass(frozen=True)
class SharedScan:
    """`scans` are those of the inputs, all with the same reader and all with or without lines left to Spark."""

    scans: tuple[FusedScan, ...]

    @property
    def scanned(self) -> pa.Schema:
        return self.scans[0].scanned

    @property
    def packing(self) -> Packing:
        return self.scans[0].packing

    def read(
        self, ranges: Iterable[FileRange], at: int, task: int, bound: TimeBound | None = None
    ) -> Iterator[pa.RecordBatch]:
        first, *others = [scan.begin(at, task, bound) for scan in self.scans]
        for arrival in self.scans[0].arrivals(ranges):
            yield from first.take(arrival)
            if first.is_over:
                return
            if arrival.rows is not None:
                for run in others:
                    yield from run.take(arrival)
        for run in (first, *others):
            yield from run.end()
