"""What a running stream gives to the streams that read it: its batches, each with the watermark of its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eventide.kernels.contract import OLDEST_ROW
from eventide.storage.inbox import Entry
from eventide.storage.results import Results


@dataclass(frozen=True)
class StreamOutput:
    """The output, or the late rows, of one stream. Batch n is item n + 1, as spools count from 1.

    Late rows are older than any watermark, so they come without one.
    """

    results: Results
    output_watermark: Callable[[int], int]
    is_late: bool

    def entries(self, name: str, after: int) -> list[Entry]:
        """Everything later than item `after`, as entries of a reader's inbox that knows it as `name`."""
        found = []
        for batch in self.results.batches(after - 1):
            if self.results.has_rows(batch, "side" if self.is_late else "main"):
                found.append(Entry("rows", name, batch + 1))
            watermark = None if self.is_late else self.results.account(batch).watermark
            if watermark is not None:
                found.append(Entry("watermark", name, batch + 1, self._watermark(watermark, batch)))
        return found

    def _watermark(self, watermark: int, batch: int) -> int:
        """The kernel's rule, held back by rows that wait longer than it says."""
        gauges = self.results.account(batch).gauges
        waiting = [value - 1 for gauge, value in gauges.items() if gauge.startswith(f"{OLDEST_ROW}#")]
        return min([self.output_watermark(watermark), *waiting])
