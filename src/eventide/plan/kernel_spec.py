"""From a plan and the types of its columns to the spec of a kernel: the same for Spark and for the test runners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from eventide.kernels.aggregates import AggregateSpec, UserAggregate
from eventide.kernels.contract import InputSpec
from eventide.kernels.intake import InnerSpec, IntakeSpec
from eventide.kernels.joins.spec import JoinSpec
from eventide.kernels.logic.forward import ForwardSpec
from eventide.kernels.logic.over import OverSpec
from eventide.kernels.logic.over_changes import OverChangesSpec
from eventide.kernels.logic.rank import RankSpec, SortKey
from eventide.kernels.logic.rank_changes import RankChangesSpec
from eventide.kernels.logic.windowed import WindowedAggregation
from eventide.kernels.trial import Trial
from eventide.plan.co_location import late_policy
from eventide.plan.identity import aggregate_identities
from eventide.plan.logical import Named
from eventide.plan.modes import EmitMode
from eventide.plan.physical import (
    AggregateWindows,
    ForwardRows,
    JoinRows,
    OverRows,
    PackedAggregate,
    Physical,
    RankRows,
    ToldPlaces,
)

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class KernelTypes:
    """`packed` by side and packed column, `results` by aggregate.

    `user` gives an aggregate that the user has defined, with the type of its state. `condition` is the residual
    condition of a join, compiled.
    """

    packed: tuple[Mapping[str, pa.DataType], ...]
    results: Mapping[str, pa.DataType]
    user: Callable[[PackedAggregate], tuple[UserAggregate, pa.DataType] | None] = lambda call: None
    condition: Callable[[pa.Table], pa.Array] | None = None


def kernel_spec(physical: Physical, types: KernelTypes) -> IntakeSpec:
    inner: InnerSpec
    match physical.operator:
        case ForwardRows(ordered=ordered, window=window):
            originals = _pairs(physical.inputs[0].originals)
            kinds = tuple(types.packed[0][packed] for _, packed in originals)
            inner = ForwardSpec(originals, kinds, ordered, _sources(physical), window=window)
        case AggregateWindows():
            inner = _aggregation(physical, physical.operator, types)
        case JoinRows():
            inner = _join(physical, physical.operator, types)
        case RankRows(told=None):
            inner = _rank(physical, physical.operator, types)
        case RankRows(told=told) if told is not None:
            inner = _rank_changes(physical, physical.operator, told, types)
        case OverRows(order=order) if order:
            inner = _over_changes(physical, physical.operator, types)
        case OverRows():
            inner = _over(physical, physical.operator, types)
    within = tuple(None if each.source.dedup is None else each.source.dedup.within for each in physical.inputs)
    spans = within if any(span is not None for span in within) else ()
    return IntakeSpec(inner, late_policy(physical), physical.options.max_lateness, spans)


def trials(physical: Physical, spec: IntakeSpec) -> tuple[Trial, ...]:
    """The aggregates of the user's own, to be tried on every row alone."""
    if not isinstance(physical.operator, AggregateWindows) or not isinstance(spec.inner, WindowedAggregation):
        return ()
    calls = {call.name: call.sql for call in physical.operator.aggregates}
    return tuple(Trial(each, calls[each.name]) for each in spec.inner.aggregates if each.user is not None)


def _aggregation(physical: Physical, operator: AggregateWindows, types: KernelTypes) -> WindowedAggregation:
    first, meanings = physical.inputs[0], aggregate_identities(physical)
    return WindowedAggregation(
        operator.window,
        lateness=physical.emit.allowed_lateness,
        keys=_pairs(first.keys),
        key_types=tuple(types.packed[0][key.sql] for key in first.keys),
        originals=_pairs(first.originals),
        aggregates=tuple(_aggregate(call, types, meanings[call.name]) for call in operator.aggregates),
        emit=physical.emit.mode,
        every=physical.emit.every,
        max_groups=physical.options.max_groups,
        sources=_sources(physical),
        changes=first.changes,
    )


def _aggregate(call: PackedAggregate, types: KernelTypes, identity: str) -> AggregateSpec:
    user, state_type = types.user(call) or (None, None)
    return AggregateSpec(
        call.name,
        call.function,
        call.inputs,
        tuple(types.packed[0][name] for name in call.inputs),
        types.results[call.name],
        call.distinct,
        call.parameters,
        user,
        state_type,
        identity,
    )


