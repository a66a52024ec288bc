"""`eventide top`: all streams on a terminal, live; the same figures as the dashboard's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from eventide.cli.console import accounting_line, duration

if TYPE_CHECKING:
    from eventide.web.views import View

_BARS = "▁▂▃▄▅▆▇█"
_SECONDS = 40  # of a sparkline
_WIDE = 130  # columns of a terminal that has room for it
_STATES = {"running": "green", "failed": "bold red", "stopped": "yellow", "new": "dim"}
_PHASES = ("plan", "compute", "sinks", "store")
_UNUSED = ("late", "duplicate", "error", "evicted", "rejected", "shed")


def show_top(place: str, remote_token: str | None, console: Console, once: bool, every: float = 1.0) -> None:
    """Until Ctrl-C on a terminal; anywhere else, or with `once`, one picture."""
    from eventide.cli.runner import StopSignals
    from eventide.web.views import view_of

    view = view_of(place, remote_token)
    if once or not console.is_terminal:
        console.print(screen(view.snapshot(), console.width))
        return
    with StopSignals() as signals, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_looked(view, console.width), refresh=True)
            if signals.wait(every):
                return


def _looked(view: View, width: int) -> RenderableType:
    from eventide.errors import EventideError

    try:
        return screen(view.snapshot(), width)
    except EventideError as error:  # what is looked at may come back
        return Text(error.render(), style="red")


def screen(snapshot: Mapping[str, Any], width: int) -> RenderableType:
    """Streams as a table, the accounts of each, and what stands still, in words."""
    at = datetime.fromtimestamp(snapshot["now"] / 1000, UTC).strftime("%H:%M:%S")
    streams: Sequence[Mapping[str, Any]] = snapshot["streams"]
    where = (f"  {snapshot['kind']}  {at} UTC", "dim")
    head = Text.assemble(("eventide ", "bold cyan"), (snapshot["place"], "bold"), where)
    if not streams:
        return Group(head, Text("there is no stream yet", style="dim"))
    accounts = Table.grid(padding=(0, 2))
    for stream in streams:
        accounts.add_row(Text(stream["name"], style="cyan"), accounting_line(stream["accounting"]))
    return Group(head, Text(), _table(snapshot, streams, width), Text(), accounts, Text(), *_notices(streams))


def _table(snapshot: Mapping[str, Any], streams: Sequence[Mapping[str, Any]], width: int) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("stream", no_wrap=True)
    table.add_column("")
    for heading in ("in/s", "out/s", "lag", "open", "state", "batch", "unused"):
        table.add_column(heading, justify="right", no_wrap=True)
    drawn = width >= _WIDE  # there is room for a sparkline
    if drawn:
        table.add_column(f"rows in, the last {_SECONDS} s", no_wrap=True)
    for stream in streams:
        points = [dict(zip(snapshot["columns"], point, strict=True)) for point in stream["points"]]
        unused = sum(stream["accounting"][kind] for kind in _UNUSED)
        mark = stream["watermark"]
        table.add_row(
            Text(stream["name"], style="cyan"),
            Text(stream["state"], style=_STATES.get(stream["state"], "")),
            f"{stream['rates'].get('rows_in', 0):,.0f}",
            f"{stream['rates'].get('given', 0):,.1f}",
            "–" if mark is None else duration((snapshot["now"] - mark) / 1000),
            f"{stream['open']:,}",
            size(stream["state_bytes"]),
            _batch_time(points),
            Text(f"{unused:,}", style="yellow" if unused else ""),
            *([Text(sparkline(points, snapshot["now"] // 1000), style="cyan")] if drawn else []),
        )
    return table


def _notices(streams: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    found: list[RenderableType] = []
    for stream in streams:
        if stream["error"]:
            lines = [stream["error"], *([f"help: {stream['help']}"] if stream["help"] else [])]
            found.append(Panel(Text("\n".join(lines)), title=Text(f"{stream['name']} has failed"), border_style="red"))
        elif stream["standing"]:
            what = "gives nothing now" if stream["state"] == "running" else stream["state"]
            told = Text("\n".join(stream["standing"]))
            found.append(Panel(told, title=Text(f"{stream['name']}: {what}"), border_style="yellow"))
    return found


def _batch_time(points: Sequence[Mapping[str, Any]]) -> str:
    recent = points[-20:]
    batches = sum(point["batches"] for point in recent)
    took = sum(point[phase] for point in recent for phase in _PHASES)
    return duration(took / batches / 1000) if batches else "–"


def sparkline(points: Sequence[Mapping[str, Any]], now: int, seconds: int = _SECONDS) -> str:
    """Rows per second as a row of bars, the newest to the right.

    >>> sparkline([{"second": 8, "rows_in": 1}, {"second": 10, "rows_in": 8}], 10, seconds=4)
    ' ▁ █'
    """
    rows = {point["second"]: point["rows_in"] for point in points}
    values = [rows.get(second, 0) for second in range(now - seconds + 1, now + 1)]
    most = max(values, default=0)
    return "".join(_BARS[max(0, -(-value * len(_BARS) // most) - 1)] if value else " " for value in values)


def size(count: float) -> str:
    """Bytes as people write them.

    >>> size(12), size(9200), size(123_456_789)
    ('12 B', '9.2 kB', '123 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.1f} {unit}" if unit != "B" and count < 10 else f"{count:,.0f} {unit}"
        count /= 1000
    return f"{count:,.0f} TB"
