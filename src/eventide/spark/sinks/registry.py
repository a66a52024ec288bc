"""Which connector writes which sink."""

from __future__ import annotations

from eventide.plan import logical
from eventide.spark.sinks.console import ConsoleSink
from eventide.spark.sinks.contract import Sink
from eventide.spark.sinks.files import FilesSink


def open_sink(sink: logical.Sink, identity: str) -> Sink | None:
    """The writer of a sink; None for `embedded`, which is the stream's own result."""
    if sink.connector == "files":
        return FilesSink(sink.options["path"], sink.options.get("format", "json"), identity)
    if sink.connector == "console":
        return ConsoleSink(sink.name, int(sink.options.get("limit", "20")))
    return None
