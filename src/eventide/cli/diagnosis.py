"""`eventide why`: reads a checkpoint, even while another process has it open, and changes nothing."""

from __future__ import annotations

import time
from pathlib import Path


def why_of(checkpoint: Path, name: str) -> str:
    from eventide.cli.checkpoint import open_stream
    from eventide.diagnose.why import Seen, why

    def seen(stream: str) -> Seen:
        kept = open_stream(checkpoint, stream)
        return Seen(kept.stream, kept.account, kept.watermark)

    first = seen(name)
    return why(first.stream, first.account, watermark=first.watermark, now=time.time_ns() // 1000, read=seen)
