"""Aggregates that users define in Python: how to start, how to add rows, how to merge two states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from eventide.errors import CatalogError, EngineError, OptionError, suggest
from eventide.kernels.aggregates.base import Aggregate, AggregateSpec, present
from eventide.kernels.vector.columns import Ints, typed
from eventide.kernels.vector.grouping import Segments
from eventide.plan.modes import FILTERED


@dataclass(frozen=True)
class UserAggregate:
    """Functions over a state, which is any Python value that the type `state` can hold; types are in Spark's DDL.

    The functions are sent to the workers in the spec, so they must be picklable and must not need anything that workers
    lack.
    """

    create: Callable[[], Any]
    update: Callable[[Any, pa.RecordBatch], Any]
    merge: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any]
    returns: str
    state: str


class UserDefined(Aggregate):
    """Runs a `UserAggregate` group by group."""

    needs_segments = True

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        if spec.user is None or spec.state_type is None:
            raise EngineError(f"the spec of {spec.function} does not carry its implementation")
        self._user, self._state_type = spec.user, spec.state_type
        self._filtered = FILTERED in spec.parameters

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (self._state_type,)

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        order, starts = self._chosen_rows(inputs, present(segments))
        arguments = inputs[:-1] if self._filtered else inputs
        chosen = pa.array(order)
        rows = pa.RecordBatch.from_arrays(
            [values.take(chosen) for values in arguments], names=[str(n) for n in range(len(arguments))]
        )
        bounds = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        states = [self._updated(rows.slice(start, end - start)) for start, end in bounds]
        return [pa.array(states, self._state_type)]

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        parts = states[0].take(pa.array(groups.order)).to_pylist()
        bounds = zip(groups.starts[:-1].tolist(), groups.starts[1:].tolist(), strict=True)
        return [pa.array([reduce(self._user.merge, parts[start:end]) for start, end in bounds], self._state_type)]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        results = [self._user.finish(state) for state in states[0].to_pylist()]
        return typed(pa.array(results, self.spec.result_type), self.spec.result_type)

    def nothing(self, count: int) -> list[pa.Array]:
        return [pa.array([self._user.create()] * count, self._state_type)]

    def _chosen_rows(self, inputs: Sequence[pa.Array], groups: Segments) -> tuple[Ints, Ints]:
        """The rows that pass FILTER, group by group, and where each group begins, as in `Segments`."""
        if not self._filtered:
            return groups.order, groups.starts
        order = groups.order[inputs[-1].fill_null(False).to_numpy(zero_copy_only=False)[groups.order]]
        counts = np.bincount(groups.group[order], minlength=groups.count)
        return order, np.concatenate(([0], np.cumsum(counts)))

    def _updated(self, rows: pa.RecordBatch) -> Any:
        state = self._user.create()
        return self._user.update(state, rows) if rows.num_rows else state


class UserAggregates:
    """The user's aggregates by name; the names of built-in ones are reserved."""

    def __init__(self, reserved: frozenset[str]) -> None:
        self._reserved = reserved
        self._known: dict[str, UserAggregate] = {}

    def register(
        self,
        name: str,
        create: Callable[[], Any],
        update: Callable[[Any, pa.RecordBatch], Any],
        merge: Callable[[Any, Any], Any],
        finish: Callable[[Any], Any] | None = None,
        returns: str = "bigint",
        state: str | None = None,
    ) -> None:
        """Register `name` as an aggregate in SQL and in the fluent API.

        `create()` returns the state for no rows; `update(state, rows)` the state with the rows of one group added, an
        Arrow record batch whose columns `0`, `1`, ... are the arguments of the call; `merge(one, other)` the two states
        combined, whatever their order; `finish(state)` the result, by default the state itself. `returns` and `state`
        are types in Spark's DDL; the state has the type of the result unless `state` says otherwise. Registering a name
        again replaces the old definition.
        """
        if not name.isidentifier():
            raise OptionError(f"an aggregate cannot be called {name!r}", help="use letters, digits and _")
        if name.lower() in self._reserved:
            raise CatalogError(f"{name.lower()} is one of Eventide's own aggregates", help="choose another name")
        for role, function in (("create", create), ("update", update), ("merge", merge), ("finish", finish or _itself)):
            if not callable(function):
                raise OptionError(f"the aggregate {name}: {role} is not a function")
        self._known[name.lower()] = UserAggregate(create, update, merge, finish or _itself, returns, state or returns)

    def resolve(self, name: str) -> UserAggregate:
        found = self._known.get(name.lower())
        if found is None:
            near = suggest(name, [*self._known, *self._reserved])
            raise CatalogError(
                f"there is no aggregate {name}",
                help=f"{near}; to add your own: eventide.aggregates.register('{name}', ...)",
            )
        return found

    def forget(self, name: str) -> None:
        """Remove a name; streams already running with it are not affected."""
        self.resolve(name)
        del self._known[name.lower()]

    def list(self) -> list[str]:
        return sorted(self._known)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._known


def _itself(state: Any) -> Any:
    return state