def _join(physical: Physical, operator: JoinRows, types: KernelTypes) -> JoinSpec:
    keys = tuple(key.sql for key in physical.inputs[0].keys)
    return JoinSpec(
        operator.kind,
        operator.bound,
        lateness=physical.emit.allowed_lateness,
        keys=keys,
        key_types=tuple(types.packed[0][key] for key in keys),
        null_safe=operator.null_safe,
        left=_pairs(operator.left),
        left_types=tuple(types.packed[0][column.sql] for column in operator.left),
        right=_pairs(operator.right),
        right_types=tuple(types.packed[1][column.sql] for column in operator.right),
        condition=types.condition,
        at_close=operator.at_close,
        store_late=physical.emit.mode is not EmitMode.FINAL,
        sides=tuple(each.side for each in physical.inputs),
        inputs=tuple(
            InputSpec(each.source.name, _pairs(each.keys), _pairs(each.originals)) for each in physical.inputs
        ),
        changes=(_changes(physical, 0), _changes(physical, 1)),
        emits_changes=physical.emit.mode is EmitMode.CHANGES,
    )


def _changes(physical: Physical, side: int) -> str | None:
    return next(each.changes for each in physical.inputs if each.side == side)


def _rank(physical: Physical, operator: RankRows, types: KernelTypes) -> RankSpec:
    first = physical.inputs[0]
    partition = tuple(key.sql for key in first.keys)
    order = tuple(SortKey(key.column, key.descending, key.nulls_first) for key in operator.order)
    originals = _pairs(first.originals)
    named = dict.fromkeys((*partition, *(key.column for key in order)))
    return RankSpec(
        operator.function,
        partition,
        order,
        originals,
        tuple(types.packed[0][packed] for _, packed in originals),
        tuple((name, types.packed[0][name]) for name in named),
        physical.emit.allowed_lateness,
        _sources(physical),
        window=operator.window,
        latest_first=operator.latest_first,
    )


def _rank_changes(physical: Physical, operator: RankRows, told: ToldPlaces, types: KernelTypes) -> RankChangesSpec:
    first = physical.inputs[0]
    partition = tuple(key.sql for key in first.keys)
    order = tuple(SortKey(key.column, key.descending, key.nulls_first) for key in operator.order)
    originals = _pairs(first.originals)
    kept = dict.fromkeys((*partition, *(key.column for key in order), *(packed for _, packed in originals)))
    if first.changes is not None:
        kept.pop(first.changes, None)
    return RankChangesSpec(
        operator.function,
        partition,
        order,
        tuple((name, packed) for name, packed in originals if packed in kept),
        tuple((name, types.packed[0][name]) for name in kept),
        told.first,
        told.last,
        told.shows_place,
        tuple(name for name in told.shown if name in kept),
        told.latest_first,
        first.changes,
        told.ttl,
        _sources(physical),
    )


def _over(physical: Physical, operator: OverRows, types: KernelTypes) -> OverSpec:
    first = physical.inputs[0]
    keys, originals = tuple(key.sql for key in first.keys), _pairs(first.originals)
    inputs, meanings = [name for call in operator.aggregates for name in call.inputs], aggregate_identities(physical)
    needed = dict.fromkeys((*keys, *inputs, *(packed for _, packed in originals)))
    return OverSpec(
        operator.frame,
        keys,
        originals,
        tuple((name, types.packed[0][name]) for name in needed),
        tuple(_aggregate(call, types, meanings[call.name]) for call in operator.aggregates),
        operator.ttl,
        _sources(physical),
    )


def _over_changes(physical: Physical, operator: OverRows, types: KernelTypes) -> OverChangesSpec:
    first = physical.inputs[0]
    partition, originals = tuple(key.sql for key in first.keys), _pairs(first.originals)
    order = tuple(SortKey(key.column, key.descending, key.nulls_first) for key in operator.order)
    inputs, meanings = [name for call in operator.aggregates for name in call.inputs], aggregate_identities(physical)
    packed = (*partition, *inputs, *(key.column for key in order), *(packed for _, packed in originals))
    kept = [name for name in dict.fromkeys(packed) if name != first.changes]
    return OverChangesSpec(
        operator.frame,
        partition,
        order,
        tuple((name, packed) for name, packed in originals if packed in kept),
        tuple((name, types.packed[0][name]) for name in kept),
        tuple(_aggregate(call, types, meanings[call.name]) for call in operator.aggregates),
        tuple(name for name in operator.shown if name in kept),
        first.changes,
        operator.ttl,
        _sources(physical),
    )


def _pairs(columns: tuple[Named, ...]) -> Pairs:
    return tuple((column.name, column.sql) for column in columns)


def _sources(physical: Physical) -> tuple[str, ...]:
    return tuple(each.source.name for each in physical.inputs)
