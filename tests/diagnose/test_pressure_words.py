"""What strains a stream, in words."""

from __future__ import annotations

from eventide.diagnose.pressure_words import pressure_lines
from eventide.storage.results import Account

SECOND = 1_000_000


def test_a_stream_that_is_well_has_nothing_said_about_it() -> None:
    even = {f"state_bytes#{shard}": 2_000_000 for shard in range(4)}
    assert pressure_lines(Account(0, {}, {}, gauges=even, took={"compute": SECOND}), {}) == []
    assert pressure_lines(None, {}) == []


def test_side_sinks_that_fail() -> None:
    (line,) = pressure_lines(None, {"side_sinks_failing": 1, "side_waiting": 1200})
    assert line.startswith("A side sink does not take payloads: 1,200 wait")
    assert pressure_lines(None, {"side_sinks_failing": 2})[0].startswith("2 side sinks do not")


def test_a_slow_batch_names_its_phase() -> None:
    took = {"plan": SECOND, "compute": 2 * SECOND, "sinks": 12_340_000}
    (line,) = pressure_lines(Account(0, {}, {}, took=took), {})
    assert line.startswith("The last batch took 15s 300ms, 12s 300ms of it to write to sinks. The slowest sink decides")


def test_a_shard_that_holds_most_of_the_state() -> None:
    uneven = {"state_bytes#0": 9_000_000, "state_bytes#1": 500_000, "state_bytes#2": 500_000, "open_windows#0": 3}
    (line,) = pressure_lines(Account(0, {}, {}, gauges=uneven), {})
    assert line.startswith("Shard 0 holds 90% of the state (9,000,000 of 10,000,000 bytes in 3 shards)")
    small = {name: value // 100 for name, value in uneven.items()}
    assert pressure_lines(Account(0, {}, {}, gauges=small), {}) == []


def test_the_key_that_most_rows_have_is_named() -> None:
    uneven = {"state_bytes#0": 9_000_000, "state_bytes#1": 500_000, "state_bytes#2": 500_000}
    busiest = {"0": {"key": ["shop", "NULL"], "share": 0.71}, "2": {"key": ["other"], "share": 0.9}}
    (line,) = pressure_lines(Account(0, {}, {}, gauges=uneven, busiest=busiest), {})
    assert "in 3 shards): key shop, NULL has 71% of its rows, and one task does most of the work." in line


def test_a_shard_that_the_others_wait_for() -> None:
    late = {"shard": 3, "spent": 8_123_456, "usual": 402_000}
    (line,) = pressure_lines(Account(0, {}, {}, straggler=late), {})
    assert line.startswith("Shard 3 took 8s 120ms of the last batch, and the others about 400ms: it may have a slow")
    busiest = {"3": {"key": ["a"], "share": 0.6}}
    (line,) = pressure_lines(Account(0, {}, {}, straggler=late, busiest=busiest), {})
    assert line.endswith("about 400ms: key a has 60% of its rows.")
