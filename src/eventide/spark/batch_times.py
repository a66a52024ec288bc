"""When Spark began its batches: it logs that with the offsets, and a batch that is repeated keeps its time."""

from __future__ import annotations

import json

from eventide.storage.atomic import damaged
from eventide.storage.paths import AnyPath


def newest_batch_time(offsets: AnyPath) -> int | None:
    """Of the newest batch that Spark has logged, in microseconds; None before the first."""
    batches = [int(path.name) for path in offsets.glob("[0-9]*") if path.name.isdecimal()]
    return batch_time(offsets, max(batches)) if batches else None


def batch_time(offsets: AnyPath, batch: int) -> int:
    """Of one batch, in microseconds."""
    path = offsets / str(batch)
    try:
        return int(json.loads(path.read_text().splitlines()[1])["batchTimestampMs"]) * 1000
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise damaged(path, error) from None
