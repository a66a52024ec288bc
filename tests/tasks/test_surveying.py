"""Rows with limits, packed by tasks and judged by shards, against the rules row by row."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from eventide.admission.controller import Admit, Reject, StreamAdmissionController
from eventide.admission.gate import SHED_PAYLOADS, Gate, LetIn
from eventide.admission.lags import is_lag, lag_counts
from eventide.admission.options import AdmissionSpec, parse_admission
from eventide.admission.shed_log import ShedLog
from eventide.admission.shedder import ShedOrder, ShedRatios
from eventide.admission.sla import BucketSpec, StreamSlaConfig
from eventide.admission.trust import Trusted
from eventide.eventtime.resolution import DECLARED, FROM_METADATA, IS_UNPARSEABLE
from eventide.kernels.contract import DETAIL, SEQ, TS, InputSpec
from eventide.kernels.prefold import TimeBound
from eventide.kernels.side_rows import SideRows
from eventide.kernels.state.memory_store import MemoryStore
from eventide.tasks.early_shedding import EarlyShedding, goes_unseen
from eventide.tasks.packing import (
    ARRIVED,
    HOW,
    KEPT,
    NOW,
    PRIORITY,
    REST,
    SURVEY,
    Packing,
    ShardBy,
    from_blob,
    left_out_of,
    order_of,
    survey_of,
    trusted_of,
)
from eventide.tasks.surveying import Surveyed, Surveying, left_out_seq

MS = 1000
LAG = 7 * MS


@dataclass(frozen=True)
class Row:
    id: int  # its place in what the source holds
    at: int
    ts: int
    how: int
    kept: bool
    key: int


Tasks = list[list[Row]]  # the rows of a batch, as tasks read them

SIDE = SideRows((InputSpec("s", (), (("id", "__o0"),)),))


def packing(config: StreamSlaConfig, shards: int, trusts: bool = False) -> Packing:
    surveying = Surveying(AdmissionSpec(config), False)
    numbers = tuple(range(10, 10 + shards))
    return Packing(0, numbers, ShardBy(("__k0",)), LAG, surveying=surveying, trusts=trusts)


def table(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            SEQ: pa.array([row.id for row in rows], pa.int64()),
            TS: pa.array([None if row.how == IS_UNPARSEABLE else row.ts for row in rows], pa.int64()),
            HOW: pa.array([row.how for row in rows], pa.int8()),
            DETAIL: pa.nulls(len(rows), pa.string()),
            ARRIVED: pa.array([row.at for row in rows], pa.int64()),
            KEPT: pa.array([row.kept for row in rows], pa.bool_()),
            "__k0": pa.array([row.key for row in rows], pa.int64()),
            "__o0": pa.array([row.id for row in rows], pa.int64()),
        }
    )


def packed_by(packing: Packing, tasks: Tasks, chunk: int) -> list[dict[str, Any]]:
    return [
        packed
        for task, rows in enumerate(tasks)
        for place in range(0, len(rows), chunk)
        for packed in packing.pack(table(rows[place : place + chunk]), task, TimeBound(), place)
    ]


def let_in(gate: Gate, packed: list[dict[str, Any]], shard: int, store: MemoryStore) -> LetIn:
    slices: dict[int, dict[int, pa.Table]] = {}
    orders: dict[int, ShedOrder] = {}
    rows: dict[int, list[tuple[int | None, pa.Table]]] = {}
    left_out: Counter[int] = Counter()
    rest: list[tuple[int, pa.Table]] = []
    trusted: list[Trusted] = []
    for entry in packed:
        if entry["shard"] != shard:
            continue
        found = from_blob(entry["blob"])
        if entry.get("control") == SURVEY:
            slices.setdefault(0, {})[survey_of(found) or 0] = found
            order = order_of(found)
            orders.update({} if order is None else {0: ShedOrder.from_bytes(order)})
            left_out.update(left_out_of(found))
            told = trusted_of(found)
            trusted += [] if told is None else [Trusted.from_bytes(told)]
        elif entry.get("control") == REST:
            rest.append((survey_of(found) or 0, found))
        else:
            rows.setdefault(0, []).append((survey_of(found), found))
    return gate.let_in(slices, rows, store, orders, {0: left_out}, {0: rest}, {0: trusted})


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[Tasks, int]]:
    """Batches of rows that several tasks read in pieces, and pack in chunks."""
    found, number, now = [], 0, 0
    for _ in range(draw(st.integers(1, 3))):
        tasks: Tasks = [[] for _ in range(draw(st.integers(1, 3)))]
        for _ in range(draw(st.integers(0, 5))):
            now += draw(st.sampled_from([0, 1, 40, 400])) * MS + draw(st.integers(0, MS - 1))
            piece = []
            for _ in range(draw(st.integers(1, 6))):
                ts = now - draw(st.sampled_from([0, 5, 30])) * MS
                how = draw(st.sampled_from([DECLARED, DECLARED, DECLARED, FROM_METADATA, IS_UNPARSEABLE]))
                piece.append(Row(number, now, ts, how, draw(st.booleans()), draw(st.integers(0, 3))))
                number += 1
            draw(st.sampled_from(tasks)).extend(piece)
            number += draw(st.integers(0, 3))  # as between the pieces of a file
        found.append((tasks, draw(st.integers(1, 7))))
    return found


configs = st.builds(
    StreamSlaConfig,
    st.none(),
    st.none() | st.builds(BucketSpec, st.just(Fraction(25)), st.sampled_from([Fraction(1), Fraction(4)])),
    st.none() | st.just(20 * MS),
    st.none() | st.just(50 * MS),
).filter(lambda config: config.limits_anything)


@settings(max_examples=100)
@given(configs, batches(), st.sampled_from([1, 2, 7]))
def test_tasks_and_shards_admit_what_the_rules_admit_row_by_row(
    config: StreamSlaConfig, given_batches: list[tuple[Tasks, int]], shards: int
) -> None:
    source, stores = StreamAdmissionController(config), [MemoryStore() for _ in range(shards)]
    made, gate = packing(config, shards), Gate({0: AdmissionSpec(config)}, SIDE)
    for tasks, chunk in given_batches:
        admitted, rejected, claims = set(), {}, []
        rows = sorted((row for task in tasks for row in task), key=lambda row: (row.at // MS, row.id))
        for row in rows:
            if row.how == IS_UNPARSEABLE:
                continue
            decision = source.try_admit(row.ts if row.how == DECLARED else None, row.at // MS * MS)
            if isinstance(decision, Admit):  # what the query leaves out tells about time as well
                claims += [row.ts - LAG] if row.how == DECLARED else []
            if row.kept and isinstance(decision, Admit):
                admitted.add(row.id)
            elif row.kept and isinstance(decision, Reject):
                rejected[row.id] = decision.reason
        packed = packed_by(made, tasks, chunk)
        outcome = [let_in(gate, packed, 10 + shard, stores[shard]) for shard in range(shards)]
        errors = {row.id for row in rows if row.kept and row.how == IS_UNPARSEABLE}
        ids = [id for one in outcome for found in one.rows.get(0, []) for id in found["__o0"].to_pylist()]
        assert sorted(ids) == sorted(admitted | errors)
        reasons = {
            int(payload["original_event"].removeprefix('{"id": ').removesuffix("}")): payload["reason"]
            for one in outcome
            for side in one.output.side
            for payload in side.to_pylist()
        }
        assert reasons == rejected
        tokens = source.state.bucket and float(source.state.bucket.measure.tokens(source.state.bucket.level))
        assert all(one.figures[0].get("tokens_left") == tokens for one in outcome if 0 in one.figures)
        told = [one.claims[0] for one in outcome if 0 in one.claims]
        by_tasks = [entry["claim"] for entry in packed if entry.get("claim") is not None]
        assert max(told if config.needs_history else by_tasks, default=None) == max(claims, default=None)
        assert len({tuple(store.read("admission", 0)) for store in stores}) == 1


@settings(max_examples=200)
@given(configs, batches(), st.sampled_from([1, 2, 7]))
def test_rows_that_are_let_pass_are_those_that_are_admitted_or_the_batch_is_taken_again(
    config: StreamSlaConfig, given_batches: list[tuple[Tasks, int]], shards: int
) -> None:
    """The same batches with and without trust. One that is overdrawn goes on without, as a stream does."""
    source, stores = StreamAdmissionController(config), [MemoryStore() for _ in range(shards)]
    gate, numbers = Gate({0: AdmissionSpec(config)}, SIDE), range(shards)
    for tasks, chunk in given_batches:
        rows = sorted((row for task in tasks for row in task), key=lambda row: (row.at // MS, row.id))
        judged = [
            source.try_admit(row.ts if row.how == DECLARED else None, row.at // MS * MS)
            for row in rows
            if row.how != IS_UNPARSEABLE
        ]
        lacks_tokens = any(isinstance(decision, Reject) and decision.reason != "lag" for decision in judged)
        before = copy.deepcopy(stores)
        asked = packed_by(packing(config, shards), tasks, chunk)
        careful = [let_in(gate, asked, 10 + shard, stores[shard]) for shard in numbers]
        told = packed_by(packing(config, shards, trusts=True), tasks, chunk)
        found = [let_in(gate, told, 10 + shard, before[shard]) for shard in numbers]
        assert {one.is_overdrawn for one in found} == {lacks_tokens}
        if not lacks_tokens:
            assert before == stores
            assert [known(one) for one in found] == [known(one) for one in careful]
            assert figures(found, told) == figures(careful, asked)


def known(one: LetIn) -> tuple[list[int], list[str]]:
    """The rows that a shard lets in, and what it puts aside."""
    ids = [id for table in one.rows.get(0, []) for id in table["__o0"].to_pylist()]
    return sorted(ids), sorted(str(row) for side in one.output.side for row in side.to_pylist())


def figures(shards: list[LetIn], packed: list[dict[str, Any]]) -> tuple[dict[str, float], int | None]:
    """Those of all shards together, and the watermark that admitted rows allow, whoever tells it."""
    sums: Counter[str] = sum((Counter(one.figures.get(0, {})) for one in shards), Counter())
    by_tasks = [entry["claim"] for entry in packed if entry.get("claim") is not None]
    return dict(sums), max([*by_tasks, *(one.claims[0] for one in shards if 0 in one.claims)], default=None)


def test_rows_are_shed_by_priority_take_no_token_and_move_no_watermark(tmp_path: Path) -> None:
    """Before time 100 nothing is shed; from then on all of low priority."""
    spec = parse_admission(
        {"sla.max_events_per_sec": "1", "sla.burst": "3", "shed.policy": "strict", "sla.priority": "how"}
    )
    log = ShedLog(tmp_path / "orders.json")
    log.add(100, ShedOrder(ShedRatios(low=1.0), 0.5, 1.3, "latency"))
    made = Packing(0, (10, 11), ShardBy(("__k0",)), LAG, surveying=Surveying(spec, False, tmp_path / "orders.json"))
    gate, words = Gate({0: spec}, SIDE), ["low", "high", "low", None, "low", "critical", "high"]

    def outcome(now: int) -> tuple[list[int], dict[int, str], list[LetIn]]:
        rows = table([Row(id, MS, id * MS, DECLARED, True, id) for id in range(7)])
        rows = rows.append_column(NOW, pa.repeat(now, 7)).append_column(PRIORITY, pa.array(words))
        packed = made.pack(rows, 0)
        shards = [let_in(gate, packed, 10 + shard, MemoryStore()) for shard in range(2)]
        admitted = [id for one in shards for found in one.rows.get(0, []) for id in found["__o0"].to_pylist()]
        aside = [payload for one in shards for side in one.output.side for payload in side.to_pylist()]
        return sorted(admitted), {json.loads(each["original_event"])["id"]: each["kind"] for each in aside}, shards

    assert outcome(99)[:2] == ([0, 1, 2], {3: "rejected", 4: "rejected", 5: "rejected", 6: "rejected"})
    admitted, kinds, shards = outcome(100)
    # row 4 comes when the bucket is empty: limits come before load
    assert admitted == [1, 3, 5]
    assert kinds == {0: "shed", 2: "shed", 4: "shed", 6: "rejected"}
    assert max(one.claims.get(0, -LAG) for one in shards) == 5 * MS - LAG
    details = [
        each for one in shards for side in one.output.side for each in side.to_pylist() if each["kind"] == "shed"
    ]
    assert json.loads(details[0]["error_detail"])["priority"] == "low"
    offered = sum((one.output.events for one in shards), Counter())
    assert offered == {"offered_s_low": 3, "offered_s_medium": 1, "offered_s_high": 1, "offered_s_critical": 1}


WINDOW = (0, 10 * MS)


def shed_windows(folder: Path, orders: list[ShedOrder], batches: list[list[Row]]) -> tuple[set[int], LetIn]:
    """The rows that are kept of batches, each under its own order, and what a shard made of the last one."""
    spec = parse_admission({"shed.mode": "windows"})
    made = Packing(
        0,
        (10, 11),
        ShardBy(("__k0",)),
        LAG,
        surveying=Surveying(spec, False, folder / "orders.json", keys=("__k0",), window=WINDOW),
    )
    log, kept, last = ShedLog(folder / "orders.json"), set(), LetIn()
    for number, (order, rows) in enumerate(zip(orders, batches, strict=True)):
        log.add(number, order)
        ready = table(rows).append_column(NOW, pa.repeat(number, len(rows)))
        ready = ready.append_column(PRIORITY, pa.nulls(len(rows), pa.string()))
        packed = made.pack(ready, 0)
        for shard in (10, 11):
            last = let_in(Gate({0: spec}, SIDE, WINDOW), packed, shard, MemoryStore())
            kept |= {id for found in last.rows.get(0, []) for id in found["__o0"].to_pylist()}
    return kept, last


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.9]), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_a_window_is_whole_or_not_there_however_the_ratio_changes(
    tmp_path_factory: pytest.TempPathFactory, shares: list[float], chance: random.Random
) -> None:
    """Rows of a window come in several batches, under several orders."""
    order, orders, batches, number, seen = ShedOrder(), [], [], 0, 0
    for place, share in enumerate(shares):
        ratios = ShedRatios(share, share)
        order = ShedOrder(ratios, share, 2.0, "latency", order.changed(ratios, seen if place else None, None))
        times = [place * 10 * MS + chance.randrange(-8, 12) * MS for _ in range(60)]
        rows = [Row(number + n, 0, time, DECLARED, True, chance.randrange(4)) for n, time in enumerate(times)]
        number, seen = number + len(rows), max(seen, *times)
        orders.append(order)
        batches.append(rows)
    kept, last = shed_windows(tmp_path_factory.mktemp("shed"), orders, batches)
    by_window: dict[tuple[int, int], set[bool]] = {}
    for row in (row for rows in batches for row in rows):
        by_window.setdefault((row.key, row.ts // (10 * MS)), set()).add(row.id in kept)
    assert all(len(fates) == 1 for fates in by_window.values())
    assert last.offered[0] <= seen
    if set(shares) == {0.0}:
        assert len(kept) == number


def test_a_kept_row_stands_for_those_that_went_in_its_place(tmp_path: Path) -> None:
    spec = parse_admission({"shed.policy": "strict", "sla.priority": "p"})
    log = ShedLog(tmp_path / "orders.json")
    log.add(0, ShedOrder(ShedRatios(low=0.75), 0.4, 1.3, "latency"))
    surveying = Surveying(spec, False, tmp_path / "orders.json", weight="__i0")
    rows = table([Row(id, MS, id * MS, DECLARED, True, id) for id in range(4000)])
    words = pa.array(["low", "high"] * 2000)
    rows = rows.append_column(NOW, pa.repeat(0, 4000)).append_column(PRIORITY, words)
    found = surveying.survey(rows.append_column("__i0", pa.repeat(1.0, 4000)), 0)
    kept = [weight for weight, out in zip(found.rows["__i0"].to_pylist(), found.out, strict=True) if not out]
    assert set(kept) == {1.0, 4.0} and kept.count(1.0) == 2000
    assert sum(kept) == pytest.approx(4000, rel=0.1)


@pytest.mark.parametrize("limits", [{}, {"sla.max_events_per_sec": "1", "sla.burst": "1000000"}])
def test_of_many_rows_that_are_shed_all_count_and_some_leave_a_payload(tmp_path: Path, limits: dict[str, str]) -> None:
    """Whether tasks know by themselves that a row goes, or shards must."""
    spec = parse_admission({"shed.policy": "strict", "sla.priority": "p", **limits})
    log = ShedLog(tmp_path / "orders.json")
    log.add(0, ShedOrder(ShedRatios(low=1.0), 0.5, 1.3, "latency"))
    made = Packing(0, (10, 11), ShardBy(("__k0",)), LAG, surveying=Surveying(spec, False, tmp_path / "orders.json"))
    count = 10 * SHED_PAYLOADS
    rows = table([Row(id, MS, id * MS, DECLARED, id % 5 > 0, id) for id in range(count)])
    rows = rows.append_column(NOW, pa.repeat(0, count)).append_column(
        PRIORITY, pa.array(["low", "high"] * (count // 2))
    )
    packed = made.pack(rows, 0)
    shards = [let_in(Gate({0: spec}, SIDE), packed, 10 + shard, MemoryStore()) for shard in range(2)]
    low, high = (sum(id % 5 > 0 and id % 2 == odd for id in range(count)) for odd in (0, 1))
    assert sum(one.output.counts["shed"] for one in shards) == low
    assert sum(one.figures[0]["shed"] for one in shards) == low
    assert sum((one.output.events for one in shards), Counter()) == {"offered_s_low": low, "offered_s_high": high}
    assert sum(found.num_rows for one in shards for found in one.rows[0]) == high
    payloads = sum(side.num_rows for one in shards for side in one.output.side)
    assert SHED_PAYLOADS <= payloads <= 2 * SHED_PAYLOADS < low
    travelled = sum(from_blob(entry["blob"]).num_rows for entry in packed if entry.get("control") is None)
    assert travelled == (low + high if limits else high + SHED_PAYLOADS)


def test_rows_that_go_unseen_are_those_that_the_survey_would_have_shed(tmp_path: Path) -> None:
    spec = parse_admission({"shed.policy": "strict"})
    log = ShedLog(tmp_path / "orders.json")
    log.add(0, ShedOrder(ShedRatios(medium=0.6), 0.6, 1.3, "latency"))
    surveying = Surveying(spec, False, tmp_path / "orders.json", by_place=True)
    count = 10 * SHED_PAYLOADS

    def surveyed(rows: pa.Table) -> Surveyed:
        rows = rows.append_column(NOW, pa.repeat(0, rows.num_rows))
        return surveying.survey(rows.append_column(PRIORITY, pa.nulls(rows.num_rows, pa.string())), 0)

    every = table([Row(id, MS, id * MS, DECLARED, True, id) for id in range(count)])
    late = surveyed(every)
    mask, left, payloads = EarlyShedding(tmp_path / "orders.json", spec).kept(every[SEQ], 0) or (None, 0, 0)
    told = table([Row(left_out_seq(left), 0, 0, FROM_METADATA, True, 0)])
    early = surveyed(pa.concat_tables([every.filter(mask), told]))
    assert payloads == SHED_PAYLOADS
    assert left > 4 * SHED_PAYLOADS and early.left_out == late.left_out == {int(spec.priority): left}
    assert early.rows["__o0"].to_pylist() == late.rows["__o0"].to_pylist()
    assert EarlyShedding(tmp_path / "none.json", spec).kept(every[SEQ], 0) is None


def test_rows_that_went_unseen_count_though_no_row_travels_with_them(tmp_path: Path) -> None:
    spec = parse_admission({"shed.policy": "strict"})
    ShedLog(tmp_path / "orders.json").add(0, ShedOrder(ShedRatios(medium=1.0), 0.9, 1.3, "latency"))
    surveying = Surveying(spec, False, tmp_path / "orders.json", by_place=True)
    made = Packing(0, (10, 11), ShardBy(("__k0",)), LAG, surveying=surveying)
    told = table([Row(left_out_seq(7), 0, 0, FROM_METADATA, True, 0)])
    told = told.append_column(NOW, pa.repeat(0, 1)).append_column(PRIORITY, pa.nulls(1, pa.string()))
    packed = made.pack(told, 0)
    found = let_in(Gate({0: spec}, SIDE), packed, 10, MemoryStore())
    assert found.output.counts["shed"] == found.output.events["offered_s_medium"] == 7
    assert not any(rows.num_rows for rows in found.rows[0])


def test_a_task_lets_some_rows_leave_a_payload_whatever_the_number_of_its_pieces(tmp_path: Path) -> None:
    spec = parse_admission({"shed.policy": "strict"})
    ShedLog(tmp_path / "orders.json").add(0, ShedOrder(ShedRatios(medium=1.0), 0.9, 1.3, "latency"))
    shedding, payloads = EarlyShedding(tmp_path / "orders.json", spec), SHED_PAYLOADS
    travelled = 0
    for first in range(0, 10 * SHED_PAYLOADS, 300):
        found = shedding.kept(pa.chunked_array([pa.array(range(first, first + 300))]), 0, payloads)
        assert found is not None and found.left_out + found.told == 300
        payloads, travelled = payloads - found.told, travelled + found.told
    assert travelled == SHED_PAYLOADS and payloads == 0


@pytest.mark.parametrize(
    ("options", "unseen"),
    [
        ({"shed.policy": "strict"}, True),
        ({"shed.policy": "strict", "sla.priority": "low"}, True),
        ({"shed.policy": "strict", "sla.priority": "p"}, False),
        ({"shed.policy": "strict", "sla.max_lag": "5 s"}, False),
        ({"shed.policy": "strict", "sla.class": "bronze"}, False),
        ({"shed.mode": "windows"}, False),
        ({"shed.policy": "bypass"}, False),
        ({"shed.policy": "prefer_throttle"}, False),
    ],
)
def test_rows_go_unseen_only_where_nothing_in_them_matters(options: dict[str, str], unseen: bool) -> None:
    assert goes_unseen(parse_admission(options)) == unseen


def test_a_source_without_limits_sends_no_column_and_no_entry_more() -> None:
    rows = table([Row(id, 0, id, DECLARED, True, id) for id in range(8)]).drop_columns([ARRIVED, KEPT, SEQ])
    packed = Packing(0, (10, 11), ShardBy(("__k0",)), LAG).pack(rows, 0)
    assert len(packed) == 2 and all(entry.get("control") is None for entry in packed)
    assert [survey_of(from_blob(entry["blob"])) for entry in packed] == [None, None]
    assert all(from_blob(entry["blob"]).column_names == [TS, "__k0", "__o0"] for entry in packed)


@pytest.mark.parametrize("arrivals", [(100, 100), (100, 140)])
def test_lags_are_told_whether_rows_carry_tickets_or_need_none(arrivals: tuple[int, int]) -> None:
    """Rows that came at one moment, and that no limit counts, carry none."""
    config = StreamSlaConfig(max_lag=90 * MS)
    rows = [Row(id, at * MS, 50 * MS, DECLARED, True, 0) for id, at in enumerate(arrivals * 3)]
    packed = packing(config, 1).pack(table(sorted(rows, key=lambda row: row.at)), 0)
    travelled = from_blob(packed[-1]["blob"])
    assert ("__before" in travelled.column_names) == (len(set(arrivals)) > 1)
    figures = let_in(Gate({0: AdmissionSpec(config)}, SIDE), packed, 10, MemoryStore()).figures[0]
    lags = np.array([(at - 50) * MS for at in arrivals * 3])
    assert {name: count for name, count in figures.items() if is_lag(name)} == lag_counts(lags)
