"""When tables are read anew while streams run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from eventide.plan.logical import Table

if TYPE_CHECKING:
    from eventide.spark.tables import TableReader


class Refreshing:
    """Reads tables anew when they are due: at once, or beside everything else, since it may take its time."""

    def __init__(self, reader: TableReader, tables: Callable[[], Collection[Table]]) -> None:
        self._reader = reader
        self._tables = tables
        self._thread: threading.Thread | None = None

    def now(self) -> None:
        self._reader.keep_fresh(self._tables())

    def in_background(self) -> None:
        """Begin, unless it is still at it or there is nothing that is ever due."""
        if all(table.refresh is None for table in self._tables()):
            return
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self.now, name="eventide tables", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
