"""Which connector writes which sink."""

from __future__ import annotations

from eventide.connectors.console.write import ConsoleSink
from eventide.connectors.files.write import FilesSink
from eventide.connectors.kafka.settings import check_installed
from eventide.connectors.secrets import Secrets
from eventide.connectors.sink import Sink
from eventide.errors import EnvironmentError, OptionError, suggest
from eventide.plan import logical
from eventide.plan.sizes import parse_size

CONNECTORS = ("console", "delta", "embedded", "files", "kafka", "postgres")


def open_sink(sink: logical.Sink, identity: str, json_columns: tuple[str, ...] = ()) -> Sink | None:
    """The writer for a sink; None for `embedded`, the stream's own results. `json_columns` hold JSON as text."""
    secrets = Secrets(f"the sink {sink.name}", sink.options)
    if sink.connector == "files":
        size = sink.options.get("file_size")
        return FilesSink(
            secrets.options["path"],
            sink.options.get("format", "json"),
            identity,
            json_columns,
            None if size is None else parse_size(size),
        )
    if sink.connector == "postgres":
        return _postgres(sink, secrets, identity, json_columns)
    if sink.connector == "delta":
        return _delta(sink, secrets, identity)
    if sink.connector == "kafka":
        return _kafka(sink, secrets, identity, json_columns)
    if sink.connector == "console":
        return ConsoleSink(sink.name, int(sink.options.get("limit", "20")))
    if sink.connector == "embedded":
        return None
    raise OptionError(
        f"the sink {sink.name} has the connector '{sink.connector}', which cannot be written to",
        help=suggest(sink.connector, CONNECTORS),
    )


def _postgres(sink: logical.Sink, secrets: Secrets, identity: str, json_columns: tuple[str, ...]) -> Sink:
    try:
        from eventide.connectors.postgres.write import PostgresSink
    except ImportError:
        raise EnvironmentError(f"the sink {sink.name} needs psycopg", help="pip install 'eventide[postgres]'") from None
    return PostgresSink(sink.name, secrets.options, identity, json_columns, secrets.hide)


def _kafka(sink: logical.Sink, secrets: Secrets, identity: str, json_columns: tuple[str, ...]) -> Sink:
    check_installed(f"the sink {sink.name}")
    from eventide.connectors.kafka.write import KafkaSink

    return KafkaSink(sink.name, secrets.options, identity, json_columns, secrets.hide)


def _delta(sink: logical.Sink, secrets: Secrets, identity: str) -> Sink:
    try:
        from eventide.connectors.delta.write import DeltaSink
    except ImportError:
        raise EnvironmentError(f"the sink {sink.name} needs deltalake", help="pip install 'eventide[delta]'") from None
    return DeltaSink(sink.name, secrets.options, identity, secrets.hide)
