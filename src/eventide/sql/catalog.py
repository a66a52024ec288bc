"""The catalog: what there is by name, and the rules of CREATE and DROP. It needs no Spark."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from eventide.connectors.declaration import LooksUp, Reads, Writes
from eventide.connectors.registry import SINKS, SOURCES, TABLES
from eventide.errors import CatalogError, EventideError, SqlError, suggest
from eventide.plan.logical import Sink, Source, Stream, Table
from eventide.plan.modes import EmitMode
from eventide.plan.names import owner_of
from eventide.plan.reads import sources_of
from eventide.plan.side_output import METRICS_ONLY
from eventide.plan.stream_source import STREAM, is_stream
from eventide.plan.validate import validate
from eventide.sql.alter import altered
from eventide.sql.create_table import lower_table
from eventide.sql.functions import refuse_jvm_calls
from eventide.sql.inferring import with_columns
from eventide.sql.lower import lower
from eventide.sql.lower_source import lower_sink, lower_source
from eventide.sql.options import refuse_secrets
from eventide.sql.parser import parse_statements
from eventide.sql.side_output_options import lower_routes
from eventide.sql.statements import (
    Alter,
    Create,
    CreateSink,
    CreateSource,
    CreateStream,
    CreateTable,
    CreateView,
    Drop,
    Statement,
)
from eventide.sql.syntax import EmitNode
from eventide.sql.views import expanded, mentioned

LATE_SUFFIX = "$late"

Definition = Source | Stream | Sink | Table | CreateView


class Catalog:
    """Names are found without regard to case and kept as written. A failing call changes nothing."""

    def __init__(self, allow_jvm_calls: bool = False) -> None:
        self._allow_jvm_calls = allow_jvm_calls
        self.sources: dict[str, Source] = {}
        self.streams: dict[str, Stream] = {}
        self.inner: dict[str, Stream] = {}  # parts of streams that keep state, innermost first
        self.sinks: dict[str, Sink] = {}
        self.tables: dict[str, Table] = {}
        self.views: dict[str, CreateView] = {}
        self._texts: dict[str, str] = {}  # of all kinds, in the order of creation
        self._mentions: dict[str, frozenset[str]] = {}  # of streams and views: the names in FROM, in lower case

    def apply(self, statement: Statement) -> bool:
        """Do what CREATE, ALTER or DROP says; other statements change nothing. Returns whether the catalog changed."""
        if isinstance(statement, Alter):
            name = (self.stream if statement.kind == "stream" else self.source)(statement.name).name
            self.become(self.redefined(name, altered(self.text(name), statement.options)))
            return True
        if isinstance(statement, CreateSource):
            statement = self.with_columns(statement)
        if isinstance(statement, Create):
            if isinstance(statement, CreateSource | CreateSink | CreateTable):
                refuse_secrets(_made(statement).options, _declared(statement), statement.name)
            return self._create(statement)
        if isinstance(statement, Drop):
            return self._drop(statement)
        return False

    def with_columns(self, statement: CreateSource) -> CreateSource:
        """The statement with the columns that it asks to infer; those of the source as it is, if it stays."""
        name = _find(self.sources, statement.name)
        return with_columns(statement, None if name is None else self.sources.get(name))

    def lower(self, statement: CreateStream) -> list[Stream]:
        """The inner streams that a CREATE STREAM would make, then the stream itself. Raises what is wrong with it."""
        views = {name.lower(): view.query for name, view in self.views.items()}
        lowered = lower(replace(statement, query=expanded(statement.query, views)), self)
        streams = [*lowered.inner, lowered.stream]
        for stream in streams:
            validate(stream, lowered.places)
        entrances = [stream for stream in streams if _reads_from_outside(stream)]
        routes = {
            stream.name: lower_routes(statement.options, self.sources, self.sinks, stream) for stream in entrances
        }
        within = {kind: route for kind, route in routes[entrances[0].name].items() if route.source is None}
        return [replace(stream, routes=routes.get(stream.name, within)) for stream in streams]

    def lower_view(self, view: CreateView) -> list[Stream]:
        """The streams that would read all of a view. Raises what is wrong with it, unless all that it lacks is an
        EMIT, which its readers can have.
        """
        try:
            return self.lower(view.as_stream(EmitNode(is_inner=True)))
        except SqlError as error:
            try:
                return self.lower(view.as_stream(EmitNode(EmitMode.ON_UPDATE, places={"mode": view.query.span})))
            except SqlError:
                raise error from None

    @property
    def late_names(self) -> dict[str, str]:
        """Every name under which late rows can be read, with the stream whose rows they are."""
        names = {f"{name}{LATE_SUFFIX}": self._late_in(name) for name in self.streams}
        names |= {f"{name}{LATE_SUFFIX}": name for name in self.inner}
        return names | {
            stream.emit.late_to: stream.name for stream in self.graph().values() if stream.emit.late_to is not None
        }

    def graph(self) -> dict[str, Stream]:
        """All streams, named and inner, each after those that it reads in its own statement."""
        return {**self.inner, **self.streams}

    def parts(self, stream: str) -> list[Stream]:
        """The inner streams of a stream, then the stream itself."""
        return [*(part for part in self.inner.values() if owner_of(part.name) == stream), self.streams[stream]]

    def _late_in(self, stream: str) -> str:
        """Where the late rows of a stream are: in the part that reads from outside, if there is just one."""
        entrances = [part.name for part in self.parts(stream) if _reads_from_outside(part)]
        return entrances[0] if len(entrances) == 1 else stream

    def resolve_readable(self, name: str) -> tuple[str, bool]:
        """The stream that `name` reads, and whether its late rows are meant."""
        stream = _find(self.graph(), name)
        if stream is not None:
            return stream, False
        late = _find(self.late_names, name)
        if late is not None:
            self._refuse_if_not_kept(self.late_names[late])
            return self.late_names[late], True
        for kind in ("source", "table", "view"):
            found = _find(self._objects(kind), name)
            if found is not None:
                raise CatalogError(
                    f"{found} is a {kind}, and only streams can be read",
                    help=f"CREATE STREAM x AS SELECT ... FROM {found}",
                )
        raise CatalogError(f"there is no stream {name}", help=suggest(name, [*self.streams, *self.late_names]))

    def refuse_if_in_parts(self, stream: str) -> None:
        """Late rows of an inner stream cannot be replayed: what reads it has already closed its own windows."""
        if stream not in self.streams or len(self.parts(stream)) > 1:
            help = "make streams of its subqueries, and replay the one whose rows were late"
            raise CatalogError(f"the late rows of {stream} cannot be replayed: its query is several streams", help=help)

    def _refuse_if_not_kept(self, stream: str) -> None:
        route = self.graph()[stream].routes.get("late")
        if route is not None and (route.sink == METRICS_ONLY or not route.include_original):
            help = f"its side_output.late says so; db.side_output('{stream}', 'late') has what is kept"
            raise CatalogError(f"the late rows of {stream} are not kept", help=help)

    def source(self, name: str) -> Source:
        return self.sources[self._known("source", self.sources, name)]

    def stream(self, name: str) -> Stream:
        """A stream, or an inner one such as o$1."""
        found = _find(self.inner, name)
        return self.inner[found] if found is not None else self.streams[self._known("stream", self.streams, name)]

    def sink(self, name: str) -> Sink:
        return self.sinks[self._known("sink", self.sinks, name)]

    def table(self, name: str) -> Table:
        return self.tables[self._known("table", self.tables, name)]

    def definition(self, name: str) -> Definition:
        """Whatever has this name."""
        everything: dict[str, Definition] = {
            **self.sources,
            **self.graph(),
            **self.sinks,
            **self.tables,
            **self.views,
        }
        found = _find(everything, name)
        if found is None:
            known = [name for name in everything if name not in self.inner]
            raise CatalogError(f"there is no source, stream, sink, table or view {name}", help=suggest(name, known))
        return everything[found]

    @property
    def names(self) -> list[str]:
        """Of everything that a statement has made, in the order of creation."""
        return list(self._texts)

    def texts(self) -> list[str]:
        """The statements that make this catalog again, ordered so that everything exists before it is named."""
        depths = self._depths()
        ranks: dict[str, tuple[int, int]] = {
            **dict.fromkeys((*self.sources, *self.tables), (0, 0)),
            **{name: (2, depths(name.lower())) for name in (*self.streams, *self.views)},
            **{name: (1 if sink.stream is None else 3, 0) for name, sink in self.sinks.items()},
        }
        return [self._texts[name] for name in sorted(self._texts, key=lambda name: ranks[name])]

    def _depths(self) -> Callable[[str], int]:
        """Of a name in small letters: how many streams and views must exist, one before the other, to make it."""
        known = {key.lower(): key for key in self._mentions} | {
            late.lower(): owner_of(stream) for late, stream in self.late_names.items()
        }

        @functools.cache
        def depth(name: str) -> int:
            return 1 + max(map(depth, self._mentions[known[name]]), default=0) if name in known else 0

        return depth

    def level(self, stream: str) -> int:
        """0 for a stream that reads sources only, else one more than the highest of the streams that it reads."""
        levels: Callable[[str], int] = functools.cache(
            lambda name: max((levels(read) + 1 for read in self.reads(name)), default=0)
        )
        return levels(stream)

    def text(self, name: str) -> str:
        """The statement that made a source, stream, sink or view; of an inner stream, that of the whole."""
        return self._texts[self._known("definition", self._texts, owner_of(name))]

    def redefined(self, name: str, text: str) -> Catalog:
        """A catalog in which another text stands for one that is here, with all that reads it lowered anew."""
        name = self._known("definition", self._texts, name)
        (statement,) = parse_statements(text)
        if isinstance(statement, Create) and statement.name != name:
            text = text.replace(statement.name, name, 1)  # as it is spelled here
        changed, made = self.copy(), Catalog(self._allow_jvm_calls)
        changed._texts[name] = text
        for each in changed.texts():
            try:
                for statement in parse_statements(each):
                    made.apply(statement)
            except EventideError as error:
                if each == text:
                    raise
                reads = statement.name if isinstance(statement, Create) else each
                raise CatalogError(
                    f"with this {name}, {reads} would be wrong: {error.message}", help=f"change {reads} first"
                ) from None
        return made

    @classmethod
    def from_texts(cls, texts: Iterable[str], allow_jvm_calls: bool = False) -> Catalog:
        catalog = cls(allow_jvm_calls)
        for text in texts:
            for statement in parse_statements(text):
                if isinstance(statement, Create):
                    catalog._create(statement)
        return catalog

    def copy(self) -> Catalog:
        other = Catalog(self._allow_jvm_calls)
        other.sources, other.streams, other.sinks = dict(self.sources), dict(self.streams), dict(self.sinks)
        other.inner, other.tables, other.views = dict(self.inner), dict(self.tables), dict(self.views)
        other._texts, other._mentions = dict(self._texts), dict(self._mentions)
        return other

    def without(self, name: str) -> Catalog:
        """A copy without one name, whatever depends on it."""
        other = self.copy()
        other._remove(name)
        return other

    def _create(self, statement: Create) -> bool:
        kind, name = _kind(statement), statement.name
        existing = _find(self._objects(kind), name)
        if existing is not None and statement.if_not_exists:
            return False
        if existing is not None and isinstance(statement, CreateStream | CreateSource) and statement.keep_state:
            self.become(self.redefined(existing, statement.text))
            return True
        if existing is not None and not statement.or_replace:
            raise CatalogError(
                f"there is already a {kind} {existing}", help=f"use CREATE OR REPLACE {kind.upper()}, or another name"
            )
        rest = self.without(existing) if existing is not None else self.copy()
        if existing is not None and kind != "sink":
            self._refuse_if_read(kind, existing)
        rest._add(statement)
        if isinstance(statement, CreateStream):
            rest._check_sinks(statement.name)
        self.become(rest)
        return True

    def become(self, other: Catalog) -> None:
        """Hold what another catalog holds, in place of what is here."""
        self.sources, self.streams, self.sinks = other.sources, other.streams, other.sinks
        self.inner, self.tables, self.views = other.inner, other.tables, other.views
        self._texts, self._mentions = other._texts, other._mentions

    def _add(self, statement: Create) -> None:
        name = statement.name
        self._check_free(name)
        if not self._allow_jvm_calls:
            refuse_jvm_calls(statement)
        match statement:
            case CreateSource():
                self.sources[name] = lower_source(statement)
            case CreateStream():
                if statement.emit.late_to is not None:
                    self._check_free(statement.emit.late_to, but=name)
                *inner, self.streams[name] = self.lower(statement)
                self.inner |= {stream.name: stream for stream in inner}
            case CreateSink():
                reads = None if statement.stream is None else self._readable_name(statement.stream)
                self.sinks[name] = replace(lower_sink(statement), stream=reads)
            case CreateTable():
                self.tables[name] = lower_table(statement)
            case CreateView():
                self.lower_view(statement)
                self.views[name] = statement
        if isinstance(statement, CreateStream | CreateView):
            self._mentions[name] = frozenset(mentioned(statement.query))
        self._texts[name] = statement.text

    def _readable_name(self, name: str) -> str:
        """The spelling of a readable name as the catalog has it."""
        self.resolve_readable(name)
        return _find(self.graph(), name) or _find(self.late_names, name) or name

    def _check_free(self, name: str, but: str | None = None) -> None:
        """A name means one thing among sources, streams, sinks, tables, views and late streams."""
        if but is not None and name.lower() == but.lower():
            raise CatalogError(f"LATE DATA TO {name} has the name of the stream itself", help="choose another name")
        for kind in ("source", "stream", "sink", "table", "view"):
            taken = _find(self._objects(kind), name)
            if taken is not None:
                raise CatalogError(f"the name {name} is taken by the {kind} {taken}", help="choose another name")
        late = _find(self.late_names, name)
        if late is not None:
            raise CatalogError(
                f"the name {name} is taken by the late rows of {self.late_names[late]}", help="choose another name"
            )

    def _check_sinks(self, stream: str) -> None:
        """After a stream was replaced, every sink must still have something to read."""
        for sink in self.sinks.values():
            if (
                sink.stream is not None
                and _find(self.graph(), sink.stream) is None
                and _find(self.late_names, sink.stream) is None
            ):
                raise CatalogError(
                    f"the sink {sink.name} reads {sink.stream}, which the new {stream} no longer has",
                    help=f"DROP SINK {sink.name} first",
                )

    def has(self, statement: Drop) -> bool:
        """Whether what the statement drops is there."""
        return _find(self._objects(statement.kind), statement.name) is not None

    def _drop(self, statement: Drop) -> bool:
        objects = self._objects(statement.kind)
        if not self.has(statement):
            if statement.if_exists:
                return False
            instead = f"DROP {statement.kind.upper()} IF EXISTS {statement.name} would do nothing"
            help = f"{suggest(statement.name, objects)}; {instead}"
            raise CatalogError(f"there is no {statement.kind} {statement.name}", help=help)
        existing = self._known(statement.kind, objects, statement.name)
        if statement.kind != "sink":
            self._refuse_if_read(statement.kind, existing)
        if statement.kind == "stream":
            for sink in self.sinks_of(existing):
                raise CatalogError(
                    f"the sink {sink.name} reads the stream {existing}", help=f"DROP SINK {sink.name} first"
                )
        if statement.kind == "sink":
            self._refuse_if_routed(existing)
        self._remove(existing)
        return True

    def _refuse_if_read(self, kind: str, name: str) -> None:
        for reader in self.readers(name):
            own = "view" if reader in self.views else "stream"
            raise CatalogError(f"the {own} {reader} reads the {kind} {name}", help=f"DROP {own.upper()} {reader} first")
        for other in self.graph().values():
            if any(route.source == name for route in other.routes.values()):
                sender = owner_of(other.name)
                help = f"DROP STREAM {sender} first"
                raise CatalogError(f"the stream {sender} sends rows back to the source {name}", help=help)

    def _refuse_if_routed(self, sink: str) -> None:
        for stream in self.routers(sink):
            sender = owner_of(stream)
            raise CatalogError(
                f"the stream {sender} sends side output to the sink {sink}", help=f"DROP STREAM {sender} first"
            )

    def routers(self, sink: str) -> Iterator[str]:
        """The streams, named and inner, that send side output to a sink."""
        for stream in self.graph().values():
            if any(route.sink == sink for route in stream.routes.values()):
                yield stream.name

    def sinks_of(self, stream: str) -> list[Sink]:
        """The sinks that take a stream's rows or its late rows."""
        return [
            sink
            for sink in self.sinks.values()
            if sink.stream is not None and self.resolve_readable(sink.stream)[0] == stream
        ]

    def readers(self, name: str) -> Iterator[str]:
        """The streams and views that read a source, a stream, its late rows, a table or a view."""
        names = {name.lower(), *(late.lower() for late, stream in self.late_names.items() if owner_of(stream) == name)}
        for reader, mentions in self._mentions.items():
            if reader != name and mentions & names:
                yield reader

    def reads(self, stream: str) -> list[str]:
        """The streams that a stream reads."""
        read = [source.options[STREAM] for source in sources_of(self.graph()[stream].query) if is_stream(source)]
        return list(dict.fromkeys(read))

    def with_readers(self, streams: Iterable[str]) -> list[str]:
        """Streams and all that read them, directly or not, each after what it reads."""
        found = set(streams)
        by_level = sorted(self.graph(), key=self.level)
        for name in by_level:
            if found.intersection(self.reads(name)):
                found.add(name)
        return [name for name in by_level if name in found]

    def _remove(self, name: str) -> None:
        named = (self.sources, self.streams, self.sinks, self.tables, self.views)
        for objects in (*named, self._texts, self._mentions):
            found = _find(objects, name)
            if found is not None:
                objects.pop(found)
        for part in [part for part in self.inner if owner_of(part).lower() == name.lower()]:
            self.inner.pop(part)

    def _objects(self, kind: str) -> Mapping[str, Definition]:
        objects: dict[str, Mapping[str, Definition]] = {
            "source": self.sources,
            "stream": self.streams,
            "sink": self.sinks,
            "table": self.tables,
            "view": self.views,
        }
        return objects[kind]

    def _known(self, kind: str, objects: Iterable[str], name: str) -> str:
        found = _find(objects, name)
        if found is None:
            raise CatalogError(f"there is no {kind} {name}", help=suggest(name, objects))
        return found


def _reads_from_outside(stream: Stream) -> bool:
    """Whether a stream reads anything but inner streams of its own statement."""
    own = owner_of(stream.name)
    return any(
        owner_of(source.options.get(STREAM, "")) != own or not is_stream(source) for source in sources_of(stream.query)
    )


def _find(names: Iterable[str], name: str) -> str | None:
    return next((known for known in names if known.lower() == name.lower()), None)


def _kind(statement: Create) -> str:
    match statement:
        case CreateSource():
            return "source"
        case CreateStream():
            return "stream"
        case CreateSink():
            return "sink"
        case CreateTable():
            return "table"
        case CreateView():
            return "view"


def _made(statement: CreateSource | CreateSink | CreateTable) -> Source | Sink | Table:
    match statement:
        case CreateSource():
            return lower_source(statement)
        case CreateSink():
            return lower_sink(statement)
        case CreateTable():
            return lower_table(statement)


def _declared(statement: CreateSource | CreateSink | CreateTable) -> Reads | Writes | LooksUp:
    match statement:
        case CreateSource():
            return SOURCES[statement.connector]
        case CreateSink():
            return SINKS[statement.connector]
        case CreateTable():
            return TABLES[statement.connector]
