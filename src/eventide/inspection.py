"""What can be asked of a database: the rows of its streams, their plans, what they are, why they wait."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eventide.diagnose.answers import answer
from eventide.diagnose.describe import describe_columns, describe_object, with_connector
from eventide.diagnose.observe import metrics_of
from eventide.diagnose.why import Seen
from eventide.plan.explain import Known, explain
from eventide.plan.logical import Sink, Source, Stream, Table
from eventide.plan.planner import plan
from eventide.result import Result
from eventide.sql import statements as st
from eventide.sql.catalog import Catalog
from eventide.storage.layout import Layout
from eventide.storage.passed_over import scan_figures
from eventide.storage.payloads import PAYLOAD_SCHEMA, late_rows, late_schema
from eventide.storage.replays import Replays, replay_totals
from eventide.streams import Streams

if TYPE_CHECKING:
    from eventide.spark.engine import Engine


class Inspection:
    """Answers that change nothing. Calls are made with the database's lock held."""

    def __init__(self, catalog: Catalog, layout: Layout, engine: Engine, streams: Streams) -> None:
        self._catalog = catalog
        self._layout = layout
        self._engine = engine
        self._streams = streams

    def rows(self, name: str) -> pa.Table:
        """All rows of a stream so far, corrections of replays last, or its late rows, or those of a table."""
        if name in self._catalog.tables:
            return self._engine.tables.rows(self._catalog.tables[name])
        stream, is_late = self._catalog.resolve_readable(name)
        running = self._streams.open(stream)
        if is_late:
            return late_rows(self.payloads(stream), running.compiled.originals)
        given = running.router.results.read("main", running.compiled.outputs)
        folder = self._layout.replay(stream)
        if not folder.exists():
            return given
        return pa.concat_tables([given, Replays(folder).read(running.compiled.outputs)])

    def payloads(self, stream: str) -> pa.Table:
        """The payloads of all rows that a stream did not use."""
        return self._streams.open(self._catalog.stream(stream).name).router.results.read("side", PAYLOAD_SCHEMA)

    def select(self, statement: st.Select) -> pa.Table:
        """What Spark gives for a query over the rows of streams so far."""
        return self._engine.select(statement.spark_sql, {name: self.rows(name) for name in statement.tables})

    def describe(self, name: str, is_extended: bool = False) -> Result:
        """The columns of whatever has this name; `is_extended`: with its connector and that one's options."""
        columns = self._columns(name)
        if not is_extended or name in self._catalog.late_names:
            return columns
        definition = self._catalog.definition(name)
        return with_connector(columns, definition) if isinstance(definition, Source | Sink | Table) else columns

    def _columns(self, name: str) -> Result:
        if name in self._catalog.late_names:
            late = self._streams.open(self._catalog.late_names[name])
            return describe_object(late_schema(late.compiled.originals))
        definition = self._catalog.definition(name)
        if isinstance(definition, Source | Table):
            return describe_object(definition)
        if isinstance(definition, st.CreateView):
            return describe_columns(self._catalog.lower_view(definition)[-1].query.outputs)
        reads = definition.stream if isinstance(definition, Sink) else definition.name
        if reads is None:
            return describe_object(PAYLOAD_SCHEMA)
        return describe_object(self._streams.open(self._catalog.resolve_readable(reads)[0]).compiled.outputs)

    def explain(self, statement: st.Explain) -> str:
        """The plan of a query, a view or a stream, as a tree."""
        if statement.stream is not None:
            *inner, stream = self._catalog.lower(statement.stream)
        elif statement.name in self._catalog.views:
            *inner, stream = self._catalog.lower_view(self._catalog.views[statement.name])
        else:
            return self.explain_stream(statement.name or "")
        return self._explained(stream, {each.name: each for each in inner})

    def explain_stream(self, stream: str) -> str:
        """The plan of a stream as a tree, with the streams that it reads below the inputs that read them."""
        return self._explained(self._catalog.stream(stream), {})

    def why(self, stream: str) -> str:
        """In words: what a stream is waiting for."""
        now = time.time_ns() // 1000
        seen = self._seen(stream, now)
        running = self._streams.open(seen.stream.name)
        failure = running.failed()
        lines = answer(
            seen,
            now,
            lambda name: self._seen(name, now),
            running.table_figures(),
            {**running.router.side.metrics(), **scan_figures(self._layout.scans(seen.stream.name))},
            None if failure is None else failure.message,
        )
        return "\n".join(lines)

    def metrics(self) -> dict[str, Any]:
        """The figures of every stream, by name."""
        return {
            name: {
                **metrics_of(self._streams.open(name)),
                **scan_figures(self._layout.scans(name)),
                **replay_totals(self._layout.replay(name)),
            }
            for name in self._catalog.graph()
        }

    def _explained(self, stream: Stream, inner: Mapping[str, Stream]) -> str:
        """The plan of a stream, and of the streams that it reads; `inner` are those that the catalog does not have."""
        known = Known(
            lambda name: plan(inner[name] if name in inner else self._catalog.stream(name)), self._engine.fused
        )
        return explain(plan(stream), known=known)

    def _seen(self, stream: str, now: int) -> Seen:
        definition = self._catalog.stream(stream)
        running = self._streams.open(definition.name)
        account, idle = running.router.results.latest(), running.idle(now)
        return Seen(definition, account, running.watermark(), idle, running.idle_lanes(now))
