"""Rows from outside into the spool of an embedded source, as fast as the streams that read it want them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from eventide.admission.throttle import Queue, Written, taken_of
from eventide.connectors.embedded.json_rows import encode_rows
from eventide.errors import OptionError, SourceError
from eventide.plan.logical import Source
from eventide.storage.spool import Spools

_LOOK_AGAIN = 0.1  # seconds


class Writer:
    """`queues` gives what waits for each stream that reads a source; `publish` lets running streams see what was
    written. Both, and the spools, are used with `guard` held, and nobody waits with it.
    """

    def __init__(
        self,
        spools: Spools,
        guard: threading.RLock,
        queues: Callable[[str], Sequence[Queue]],
        publish: Callable[[], None],
    ) -> None:
        self._spools, self._guard, self._queues, self._publish = spools, guard, queues, publish

    def write(self, source: Source, rows: Any, timeout: float | None) -> Written:
        """Those that are taken, durably. Of a source that is throttled the first ones that there is room for, and with
        a `timeout` all that there is room for until so many seconds have passed.
        """
        if source.connector != "embedded":
            raise SourceError(f"source {source.name} reads {source.connector}; db.write feeds embedded sources only")
        if timeout is not None and timeout < 0:
            raise OptionError(f"timeout is {timeout}", help="write how many seconds to wait for room, or leave it out")
        texts, taken, end = encode_rows(source, rows), 0, time.monotonic() + (timeout or 0.0)
        while True:
            with self._guard:
                fresh, wait = self._take(source, texts[taken:])
            taken += fresh
            left = end - time.monotonic()
            if taken == len(texts) or left <= 0:
                return Written(taken, wait)
            time.sleep(min(left, wait, _LOOK_AGAIN))

    def _take(self, source: Source, texts: list[str]) -> tuple[int, float]:
        """How many rows are taken, and after how many seconds there will be room for more."""
        is_throttled = source.admission is not None and source.admission.throttles
        queues = self._queues(source.name) if is_throttled else ()
        taken = taken_of([len(text) for text in texts], queues) if queues else len(texts)
        if taken:
            received = time.time_ns() // 1000
            self._spools.append(source.name, lambda spool, number: spool.append_rows(texts[:taken], received, number))
            self._publish()
        wait = max((queue.wait for queue in queues), default=0.0)
        return taken, wait if taken == len(texts) else max(wait, _LOOK_AGAIN)
