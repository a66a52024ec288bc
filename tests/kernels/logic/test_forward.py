from collections import Counter

from eventide.kernels.contract import ROWTIME, Clock, iter_rows
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.logic.forward import ForwardSpec
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.modes import LatePolicy
from tests.kernels.harness import BIGINT, STRING, Driver, blobs, micros, table

ORIGINALS = (("k", "__k0"), ("v", "__i0"))
PLAIN = ForwardSpec(ORIGINALS, (STRING, BIGINT))
ORDERED = ForwardSpec(ORIGINALS, (STRING, BIGINT), ordered=True)


class Shard:
    def __init__(self, spec: ForwardSpec, policy: LatePolicy = LatePolicy.WINDOW) -> None:
        self.kernel, self.store = IntakeSpec(spec, policy).build(), MemoryStore()

    def rows(self, rows: list[tuple[object, ...]], watermark: int | None = None) -> list[object]:
        clock = Clock(watermark, 0)
        self.output = self.kernel.on_rows({0: table(rows)}, clock, self.store)
        self.output = self.output.merge(self.kernel.on_time(clock, self.store))
        return [row["v"] for row in iter_rows(self.output.main)]


def test_rows_leave_as_they_come() -> None:
    shard = Shard(PLAIN)
    assert shard.rows([(5, "a", 1), (1, "b", 2)]) == [1, 2]
    assert shard.rows([(-100, "b", 3)], watermark=50) == [3]
    assert shard.output.counts == {"used": 1}
    assert shard.store.spaces() == []


def test_strict_forwarding_keeps_late_rows_apart() -> None:
    shard = Shard(PLAIN, LatePolicy.STRICT)
    assert shard.rows([(50, "b", 3), (51, "b", 4)], watermark=50) == [4]
    assert shard.output.counts == {"used": 1, "late": 1}


def test_ordered_rows_leave_when_the_watermark_passes_them() -> None:
    shard = Shard(ORDERED)
    assert shard.rows([(5, "a", 1), (3, "b", 2), (9, "c", 3)]) == []
    assert (shard.output.gauges["buffer_size"], shard.output.gauges["max_timestamp_seen"], shard.output.wake_at) == (
        3,
        9,
        3,
    )
    assert shard.rows([(7, "d", 4)], watermark=5) == [2, 1]
    assert shard.output.events == Counter(watermark_emitted_count=2)
    assert shard.rows([], watermark=9) == [4, 3]
    assert shard.output.gauges["buffer_size"] == 0


def test_equal_timestamps_leave_in_order_of_arrival() -> None:
    shard = Shard(ORDERED)
    shard.rows([(5, "a", 1), (5, "a", 2)])
    shard.rows([(5, "a", 0)], watermark=1)
    assert shard.rows([], watermark=5) == [1, 2, 0]


def test_ordered_forwarding_is_always_strict() -> None:
    shard = Shard(ORDERED)
    shard.rows([(5, "a", 1)])
    shard.rows([(5, "a", 2), (6, "a", 3)], watermark=5)
    assert shard.output.counts == {"used": 1, "late": 1}
    assert shard.output.events["late_dropped_count"] == 1
    (late,) = iter_rows(shard.output.side)
    assert (late["reason"], micros(late["event_time"]), late["original_event"]) == (
        "behind_watermark",
        5,
        '{"k": "a", "v": 2}',
    )


def test_a_flush_emits_everything_and_nothing_older_follows() -> None:
    shard = Shard(ORDERED)
    shard.rows([(5, "a", 1), (9, "a", 2)])
    assert [row["v"] for row in iter_rows(shard.kernel.on_flush(9, Clock(None, 0), shard.store).main)] == [1, 2]
    shard.rows([(7, "a", 3), (10, "a", 4)])
    assert shard.output.counts == {"used": 1, "late": 1}


def test_rows_spread_over_days_take_few_blobs() -> None:
    shard = Shard(ORDERED)
    day = 86_400_000_000
    shard.rows([(n * day // 100, "a", n) for n in reversed(range(1000))])
    assert blobs(shard.store) < 60
    assert shard.rows([], watermark=day) == list(range(101))
    assert shard.rows([], watermark=20 * day) == list(range(101, 1000))


def test_the_driver_takes_forwarding_specs_too() -> None:
    driver = Driver(IntakeSpec(ORDERED))
    assert driver.spec.main_schema.names == ["k", "v", ROWTIME]
