"""All streams on a terminal, from a checkpoint without Spark."""

from __future__ import annotations

import io
import time
from pathlib import Path

from rich.console import Console

from eventide.cli.top import screen, show_top
from eventide.diagnose.observer import CheckpointObserver
from eventide.web.snapshot import Snapshots
from tests.web.simulated import SECOND, Simulation


def shown(simulation: Simulation, width: int = 150, **changes: object) -> str:
    snapshot = Snapshots(CheckpointObserver(simulation.root)).take()
    snapshot["streams"][0].update(changes)
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(screen(snapshot, width))
    return console.export_text()


def test_a_picture_has_figures_accounts_and_words(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path / "shop")
    now = time.time_ns() // 1000
    simulation.run(now - 20 * SECOND, now)
    text = shown(simulation)
    assert "eventide shop" in text and "per_page" in text and "stopped" in text
    assert (
        f"rows in {simulation.totals['rows_in']:,} = used {simulation.totals['used']:,} + late" in text and "✓" in text
    )
    assert "▇" in text or "█" in text
    assert "the oldest open window is" in text and "busiest has not run yet" in text
    narrow = shown(simulation, width=80)
    assert "…" not in narrow and "█" not in narrow
    failed = shown(simulation, state="failed", error="the [bold]disk[/bold] is full", help="make room")
    assert "per_page has failed" in failed and "the [bold]disk[/bold] is full" in failed and "help: make room" in failed


def test_a_pipe_gets_one_picture(tmp_path: Path) -> None:
    Simulation(tmp_path / "shop")
    console = Console(width=120, record=True, file=io.StringIO())
    show_top(str(tmp_path / "shop"), None, console, once=False)
    assert "per_page" in console.export_text()
