"""`eventide rescale`: another number of shards for the streams of a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.text import Text

from eventide.cli.console import stdout

if TYPE_CHECKING:
    from eventide.cli.runner import Connection
    from eventide.database import Database
    from eventide.migration import Migrated


def rescale_checkpoint(connection: Connection, partial: bool) -> None:
    from eventide.cli.checkpoint import catalog_of, layout_of
    from eventide.errors import OptionError
    from eventide.rescaling import rescale, streams_to_rescale

    if connection.checkpoint is None or connection.shards is None:
        raise OptionError("rescale takes a checkpoint and a number of shards")
    console = stdout()
    layout = layout_of(connection.checkpoint)
    catalog, shards = catalog_of(layout), connection.shards
    streams = streams_to_rescale(layout, catalog, shards)
    if not streams:
        console.print(Text(f"every stream has {shards} shards already"))
        return
    console.print(Text(f"gets {shards} shards: {', '.join(streams)}", style="bold"))

    def connect(asked: int | None) -> Database:
        return replace(connection, shards=asked).open(console)

    for done in rescale(layout, catalog, shards, connect, partial):
        console.print(Text(f"{done.stream}: {_outcome(done)}"), soft_wrap=True)


def _outcome(done: Migrated) -> str:
    if done.moved is not None:
        return f"goes on; {done.moved:,} entries of state have moved"
    took = f"{done.rows:,} rows taken in ({done.rows_before:,} before)"
    return f"has begun anew from its sources; {took}, {done.handed_over:,} handed to its sinks"
