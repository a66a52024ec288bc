"""`eventide late`: shows which rows came too late and what would have caught them, and folds them in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eventide.cli.console import duration, print_rows, stdout, when

if TYPE_CHECKING:
    import pyarrow as pa

    from eventide.cli.checkpoint import Kept
    from eventide.diagnose.late import Ledger
    from eventide.plan.logical import Stream

BAR = 40
ROWS_SHOWN = 20


def list_late(checkpoint: str | Path, name: str, limit: int) -> None:
    from eventide.cli.checkpoint import open_late
    from eventide.diagnose.late import ledger

    kept = open_late(checkpoint, name)
    payloads, upto = _payloads(kept)
    found, console = ledger(kept.stream, payloads), stdout()
    total = kept.account.totals.get("late", 0) if kept.account else 0
    console.print(
        Text(_summary(kept.stream.name, found.rows, total, _replayed(kept, upto)), style="bold"), soft_wrap=True
    )
    if found.rows:
        console.print(_histogram(found))
        _print_rows(console, kept, payloads, limit)


def _payloads(kept: Kept) -> tuple[pa.Table, int]:
    """All late payloads, and the last batch whose late payloads have been replayed."""
    import pyarrow as pa

    from eventide.storage.payloads import PAYLOAD_SCHEMA
    from eventide.storage.replays import Replays, late_payloads

    folder = kept.layout.replay(kept.stream.name)
    upto = Replays(folder).upto if folder.exists() else -1
    found = {} if kept.results is None else late_payloads(kept.results)
    return pa.concat_tables([PAYLOAD_SCHEMA.empty_table(), *found.values()]), upto


def _replayed(kept: Kept, upto: int) -> int:
    from eventide.storage.replays import late_payloads

    if kept.results is None or upto < 0:
        return 0
    return sum(payloads.num_rows for batch, payloads in late_payloads(kept.results).items() if batch <= upto)


def _summary(name: str, rows: int, total: int, replayed: int) -> str:
    text = f"{name}: {total:,} late rows" if total != 1 else f"{name}: 1 late row"
    if rows < total:
        text += f", {rows:,} of them kept"
    return text + (f", {replayed:,} replayed" if replayed else "")


def _histogram(found: Ledger) -> Table:
    """How far behind the watermark the rows were, in round steps; the bars are to scale."""
    counts = found.histogram()
    most = max(count for _, count in counts)
    table = Table(
        title=", ".join(f"{reason} {count:,}" for reason, count in found.reasons.items()),
        title_justify="left",
        box=None,
    )
    table.add_column("late by", justify="right")
    table.add_column("rows", justify="right")
    table.add_column("")
    for bound, count in counts:
        label = f"up to {_length(bound)}" if bound is not None else "more"
        bar = "█" * max(1, round(BAR * count / most)) if count else ""
        table.add_row(label, f"{count:,}", Text(bar, style="cyan"))
    for name, share in (("half within", 0.5), ("99 % within", 0.99), ("the latest", 1.0)):
        table.add_row(Text(name, style="dim"), "", Text(_length(found.quantile(share) or 0), style="dim"))
    return table


def _print_rows(console: Console, kept: Kept, payloads: pa.Table, limit: int) -> None:
    from eventide.result import Result
    from eventide.storage.payloads import JSON_FIELDS

    rows: list[dict[str, Any]] = []
    for payload in Result(payloads.slice(max(0, payloads.num_rows - limit)), JSON_FIELDS):
        window = payload["window"]
        rows.append(
            {
                "event time": when(payload["event_time"]),
                "behind the watermark": duration((payload["watermark"] - payload["event_time"]).total_seconds()),
                "window": "–" if window is None else f"[{when(window['start'])}, {when(window['end'])})",
                "row": payload["original_event"],
            }
        )
    if rows:
        print_rows(console, list(rows[0]), rows)
        if payloads.num_rows > limit:
            console.print(Text(f"the newest of {payloads.num_rows:,}; --limit N shows more", style="dim"))


def advise_late(checkpoint: str | Path, name: str) -> None:
    from eventide.cli.checkpoint import open_stream
    from eventide.diagnose.late import advise, ledger, used_share

    kept, console = open_stream(checkpoint, name), stdout()
    payloads, _ = _payloads(kept)
    found = ledger(kept.stream, payloads)
    share = used_share(found, kept.account) if kept.account else None
    if kept.account is None or share is None:
        console.print(f"{kept.stream.name}: no row has come in yet, so there is no history to learn from.")
        return
    console.print(
        Text(f"{kept.stream.name}: {_percent(share)} of the rows were on time, {found.rows:,} were late", style="bold")
    )
    if kept.account.totals.get("late", 0) > found.rows:
        console.print(
            Text("some late rows were not kept (EMIT FINAL or metrics_only), so this is a lower bound", style="yellow")
        )
    table = Table(box=None)
    for heading in ("to use", "wait longer by", "allowed lateness", "results come", "more open windows", "more state"):
        table.add_column(heading, justify="right")
    for advice in advise(kept.stream, found, kept.account):
        if advice.extra == 0:
            table.add_row(f"{advice.percent:g} %", "–", "as it is", "as now", "0", "0 B")
            continue
        lateness = _length(kept.stream.emit.allowed_lateness + advice.extra)
        state = "not known" if advice.more_bytes is None else f"{advice.more_bytes:,} B"
        table.add_row(
            f"{advice.percent:g} %",
            _length(advice.extra),
            lateness,
            f"{_length(advice.extra)} later",
            f"{advice.more_windows:,}",
            state,
        )
    console.print(table)
    console.print(
        Text(
            "The same can be added to the watermark's lag instead. With EMIT ON UPDATE or ON WATERMARK, first results",
            style="dim",
        )
    )
    console.print(Text("come as early as now if it is added to the allowed lateness.", style="dim"))
    _print_remedy(console, kept.stream, found.missed[-1] if found.missed else 0)


def _print_remedy(console: Console, stream: Stream, missed: int) -> None:
    """The statements that would have let all rows be used; the stream goes on from its state."""
    from eventide.diagnose.late import remedies

    for number, statement in enumerate(remedies(stream, missed)):
        said = "To wait for all of them, and go on from the state:" if number == 0 else "or"
        console.print(Text(said, style="dim"))
        console.print(Text(f"  {statement}", style="cyan"), soft_wrap=True)


def replay_late(checkpoint: str | Path, name: str) -> None:
    import eventide
    from eventide.cli.checkpoint import layout_of

    layout_of(checkpoint)
    console = stdout()
    with console.status("starting Spark …"):
        db = eventide.connect(checkpoint=str(checkpoint))
    try:
        corrected = db.late_replay(name)
        if len(corrected) == 0:
            console.print(f"{name}: no late rows left to replay")
            return
        print_rows(console, corrected.columns, corrected, limit=ROWS_SHOWN)
        console.print(
            f"{name}: {len(corrected):,} {'row' if len(corrected) == 1 else 'rows'} corrected and sent to its sinks"
        )
    finally:
        db.close()


def _length(micros: int) -> str:
    from eventide.eventtime.durations import format_duration

    return format_duration(micros // 1000 * 1000 or micros)


def _percent(share: float) -> str:
    return f"{share:.4f}".rstrip("0").rstrip(".") + " %"
