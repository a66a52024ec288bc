"""`eventide history`: the texts of a stream, and which batches ran under which."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text as Line

from eventide.cli.console import stdout


def print_history(checkpoint: str | Path, name: str) -> None:
    from eventide.cli.checkpoint import catalog_of, layout_of
    from eventide.storage.atomic import read_json
    from eventide.storage.texts import Texts

    layout, console = layout_of(checkpoint), stdout()
    stream = catalog_of(layout).stream(name).name
    settings = read_json(layout.plan(stream))
    if settings is None:
        console.print(f"{stream}: has not run yet")
        return
    texts = Texts.of(settings).all
    ends = [f"to {following.from_batch - 1}" for following in texts[1:]] + ["on"]
    for text, end in zip(texts, ends, strict=True):
        since = (
            "" if text.since is None else f", since {datetime.fromtimestamp(text.since / 1e6, UTC):%Y-%m-%d %H:%M:%S}"
        )
        console.print(Line(f"from batch {text.from_batch} {end}{since}", style="bold"))
        console.print(Line(text.sql or text.plan), soft_wrap=True)
        for difference in text.differences:
            console.print(Line(f"  {difference}", style="dim"), soft_wrap=True)
