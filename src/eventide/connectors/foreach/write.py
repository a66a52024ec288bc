"""A user's Python function as a sink: `function(batch, rows)` for every batch that has rows.

After a crash it may get a batch again, with the same number and the same rows. So it acts at least once per batch, and
exactly once if it stores the number together with what it does.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from eventide.errors import EventideError, SinkError

Function = Callable[[int, pa.Table], object]


class ForeachSink:
    def __init__(self, stream: str, function: Function) -> None:
        self._stream = stream
        self._function = function

    def write(self, batch: int, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        try:
            self._function(batch, rows)
        except EventideError:
            raise
        except Exception as error:
            name = getattr(self._function, "__name__", "a function")
            raise SinkError(
                f"{name}, which takes the rows of {self._stream}, failed in batch {batch}: "
                f"{type(error).__name__}: {error}",
                help="the batch comes again, with the same number and rows, when the stream is run again",
            ) from error

    def close(self) -> None:
        pass
