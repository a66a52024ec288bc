"""`eventide why`: reads a checkpoint, even while another process has it open, and changes nothing."""

from __future__ import annotations

import time
from pathlib import Path


def why_of(checkpoint: Path, name: str) -> str:
    from eventide.cli.checkpoint import open_stream
    from eventide.diagnose.why import why

    kept = open_stream(checkpoint, name)
    return why(kept.stream, kept.account, watermark=kept.watermark, now=time.time_ns() // 1000)
