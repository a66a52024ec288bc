"""`eventide doctor`: what is well, what needs care, what is bad, and what to do about it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

_MARKS = {"ok": ("✓", "green"), "care": ("!", "yellow"), "bad": ("✗", "bold red")}


def print_findings(checkpoint: str | Path | None, console: Console) -> bool:
    """Returns whether nothing is bad."""
    from eventide.diagnose.doctor import BAD, examine
    from eventide.storage.opening import checkpoint_path

    findings = list(examine(None if checkpoint is None else checkpoint_path(checkpoint)))
    grid = Table.grid(padding=(0, 2))
    for finding in findings:
        mark, style = _MARKS[finding.state]
        words = Text(finding.words)
        if finding.way_out is not None:
            words.append(f"\n→ {finding.way_out}", style=style)
        grid.add_row(Text(mark, style=style), Text(finding.what, style="bold"), words)
    console.print(grid)
    return all(finding.state != BAD for finding in findings)
