"""Cumulating windows: [0, 5), [0, 10), [0, 15) and then [15, 20) ..., drawn with step 5 and size 15."""

import random
from collections import Counter
from typing import Any

import pytest

from eventide.errors import OptionError
from tests.kernels.harness import KEYED_SUMS, Driver, Row, cumulating_spec, paned_spec
from tests.kernels.model import CumulateModel

FAR = 100_000


def cumulate(size: int = 15, step: int = 5, **more: Any) -> Driver:
    return Driver(cumulating_spec(size, step, **KEYED_SUMS, **more))


def test_each_step_emits_what_came_since_the_window_began() -> None:
    #   0    5    10   15
    #   |A   |  AB|    |A
    driver = cumulate()
    driver.batch([(1, "A", 1), (8, "A", 2), (9, "B", 4), (16, "A", 8)])
    assert driver.wake_at == 5
    assert driver.advance(5) == [(0, 5, 0, 1, "A", 1, 1)]
    assert driver.advance(10) == [(0, 10, 0, 1, "A", 2, 3), (0, 10, 0, 1, "B", 1, 4)]
    assert driver.advance(15) == [(0, 15, 0, 1, "A", 2, 3), (0, 15, 0, 1, "B", 1, 4)]
    assert driver.advance(30) == [(15, 20, 0, 1, "A", 1, 8), (15, 25, 0, 1, "A", 1, 8), (15, 30, 0, 1, "A", 1, 8)]
    assert driver.store.spaces() == []
    assert driver.events["windows_opened"] == driver.events["windows_closed"] == 6


def test_a_row_behind_a_closed_step_counts_in_the_later_ones() -> None:
    driver = cumulate()
    driver.batch([(1, "A", 1)])
    driver.batch([(2, "A", 2)], watermark=7)
    assert driver.counts == {"used": 2}
    assert driver.advance(15) == [(0, 10, 0, 1, "A", 2, 3), (0, 15, 0, 1, "A", 2, 3)]
    driver.batch([(3, "A", 2)])
    assert driver.counts == {"used": 2, "late": 1}


def test_a_flush_emits_all_steps_and_they_do_not_reopen() -> None:
    for emit in ("on window close", "on update"):
        driver = cumulate(emit=emit)
        driver.batch([(6, "A", 1)])
        driver.flush()
        assert [row[:2] for row in driver.main] == [(0, 10), (0, 15)]
        driver.batch([(7, "A", 1)])
        assert driver.counts == {"used": 1, "late": 1}
        assert driver.advance(99) == []
        assert driver.store.spaces() == []


def test_a_change_log_of_a_cumulating_window() -> None:
    driver = cumulate(size=10, emit="changes")
    assert driver.batch([(1, "A", 1)]) == [(0, 5, 0, 1, "A", 1, 1), (0, 10, 0, 1, "A", 1, 1)]
    assert driver.batch([(6, "A", 1)]) == [(0, 10, 0, -1, "A", 1, 1), (0, 10, 1, 1, "A", 2, 2)]


def test_a_quota_counts_the_groups_of_each_step() -> None:
    driver = cumulate(max_groups=1)
    driver.batch([(6, "A", 1), (1, "B", 1)])
    assert driver.counts == {"used": 2}
    assert driver.advance(99) == [(0, 5, 0, 1, "B", 1, 1), (0, 10, 0, 1, "A", 1, 1), (0, 15, 0, 1, "A", 1, 1)]


@pytest.mark.parametrize(("size", "step"), [(12, 4), (30, 1), (7, 7), (300, 2)])
@pytest.mark.parametrize("emit", ["on window close", "on watermark", "every"])
@pytest.mark.parametrize("seed", range(4))
def test_cumulating_windows_emit_what_the_model_emits(size: int, step: int, emit: str, seed: int) -> None:
    chance = random.Random(seed)
    window = {"size": size, "slide": step, "offset": chance.choice([0, 1]), "lateness": chance.choice([0, 0, 5])}
    model, driver = CumulateModel(**window), Driver(cumulating_spec(**window, **KEYED_SUMS, emit=emit, every=1))
    watermark, last, shown = -50, {}, {}
    for _ in range(12):
        rows: list[Row] = [
            (watermark + chance.randint(-20, 60), chance.choice("AB"), chance.randint(-5, 5))
            for _ in range(chance.randint(0, 9))
        ]
        emitted, expected = driver.batch(rows, watermark), model.step(rows, watermark)
        if emit == "on window close":
            assert Counter(emitted) == Counter(expected)
        last |= {(*row[:2], row[4]): row[5:] for row in emitted}
        shown |= {(*row[:2], row[4]): row[5:] for row in expected}
        assert driver.counts["late"] == len(model.late)
        watermark += chance.randint(0, 40)
    last |= {(*row[:2], row[4]): row[5:] for row in driver.batch([], FAR)}
    shown |= {(*row[:2], row[4]): row[5:] for row in model.close(FAR)}
    assert last == shown
    assert driver.store.spaces() == []


def test_the_order_of_rows_within_a_batch_does_not_change_the_bytes() -> None:
    rows: list[Row] = [(ts, key, ts) for ts in range(15) for key in "ABC"]
    for emit in ("on update", "changes"):
        stores = []
        for seed in (1, 2):
            driver, chance = cumulate(emit=emit), random.Random(seed)
            driver.batch(chance.sample(rows[10:], 35))
            driver.batch(chance.sample(rows[:10], 10))
            driver.batch([], watermark=5)
            stores.append(driver.store)
        assert stores[0] == stores[1]


def test_the_size_is_a_multiple_of_the_step() -> None:
    with pytest.raises(OptionError, match="not a multiple"):
        cumulating_spec(10, 3)
    assert cumulating_spec(10, 5).fingerprint() != paned_spec(10, 5).fingerprint()
