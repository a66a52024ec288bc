"""The stage in front of every kernel, for each input separately: errors out, the late policy, duplicates out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.errors import CheckpointError, EngineError, OptionError
from eventide.eventtime.resolution import FAILED
from eventide.kernels.contract import (
    DETAIL,
    PROBLEM,
    TS,
    Batch,
    Clock,
    FoldingKernel,
    Gauges,
    InputSpec,
    Kernel,
    KernelSpec,
    Output,
    Store,
)
from eventide.kernels.dedup import Memory
from eventide.kernels.logic.windowed import WindowedAggregation
from eventide.kernels.prefold import Prefold
from eventide.kernels.side_rows import DUPLICATE_REASON, STRICT_REASON, SideRows
from eventide.kernels.state.holding import Holding, MovableKernel
from eventide.kernels.state.past import NO_PAST, Past, StateLayout, suffix
from eventide.kernels.trial import Trial
from eventide.kernels.vector.columns import column
from eventide.plan.modes import LatePolicy


class InnerSpec(KernelSpec, Protocol):
    """A spec whose kernel can come after an intake."""

    @property
    def horizon(self) -> int:
        """How far behind the watermark, in microseconds, a row may be that the kernel still takes."""
        ...

    @property
    def side_rows(self) -> SideRows: ...

    @property
    def layout(self) -> StateLayout:
        """What another text of the stream must know to read the state."""
        ...

    def continuing(self, past: Past) -> InnerSpec:
        """The same, going on from state that other texts of the stream have left."""
        ...


@dataclass(frozen=True)
class IntakeSpec:
    """A kernel with the stage in front of it.

    `dedup_within` has a span, or None, for each input: with one, its rows carry an id in the column DEDUP, and repeated
    ones are duplicates; see `dedup`. An id is looked for among those of the same input. A row that does not pass one of
    the `trials` is an error.
    """

    inner: InnerSpec
    policy: LatePolicy = LatePolicy.WINDOW
    max_lateness: int | None = None
    dedup_within: tuple[int | None, ...] = ()
    past: Past = NO_PAST
    trials: tuple[Trial, ...] = ()

    def __post_init__(self) -> None:
        if self.policy is LatePolicy.REASSIGN and self.max_lateness is None:
            raise OptionError(
                "late.policy 'reassign' needs late.max_lateness", help="add 'late.max_lateness' = '1 minute'"
            )
        if self.dedup_within and len(self.dedup_within) != len(self.inner.inputs):
            raise EngineError(f"{len(self.dedup_within)} spans for {len(self.inner.inputs)} inputs")

    @property
    def main_schema(self) -> pa.Schema:
        return self.inner.main_schema

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        return self.inner.inputs

    @property
    def tick_every(self) -> int | None:
        return self.inner.tick_every

    def output_watermark(self, watermark: int, gauges: Gauges) -> int | None:
        return self.inner.output_watermark(watermark, gauges)

    @property
    def deduplicates(self) -> bool:
        return any(within is not None for within in self.dedup_within)

    def prefold(self) -> Prefold | None:
        """How rows may be folded before they come here; None if they must come one by one."""
        must_come = self.policy is not LatePolicy.WINDOW or self.deduplicates or self.trials
        if must_come or not isinstance(self.inner, WindowedAggregation):
            return None
        return self.inner.prefold()

    def fingerprint(self) -> str:
        spans = self.dedup_within or (None,)
        return f"{self.inner.fingerprint()};dedup={','.join(map(str, spans))}"

    @property
    def layout(self) -> StateLayout:
        return self.inner.layout

    def continuing(self, past: Past) -> IntakeSpec:
        """The same, going on from state that other texts of the stream have left."""
        inner = self.inner.continuing(past)
        if past.layouts and past.layouts[-1].shared != inner.layout.shared:
            raise CheckpointError(
                f"the state is kept as {past.layouts[-1].shared}, and {inner.layout.shared} is wanted",
                help="leave keys, windows and the types of their columns as they were",
            )
        return replace(self, inner=inner, past=past)

    def memory_prints(self, within: int) -> list[str]:
        """The fingerprint of a memory of ids under this text, and those under earlier ones."""
        texts = [self.inner.fingerprint(), *(layout.fingerprint for layout in self.past.layouts)]
        numbers = [len(self.past.layouts), *range(len(self.past.layouts))]
        return [f"{text};dedup={within}{suffix(number)}" for text, number in zip(texts, numbers, strict=True)]

    def build(self) -> Intake:
        return Intake(self, self.inner.build())


def _memory(spec: IntakeSpec, space: str, within: int, horizon: int) -> Memory:
    plan, *earlier = spec.memory_prints(within)
    return Memory(space, within, horizon, plan, earlier)


class Intake:
    """Sorts rows out before the inner kernel sees them; keeps no state of its own but the memories of ids."""

    def __init__(self, spec: IntakeSpec, inner: Kernel) -> None:
        self._policy, self._max_lateness = spec.policy, spec.max_lateness or 0
        self._side_rows = spec.inner.side_rows
        self._inner = inner
        self._trials = spec.trials
        horizon = max(spec.inner.horizon, self._max_lateness)
        is_alone = len(spec.dedup_within) == 1
        self._memories = {
            number: _memory(spec, "ids" if is_alone else f"ids_of_{number}", within, horizon)
            for number, within in enumerate(spec.dedup_within)
            if within is not None
        }

    @property
    def is_movable(self) -> bool:
        """Whether what it holds can be cut into other shards."""
        return isinstance(self._inner, MovableKernel)

    def holding(self, store: Store) -> Holding:
        inner = self._movable().holding(store)
        return replace(inner, ids={number: memory.everything(store) for number, memory in self._memories.items()})

    def hold(self, holding: Holding, store: Store) -> None:
        self._movable().hold(holding, store)
        for number, memory in self._memories.items():
            memory.hold(holding.ids[number], store)

    def _movable(self) -> MovableKernel:
        if not isinstance(self._inner, MovableKernel):
            raise EngineError(f"the state of {type(self._inner).__name__} cannot be cut into other shards")
        return self._inner

    def on_rows(self, batch: Batch, clock: Clock, store: Store) -> Output:
        taken = Output()
        sorted_out = {number: self._sorted_out(number, batch[number], clock, store, taken) for number in sorted(batch)}
        good = {number: rows for number, rows in sorted_out.items() if rows.num_rows}
        for number in self._memories.keys() - batch.keys():
            self._memories[number].forget(clock.watermark, store)
        return taken.merge(self._inner.on_rows(good, clock, store))

    def on_folded(self, folded: pa.Table, rows: int, clock: Clock, store: Store) -> Output:
        if not isinstance(self._inner, FoldingKernel):
            raise EngineError("rows were folded for a kernel that needs them one by one")
        return self._inner.on_folded(folded, rows, clock, store)

    def on_time(self, clock: Clock, store: Store) -> Output:
        for memory in self._memories.values():
            memory.forget(clock.watermark, store)
        return self._inner.on_time(clock, store)

    def on_tick(self, clock: Clock, store: Store) -> Output:
        return self._inner.on_tick(clock, store)

    def on_flush(self, until: int, clock: Clock, store: Store) -> Output:
        if self._policy is LatePolicy.REASSIGN and clock.watermark is not None:
            until = max(until, clock.watermark)  # where rows may have been moved
        return self._inner.on_flush(until, clock, store)

    def _sorted_out(self, number: int, rows: pa.Table, clock: Clock, store: Store, taken: Output) -> pa.Table:
        """The rows of one input that the kernel gets."""
        rows = self._without_errors(number, rows.combine_chunks(), taken)
        for trial in self._trials:
            rows = self._tried(number, rows, trial, taken)
        if self._policy is not LatePolicy.WINDOW and clock.watermark is not None:
            rows = self._without_late(number, rows, clock.watermark, taken)
        if number in self._memories:
            rows = self._without_duplicates(number, rows, clock.watermark, store, taken)
        if self._policy is LatePolicy.REASSIGN and clock.watermark is not None:
            rows = self._reassigned(rows, clock.watermark, taken)
        return rows

    def _without_errors(self, number: int, rows: pa.Table, taken: Output) -> pa.Table:
        if PROBLEM not in rows.column_names:
            return rows
        problems = column(rows, PROBLEM)
        wrong = np.asarray(problems.is_valid())
        return self._side_rows.put(taken, rows, wrong, "error", problems, input=number, detail=column(rows, DETAIL))

    def _tried(self, number: int, rows: pa.Table, trial: Trial, taken: Output) -> pa.Table:
        """Without the rows that an aggregate of the user's own raises an error for."""
        details = trial.failures(rows)
        failed = np.asarray(details.is_valid())
        return self._side_rows.put(taken, rows, failed, "error", FAILED, input=number, detail=details)

    def _without_late(self, number: int, rows: pa.Table, watermark: int, taken: Output) -> pa.Table:
        """What the policy calls late goes before duplicates are looked for: an id that was not used is not
        remembered.
        """
        ts = column(rows, TS).to_numpy(zero_copy_only=False)
        behind = ts <= watermark if self._policy is LatePolicy.STRICT else ts < watermark - self._max_lateness
        return self._side_rows.put(taken, rows, behind, "late", STRICT_REASON, input=number)

    def _without_duplicates(
        self, number: int, rows: pa.Table, watermark: int | None, store: Store, taken: Output
    ) -> pa.Table:
        repeated = self._memories[number].duplicates(rows, watermark, store)
        taken.gauges["dedup_bytes"] = sum(memory.state_bytes(store) for memory in self._memories.values())
        return self._side_rows.put(taken, rows, repeated, "duplicate", DUPLICATE_REASON, input=number)

    def _reassigned(self, rows: pa.Table, watermark: int, taken: Output) -> pa.Table:
        """Rows behind the watermark moved to it; after deduplication, which goes by a row's own time."""
        behind = column(rows, TS).to_numpy(zero_copy_only=False) <= watermark
        if not behind.any():
            return rows
        taken.events["reassigned"] += int(behind.sum())
        ts = pc.if_else(pa.array(behind), pa.scalar(watermark, pa.int64()), column(rows, TS))
        return rows.set_column(rows.schema.get_field_index(TS), TS, ts)
