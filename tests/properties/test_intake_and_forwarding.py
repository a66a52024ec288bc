from collections import Counter
from typing import Any

from hypothesis import given, settings, strategies as st

from eventide.kernels.contract import Clock, iter_rows
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.logic.forward import ForwardSpec
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.modes import LatePolicy
from tests.kernels.harness import BIGINT, KEYED_SUMS, STRING, Driver, paned_spec, table
from tests.properties.strategies import Batch, streams

FAR = 10_000
ORDERED = ForwardSpec((("k", "__k0"), ("v", "__i0")), (STRING, BIGINT), ordered=True)


@settings(max_examples=60, deadline=None)
@given(streams(), st.data())
def test_ordered_forwarding_is_a_stable_sort_of_what_was_not_late(stream: list[Batch], data: Any) -> None:
    kernel, store = IntakeSpec(ORDERED).build(), MemoryStore()
    emitted: list[Any] = []
    taken = []
    number = 0
    for rows, watermark in [*stream, ([], FAR)]:
        numbered = [(ts, key, number + n) for n, (ts, key, _) in enumerate(rows)]
        number += len(rows)
        outputs = [
            kernel.on_rows({0: table(numbered)}, Clock(watermark, 0), store),
            kernel.on_time(Clock(watermark, 0), store),
        ]
        on_time = [row for row in numbered if watermark is None or row[0] > watermark]
        assert outputs[0].counts == +Counter(used=len(on_time), late=len(rows) - len(on_time))
        emitted += [row["v"] for output in outputs for row in iter_rows(output.main)]
        taken += on_time
        assert outputs[1].gauges["buffer_size"] == len(taken) - len(emitted)
    assert emitted == [row[2] for row in sorted(taken, key=lambda row: row[0])]


@settings(max_examples=60, deadline=None)
@given(streams(), st.integers(0, 30), st.data())
def test_first_occurrences_are_taken_and_all_others_are_duplicates(stream: list[Batch], within: int, data: Any) -> None:
    spec = paned_spec(10, 10, lateness=100_000, **KEYED_SUMS)
    driver = Driver(IntakeSpec(spec, dedup_within=(within,)))
    taken: list[tuple[int, str]] = []
    duplicates = 0
    for rows, watermark in stream:
        batch = [(*row, data.draw(st.sampled_from([None, "x", "y"]))) for row in rows]
        for ts, _, _, name in batch:
            if name is not None and any(other == name and abs(ts - seen) <= within for seen, other in taken):
                duplicates += 1
            elif name is not None:
                taken.append((ts, name))
        driver.batch(batch, watermark)
        assert driver.counts["duplicate"] == duplicates
    driver.batch([], 1_000_000)
    assert driver.store.spaces() == []


@settings(max_examples=40, deadline=None)
@given(streams(), st.sampled_from(["window", "strict", "reassign"]), st.data())
def test_every_row_is_accounted_for_under_every_policy(stream: list[Batch], policy: str, data: Any) -> None:
    spec = paned_spec(10, 5, lateness=5, **KEYED_SUMS, max_groups=2)
    driver = Driver(IntakeSpec(spec, LatePolicy(policy), max_lateness=7, dedup_within=(5,)))
    for rows, watermark in stream:
        wrong = [
            (None, key, value) if data.draw(st.integers(0, 5)) == 0 else (ts, key, value) for ts, key, value in rows
        ]
        driver.batch([(*row, data.draw(st.sampled_from([None, "x", "y", "z"]))) for row in wrong], watermark)
    stored = Counter(payload["kind"] for payload in driver.side)
    assert stored + Counter(used=driver.counts["used"]) == +driver.counts
    assert sum(driver.counts.values()) == driver.rows_in
