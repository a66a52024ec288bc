"""When tables are read anew while streams run."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Refreshing:
    """Reads tables anew when they are due: at once, or beside everything else, since it may take its time."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        self.now = refresh
        self._thread: threading.Thread | None = None

    def in_background(self) -> None:
        """Begin, unless it is still at it."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self.now, name="eventide tables", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
