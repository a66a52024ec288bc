"""A batch that fails because the machine is busy is tried again.

Spark gives a Python process that it has started ten seconds to answer, and no setting changes that. On a machine that
is busy with other things this may not be enough, and the query ends although nothing is wrong with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNANSWERED = re.compile(r"Python worker failed to connect back|waiting for the Python worker to connect back")


@dataclass
class Patience:
    """How often one batch is tried again before its failure is told."""

    tries: int = 5
    _batch: int = -1
    _used: int = 0

    def covers(self, report: str, batch: int) -> bool:
        """Whether another try of `batch` may help, by Spark's report of how the last one failed."""
        used = self._used if batch == self._batch else 0
        return used < self.tries and _UNANSWERED.search(report) is not None

    def use(self, batch: int) -> None:
        """Count a try of `batch`; another batch begins anew."""
        self._used = self._used + 1 if batch == self._batch else 1
        self._batch = batch
