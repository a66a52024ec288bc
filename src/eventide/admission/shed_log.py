"""The orders of a stream's shedder, each with the time from which it holds: decisions are data.

The driver writes an order when a batch has ended. A task looks up the one that held when its batch began, which Spark
logs: so a batch that is repeated sheds the same rows.
"""

from __future__ import annotations

from eventide.admission.shedder import ShedOrder
from eventide.errors import CheckpointError
from eventide.storage.atomic import read_json, write_json
from eventide.storage.paths import AnyPath

_KEPT = 64  # only the batch that ran last can be repeated


class ShedLog:
    def __init__(self, path: AnyPath) -> None:
        self._path = path

    def latest(self) -> ShedOrder:
        orders = self._orders()
        return orders[-1][1] if orders else ShedOrder()

    def keep(self) -> float:
        """The share of rows that the latest order leaves, about."""
        return 1 - self.latest().share

    def at(self, time: int) -> ShedOrder:
        """The order that held at `time`, in microseconds."""
        held = [order for since, order in self._orders() if since <= time]
        return held[-1] if held else ShedOrder()

    def add(self, since: int, order: ShedOrder) -> None:
        orders = [*self._orders(), (since, order)][-_KEPT:]
        write_json(self._path, [[since, order.to_bytes().decode()] for since, order in orders])

    def _orders(self) -> list[tuple[int, ShedOrder]]:
        try:
            return [(since, ShedOrder.from_bytes(text.encode())) for since, text in read_json(self._path) or []]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{self._path} is damaged: {error}", help="delete it: shedding then begins anew, with nothing to shed"
            ) from error
