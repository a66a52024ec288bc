"""What a stream is made of besides its query: what waits for it, what may be shed, where its side output goes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from eventide.admission.pacing import AdaptiveBatcher, pacing_of
from eventide.admission.shed_log import ShedLog
from eventide.admission.shedding import Shedding
from eventide.connectors.files.listing import Listing
from eventide.connectors.files.waiting import TAKEN, FilesWaiting
from eventide.connectors.readers import with_secrets
from eventide.connectors.registry import reads
from eventide.connectors.writers import open_sink
from eventide.errors import OptionError
from eventide.eventtime.durations import SECOND
from eventide.eventtime.heartbeat import SourceTiming
from eventide.eventtime.lanes import LaneSilence
from eventide.plan import logical
from eventide.plan.pace import pace_with_load
from eventide.plan.physical import Physical, ProcessTimeWatermark
from eventide.plan.reads import tables_of
from eventide.plan.shedding import whole_span
from eventide.plan.side_output import Route
from eventide.spark.backlog import Backlog
from eventide.spark.side_channel import Channel
from eventide.spark.side_output import SideOutput
from eventide.spark.stream_output import StreamOutput
from eventide.spark.tables import StreamTables, TableReader
from eventide.storage.inbox import Inbox
from eventide.storage.layout import Layout
from eventide.storage.outbox import Outbox
from eventide.storage.payloads import JSON_FIELDS
from eventide.storage.results import Results
from eventide.storage.spool import Spool
from eventide.storage.tables import VersionLog

EMBEDDED = "embedded"  # the connector of rows that are written by this process
Sources = Mapping[str, logical.Source]


def sources_by_name(physical: Physical) -> dict[str, logical.Source]:
    """The sources that a stream reads, each once, however many inputs read it."""
    return {input.source.name: input.source for input in physical.inputs}


def backlog(layout: Layout, physical: Physical, upstreams: Mapping[str, StreamOutput]) -> Backlog:
    """What waits for the stream: in the spools of its sources, in the streams that it reads, in folders."""
    sources = sources_by_name(physical)
    spools = {name: Spool(layout.source(name)) for name in sources if name not in upstreams}
    folders = [
        _files_waiting(layout, physical.stream.name, number, with_secrets(input.source))
        for number, input in enumerate(physical.inputs)
        if input.source.connector == "files" and any(map(_is_load_measured, sources.values()))
    ]
    paces = [pace for each in sources.values() if each.connector == EMBEDDED and (pace := pace_with_load(each))]
    sheds = any(source.admission is not None and source.admission.sheds for source in sources.values())
    batcher = AdaptiveBatcher(pacing_of(min(paces) / SECOND, sheds)) if paces else None
    inbox = Inbox(layout.inbox(physical.stream.name))
    return Backlog(inbox, spools, upstreams, [folder for folder in folders if folder is not None], batcher)


def _files_waiting(layout: Layout, stream: str, number: int, source: logical.Source) -> FilesWaiting | None:
    """None where only Spark can list the folder."""
    try:
        listing = Listing(source.options["path"])
    except OptionError:
        return None
    return FilesWaiting(listing.new_files, layout.scans(stream) / str(number) / TAKEN)


def shedding(layout: Layout, stream: logical.Stream, sources: Sources) -> Shedding | None:
    specs = {
        name: source.admission for name, source in sources.items() if source.admission and _is_load_measured(source)
    }
    span = whole_span(stream.query)
    kept = None if span is None else span.size + stream.emit.allowed_lateness
    return Shedding(specs, ShedLog(layout.shed_orders(stream.name)), kept) if specs else None


def _is_load_measured(source: logical.Source) -> bool:
    return source.admission is not None and source.admission.is_load_measured


def stream_tables(layout: Layout, stream: logical.Stream, reader: TableReader) -> StreamTables | None:
    """The tables that the stream looks rows up in."""
    tables = tables_of(stream.query)
    log, offsets = VersionLog(layout.table_log(stream.name)), layout.spark(stream.name) / "offsets"
    return StreamTables(tables, reader, log, offsets) if tables else None


def side_output(
    layout: Layout, stream: logical.Stream, sinks: Mapping[str, logical.Sink], results: Results, identity: str
) -> SideOutput:
    """Where payloads go; `sinks` are those by name that they may go to."""
    by_sink: dict[str, dict[str, Route]] = {}
    for kind, route in stream.routes.items():
        if route.names_sink:
            by_sink.setdefault(route.sink, {})[kind] = route
    channels = [
        Channel(
            f"{name} of {stream.name}",
            routes,
            partial(open_sink, sinks[name], identity, JSON_FIELDS),
            results,
            layout.side(stream.name) / f"{name}.json",
        )
        for name, routes in by_sink.items()
    ]
    goes_back = any(route.source is not None for route in stream.routes.values())
    return SideOutput(stream.routes, channels, Outbox(layout.reinject(stream.name), stream.name) if goes_back else None)


def lanes(sources: Sources) -> dict[str, LaneSilence]:
    """Of each source with partitions, when each of them was heard last."""
    return {
        name: LaneSilence(source.idle_timeout)
        for name, source in sources.items()
        if reads(source.connector).has_partitions
    }


def check_sources(physical: Physical) -> None:
    for input in physical.inputs:
        reads(input.source.connector).ready(with_secrets(input.source))


def timings(physical: Physical) -> list[SourceTiming]:
    by_name = {input.source.name: input for input in physical.inputs}
    return [
        SourceTiming(name, input.source.idle_timeout, isinstance(input.watermark, ProcessTimeWatermark))
        for name, input in by_name.items()
    ]
