"""When tasks may let rows pass again, after limits had to be asked for each."""

from __future__ import annotations

from eventide.admission.trust import Regaining


def batches_until_due(regaining: Regaining, refused: int = 0) -> int:
    count = 0
    while not regaining.is_due:
        count += 1
        regaining.saw(count, refused)
        regaining.saw(count, refused)  # a batch without rows
    return count


def test_it_takes_so_many_batches_without_a_row_that_is_refused() -> None:
    regaining = Regaining(batches=3)
    regaining.saw(1, 0)
    assert not regaining.is_due
    regaining.lost()
    for refused in (5, 5, 5, 6):  # all rows so far
        regaining.saw(2, refused)
        assert not regaining.is_due
    assert batches_until_due(regaining, 6) == 3


def test_each_time_that_trust_is_lost_it_takes_twice_as_many() -> None:
    regaining = Regaining(batches=3)
    taken = []
    for _ in range(4):
        regaining.lost()
        taken.append(batches_until_due(regaining))
        regaining.regained()
        assert not regaining.is_due
    assert taken == [3, 6, 12, 24]
