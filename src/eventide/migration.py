"""What cannot go on from its state begins anew from its sources, beside the old one, and takes its place when it has
caught up.

Until then the old streams are kept aside in the checkpoint: if anything fails, or the process dies, they are put back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from eventide.changing import changes_between, fused_in
from eventide.errors import CheckpointError
from eventide.plan.changes import lateness, refused
from eventide.plan.logical import Sink
from eventide.plan.names import owner_of
from eventide.sql import statements as st
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from eventide.storage.atomic import read_json, write_json
from eventide.storage.layout import Layout, Lock
from eventide.storage.results import OUTPUT_TIME, Results, fitted, read_batch

if TYPE_CHECKING:
    from eventide.database import Database


@dataclass(frozen=True)
class Migrated:
    """What became of a stream: how many rows the old one and the new one took in, and how many rows sinks got."""

    stream: str
    rows_before: int
    rows: int
    handed_over: int


def stuck_streams(layout: Layout, old: Catalog, new: Catalog) -> list[str]:
    """The streams that cannot go on under the new catalog, and those that read them."""
    changes = changes_between(old, new, fused_in(layout, old))
    stuck = [change.stream for change in changes if refused(change.differences)]
    readers = old.with_readers(part.name for name in stuck for part in old.parts(name))
    return [name for name in old.streams if name in {owner_of(reader) for reader in readers} and name in new.streams]


def migrate(
    layout: Layout, sql: str, streams: Sequence[str], connect: Callable[[], Database], partial: bool
) -> list[Migrated]:
    """Run the statements of `sql` with `streams` begun anew. `partial`: even if the sources no longer have all rows.

    Raises CheckpointError, with everything as it was, if they have not.
    """
    old = Catalog.from_texts(read_json(layout.catalog), allow_jvm_calls=True)
    lock = Lock(layout.lock)
    try:
        undo_unfinished(layout, anyway=True)
        before = {name: _Before.of(layout, old, name) for name in streams}
        _set_aside(layout, old, streams)
    finally:
        lock.release()
    try:
        with connect() as db:
            done = _catch_up(db, sql, before, partial)
            sinks = _attach(db, sql, streams)
            _finish(layout)
            return [_handed_over(db, layout, before[one.stream], one, sinks) for one in done]
    except BaseException:
        undo_unfinished(layout, anyway=True)
        raise


@dataclass(frozen=True)
class _Before:
    """How far the old stream has come."""

    stream: str
    rows: int
    passed: int | None  # what ended by then, it has given

    @classmethod
    def of(cls, layout: Layout, catalog: Catalog, name: str) -> _Before:
        folder = layout.results(name)
        account = Results(folder).latest() if folder.exists() else None
        if account is None:
            return cls(name, 0, None)
        mark = account.watermark
        passed = None if mark is None else mark - lateness(catalog.streams[name])
        return cls(name, account.totals.get("rows_in", 0), passed)


def _catch_up(db: Database, sql: str, before: dict[str, _Before], partial: bool) -> list[Migrated]:
    """All statements but the sinks of the streams that begin anew; then everything that is there is processed."""
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


def _attach(db: Database, sql: str, streams: Sequence[str]) -> list[Sink]:
    """Sinks take what comes from now on."""
    for statement in parse_statements(sql):
        if isinstance(statement, st.CreateSink) and _owner(statement) in streams:
            db.execute(statement.text)
    return [sink for name in streams for sink in db.catalog.sinks_of(name) if sink.stream == name]


def _handed_over(db: Database, layout: Layout, before: _Before, done: Migrated, sinks: Sequence[Sink]) -> Migrated:
    """Give sinks the rows that the old stream had not given yet, as one batch: the last that the new one has had."""
    from eventide.connectors.writers import open_sink

    results = Results(layout.results(before.stream))
    latest = results.latest()
    own = [sink for sink in sinks if sink.stream == before.stream]
    if latest is None or not own:
        return done
    schema = db.read(before.stream).arrow().schema
    rows = _not_given(layout.results(before.stream), results.batches(), before.passed, schema)
    for sink in own:
        writer = open_sink(sink, read_json(layout.plan(before.stream))["identity"])
        if writer is not None and rows.num_rows:
            writer.write(latest.batch, rows)
            writer.close()
    return Migrated(done.stream, done.rows_before, done.rows, rows.num_rows)


def _not_given(folder: Path, batches: Sequence[int], passed: int | None, schema: pa.Schema) -> pa.Table:
    timed = schema.append(pa.field(OUTPUT_TIME, pa.int64()))
    found = [table for batch in batches for table in read_batch(folder, batch, "main")]
    rows = pa.concat_tables([timed.empty_table(), *(fitted(table, timed) for table in found)])
    if passed is not None:
        rows = rows.filter(pc.greater_equal(rows[OUTPUT_TIME], passed))
    return rows.drop_columns([OUTPUT_TIME])


def _owner(sink: st.CreateSink) -> str | None:
    return None if sink.stream is None else owner_of(sink.stream)


# The checkpoint meanwhile -----------------------------------------------------------------------------------------


def _set_aside(layout: Layout, catalog: Catalog, streams: Sequence[str]) -> None:
    folders = [part.name for name in streams for part in catalog.parts(name) if layout.stream(part.name).exists()]
    marker = {"process": os.getpid(), "folders": folders, "catalog": catalog.texts()}
    write_json(layout.migration, marker)
    layout.before.mkdir(parents=True, exist_ok=True)
    for name in folders:
        layout.stream(name).rename(layout.before / name)
    rest = catalog
    for sink in [sink.name for name in streams for sink in catalog.sinks_of(name)]:
        rest = rest.without(sink)
    for name in streams:
        rest = rest.without(name)
    write_json(layout.catalog, rest.texts())


def _finish(layout: Layout) -> None:
    """From here on the new streams are those of the checkpoint."""
    layout.migration.unlink()
    shutil.rmtree(layout.before, ignore_errors=True)


def undo_unfinished(layout: Layout, anyway: bool = False) -> None:
    """Put back what a migration had set aside that has not come to its end; not one of this very process, which is
    under way, unless `anyway`.
    """
    marker: dict[str, Any] | None = read_json(layout.migration)
    if marker is None or (marker["process"] == os.getpid() and not anyway):
        return
    for name in marker["folders"]:
        aside = layout.before / name
        if aside.exists():
            shutil.rmtree(layout.stream(name), ignore_errors=True)
            aside.rename(layout.stream(name))
    write_json(layout.catalog, marker["catalog"])
    layout.migration.unlink()
    shutil.rmtree(layout.before, ignore_errors=True)
