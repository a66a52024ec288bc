"""Live progress of running streams: a table that is redrawn on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from eventide.cli.console import duration, when

Progress = Sequence[Mapping[str, Any]]


_LIMITS = ("rejected", "shed")  # columns of a table in which any stream has limits


def progress_table(progress: Progress) -> Table:
    """One row per stream; failed streams are in red, late rows stand out."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    limited = any(stream.get(kind) for stream in progress for kind in (*_LIMITS, "admission"))
    for name, justify in (*COLUMNS[:-1], *([(kind, "right") for kind in _LIMITS] if limited else []), COLUMNS[-1]):
        table.add_column(name, justify=justify, no_wrap=True)
    for stream in progress:
        late, errors = int(stream["late"]), int(stream["errors"])
        table.add_row(
            Text(str(stream["stream"]), style="red" if stream["error"] else "cyan"),
            f"{int(stream['rows_in']):,}",
            f"{float(stream['rows_per_second']):,.0f}",
            when(stream["watermark"]).partition(" ")[2] or "–",
            duration(stream["watermark_lag_seconds"]),
            f"{int(stream['open_windows']):,}",
            Text(f"{late:,}", style="yellow" if late else ""),
            Text(f"{errors:,}", style="yellow" if errors else ""),
            *([f"{int(stream.get(kind, 0)):,}" for kind in _LIMITS] if limited else []),
            "failed" if stream["error"] else f"{int(stream['batches']):,}",
        )
    return table


COLUMNS: Sequence[tuple[str, Any]] = (
    ("stream", "left"),
    ("rows in", "right"),
    ("rows/s", "right"),
    ("watermark", "left"),
    ("lag", "right"),
    ("open windows", "right"),
    ("late", "right"),
    ("errors", "right"),
    ("batches", "right"),
)


def progress_line(stream: Mapping[str, Any]) -> str:
    """What a row of the table says, as a line for logs and pipes."""
    return (
        f"{stream['stream']}: {int(stream['rows_in']):,} rows in, {float(stream['rows_per_second']):,.0f} rows/s, "
        f"watermark {when(stream['watermark'])} (lag {duration(stream['watermark_lag_seconds'])}), "
        f"{int(stream['open_windows']):,} open windows, {int(stream['late']):,} late, "
        f"{int(stream['errors']):,} errors, "
        f"{int(stream['batches']):,} batches{_limits(stream)}"
    )


def _limits(stream: Mapping[str, Any]) -> str:
    """What limits and load have cost, for streams that have any."""
    counts = [f", {int(stream.get(kind, 0)):,} {kind}" for kind in ("rejected", "shed") if stream.get(kind)]
    load = stream.get("load")
    return "".join(counts) + ("" if load is None else f", load {float(load):.2f}")


class ProgressView:
    """Shows what `source` reports. Call `update` as often as you like: a terminal is redrawn, and a log gets a line
    every `plain_every` seconds, only if something has changed.
    """

    def __init__(self, console: Console, source: Callable[[], Progress], plain_every: float = 5.0) -> None:
        self._console = console
        self._source = source
        self._plain_every = plain_every
        self._next_plain = time.monotonic() + plain_every
        self._printed: list[str] = []
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.update(last=True)
        if self._live is not None:
            self._live.stop()

    def update(self, last: bool = False) -> Progress:
        progress = self._source()
        if self._live is not None:
            self._live.update(progress_table(progress), refresh=True)
        elif last or time.monotonic() >= self._next_plain:
            self._next_plain = time.monotonic() + self._plain_every
            self._print_changed([progress_line(stream) for stream in progress])
        return progress

    def _print_changed(self, lines: list[str]) -> None:
        if lines != self._printed:
            for line in lines:
                self._console.print(line, soft_wrap=True)
            self._printed = lines
