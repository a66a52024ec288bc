"""The routes of a stream's side output, from its WITH options."""

from __future__ import annotations

from collections.abc import Mapping

from eventide.errors import SqlError, suggest
from eventide.plan.logical import Sink, Source, Stream
from eventide.plan.reads import originals_of, sources_of
from eventide.plan.side_output import KEYS, KINDS, METRICS_ONLY, REINJECT, Route, parse_rate
from eventide.sql.options import Options, side_option


def lower_routes(
    options: Options, sources: Mapping[str, Source], sinks: Mapping[str, Sink], stream: Stream
) -> dict[str, Route]:
    """The routes by kind; every name must be that of a sink or of an embedded source. Errors stand at their option."""
    routes: dict[str, Route] = {}
    for kind in KINDS:
        given = [side_option(kind, key) for key in KEYS if side_option(kind, key) in options.given]
        if given:
            routes[kind] = _Reader(options, kind, given[0], stream).route(sources, sinks)
    return routes


class _Reader:
    def __init__(self, options: Options, kind: str, first: str, stream: Stream) -> None:
        self._options = options
        self._kind = kind
        self._first = first
        self._stream = stream

    def route(self, sources: Mapping[str, Source], sinks: Mapping[str, Sink]) -> Route:
        sink = self._sink(sinks)
        original = self._options.flag(self._key("include_original")) is not False
        rate = self._options.text(self._key("rate_limit"))
        if sink == METRICS_ONLY:
            for key in ("rate_limit", "include_original"):
                if self._key(key) in self._options.given:
                    raise self._error(key, f"'{METRICS_ONLY}' sends nothing", "leave it out")
        late_to = self._stream.emit.late_to
        if self._kind == "late" and late_to is not None and (sink == METRICS_ONLY or not original):
            raise self._error(
                "sink",
                f"this keeps no late rows, so {late_to} would stay empty",
                "leave LATE DATA TO out, or this option",
            )
        return Route(sink, original, None if rate is None else parse_rate(rate), self._source(sink, original, sources))

    def _sink(self, sinks: Mapping[str, Sink]) -> str:
        name = self._options.text(self._key("sink"))
        ways = f"name a sink, '{REINJECT}' or '{METRICS_ONLY}'"
        if name is None:
            raise self._options.error(self._first, f"'{self._first}' is given without '{self._key('sink')}'", ways)
        if name.lower() in (METRICS_ONLY, REINJECT):
            return name.lower()
        found = next((sink for sink in sinks.values() if sink.name.lower() == name.lower()), None)
        if found is None:
            known = suggest(
                name, [METRICS_ONLY, REINJECT, *(sink.name for sink in sinks.values() if sink.stream is None)]
            )
            raise self._error(
                "sink", f"there is no sink {name}", f"first CREATE SINK {name} WITH ('connector' = '...'); {known}"
            )
        if found.stream is not None:
            help = (
                f"side output needs a sink of its own: CREATE SINK name WITH ('connector' = '{found.connector}', ...)"
            )
            raise self._error("sink", f"the sink {found.name} takes the rows of {found.stream}", help)
        return found.name

    def _source(self, sink: str, original: bool, sources: Mapping[str, Source]) -> str | None:
        name = self._options.text(self._key("source"))
        if sink != REINJECT:
            if name is not None:
                raise self._error("source", f"'{self._key('source')}' is for '{REINJECT}'", "leave it out")
            return None
        if not original:
            raise self._error("include_original", f"'{REINJECT}' sends the original event", "leave this option out")
        source = self._target(name, sources)
        at = "sink" if name is None else "source"
        if source.connector != "embedded":
            help = "name an embedded source"
            raise self._error(
                at,
                f"the source {source.name} reads {source.connector}, and only embedded sources take rows",
                help,
            )
        known = {column.name.lower() for column in source.columns}
        columns = [column for relation in originals_of(self._stream.query) for column in relation]
        missing = [column.name for column in columns if column.name.lower() not in known]
        if missing:
            raise self._error(
                at,
                f"the source {source.name} has no column {missing[0]}, which the rows have",
                "name a source that fits",
            )
        return source.name

    def _target(self, name: str | None, sources: Mapping[str, Source]) -> Source:
        if name is not None:
            found = next((source for source in sources.values() if source.name.lower() == name.lower()), None)
            if found is None:
                raise self._error("source", f"there is no source {name}", suggest(name, sources))
            return found
        own = {source.name: source for source in sources_of(self._stream.query)}
        if len(own) > 1:
            help = f"add '{self._key('source')}' = '{next(iter(own))}'"
            raise self._error("sink", f"more than one source could get the rows back: {', '.join(own)}", help)
        return next(iter(own.values()))

    def _key(self, key: str) -> str:
        return side_option(self._kind, key)

    def _error(self, key: str, message: str, help: str) -> SqlError:
        name = self._key(key)
        return self._options.error(name if name in self._options.given else self._first, message, help)
