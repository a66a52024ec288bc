"""What the specs of all windowed aggregations have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pyarrow as pa

from eventide.errors import OptionError, suggest
from eventide.kernels.aggregates import AggregateSpec, Aggregation
from eventide.kernels.contract import Kernel
from eventide.kernels.logic.emission import EMIT_RULES, EVERY, FINAL, ON_WINDOW_CLOSE, EmitRules, main_schema
from eventide.kernels.side_rows import Sides


@dataclass(frozen=True, kw_only=True)
class WindowSpec(ABC):
    """Keys, aggregates and emission of a windowed aggregation. Times in microseconds.

    `keys` and `originals` pair the user's names with packed columns; `emit` is an EmitMode's value. `max_groups` is how
    many groups a window may hold in one shard.
    """

    lateness: int = 0
    keys: tuple[tuple[str, str], ...] = ()
    key_types: tuple[pa.DataType, ...] = ()
    originals: tuple[tuple[str, str], ...] = ()
    aggregates: tuple[AggregateSpec, ...] = ()
    emit: str = ON_WINDOW_CLOSE
    every: int | None = None
    max_groups: int | None = None
    store_late: bool = True

    def __post_init__(self) -> None:
        if self.emit not in EMIT_RULES:
            raise OptionError(f"there is no emit mode {self.emit}", help=suggest(self.emit, EMIT_RULES))
        if self.emit == EVERY and not self.every:
            raise OptionError("EMIT EVERY needs an interval", help="write EMIT EVERY INTERVAL '10' SECOND")
        if self.lateness < 0:
            raise OptionError("allowed lateness cannot be negative")

    @property
    def sides(self) -> Sides:
        return Sides(self.keys, self.originals, self.store_late and self.emit != FINAL)

    @property
    def allowed_lateness(self) -> int:
        return 0 if self.emit == FINAL else self.lateness

    @property
    def emit_rules(self) -> EmitRules:
        return EMIT_RULES[self.emit]

    @property
    def main_schema(self) -> pa.Schema:
        return main_schema(self.aggregation(()))

    @property
    def tick_every(self) -> int | None:
        return self.every if self.emit == EVERY else None

    def aggregation(self, lead: tuple[str, ...], marks: tuple[pa.Field, ...] = ()) -> Aggregation:
        return Aggregation(lead, [packed for _, packed in self.keys], self.key_types, self.aggregates, marks)

    def fingerprint(self) -> str:
        keys = ",".join(map(str, self.key_types))
        aggregates = ",".join(spec.describe() for spec in self.aggregates)
        return f"{self.layout()};keys={keys};aggregates={aggregates}"

    @property
    @abstractmethod
    def horizon(self) -> int:
        """How far behind the watermark a row may be that the kernel still takes; with sessions, takes by itself."""

    @abstractmethod
    def layout(self) -> str:
        """The kernel, the version of its state, and the parameters without which the state means something else."""

    @abstractmethod
    def build(self) -> Kernel: ...
