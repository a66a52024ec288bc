"""Which connector writes which sink."""

from __future__ import annotations

from eventide.connectors.console.write import ConsoleSink
from eventide.connectors.files.write import FilesSink
from eventide.connectors.sink import Sink
from eventide.errors import EnvironmentError
from eventide.plan import logical


def open_sink(sink: logical.Sink, identity: str, json_columns: tuple[str, ...] = ()) -> Sink | None:
    """The writer for a sink; None for `embedded`, the stream's own results. `json_columns` hold JSON as text."""
    if sink.connector == "files":
        return FilesSink(sink.options["path"], sink.options.get("format", "json"), identity, json_columns)
    if sink.connector == "postgres":
        return _postgres(sink, identity, json_columns)
    if sink.connector == "console":
        return ConsoleSink(sink.name, int(sink.options.get("limit", "20")))
    return None


def _postgres(sink: logical.Sink, identity: str, json_columns: tuple[str, ...]) -> Sink:
    try:
        from eventide.connectors.postgres.write import PostgresSink
    except ImportError:
        raise EnvironmentError(f"the sink {sink.name} needs psycopg", help="pip install 'eventide[postgres]'") from None
    return PostgresSink(sink.name, sink.options, identity, json_columns)
