"""CREATE, ALTER and DROP: what they change in the catalog, in the checkpoint and in the streams that run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from eventide.changing import Switch
from eventide.connectors.registry import SINKS
from eventide.errors import CatalogError, EventideError, located
from eventide.plan.logical import Sink
from eventide.sql import statements as st
from eventide.sql.catalog import Catalog
from eventide.storage.atomic import read_json, write_json
from eventide.storage.layout import Layout
from eventide.storage.paths import remove_tree
from eventide.storage.spool import Spools
from eventide.streams import Streams

if TYPE_CHECKING:
    from eventide.spark.engine import Engine


def kept_catalog(layout: Layout, allow_jvm_calls: bool) -> Catalog:
    """The catalog that a checkpoint holds; an empty one for a new checkpoint."""
    return Catalog.from_texts(read_json(layout.catalog) or [], allow_jvm_calls)


class Definitions:
    """Everything that a database defines. A statement that fails changes nothing."""

    def __init__(self, catalog: Catalog, layout: Layout, engine: Engine, spools: Spools, streams: Streams) -> None:
        self._catalog = catalog
        self._layout = layout
        self._engine = engine
        self._spools = spools
        self._streams = streams
        self._restored = set(catalog.names)

    def create(self, statement: st.Create) -> list[str]:
        """Do what a CREATE says; returns what was done. What is in the checkpoint already goes on where it can."""
        if isinstance(statement, st.CreateSource):
            statement = self._catalog.with_columns(statement)
        name = self._kept_name(statement.name)
        if self._keeps(statement, name):
            different = self._go_on(statement, name)
            self._restored.discard(name)
            return different or [f"{name} continues from its checkpoint"]
        before = self._catalog.copy()
        self._catalog.apply(statement)
        try:
            self._realise(statement, name, before)
        except BaseException:
            self._catalog.become(before)
            raise
        self._restored.discard(name)
        self._save()
        return [f"{name} created"]

    def alter(self, statement: st.Alter) -> list[str]:
        """Do what an ALTER says; returns what differs now."""
        new = self._catalog.copy()
        new.apply(statement)
        return self._change(new) or [f"{statement.name} is as it was"]

    def drop(self, statement: st.Drop) -> str:
        """Do what a DROP says; returns what was done."""
        before = self._catalog.copy()
        if not self._catalog.apply(statement):
            return f"{statement.name} did not exist"
        name = before.definition(statement.name).name
        if statement.kind == "stream":
            self._remove_stream(name)
        elif statement.kind in ("source", "table"):
            self._remove_input(name)
        elif statement.kind == "sink":
            self._reopen(_read_by(before.sinks[name], before))
        self._restored.discard(name)
        self._save()
        return f"{name} dropped"

    def _kept_name(self, name: str) -> str:
        """A restored object's name as spelled in the checkpoint, whatever the case it is written in now."""
        return next((kept for kept in self._restored if kept.lower() == name.lower()), name)

    def _realise(self, statement: st.Create, name: str, before: Catalog) -> None:
        if isinstance(statement, st.CreateSource | st.CreateTable):
            if statement.or_replace:
                self._remove_input(name)
        elif isinstance(statement, st.CreateStream):
            if statement.or_replace and name in before.streams:
                self._remove_stream(name)
            elif name in before.streams:
                return
            try:
                opened = [self._streams.open(part.name) for part in self._catalog.parts(name)]
            except EventideError as error:
                self._remove_stream(name)
                raise located(error, statement.text) from None
            for running in opened:
                self._streams.join(running)
        elif isinstance(statement, st.CreateSink):
            self._realise_sink(self._catalog.sinks[name], before)

    def _realise_sink(self, sink: Sink, before: Catalog) -> None:
        if sink.name in before.sinks:
            if sink != before.sinks[sink.name]:
                self._reopen([*self._catalog.routers(sink.name), *_read_by(sink, self._catalog)])
            return
        for name in _read_by(sink, self._catalog):
            self._streams.open(name)
            self._engine.attach(self._catalog.stream(name), sink)

    def _reopen(self, streams: list[str]) -> None:
        """Reopen streams, and those that read them, with what the catalog says now."""
        reopened = self._catalog.with_readers(streams)
        for name in reversed(reopened):
            self._engine.forget(name)
        for name in reopened if self._streams.is_live else ():
            self._streams.join(self._streams.open(name))

    def _keeps(self, statement: st.Create, name: str) -> bool:
        """Whether what is there goes on: a script that is run again on its checkpoint, or KEEP STATE."""
        if isinstance(statement, st.CreateStream | st.CreateSource) and statement.keep_state:
            known = self._catalog.streams if isinstance(statement, st.CreateStream) else self._catalog.sources
            return any(each.lower() == name.lower() for each in known)
        return name in self._restored and not statement.or_replace and not statement.if_not_exists

    def _go_on(self, statement: st.Create, name: str) -> list[str]:
        """Let what is there go on as the statement says; returns what is different now."""
        if statement.text == self._catalog.text(name):
            return []
        new = self._catalog.redefined(name, statement.text)
        if isinstance(statement, st.CreateTable):
            if self._continue_table(name, new):
                return []
            help = f"use CREATE OR REPLACE for {name}, or another checkpoint folder"
            raise CatalogError(f"{name} is in this checkpoint with another definition", help=help)
        if not isinstance(statement, st.CreateSink):
            return self._change(new)
        before = self._catalog.copy()
        self._catalog.become(new)
        kept = self._kept_name(name)
        self._realise_sink(new.sinks[kept], before)
        self._save()
        return _other_places(before.sinks[kept], new.sinks[kept])

    def _change(self, new: Catalog) -> list[str]:
        """Let all streams go on under another catalog, or raise why they cannot; returns what differs."""
        switch = Switch.between(self._catalog.copy(), new, self._layout)
        for name in switch.changed:
            self._streams.open(name)
        self._catalog.become(new)
        try:
            switch.carry_out(self._engine, self._streams.open)
        except BaseException:
            switch.undo(self._engine)
            self._catalog.become(switch.old)
            raise
        self._save()
        for name in switch.reopened:
            self._streams.join(self._streams.open(name))
        return switch.lines()

    def _continue_table(self, name: str, given: Catalog) -> bool:
        """Whether a table is what it was. How often it is read may change, and then does."""
        kept, new = self._catalog.tables[name], given.table(name)
        if replace(kept, refresh=new.refresh) != new:
            return False
        if kept != new:
            self._catalog.become(given)
            self._save()
        return True

    def _remove_input(self, name: str) -> None:
        """Forget what was written to a source, or read of a table."""
        for folder in (self._layout.source(name), self._layout.tables / name):
            remove_tree(folder)
        self._spools.forget(name)

    def _remove_stream(self, name: str) -> None:
        """Forget a stream and its inner streams, those of an earlier definition too, with all that they have kept."""
        for folder in [self._layout.stream(name), *self._layout.inner_streams(name)]:
            self._engine.forget(folder.name)
            remove_tree(folder)

    def _save(self) -> None:
        write_json(self._layout.catalog, self._catalog.texts())


def _other_places(old: Sink, new: Sink) -> list[str]:
    """What of a sink says now that rows go elsewhere; those that it has got stay where they are."""
    if old.connector != new.connector:
        return [f"{new.name}: connector {old.connector} → {new.connector}; earlier rows stay where they are"]
    return [
        f"{new.name}: {option} {old.options.get(option)} → {new.options.get(option)}; earlier rows stay where they are"
        for option in SINKS[new.connector].identifying
        if old.options.get(option) != new.options.get(option)
    ]


def _read_by(sink: Sink, catalog: Catalog) -> list[str]:
    """The stream whose rows a sink gets, unless the sink is for side output."""
    return [] if sink.stream is None else [catalog.resolve_readable(sink.stream)[0]]
