"""`eventide migrate`: begins anew, from its sources, what cannot go on from its state under a changed file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from eventide.cli.console import stdout

if TYPE_CHECKING:
    from eventide.cli.runner import Connection


def migrate_file(file: Path, connection: Connection, partial: bool) -> None:
    from eventide.cli.checkpoint import catalog_of, layout_of
    from eventide.cli.files import read_program
    from eventide.errors import OptionError
    from eventide.migration import migrate, stuck_streams

    console = stdout()
    program = read_program(file, connection.allow_jvm_calls, connection.checkpoint)
    connection = connection.over(program.settings)
    if connection.checkpoint is None:
        raise OptionError("there is no checkpoint to migrate", help="give the folder with --checkpoint DIR")
    layout = layout_of(connection.checkpoint)
    streams = stuck_streams(layout, catalog_of(layout), program.catalog)
    if not streams:
        console.print(Text(f"every stream of {file} can go on from its state: eventide run does that"))
        return
    console.print(Text(f"begins anew from its sources: {', '.join(streams)}", style="bold"))
    for done in migrate(layout, program.sql, streams, lambda: connection.open(console), partial):
        took = f"{done.rows:,} rows taken in ({done.rows_before:,} before)"
        console.print(Text(f"{done.stream}: {took}, {done.handed_over:,} handed to its sinks"), soft_wrap=True)
