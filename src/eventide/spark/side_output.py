"""What becomes of a stream's payloads: kept with the stream, sent to side sinks, sent back to a source, or only
counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from eventide.eventtime.resolution import UNDECODABLE
from eventide.plan.side_output import METRICS_ONLY, REINJECT, Route
from eventide.spark.side_channel import Channel, Limiter
from eventide.storage.outbox import Outbox, Returned


class SideOutput:
    """The routes of one stream. `keep` is called before a batch is stored, `stored` after it."""

    def __init__(
        self, routes: Mapping[str, Route], channels: Iterable[Channel] = (), outbox: Outbox | None = None
    ) -> None:
        self._routes = routes
        self._channels = tuple(channels)
        self.outbox = outbox
        self._limiters = {
            kind: Limiter(route.rate_limit)
            for kind, route in routes.items()
            if route.sink == REINJECT and route.rate_limit is not None
        }

    def keep(self, payloads: pa.Table) -> pa.Table:
        """What is stored of a batch's payloads."""
        return kept(self._routes, payloads)

    def send_back(self, batch: int, payloads: pa.Table) -> None:
        """Put what is to be processed again into the outbox; to be called before the batch is stored."""
        if self.outbox is None:
            return
        rows: list[Returned] = []
        for kind, route in self._routes.items():
            if route.sink == REINJECT and route.source is not None:
                mine = payloads.filter(pc.equal(payloads["kind"], kind))
                rows += [Returned(route.source, kind, text) for text in _texts(mine)]
        self.outbox.put(batch, rows, self._allow)

    def stored(self, batch: int) -> None:
        for channel in self._channels:
            channel.notify(batch)

    @property
    def delivered(self) -> float:
        """The newest batch that no side sink waits for."""
        return min((channel.delivered for channel in self._channels), default=math.inf)

    @property
    def positions(self) -> list[int]:
        """How far each side sink has come, as it will know after a restart."""
        return [channel.position for channel in self._channels]

    def wait(self, seconds: float) -> None:
        """Wait for the side sinks, all together at most `seconds`."""
        self._share(seconds, lambda channel, left: channel.wait(left))

    def close(self, seconds: float) -> None:
        self._share(seconds, lambda channel, left: channel.close(left))

    def metrics(self) -> dict[str, int]:
        """Payloads by what became of them: side_sent_late, side_dropped_late, side_failed_late, ...; side_waiting."""
        totals: dict[str, int] = {}
        for counts in (*(channel.counts() for channel in self._channels), self.outbox.counts() if self.outbox else {}):
            for name, value in counts.items():
                totals[name] = totals.get(name, 0) + value
        if self._channels:
            totals["side_waiting"] = sum(channel.waiting() for channel in self._channels)
            totals["side_sinks_failing"] = sum(channel.failing is not None for channel in self._channels)
        return totals

    def _allow(self, kind: str, rows: int) -> int:
        return self._limiters[kind].take(rows) if kind in self._limiters else rows

    def _share(self, seconds: float, act: Callable[[Channel, float], object]) -> None:
        end = time.monotonic() + seconds
        for channel in self._channels:
            act(channel, max(0.0, end - time.monotonic()))


def kept(routes: Mapping[str, Route], payloads: pa.Table) -> pa.Table:
    """Payloads without kinds that are only counted, and without originals that nobody wants."""
    for kind, route in routes.items():
        if route.sink == METRICS_ONLY:
            payloads = payloads.filter(pc.not_equal(payloads["kind"], kind))
        elif not route.include_original:
            place = payloads.schema.get_field_index("original_event")
            without = pc.if_else(
                pc.equal(payloads["kind"], kind), pa.scalar(None, pa.string()), payloads["original_event"]
            )
            payloads = payloads.set_column(place, payloads.schema.field(place), without)
    return payloads


def _texts(payloads: pa.Table) -> list[str]:
    """Each row as it was: its JSON object, or the text that did not decode."""
    found = zip(
        payloads["reason"].to_pylist(),
        payloads["error_detail"].to_pylist(),
        payloads["original_event"].to_pylist(),
        strict=True,
    )
    return [detail if reason == UNDECODABLE and detail else event for reason, detail, event in found]
