"""Where a stream has two plans: one is cheaper, and right for most batches; the other takes its place for a while.

Where sources have limits, tasks let rows pass before limits are asked: see `admission.trust`. Where Spark reads rows,
columns that only payloads show are not read. A batch for which that is wrong is taken again by the plan that asks for
every row, or reads all; and so are those that follow, until for a number of batches the cheaper one would have done.
"""

from __future__ import annotations

from collections.abc import Callable

from eventide.admission.gate import ADMITTED, REFUSED
from eventide.admission.trust import Regaining
from eventide.kernels.contract import USED
from eventide.spark.compile import Compiled
from eventide.spark.why_ended import Need
from eventide.storage.results import Account

Figures = tuple[float, float]  # of all batches so far: rows for which the cheaper plan is right, and the others


def _by_limits(account: Account) -> Figures:
    counts = list(account.admission.values())
    refused = sum(each.get(name, 0) for each in counts for name in REFUSED)
    return sum(each.get(ADMITTED, 0) for each in counts), refused


def _put_aside(account: Account) -> Figures:
    used = account.totals.get(USED, 0)
    return used, account.totals.get("rows_in", 0) - used


CHEAPER: dict[Need, Callable[[Account], Figures]] = {Need.ASKING: _by_limits, Need.ORIGINALS: _put_aside}


class CheaperPlan:
    """Remembers the cheaper plan, while the one that has what a batch needed runs."""

    def __init__(self, figures: Callable[[Account], Figures]) -> None:
        self._figures = figures
        self._regaining = Regaining()
        self._cheaper: Compiled | None = None

    def gives_way(self, cheaper: Compiled) -> None:
        """The plan that runs is wrong for a batch, and another takes its place."""
        self._cheaper = cheaper
        self._regaining.lost()

    def forget(self) -> None:
        """Another plan runs, which is a cheap one."""
        self._cheaper = None

    @property
    def waits(self) -> bool:
        return self._cheaper is not None

    def saw(self, account: Account) -> None:
        """A batch has ended."""
        self._regaining.saw(*self._figures(account))

    @property
    def is_due(self) -> bool:
        """Whether the cheaper plan would have done for so long that it may run again."""
        return self._cheaper is not None and self._regaining.is_due

    def take_up(self) -> Compiled:
        """The cheaper plan, which runs from now on."""
        if self._cheaper is None:
            raise ValueError("the cheaper plan runs already")
        cheaper, self._cheaper = self._cheaper, None
        self._regaining.regained()
        return cheaper
