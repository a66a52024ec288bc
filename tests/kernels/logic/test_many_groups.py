"""Enough groups for hash tables, buckets and levels to matter: what a handful of rows cannot show."""

import random
from collections import Counter, defaultdict

from tests.kernels.harness import KEYED_SUMS, Driver, Row, paned_spec, session_spec, slide_spec
from tests.kernels.model import sums

GROUPS, GAP = 4_000, 50


def batches(count: int, size: int, span: int) -> list[list[Row]]:
    chance = random.Random(7)
    return [
        [(chance.randrange(span), f"user{chance.randrange(GROUPS)}", chance.randrange(100)) for _ in range(size)]
        for _ in range(count)
    ]


def test_sessions_of_thousands_of_groups() -> None:
    stream = batches(4, 5_000, 1_000)
    driver = Driver(session_spec(GAP, **KEYED_SUMS))
    for rows in stream:
        driver.batch(rows)
    by_key: dict[str, list[Row]] = defaultdict(list)
    for rows in stream:
        for row in rows:
            by_key[row[1]].append(row)
    expected = []
    for key, rows in by_key.items():
        run: list[Row] = []
        for row in [*sorted(rows), None]:
            if run and (row is None or row[0] > run[-1][0] + GAP):
                expected.append((run[0][0], run[-1][0] + GAP, 0, 1, key, *sums([r[2] for r in run])))
                run = []
            if row is not None:
                run.append(row)
    assert driver.gauges["open_windows"] == len(expected)
    assert Counter(driver.advance(10_000)) == Counter(expected)
    assert driver.store.spaces() == []


def test_a_change_log_of_thousands_of_groups_sums_up() -> None:
    stream = batches(4, 5_000, 300)
    drivers = [Driver(paned_spec(100, 50, **KEYED_SUMS, emit=mode)) for mode in ("changes", "on window close")]
    for driver in drivers:
        for number, rows in enumerate(stream):
            driver.batch(rows, watermark=number * 20)
        driver.batch([], watermark=1_000)
    total: Counter[Row] = Counter()
    for start, end, _, op, *rest in drivers[0].main:
        total[(start, end, *rest)] += op
    assert +total == Counter((start, end, *rest) for start, end, _, _, *rest in drivers[1].main)
    assert drivers[0].counts == drivers[1].counts


def test_every_row_of_thousands_of_groups_triggers_its_answer() -> None:
    (rows,) = batches(1, 6_000, 1_000)
    driver = Driver(slide_spec(100, 20, **KEYED_SUMS))
    driver.batch(rows)
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row[1]].append(row)
    expected: Counter[Row] = Counter()
    for ts, key, _ in rows:
        near = [row[2] for row in by_key[key] if ts - 100 <= row[0] <= ts + 20]
        expected[(ts - 100, ts + 20, key, *sums(near))] += 1
    found = driver.advance(5_000)
    assert Counter((start, end, *rest) for start, end, _, _, *rest in found) == expected
