"""What limits and load shedding cost: processor time per row from a JSON file to the operator's state, without Spark.

    python benchmarks/limits.py [rows]

The same file is read, decoded, packed, unpacked, judged and aggregated with and without the options of a source: first
as streams run, whose tasks fold rows and let them pass while there are tokens for all (`admission/trust.py`); then with
every row in its shard, and asked for there, as in a stream that cannot fold, or whose rows were rejected. Best of
seven, taken by turns, so that whatever else the machine does hits all of them alike. A source without these options
takes the way that it took before there were any.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa

from benchmarks.kernels import paned
from eventide.admission.gate import Gate
from eventide.admission.options import AdmissionSpec, parse_admission
from eventide.admission.shed_log import ShedLog
from eventide.admission.shedder import ShedOrder, ShedRatios
from eventide.admission.trust import Trusted
from eventide.eventtime.registry import EpochUnit
from eventide.kernels.contract import Clock, InputSpec
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.prefold import Prefold, TimeBound
from eventide.kernels.side_rows import SideRows
from eventide.kernels.state.memory_store import MemoryStore
from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.expressions import Column
from eventide.tasks.fused_scan import FusedScan, Resolution
from eventide.tasks.json_lines import JsonLines
from eventide.tasks.packing import SURVEY, Packing, ShardBy, from_blob, left_out_of, order_of, survey_of, trusted_of
from eventide.tasks.surveying import Surveying

SHARDS = (10, 11)
NOW = 2_000_000_000_000_000
CASES = {
    "no options": {},
    "sla.max_lag": {"sla.max_lag": "100000 days"},
    "sla.jitter_budget": {"sla.jitter_budget": "1 s"},
    "sla.class = gold": {"sla.class": "gold", "sla.burst": "1000000000", "sla.max_lag": "100000 days"},
    "all rejected by the rate": {"sla.max_events_per_sec": "1", "sla.burst": "1"},
    "shed.policy = strict, nothing shed": {"shed.policy": "strict"},
    "shed.policy = strict, half of it shed": {"shed.policy": "strict", "shed.target_latency": "1 s"},
}
NOT_TRUSTED = ("all rejected by the rate", "shed.policy = strict, half of it shed")
TURNS = 7
HALF = ShedOrder(ShedRatios(medium=0.5), 0.5, 2.0, "latency")


def write_file(path: Path, rows: int) -> None:
    with path.open("w") as file:
        for n in range(rows):
            row = {"id": n, "user": f"u{n * 7919 % 1000}", "amount": n % 100 / 4, "page": f"/page/{n % 50}", "ts": n}
            file.write(json.dumps(row) + "\n")


def scan_of(spec: AdmissionSpec | None, orders: Path, prefold: Prefold | None) -> FusedScan:
    """With `prefold` tasks fold."""
    surveying = None
    if spec is not None:
        surveying = Surveying(spec, False, orders if spec.sheds else None, by_place=True)
    packing = Packing(
        0,
        SHARDS,
        ShardBy(("__k0",)),
        0,
        prefold=prefold,
        surveying=surveying,
        late_only=frozenset() if prefold is None else frozenset({"__o0", "__o1"}),
        trusts=spec is not None and prefold is not None,
    )
    names = (("user", "string"), ("amount", "double"), ("page", "string"), ("ts", "bigint"), ("id", "bigint"))
    packed = (
        ("__k0", Column("user", "string")),
        ("__i0", Column("amount", "double")),
        ("__o0", Column("id", "bigint")),
        ("__o1", Column("page", "string")),
    )
    resolution = Resolution("ts", EpochUnit(1000, 1), 1 << 60)
    wanted = frozenset({"user", "amount", "ts"}) if prefold is not None else None
    return FusedScan(JsonLines(names, None, wanted), resolution, None, packed, packing, numbered=spec is not None)


def seconds(path: Path, rows: int, spec: AdmissionSpec | None, orders: Path, folds: bool) -> float:
    """Processor time of one batch."""
    kernel = paned(10, 10)
    scan = scan_of(spec, orders, kernel.prefold() if folds else None)
    side = SideRows((InputSpec("s", (("user", "__k0"),), (("id", "__o0"), ("page", "__o1"))),))
    began = time.process_time()
    packed = list(scan.read([FileRange(str(path), 0, NOW, 0, path.stat().st_size)], NOW, 0, TimeBound()))
    used = 0
    for shard in SHARDS:
        used += take(packed, shard, kernel, spec, side)
    took = time.process_time() - began
    if used != rows:
        raise RuntimeError(f"{used} of {rows} rows are accounted for")
    return took


def take(
    packed: list[pa.RecordBatch], shard: int, kernel: IntakeSpec, spec: AdmissionSpec | None, side: SideRows
) -> int:
    """What a shard does; how many rows it accounts for."""
    tables, slices, left_out, orders = [], {}, Counter[int](), {}
    partials, folded, trusted = [], 0, []
    for batch in packed:
        for row in batch.to_pylist():
            if row["shard"] != shard:
                continue
            table = from_blob(row["blob"])
            if row["control"] == SURVEY:
                slices[survey_of(table) or 0] = table
                left_out.update(left_out_of(table))
                told, passed = order_of(table), trusted_of(table)
                orders |= {} if told is None else {0: ShedOrder.from_bytes(told)}
                trusted += [] if passed is None else [Trusted.from_bytes(passed)]
            elif row["folded"] is not None:
                partials.append(table)
                folded += row["folded"]
            else:
                tables.append((survey_of(table), table))
    store, counted = MemoryStore(), 0
    if spec is not None:
        let_in = Gate({0: spec}, side).let_in(
            {0: slices}, {0: tables}, store, orders, {0: left_out}, trusted={0: trusted}
        )
        if let_in.is_overdrawn:
            raise RuntimeError("rows were let pass that limits do not admit")
        counted = sum(let_in.output.counts.values())
        tables = [(None, table) for table in let_in.rows.get(0, [])]
    built = kernel.build()
    if partials:
        output = built.on_folded(pa.concat_tables(partials), folded, Clock(None, NOW), store)
        counted += sum(output.counts.values())
    if not tables:
        return counted
    rows = pa.concat_tables([table for _, table in tables])
    return counted + sum(built.on_rows({0: rows}, Clock(None, NOW), store).counts.values())


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, none, half = (Path(folder) / name for name in ("rows.json", "none.json", "half.json"))
        write_file(path, rows)
        ShedLog(half).add(0, HALF)
        for title, folds in (("tasks fold", True), ("every row is asked for", False)):
            took: dict[str, list[float]] = {name: [] for name in CASES if not (folds and name in NOT_TRUSTED)}
            for _ in range(TURNS):
                for name in took:
                    spec = parse_admission(CASES[name]) if CASES[name] else None
                    orders = half if name.endswith("half of it shed") else none
                    took[name].append(seconds(path, rows, spec, orders, folds))
            best = {name: min(times) for name, times in took.items()}
            print(title)
            for name, least in best.items():
                print(f"  {name:40} {least / rows * 1e9:6.0f} ns a row   {least / best['no options']:5.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
