"""What cannot go on from its state begins anew from its sources, beside the old one, and takes its place when it has
caught up.

First the old streams take in what is there, so that sinks have all that these can give. Then they are kept aside in the
checkpoint until the new ones have caught up: if anything fails, or the process dies, they are put back. See `handover`
for what follows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eventide.changing import changes_between, fused_in
from eventide.errors import CheckpointError, EventideError
from eventide.handover import HANDOVERS, gives_at_once, hand_over, rows_since, switch, written_down
from eventide.plan.changes import lateness, refused
from eventide.plan.names import owner_of
from eventide.sql import statements as st
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from eventide.storage.atomic import read_json, write_json
from eventide.storage.layout import Layout, hold
from eventide.storage.paths import AnyPath, put_back, remove_tree, set_aside
from eventide.storage.results import Results

if TYPE_CHECKING:
    import pyarrow as pa

    from eventide.database import Database

_LOG = logging.getLogger("eventide")
_UNDER_WAY: set[AnyPath] = set()  # checkpoints that this process migrates


@dataclass(frozen=True)
class Migrated:
    """What became of a stream: how many rows the old one and the new one took in, and how many rows sinks got; or, if
    its state was moved, how many entries that had: rows, or blobs where it moved as a whole.
    """

    stream: str
    rows_before: int
    rows: int
    handed_over: int
    moved: int | None = None


def stuck_streams(layout: Layout, old: Catalog, new: Catalog) -> list[str]:
    """The streams that cannot go on under the new catalog, and those that read them."""
    changes = changes_between(old, new, fused_in(layout, old))
    stuck = [change.stream for change in changes if refused(change.differences)]
    readers = old.with_readers(part.name for name in stuck for part in old.parts(name))
    return [name for name in old.streams if name in {owner_of(reader) for reader in readers} and name in new.streams]


def migrate(
    layout: Layout,
    sql: str,
    streams: Sequence[str],
    connect: Callable[[], Database],
    partial: bool,
    connect_before: Callable[[], Database] | None = None,
) -> list[Migrated]:
    """Run the statements of `sql` with `streams` begun anew. `partial`: even if the sources no longer have all rows.
    `connect_before`, if it is not `connect`, opens the database for the old streams.

    Raises CheckpointError, with everything as it was, if they have not.
    """
    _take_in_what_is_there(connect_before or connect)
    lock = hold(layout)
    _UNDER_WAY.add(layout.root)
    try:
        try:
            before = _set_aside(layout, streams)
        finally:
            lock.release()
        with connect() as db:
            done = _catch_up(db, sql, before, partial)
            _attach(db, sql, streams)
            rows = {one.stream: _not_given(db, layout, before[one.stream], one) for one in done}
            kept = [written_down(layout, db.catalog, name, rows[name]) for name in streams]
            switch(layout, [handover for handover in kept if handover is not None])
            hand_over(layout, db.catalog)
            given = {handover.stream for handover in kept if handover is not None}
        return [replace(one, handed_over=rows[one.stream].num_rows if one.stream in given else 0) for one in done]
    finally:
        _UNDER_WAY.discard(layout.root)
        undo_unfinished(layout)


def _take_in_what_is_there(connect: Callable[[], Database]) -> None:
    """What has come so far is the old streams', with their sinks and side outputs. One that can no longer run is no
    hindrance: it may be why it is to begin anew.
    """
    try:
        with connect() as db:
            db.tick()
    except EventideError as error:
        _LOG.warning("the old streams cannot take in what has come since they stopped: %s", error)


@dataclass(frozen=True)
class _Before:
    """How far the old stream has come."""

    stream: str
    rows: int
    passed: int | None  # what ended by then, it has given
    gave_at_once: bool  # whatever it has taken in, it has given

    @classmethod
    def of(cls, layout: Layout, catalog: Catalog, name: str) -> _Before:
        folder = layout.results(name)
        account = Results(folder).latest() if folder.exists() else None
        stream = catalog.streams[name]
        if account is None:
            return cls(name, 0, None, gives_at_once(stream))
        mark = account.watermark
        passed = None if mark is None else mark - lateness(stream)
        return cls(name, account.totals.get("rows_in", 0), passed, gives_at_once(stream))


def _catch_up(db: Database, sql: str, before: dict[str, _Before], partial: bool) -> list[Migrated]:
    """All statements but the sinks of the streams that begin anew; then everything that is there is processed. Their
    side output goes nowhere yet: the old streams have sent it.
    """
    db.mute(before)
    for statement in parse_statements(sql):
        if not (isinstance(statement, st.CreateSink) and _owner(statement) in before):
            db.execute(statement.text)
    db.tick()
    done = [Migrated(name, kept.rows, db.accounting(name)["rows_in"], 0) for name, kept in before.items()]
    for one in done:
        if one.rows < one.rows_before and not partial:
            raise CheckpointError(
                f"the sources of {one.stream} still have {one.rows:,} of the {one.rows_before:,} rows that it took in",
                help="--partial begins with what they have; its first windows may lack rows. Nothing has changed",
            )
    return done


def _attach(db: Database, sql: str, streams: Sequence[str]) -> None:
    """Sinks take what comes from now on."""
    for statement in parse_statements(sql):
        if isinstance(statement, st.CreateSink) and _owner(statement) in streams:
            db.execute(statement.text)


def _not_given(db: Database, layout: Layout, before: _Before, done: Migrated) -> pa.Table:
    """The rows of the new stream that sinks have not got from the old one in its own form."""
    schema = db.read(before.stream).arrow().schema
    if before.gave_at_once and gives_at_once(db.catalog.streams[before.stream]) and done.rows == before.rows:
        return schema.empty_table()
    return rows_since(layout.results(before.stream), before.passed, schema)


def _owner(sink: st.CreateSink) -> str | None:
    return None if sink.stream is None else owner_of(sink.stream)


# The checkpoint meanwhile -----------------------------------------------------------------------------------------


def _set_aside(layout: Layout, streams: Sequence[str]) -> dict[str, _Before]:
    """Make room for streams that begin anew; returns how far the old ones have come. The checkpoint must be locked."""
    undo_unfinished(layout, anyway=True)
    if layout.migration.exists():
        help = "open the checkpoint once, when the sinks work; then migrate again"
        raise CheckpointError("sinks have not got yet what an earlier migration left for them", help=help)
    for left_behind in (layout.before, layout.handover):
        remove_tree(left_behind)
    catalog = Catalog.from_texts(read_json(layout.catalog), allow_jvm_calls=True)
    before = {name: _Before.of(layout, catalog, name) for name in streams}
    folders = [part.name for name in streams for part in catalog.parts(name) if layout.stream(part.name).exists()]
    write_json(layout.migration, {"folders": folders, "catalog": catalog.texts()})
    layout.before.mkdir(parents=True)
    for name in folders:
        set_aside(layout.stream(name), layout.before / name)
    write_json(layout.catalog, _without(catalog, streams).texts())
    return before


def _without(catalog: Catalog, streams: Sequence[str]) -> Catalog:
    for sink in [sink.name for name in streams for sink in catalog.sinks_of(name)]:
        catalog = catalog.without(sink)
    for name in streams:
        catalog = catalog.without(name)
    return catalog


def undo_unfinished(layout: Layout, anyway: bool = False) -> None:
    """Put back what a migration had set aside that has not come to its switch; not one that is under way in this very
    process, unless `anyway`.
    """
    marker: dict[str, Any] | None = read_json(layout.migration)
    if marker is None or HANDOVERS in marker or (layout.root in _UNDER_WAY and not anyway):
        return
    for name in marker["folders"]:
        put_back(layout.before / name, layout.stream(name))
    write_json(layout.catalog, marker["catalog"])
    layout.migration.unlink()
    for folder in (layout.before, layout.handover):
        remove_tree(folder)
