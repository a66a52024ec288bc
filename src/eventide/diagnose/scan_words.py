"""What there is to say of the files that a stream's tasks read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eventide.storage.passed_over import FIGURE


def scan_lines(figures: Mapping[str, Any]) -> list[str]:
    """A line if files are not taken."""
    count = figures.get(FIGURE, 0)
    if not count:
        return []
    files, they = ("1 file is", "it is") if count == 1 else (f"{count:,} files are", "they are")
    return [
        f"{files} not taken: {they} older than files whose names were forgotten ('forget_after'), and may have been "
        "taken before. passed_over.json in the stream's scans/ names them; whoever touches a file has it taken."
    ]
