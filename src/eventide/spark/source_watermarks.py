"""The watermarks of single sources that Spark does not keep: those known only when a batch has ended, and all of them
over a restart.
"""

from __future__ import annotations

from collections.abc import Mapping

from eventide.eventtime.lanes import LaneSilence, least_watermark
from eventide.spark.router import Router
from eventide.storage.inbox import Entry


class SourceWatermarks:
    """Of the sources of one stream. Where only shards know which rows are admitted, tasks cannot say what watermark
    these allow; a source in `lanes` has partitions, and the least of them counts.
    """

    def __init__(self, router: Router, lanes: Mapping[str, LaneSilence]) -> None:
        self._router = router
        self._lanes = lanes
        self._told: dict[str, int] = {}

    def of_accounts(self) -> dict[str, int]:
        """What each source has reached by the last batch."""
        return {name: figures["watermark"] for name, figures in self._figures().items() if "watermark" in figures}

    def newest_times(self) -> list[int]:
        """The newest event time of each source."""
        return [
            figures["max_timestamp_seen"] for figures in self._figures().values() if "max_timestamp_seen" in figures
        ]

    def reminders(self) -> list[Entry]:
        """What Spark forgets in a restart: the watermark of each single source, and that windows may be due."""
        self._told = self.of_accounts()
        return [*(Entry("watermark", name, None, at) for name, at in self._told.items()), Entry("wake")]

    def news(self, now: int) -> list[Entry]:
        """What admitted rows allow, as the shards have found it, and what partitions allow, where it has moved."""
        figures = self._figures()
        admitted = {name: each["judged_watermark"] for name, each in figures.items() if "judged_watermark" in each}
        claims = {**admitted, **self._least_of_partitions(now)}
        moved = {name: at for name, at in claims.items() if at > self._told.get(name, at - 1)}
        self._told.update(moved)
        return [Entry("watermark", name, None, at) for name, at in moved.items()]

    def _least_of_partitions(self, now: int) -> dict[str, int]:
        while self._router.heard_lanes:
            source, lane = self._router.heard_lanes.pop()
            self._lanes[source].heard(lane, now)
        account = self._router.results.latest()
        found = {} if account is None else {name: account.lanes.get(name, {}) for name in self._lanes}
        least = {name: least_watermark(lanes, self._lanes[name].idle(lanes, now)) for name, lanes in found.items()}
        return {name: at for name, at in least.items() if at is not None}

    def idle_lanes(self, now: int) -> dict[str, set[str]]:
        """The partitions that have been silent for their source's idle timeout, by source."""
        account = self._router.results.latest()
        lanes = {} if account is None else account.lanes
        return {name: silence.idle(lanes.get(name, {}), now) for name, silence in self._lanes.items()}

    def _figures(self) -> Mapping[str, Mapping[str, int]]:
        account = self._router.results.latest()
        return {} if account is None else account.sources
