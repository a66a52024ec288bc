"""What waits in front of a running stream, in bytes, and how much of it the next batch may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventide.admission.pacing import LEAST_KEPT, AdaptiveBatcher, BatchPerformancePoint
from eventide.admission.throttle import Queue
from eventide.eventtime.durations import SECOND

if TYPE_CHECKING:
    from eventide.connectors.files.waiting import FilesWaiting
    from eventide.spark.stream_output import StreamOutput
    from eventide.storage.inbox import Inbox
    from eventide.storage.spool import Spool


@dataclass
class Backlog:
    """`batcher` paces what comes by the inbox; None: a batch takes all of it. Of what a batch takes the share `keep` is
    kept: rows that are shed cost little, and do not count.
    """

    inbox: Inbox
    spools: Mapping[str, Spool]
    upstreams: Mapping[str, StreamOutput]
    files: Sequence[FilesWaiting] = ()
    batcher: AdaptiveBatcher | None = None
    keep: float = 1.0

    def publish(self, now: int) -> bool:
        """Let the stream see what is there, or as much of it as a batch may take."""
        budget = None if self.batcher is None else round(self.batcher.budget / max(self.keep, LEAST_KEPT))
        return self.inbox.publish_new(self.spools, self.upstreams, now, budget)

    def observe(self, began: int, ended: int, kept: float = 1.0) -> tuple[int, int]:
        """A batch has ended, which shed all but the share `kept`: (the bytes that it took, those that wait)."""
        taken = self.inbox.took(began)
        if self.batcher is not None:
            self.batcher.observe(BatchPerformancePoint(round(taken * kept), (ended - began) / SECOND))
        waiting = self._waiting()
        for folder in self.files:
            found = folder.observe(began)
            if found is not None:
                taken, waiting = taken + found[0], waiting + found[1]
        return taken, waiting

    def held(self) -> set[str]:
        """The sources of which something waits for its turn."""
        return set() if self.batcher is None else set(self.inbox.held(self.spools))

    def queue(self) -> Queue | None:
        """What a writer joins; None where nobody paces it."""
        if self.batcher is None:
            return None
        return Queue(self._waiting(), self.batcher.budget, self.batcher.pacing.target_latency)

    def _waiting(self) -> int:
        upstream = sum(output.waiting(self.inbox.positions.get(name, 0)) for name, output in self.upstreams.items())
        return self.inbox.sent_bytes + sum(self.inbox.held(self.spools).values()) + upstream
