"""Which files the next batch of a stream takes: found, written down, then handed out by number.

An offset is a count of files. The files it counts are in the log before anybody learns of it, so a batch that is
repeated after a crash has the same files. The duration of a batch is measured from outside: it ends when the engine
asks for the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from eventide.admission.pacing import Batcher, BatchPerformancePoint
from eventide.connectors.files.discoveries import DiscoveryLog
from eventide.connectors.files.listing import FoundFile, Listing
from eventide.connectors.files.store_listing import StoreListing
from eventide.storage.passed_over import PassedOver


@dataclass(frozen=True)
class _Running:
    start: int
    end: int
    since: float


@dataclass(frozen=True)
class Forgetting:
    """The names of files that are gone are forgotten `after` microseconds (see `remembered`). `there` lists all files
    that are there; `passed_over` is told of those that are not taken because theirs may have been forgotten.
    """

    after: int
    there: Callable[[], list[FoundFile]]
    passed_over: PassedOver


class FileAdmission:
    """Times are seconds on a clock that never goes back. `left` is told how many bytes a batch leaves of what is there;
    for that the folder is listed before each.
    """

    def __init__(
        self,
        listing: Listing | StoreListing,
        log: DiscoveryLog,
        batcher: Batcher,
        left: Callable[[int], None] | None = None,
        forgetting: Forgetting | None = None,
    ) -> None:
        self._listing = listing
        self._log = log
        self._batcher = batcher
        self._left = left
        self._forgetting = forgetting
        self._running: _Running | None = None
        self._last: int | None = None

    @property
    def known(self) -> int:
        """How many files have been found so far, taken or not."""
        return len(self._log)

    def freeze(self) -> None:
        """Find the files that are there now, and ignore any that come later."""
        self._discover()
        self._last = self.known

    def admit(self, start: int, now: float) -> int:
        """The end of the batch that begins with file `start`: at least one file, and about as many as fit the
        budget.
        """
        self._note_end(start, now)
        budget = self._batcher.budget
        if self._left is not None or self._log.size(start, self.known) < budget:
            self._discover()
        end = self._log.end_near(start, budget)
        return self._hand_out(start, max(end, start + 1), now)

    def admit_all(self, start: int, now: float) -> int:
        """The same without a limit."""
        self._note_end(start, now)
        self._discover()
        return self._hand_out(start, self.known, now)

    def files(self, start: int, end: int) -> list[FoundFile]:
        """The files of a batch, in order of discovery."""
        return self._log.files(start, end)

    def _discover(self) -> None:
        if self._last is not None:
            return
        found = self._listing.new_files(self._log)
        new = [file for file in found if not self._log.may_be_forgotten(file)]
        self._log.append(new)
        if self._forgetting is not None:
            old = [file.path for file in found if self._log.may_be_forgotten(file)]
            self._forgetting.passed_over.note(old, taken=[file.path for file in new])

    def _hand_out(self, start: int, end: int, now: float) -> int:
        end = min(end, self.known if self._last is None else max(self._last, start))
        self._running = _Running(start, end, now) if end > start else None
        if self._left is not None and end > start:
            self._left(self._log.size(end, self.known))
        return end

    def _note_end(self, start: int, now: float) -> None:
        self._log.check(start)
        running, self._running = self._running, None
        if running is not None and running.end == start:
            self._batcher.observe(
                BatchPerformancePoint(self._log.size(running.start, running.end), now - running.since)
            )
        if self._forgetting is not None and self._log.is_long(start):
            self._log.put_together(start, self._forgetting.there, self._forgetting.after, time.time_ns() // 1000)
