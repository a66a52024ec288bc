"""Another number of shards for the streams of a checkpoint.

State is not cut into other pieces: the streams begin anew from their sources with the new number, beside the old ones,
and take their place when they have caught up. So it works for every kind of state, up and down, and it is checked by
counting: unless the new streams have taken in all the rows that the old ones had, everything stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from eventide.errors import CheckpointError, OptionError
from eventide.migration import Migrated, migrate
from eventide.plan.names import owner_of
from eventide.sql.catalog import Catalog
from eventide.storage.atomic import read_json
from eventide.storage.layout import Layout

if TYPE_CHECKING:
    from eventide.database import Database


def rescale(
    layout: Layout,
    catalog: Catalog,
    shards: int,
    connect: Callable[[int | None], Database],
    partial: bool,
) -> list[Migrated]:
    """Give all streams of a checkpoint so many shards. `connect` opens the database with a number of shards.

    With `partial` streams begin even if their sources no longer have all rows. Raises CheckpointError, with everything
    as it was, if they have not, or OptionError if a stream's text asks for another number.
    """
    streams = streams_to_rescale(layout, catalog, shards)
    if not streams:
        return []
    sql = "".join(f"{text};\n" for text in catalog.texts())
    done = migrate(layout, sql, streams, lambda: connect(shards), partial, connect_before=lambda: connect(None))
    for name in streams:
        found = shards_of(layout, name)
        if found != shards:
            raise CheckpointError(f"stream {name} has {found} shards, and {shards} were asked for")
    return done


def streams_to_rescale(layout: Layout, catalog: Catalog, shards: int) -> list[str]:
    """Those with another number, and those that read them: the batches that they read are numbered anew."""
    for name, stream in catalog.streams.items():
        if stream.options.shards not in (None, shards):
            raise OptionError(
                f"the text of stream {name} asks for {stream.options.shards} shards",
                help=f"change its option 'shards' to '{shards}' in the file, or take it out, then: eventide migrate",
            )
    parts = {part.name for name in catalog.streams for part in catalog.parts(name)}
    others = [part for part in sorted(parts) if shards_of(layout, part) not in (None, shards)]
    owners = {owner_of(reader) for reader in catalog.with_readers(others)}
    return [name for name in catalog.streams if name in owners]


def shards_of(layout: Layout, stream: str) -> int | None:
    """None for a stream that has not been opened yet."""
    kept = read_json(layout.plan(stream))
    return None if kept is None else int(kept["shards"])
