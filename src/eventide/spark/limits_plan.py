"""Which of a stream's two plans runs where its sources have limits: one lets rows pass, one asks for every row.

See `admission.trust` for when each is right.
"""

from __future__ import annotations

from eventide.admission.gate import ADMITTED, REFUSED
from eventide.admission.trust import Regaining
from eventide.spark.compile import Compiled
from eventide.storage.results import Account


class LimitsPlan:
    """Remembers the plan that lets rows pass, while the other one runs."""

    def __init__(self) -> None:
        self._regaining = Regaining()
        self._passing: Compiled | None = None

    def asks_instead_of(self, passing: Compiled) -> None:
        """The plan that runs has let rows pass that limits do not admit, and another takes its place."""
        self._passing = passing
        self._regaining.lost()

    def forget(self) -> None:
        """Another plan runs, which lets rows pass."""
        self._passing = None

    def saw(self, account: Account) -> None:
        """A batch has ended."""
        counts = list(account.admission.values())
        refused = sum(each.get(name, 0) for each in counts for name in REFUSED)
        self._regaining.saw(sum(each.get(ADMITTED, 0) for each in counts), refused)

    @property
    def is_due(self) -> bool:
        """Whether limits have refused nothing for so long that rows may pass again."""
        return self._passing is not None and self._regaining.is_due

    def take_up(self) -> Compiled:
        """The plan that lets rows pass, which runs from now on."""
        if self._passing is None:
            raise ValueError("rows pass already")
        passing, self._passing = self._passing, None
        self._regaining.regained()
        return passing
