"""What an aggregate is: a partial state per group in Arrow columns, folded from rows, merged associatively, then
finished.

`fold` and `merge` come in two steps, so that all aggregates of a query share one hash pass: first each names the
reductions it needs (`fold_plan`, `merge_plan`), then it builds its state columns from their results and, if
`needs_segments`, from the rows of each group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from eventide.errors import EngineError
from eventide.kernels.vector.grouping import Reduction, Segments

if TYPE_CHECKING:
    from eventide.kernels.aggregates.user import UserAggregate


@dataclass(frozen=True)
class AggregateSpec:
    """An aggregate call over packed columns; `inputs` is empty for count(*)."""

    name: str
    function: str
    inputs: tuple[str, ...]
    input_types: tuple[pa.DataType, ...]
    result_type: pa.DataType
    distinct: bool = False
    parameters: tuple[str, ...] = ()
    user: UserAggregate | None = None  # the implementation, if it is not built in
    state_type: pa.DataType | None = None  # the type of its state
    identity: str = ""  # what it means, over the columns of the sources: the same in all texts of a stream
    begun_late: bool = False  # whether some of the state that is kept may be without it

    def describe(self) -> str:
        """Text that changes if and only if the state would mean something else."""
        kinds = ",".join(map(str, self.input_types))
        distinct = "distinct " if self.distinct else ""
        call = f"{self.function}({distinct}{kinds};{','.join(self.parameters)})->{self.result_type}"
        return call if self.user is None else f"{call}/{self.state_type}"


class Aggregate(ABC):
    """The computation of one `AggregateSpec`. NULL is the result of no rows unless `empty` says otherwise."""

    needs_segments = False
    needs_time = False  # the event time is passed as one more input
    empty: object = None

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec = spec

    @property
    @abstractmethod
    def state(self) -> tuple[pa.DataType, ...]:
        """The types of the state columns."""

    def fold_plan(self, inputs: Sequence[pa.Array]) -> list[Reduction]:
        """The reductions of input columns that `fold` needs."""
        return []

    def merge_plan(self, states: Sequence[pa.Array]) -> list[Reduction]:
        """The reductions of state columns that `merge` needs."""
        return []

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        """State columns, one value per group, from rows."""
        return reduced

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        """State columns, one value per group, from several partial states per group."""
        return reduced

    def nothing(self, count: int) -> list[pa.Array]:
        """State columns of groups of which it has seen no rows."""
        return [
            pa.array([[]] * count, kind) if pa.types.is_list(kind) else pa.nulls(count, kind) for kind in self.state
        ]

    @abstractmethod
    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        """The result per group, of the spec's result type."""


def present(segments: Segments | None) -> Segments:
    """The segments that an aggregate asked for with `needs_segments`."""
    if segments is None:
        raise EngineError("an aggregate that needs segments was called without them")
    return segments
