"""`eventide sql`: statements end with a semicolon, commands begin with a backslash, an error leaves you where you
are.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eventide.cli.console import accounting_line, payload_grid, plan_line, print_error, print_rows
from eventide.cli.files import read_text
from eventide.cli.progress import progress_table
from eventide.cli.statement_text import is_blank, split_statements
from eventide.errors import EventideError, OptionError, suggest

if TYPE_CHECKING:
    from eventide.database import Database

ROWS_SHOWN = 100
PROSE = (["status"], ["plan"])  # the columns that CREATE, DROP and EXPLAIN return: printed as lines, not as a table
SHOW = ("SHOW SOURCES", "SHOW STREAMS", "SHOW SINKS")


class Quit(Exception):
    """The user wants to leave."""


@dataclass(frozen=True)
class Command:
    usage: str
    help: str
    run: Callable[[str], None]


class Shell:
    """Runs lines from a terminal or a pipe and prints the results. `failures` counts the errors."""

    def __init__(self, db: Database, console: Console, errors: Console) -> None:
        self._db = db
        self._console = console
        self._errors = errors
        self._pending = ""
        self._timing = False
        self.failures = 0
        self.commands = {command.usage.split()[0]: command for command in self._all_commands()}

    def feed(self, text: str) -> None:
        """Run every statement that `text` completes; an unfinished one waits for more. Raises `Quit` for \\q."""
        for line in text.splitlines():
            if is_blank(self._pending) and line.lstrip().startswith("\\"):
                self._pending = ""
                self._guard(partial(self._command, line.strip()))
                continue
            statements, self._pending = split_statements(f"{self._pending}\n{line}" if self._pending else line)
            for statement in statements:
                self._guard(partial(self._execute, statement))

    def finish(self) -> None:
        """At the end of a pipe: the last statement needs no semicolon."""
        if not is_blank(self._pending):
            self.feed(";")

    def names(self) -> list[str]:
        """What completion offers besides keywords and commands."""
        catalog = self._db.catalog
        columns = {column.name for source in catalog.sources.values() for column in source.columns}
        columns |= {column.name for table in catalog.tables.values() for column in table.columns}
        columns |= {output.name for stream in catalog.streams.values() for output in stream.query.outputs}
        named = (catalog.sources, catalog.streams, catalog.sinks, catalog.views, catalog.tables, catalog.late_names)
        return sorted({*(name for objects in named for name in objects), *columns})

    def _guard(self, action: Callable[[], None]) -> None:
        started = time.monotonic()
        try:
            action()
        except EventideError as error:
            self.failures += 1
            print_error(self._errors, error)
        except KeyboardInterrupt:
            self.failures += 1
            self._errors.print("interrupted", style="red")
        if self._timing:
            self._console.print(Text(f"time: {time.monotonic() - started:.3f} s", style="dim"))

    def _execute(self, sql: str) -> None:
        with self._console.status("working …"):  # on a terminal
            result = self._db.execute(sql)
        if result.columns in PROSE:
            for row in result:
                line = str(*row.values())
                self._console.print(plan_line(line) if result.columns == ["plan"] else Text(line), soft_wrap=True)
        else:
            print_rows(self._console, result.columns, result, limit=ROWS_SHOWN)

    def _command(self, line: str) -> None:
        name, _, argument = line.rstrip(";").partition(" ")
        command = self.commands.get(name)
        if command is None:
            raise OptionError(f"unknown command {name}", help=f"{suggest(name, self.commands)}; \\? explains them")
        command.run(argument.strip())

    def _all_commands(self) -> tuple[Command, ...]:
        return (
            Command("\\q", "leave (also Ctrl-D)", self._quit),
            Command("\\?", "this list", self._help),
            Command("\\d [NAME]", "all sources, streams and sinks, or one of them in detail", self._describe),
            Command("\\write SOURCE JSON", 'add rows to an embedded source: {"id": 1} or [{"id": 1}, …]', self._write),
            Command("\\advance SOURCE TIME", "set an external watermark, in ms or as ISO text", self._advance),
            Command("\\tick", "process everything written so far", self._tick),
            Command("\\start", "run all streams in the background", lambda _: self._db.start()),
            Command("\\stop", "stop them and emit open windows", lambda _: self._db.stop(graceful=True)),
            Command("\\read STREAM [N]", "the rows of a stream, the first N", self._read),
            Command("\\side STREAM [KIND]", "its side output: late, error, duplicate, …", self._side),
            Command("\\accounts STREAM", "where its rows went", self._accounts),
            Command(
                "\\progress",
                "all streams, one row each",
                lambda _: self._console.print(progress_table(self._db.progress())),
            ),
            Command("\\i FILE", "run a SQL file", self._include),
            Command("\\timing", "switch timing of statements on or off", self._toggle_timing),
        )

    def _quit(self, _: str) -> None:
        raise Quit

    def _help(self, _: str) -> None:
        grid = Table.grid(padding=(0, 2))
        for command in self.commands.values():
            grid.add_row(Text(command.usage, style="bold"), Text(command.help))
        self._console.print(Text("statements end with ; and may span lines\n"), grid, sep="")

    def _describe(self, name: str) -> None:
        for sql in [f"DESCRIBE {name}"] if name else SHOW:
            self._execute(sql)

    def _write(self, argument: str) -> None:
        source, text = self._arguments("\\write", argument, 2)
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise OptionError(f"not JSON: {error}", help='\\write clicks {"user": "ann", "ts": 1000}') from None
        self._db.write(source, value if isinstance(value, list) else [value])

    def _advance(self, argument: str) -> None:
        source, text = self._arguments("\\advance", argument, 2)
        try:
            self._db.advance_watermark(
                source, int(text) if text.lstrip("-").isdigit() else datetime.fromisoformat(text)
            )
        except ValueError:
            raise OptionError(f"not a time: {text}", help="milliseconds since 1970 or 2026-01-31T12:00:00Z") from None

    def _tick(self, _: str) -> None:
        with self._console.status("processing …"):
            self._db.tick()
        if self._db.catalog.streams:
            self._console.print(progress_table(self._db.progress()))

    def _read(self, argument: str) -> None:
        name, *rest = self._arguments("\\read", argument, 1, 2)
        if rest and not rest[0].isdigit():
            raise OptionError(f"not a number of rows: {rest[0]}")
        result = self._db.read(name)
        print_rows(self._console, result.columns, result, limit=int(rest[0]) if rest else ROWS_SHOWN)

    def _side(self, argument: str) -> None:
        name, *kind = self._arguments("\\side", argument, 1, 2)
        for payload in itertools.islice(self._db.side_output(name, kind=kind[0] if kind else None), ROWS_SHOWN):
            self._console.print(payload_grid(payload), "", sep="\n")

    def _accounts(self, argument: str) -> None:
        (name,) = self._arguments("\\accounts", argument, 1)
        self._console.print(accounting_line(self._db.accounting(name)))

    def _include(self, argument: str) -> None:
        (file,) = self._arguments("\\i", argument, 1)
        for statement in _all_statements(read_text(Path(file).expanduser())):
            self._execute(statement)

    def _toggle_timing(self, _: str) -> None:
        self._timing = not self._timing
        self._console.print(f"timing is {'on' if self._timing else 'off'}")

    def _arguments(self, name: str, text: str, least: int, most: int | None = None) -> list[str]:
        parts = text.split(maxsplit=(most or least) - 1) if (most or least) > 1 else text.split()
        if not least <= len(parts) <= (most or least):
            raise OptionError(f"usage: {self.commands[name].usage}")
        return parts


def _all_statements(text: str) -> list[str]:
    statements, rest = split_statements(text)
    return statements if is_blank(rest) else [*statements, rest]
