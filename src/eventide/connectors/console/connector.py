"""`console`: rows on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.connectors.declaration import Connector, Opening, Option, Promise, Writes

if TYPE_CHECKING:
    from eventide.connectors.sink import Sink


def _open(opening: Opening) -> Sink:
    from eventide.connectors.console.write import ConsoleSink

    return ConsoleSink(opening.name, int(opening.options.get("limit", "20")))


CONSOLE = Connector(
    name="console",
    doc="prints rows as they come, for looking",
    sink=Writes(
        options={"limit": Option("count", doc="how many rows of a batch are printed", default="20")},
        promise=Promise.AT_LEAST_ONCE,
        open=_open,
    ),
)
