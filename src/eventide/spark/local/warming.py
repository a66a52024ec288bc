"""What the first query of a Spark would wait for, done beside it: finding data sources, starting the workers of tasks,
and a faster class for local files.

The first two start Python processes, one after the other if they are left to the query; meanwhile a core is idle.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from eventide.spark.local.local_files import set_permissions_without_forks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST_SECONDS = 20.0


class Warming:
    """For a Spark that was started here. Whatever goes wrong is left to the query to find out."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._threads: list[threading.Thread] = []
        self._has_workers = False
        self._files = self._beside(lambda: set_permissions_without_forks(spark))
        self._beside(self._find_sources)

    def start_workers(self, session: SparkSession) -> None:
        """The first time only. `session` has the settings of a stream: workers are shared by those that agree in
        them. Then a query may start: it keeps the class for files that it finds.
        """
        if not self._has_workers:
            self._has_workers = True
            self._files.join(_LONGEST_SECONDS)
            self._beside(lambda: session.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect())

    def wait(self) -> None:
        for thread in self._threads:
            thread.join(_LONGEST_SECONDS)

    def _beside(self, work: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            with contextlib.suppress(Exception):
                work()

        thread = threading.Thread(target=run, name="eventide warming", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _find_sources(self) -> None:
        """Spark asks Python for the data sources that are installed when the first one is registered, whichever it
        is.
        """

        class Nothing(DataSource):
            @classmethod
            def name(cls) -> str:
                return "eventide_nothing"

        self._spark.newSession().dataSource.register(Nothing)
