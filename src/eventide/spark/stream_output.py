"""What a running stream gives to the streams that read it: its batches, each with the watermark of its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eventide.kernels.contract import Gauges
from eventide.storage.inbox import Entry
from eventide.storage.results import Account, Results


@dataclass(frozen=True)
class StreamOutput:
    """The output, or the late rows, of one stream. Batch n is item n + 1, as spools count from 1.

    Late rows are older than any watermark, so they come without one.
    """

    results: Results
    output_watermark: Callable[[int, Gauges], int | None]
    is_late: bool

    def entries(self, name: str, after: int) -> list[Entry]:
        """Everything later than item `after`, as entries of a reader's inbox that knows it as `name`."""
        found = []
        for batch in self.results.batches(after - 1):
            if self.results.has_rows(batch, "side" if self.is_late else "main"):
                found.append(Entry("rows", name, batch + 1))
            watermark = None if self.is_late else self._watermark(self.results.account(batch))
            if watermark is not None:
                found.append(Entry("watermark", name, batch + 1, watermark))
        return found

    def _watermark(self, account: Account) -> int | None:
        """That of the output after a batch; None if there is none, or if it stays where it was."""
        if account.watermark is None:
            return None
        gauges: dict[str, list[int]] = {}
        for gauge, value in account.gauges.items():
            gauges.setdefault(gauge.split("#")[0], []).append(value)
        return self.output_watermark(account.watermark, gauges)
