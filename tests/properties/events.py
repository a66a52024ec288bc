"""What happens to a stream in a random story, and how a runner is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eventide.testing import KernelRunner, ReferenceModel, Step


@dataclass(frozen=True)
class Event:
    """batch (rows by source), advance (the watermark of a source, or of `all`), flush, tick or restart."""

    verb: str
    rows: dict[str, list[tuple[Any, ...]]] | None = None
    source: str = ""
    at: int = 0


def tell(runner: ReferenceModel | KernelRunner, event: Event, sources: Sequence[str] = ()) -> Step:
    """Let an event happen; `sources` are all that there are."""
    match event.verb:
        case "batch":
            return runner.batch(event.rows)
        case "advance":
            advanced = sources if event.source == "all" else [event.source]
            return runner.batch(advance=dict.fromkeys(advanced, event.at))
        case "flush":
            return runner.flush()
        case "tick":
            return runner.tick()
    if isinstance(runner, KernelRunner):
        runner.restart()
    return Step(watermark=runner.watermark)
