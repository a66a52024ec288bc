"""Aggregates that users define in Python: how to begin, how to take rows in, how to put two states together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol

import pyarrow as pa

from eventide.errors import CatalogError, EngineError, suggest
from eventide.kernels.aggregates.base import Aggregate, AggregateSpec, present
from eventide.kernels.columns import typed
from eventide.kernels.grouping import Segments


class UserAggregate(Protocol):
    """State is any Python value that `state_type` can hold. Must be picklable: it travels to the workers in the spec."""

    state_type: pa.DataType

    def create(self) -> Any:
        """The state of no rows."""
        ...

    def update(self, state: Any, rows: pa.RecordBatch) -> Any:
        """The state with these rows of one group; columns `0`, `1`, ... are the arguments of the call."""
        ...

    def merge(self, one: Any, other: Any) -> Any:
        """One state from two; the order of rows and of merges must not matter."""
        ...

    def finish(self, state: Any) -> Any:
        """The result."""
        ...


class UserDefined(Aggregate):
    """Runs a `UserAggregate` group by group."""

    needs_segments = True

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        if spec.user is None:
            raise EngineError(f"the spec of {spec.function} does not carry its implementation")
        self._user: UserAggregate = spec.user

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (self._user.state_type,)

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        order = pa.array(groups.order)
        names = [str(n) for n in range(len(inputs))]
        rows = pa.RecordBatch.from_arrays([values.take(order) for values in inputs], names=names)
        bounds = zip(groups.starts.tolist(), groups.starts[1:].tolist(), strict=False)
        states = [self._user.update(self._user.create(), rows.slice(start, end - start)) for start, end in bounds]
        return [pa.array(states, self._user.state_type)]

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        parts = states[0].take(pa.array(groups.order)).to_pylist()
        bounds = zip(groups.starts.tolist(), groups.starts[1:].tolist(), strict=False)
        return [pa.array([reduce(self._user.merge, parts[start:end]) for start, end in bounds], self._user.state_type)]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        results = [self._user.finish(state) for state in states[0].to_pylist()]
        return typed(pa.array(results, self.spec.result_type), self.spec.result_type)


class UserAggregates:
    """The user's aggregates by name; the names of built-in ones are taken."""

    def __init__(self, reserved: frozenset[str]) -> None:
        self._reserved = reserved
        self._known: dict[str, tuple[UserAggregate, str]] = {}

    def register(self, name: str, aggregate: UserAggregate, returns: str) -> None:
        """Make `name` callable in SQL; `returns` is the type of its result in Spark's DDL."""
        lower = name.lower()
        if lower in self._reserved:
            raise CatalogError(f"{lower} is an aggregate of Eventide's own", help="choose another name")
        self._known[lower] = (aggregate, returns)

    def resolve(self, name: str) -> tuple[UserAggregate, str]:
        """The aggregate and its return type."""
        found = self._known.get(name.lower())
        if found is None:
            raise CatalogError(f"there is no aggregate {name}", help=suggest(name, [*self._known, *self._reserved]))
        return found

    def list(self) -> list[str]:
        return sorted(self._known)
