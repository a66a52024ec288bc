"""`eventide why`: reads a checkpoint, even while another process has it open, and changes nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eventide.plan.logical import Stream
    from eventide.storage.layout import Layout


def why_of(checkpoint: str | Path, name: str) -> str:
    from eventide.cli.checkpoint import layout_of, open_stream
    from eventide.diagnose.answers import answer
    from eventide.diagnose.why import Seen
    from eventide.storage.passed_over import scan_figures

    def seen(stream: str) -> Seen:
        kept = open_stream(checkpoint, stream)
        return Seen(kept.stream, kept.account, kept.watermark)

    first, now = seen(name), time.time_ns() // 1000
    layout = layout_of(checkpoint)
    scans = scan_figures(layout.scans(first.stream.name))
    return "\n".join(answer(first, now, seen, _tables(layout, first.stream), scans))


def _tables(layout: Layout, stream: Stream) -> dict[str, dict[str, Any]]:
    """How the tables are doing that a stream looks up."""
    from eventide.plan.reads import tables_of
    from eventide.storage.tables import TableVersions, VersionLog, table_figures

    used = VersionLog(layout.table_log(stream.name)).latest()
    states = {name: TableVersions(layout.tables / name).state() for name in tables_of(stream.query)}
    return {name: table_figures(state, used.get(name)) for name, state in states.items()}
