"""Another number of shards for the streams of a checkpoint.

Where the kernels can cut their state by key it is moved (`spark.moved_state`), counted, and the streams go on with
their next batch. Where one of them cannot, all begin anew from their sources with the new number, beside the old ones,
and take their place when they have caught up (`migration`): unless they have then taken in all the rows that the old
ones had, everything stays as it was.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from eventide.errors import CheckpointError, EventideError, OptionError
from eventide.migration import Migrated, migrate
from eventide.plan.names import owner_of
from eventide.sql.catalog import Catalog
from eventide.storage.atomic import read_json, write_json
from eventide.storage.layout import Layout
from eventide.storage.paths import remove_tree
from eventide.storage.texts import is_pending, next_batch

if TYPE_CHECKING:
    from eventide.database import Database
    from eventide.tasks.cutting import Cutting

_LOG = logging.getLogger("eventide")


def rescale(
    layout: Layout,
    catalog: Catalog,
    shards: int,
    connect: Callable[[int | None], Database],
    partial: bool,
) -> list[Migrated]:
    """Give all streams of a checkpoint so many shards. `connect` opens the database with a number of shards.

    With `partial` streams that must begin anew do so even if their sources no longer have all rows. Raises
    CheckpointError, with everything as it was, if they have not, or OptionError if a stream's text asks for another
    number.
    """
    streams = streams_to_rescale(layout, catalog, shards)
    if not streams:
        return []
    done = _moved(layout, catalog, shards, connect)
    if done is None:
        sql = "".join(f"{text};\n" for text in catalog.texts())
        done = migrate(layout, sql, streams, lambda: connect(shards), partial, connect_before=lambda: connect(None))
    for name in streams:
        found = shards_of(layout, name)
        if found != shards:
            raise CheckpointError(f"stream {name} has {found} shards, and {shards} were asked for")
    return done


def streams_to_rescale(layout: Layout, catalog: Catalog, shards: int) -> list[str]:
    """Those with another number, and those that read them: where they begin anew, the batches that they read are
    numbered anew.
    """
    for name, stream in catalog.streams.items():
        if stream.options.shards not in (None, shards):
            raise OptionError(
                f"the text of stream {name} asks for {stream.options.shards} shards",
                help=f"change its option 'shards' to '{shards}' in the file, or take it out, then: eventide migrate",
            )
    owners = {owner_of(reader) for reader in catalog.with_readers(_parts_with_others(layout, catalog, shards))}
    return [name for name in catalog.streams if name in owners]


def shards_of(layout: Layout, stream: str) -> int | None:
    """None for a stream that has not been opened yet."""
    kept = read_json(layout.plan(stream))
    return None if kept is None else int(kept["shards"])


def _parts_with_others(layout: Layout, catalog: Catalog, shards: int) -> list[str]:
    """The streams and inner streams that have another number of shards."""
    parts = {part.name for name in catalog.streams for part in catalog.parts(name)}
    return [part for part in sorted(parts) if shards_of(layout, part) not in (None, shards)]


def _moved(
    layout: Layout, catalog: Catalog, shards: int, connect: Callable[[int | None], Database]
) -> list[Migrated] | None:
    """Move the state of all streams with another number; None if that of one cannot be."""
    parts = _parts_with_others(layout, catalog, shards)
    with connect(None) as db:
        cuttings = {part: db.cutting(part, shards) for part in parts}
        stuck = {part: reason for part, reason in cuttings.items() if isinstance(reason, str)}
        if stuck:
            told = "; ".join(f"{part}: {reason}" for part, reason in stuck.items())
            _LOG.warning("streams begin anew from their sources, since state cannot be moved: %s", told)
            return None
        try:
            db.tick()
        except EventideError as error:  # it may be why it is to begin anew
            _LOG.warning("streams begin anew from their sources, since they cannot take in what has come: %s", error)
            return None
        db.stop(graceful=False)
        moved: Counter[str] = Counter()
        for part, cutting in cuttings.items():
            if not isinstance(cutting, str):
                moved[owner_of(part)] += _move(layout, db, part, cutting)
        rows = {name: db.accounting(name)["rows_in"] for name in moved}
        return [Migrated(name, rows[name], rows[name], 0, moved[name]) for name in catalog.streams if name in moved]


def _move(layout: Layout, db: Database, part: str, cutting: Cutting) -> int:
    """How many rows of state have moved."""
    from eventide.spark.moved_state import Moved, move

    kept, checkpoint, folder = read_json(layout.plan(part)), layout.spark(part), layout.moved(part)
    if is_pending(checkpoint):
        raise CheckpointError(f"the last batch of stream {part} has not ended", help="run the stream once more")
    if next_batch(checkpoint) == 0:
        write_json(layout.plan(part), {**kept, "shards": cutting.shards})
        return 0
    moved, rows = move(db.spark, checkpoint, cutting, Moved.told(kept.get("moved"), folder), folder)
    write_json(layout.plan(part), {**kept, "shards": cutting.shards, "moved": moved.to_json()})
    for left_behind in folder.glob("[0-9]*"):
        if left_behind.name != moved.folder.name:
            remove_tree(left_behind)
    return rows
