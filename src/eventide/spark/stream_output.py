"""What a running stream gives to the streams that read it: its batches, each with the watermark of its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eventide.kernels.contract import Gauges
from eventide.storage.inbox import Entry
from eventide.storage.results import Account, Results


@dataclass
class StreamOutput:
    """The output, or the late rows, of one stream. Batch n is item n + 1, as spools count from 1.

    `settled` is the watermark under which the stream has given all that it can: a batch in which nothing happens leaves
    no account, and yet moves time on. Late rows are older than any watermark, so they come without one.
    """

    results: Results
    output_watermark: Callable[[int, Gauges], int | None]
    is_late: bool
    settled: Callable[[], int | None]
    _told: int | None = None

    def entries(self, name: str, after: int) -> list[Entry]:
        """Everything later than item `after`, as entries of a reader's inbox that knows it as `name`."""
        settled = None if self.is_late else self._settled()  # first: what was given before is then among the batches
        found = []
        for batch in self.results.batches(after - 1):
            if self.results.has_rows(batch, "side" if self.is_late else "main"):
                found.append(Entry("rows", name, batch + 1))
            account = self.results.account(batch)
            watermark = None if self.is_late else self._watermark(account.watermark, account)
            if watermark is not None:
                found.append(Entry("watermark", name, batch + 1, watermark))
                self._told = watermark
        if settled is not None and (self._told is None or settled > self._told):
            found.append(Entry("watermark", name, None, settled))
            self._told = settled
        return found

    def waiting(self, after: int) -> int:
        """The bytes of everything later than item `after`."""
        kind = "side" if self.is_late else "main"
        return sum(self.results.bytes(batch, kind) for batch in self.results.batches(after - 1))

    def bytes(self, number: int) -> int:
        """Of one item."""
        return self.results.bytes(number - 1, "side" if self.is_late else "main")

    def _settled(self) -> int | None:
        latest = self.results.latest()
        return None if latest is None else self._watermark(self.settled(), latest)

    def _watermark(self, watermark: int | None, account: Account) -> int | None:
        """That of the output under one of the input; None if there is none, or if it stays where it was."""
        if watermark is None:
            return None
        gauges: dict[str, list[int]] = {}
        for gauge, value in account.gauges.items():
            gauges.setdefault(gauge.split("#")[0], []).append(value)
        return self.output_watermark(watermark, gauges)
