"""From a sink to what writes its rows, by its connector."""

from __future__ import annotations

from eventide.connectors.declaration import Opening
from eventide.connectors.registry import SINKS
from eventide.connectors.secrets import Secrets
from eventide.connectors.sink import Sink
from eventide.errors import OptionError, suggest
from eventide.plan import logical


def open_sink(sink: logical.Sink, identity: str, json_columns: tuple[str, ...] = ()) -> Sink | None:
    """The writer for a sink; None for one whose rows stay with the stream. `json_columns` hold JSON as text."""
    if sink.connector not in SINKS:
        raise OptionError(
            f"the sink {sink.name} has the connector '{sink.connector}', which cannot be written to",
            help=suggest(sink.connector, SINKS),
        )
    open = SINKS[sink.connector].open
    if open is None:
        return None
    secrets = Secrets(f"the sink {sink.name}", sink.options)
    return open(Opening(sink.name, secrets.options, identity, json_columns, secrets.hide))
