"""All that there is to say about a stream that waits: why, what strains it, and how its tables are doing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eventide.diagnose.pressure_words import pressure_lines
from eventide.diagnose.scan_words import scan_lines
from eventide.diagnose.table_words import table_lines
from eventide.diagnose.why import Seen, why


def answer(
    seen: Seen,
    now: int,
    read: Callable[[str], Seen],
    tables: Mapping[str, Mapping[str, Any]],
    figures: Mapping[str, Any] | None = None,
    failure: str | None = None,
) -> list[str]:
    """Lines. `read` tells of streams that it reads; `figures` are of its side output and its scans of files; `failure`
    is why it has ended.
    """
    told = why(
        seen.stream,
        seen.account,
        watermark=seen.watermark,
        now=now,
        idle=seen.idle,
        read=read,
        idle_partitions=seen.idle_partitions,
    )
    failed = [] if failure is None else [f"{seen.stream.name} has failed: {failure}"]
    others = [*pressure_lines(seen.account, figures or {}), *table_lines(tables, now), *scan_lines(figures or {})]
    return [*failed, *told.splitlines(), *others]
