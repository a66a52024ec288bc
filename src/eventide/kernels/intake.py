"""The stage in front of every kernel: errors out, the stream's late policy, duplicates out, the rest to the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from eventide.errors import EngineError, OptionError
from eventide.kernels.contract import DETAIL, PROBLEM, TS, Clock, FoldingKernel, Kernel, KernelSpec, Output, Store
from eventide.kernels.dedup import Memory
from eventide.kernels.logic.panes import PanedSpec
from eventide.kernels.prefold import Prefold
from eventide.kernels.side_rows import DUPLICATE_REASON, STRICT_REASON, Sides
from eventide.kernels.vector.columns import column

WINDOW, STRICT, REASSIGN = "window", "strict", "reassign"


class InnerSpec(KernelSpec, Protocol):
    """What can stand behind an intake."""

    @property
    def horizon(self) -> int:
        """How far behind the watermark, in microseconds, a row may be that the kernel still takes."""
        ...


@dataclass(frozen=True)
class IntakeSpec:
    """A kernel with the stage in front of it.

    `policy` is 'window' (the kernel decides what is late), 'strict' (every row with ts <= watermark is late) or
    'reassign' (such a row takes the watermark as its event time if it is at most `max_lateness` behind, else it is
    late). With `dedup_within` rows carry an id in the column DEDUP, and repeated ones are duplicates; see `dedup`.
    """

    inner: InnerSpec
    sides: Sides
    policy: str = WINDOW
    max_lateness: int | None = None
    dedup_within: int | None = None

    def __post_init__(self) -> None:
        if self.policy not in (WINDOW, STRICT, REASSIGN):
            raise OptionError(f"late.policy is {self.policy}", help=f"write {WINDOW}, {STRICT} or {REASSIGN}")
        if self.policy == REASSIGN and self.max_lateness is None:
            raise OptionError(
                "late.policy 'reassign' needs late.max_lateness", help="add 'late.max_lateness' = '1 minute'"
            )

    @property
    def main_schema(self) -> pa.Schema:
        return self.inner.main_schema

    @property
    def tick_every(self) -> int | None:
        return self.inner.tick_every

    def prefold(self) -> Prefold | None:
        """How rows may be folded before they come here; None if they must come one by one."""
        if self.policy != WINDOW or self.dedup_within is not None or not isinstance(self.inner, PanedSpec):
            return None
        return self.inner.prefold()

    def fingerprint(self) -> str:
        return f"{self.inner.fingerprint()};dedup={self.dedup_within}"

    def build(self) -> Intake:
        return Intake(self, self.inner.build())


class Intake:
    """Sorts rows out before the inner kernel sees them; keeps no state of its own but the memory of ids."""

    def __init__(self, spec: IntakeSpec, inner: Kernel) -> None:
        self._spec = spec
        self._sides = spec.sides
        self._inner = inner
        within = spec.dedup_within
        self._memory = (
            None
            if within is None
            else Memory(within, max(spec.inner.horizon, spec.max_lateness or 0), spec.fingerprint())
        )

    def on_rows(self, rows: pa.Table, clock: Clock, store: Store) -> Output:
        rows = rows.combine_chunks()
        taken = Output()
        rows = self._without_errors(rows, taken)
        if self._spec.policy != WINDOW and clock.watermark is not None:
            rows = self._without_late(rows, clock.watermark, taken)
        if self._memory is not None:
            rows = self._without_duplicates(rows, self._memory, clock.watermark, store, taken)
        if self._spec.policy == REASSIGN and clock.watermark is not None:
            rows = self._reassigned(rows, clock.watermark, taken)
        return taken.merge(self._inner.on_rows(rows, clock, store))

    def on_folded(self, partial: pa.Table, rows: int, clock: Clock, store: Store) -> Output:
        if not isinstance(self._inner, FoldingKernel):
            raise EngineError("rows were folded for a kernel that needs them one by one")
        return self._inner.on_folded(partial, rows, clock, store)

    def on_time(self, clock: Clock, store: Store) -> Output:
        if self._memory is not None:
            self._memory.forget(clock.watermark, store)
        return self._inner.on_time(clock, store)

    def on_tick(self, clock: Clock, store: Store) -> Output:
        return self._inner.on_tick(clock, store)

    def on_flush(self, until: int, clock: Clock, store: Store) -> Output:
        if self._spec.policy == REASSIGN and clock.watermark is not None:
            until = max(until, clock.watermark)  # where rows may have been moved
        return self._inner.on_flush(until, clock, store)

    def _without_errors(self, rows: pa.Table, taken: Output) -> pa.Table:
        if PROBLEM not in rows.column_names:
            return rows
        problems = column(rows, PROBLEM)
        if problems.null_count == len(problems):
            return rows
        wrong = rows.filter(problems.is_valid())
        taken.counts["error"] += wrong.num_rows
        taken.side += self._sides.payloads(wrong, "error", column(wrong, PROBLEM), detail=column(wrong, DETAIL))
        return rows.filter(problems.is_null())

    def _without_late(self, rows: pa.Table, watermark: int, taken: Output) -> pa.Table:
        """What the policy calls late goes before duplicates are looked for: an id that was not used is not
        remembered.
        """
        ts = column(rows, TS).to_numpy(zero_copy_only=False)
        behind = ts <= watermark if self._spec.policy == STRICT else ts < watermark - (self._spec.max_lateness or 0)
        if not behind.any():
            return rows
        late = rows.filter(pa.array(behind))
        taken.counts["late"] += late.num_rows
        taken.side += self._sides.payloads(late, "late", STRICT_REASON)
        return rows.filter(pa.array(~behind))

    def _without_duplicates(
        self, rows: pa.Table, memory: Memory, watermark: int | None, store: Store, taken: Output
    ) -> pa.Table:
        repeated = memory.duplicates(rows, watermark, store)
        taken.gauges["dedup_bytes"] = memory.state_bytes(store)
        if not repeated.any():
            return rows
        again = rows.filter(pa.array(repeated))
        taken.counts["duplicate"] += again.num_rows
        taken.side += self._sides.payloads(again, "duplicate", DUPLICATE_REASON)
        return rows.filter(pa.array(~repeated))

    def _reassigned(self, rows: pa.Table, watermark: int, taken: Output) -> pa.Table:
        """Rows behind the watermark moved to it; after deduplication, which goes by a row's own time."""
        behind = column(rows, TS).to_numpy(zero_copy_only=False) <= watermark
        if not behind.any():
            return rows
        taken.events["reassigned"] += int(behind.sum())
        ts = pc.if_else(pa.array(behind), pa.scalar(watermark, pa.int64()), column(rows, TS))
        return rows.set_column(rows.schema.get_field_index(TS), TS, ts)
