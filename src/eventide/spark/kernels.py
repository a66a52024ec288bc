"""From a plan and the types that Spark found to the spec of a kernel."""

from __future__ import annotations

from eventide.errors import EngineError
from eventide.kernels.aggregates import AggregateSpec
from eventide.kernels.contract import KernelSpec
from eventide.kernels.forward import ForwardSpec
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.panes import PanedSpec
from eventide.plan.logical import EmitMode, Hop, Tumble
from eventide.plan.physical import PackedAggregate, Physical
from eventide.spark.analysis import Analyzed
from eventide.spark.types import to_arrow


def kernel_spec(physical: Physical, analyzed: Analyzed) -> KernelSpec:
    window = physical.window
    inner: PanedSpec | ForwardSpec
    if window is None:
        inner = _forward(physical, analyzed)
    elif isinstance(window, Tumble | Hop):
        inner = _paned(physical, analyzed, window)
    else:
        raise EngineError(f"no kernel for {window}")
    return IntakeSpec(inner, inner.sides, physical.options.late_policy.value, physical.options.max_lateness)


def _forward(physical: Physical, analyzed: Analyzed) -> ForwardSpec:
    originals = tuple((original.name, original.sql) for original in physical.originals)
    types = tuple(to_arrow(analyzed.packed[packed].dataType) for _, packed in originals)
    return ForwardSpec(originals, types, physical.ordered)


def _paned(physical: Physical, analyzed: Analyzed, window: Tumble | Hop) -> PanedSpec:
    slide = window.slide if isinstance(window, Hop) else window.size
    return PanedSpec(
        window.size,
        slide,
        window.offset,
        lateness=physical.emit.allowed_lateness,
        keys=tuple((key.name, key.sql) for key in physical.keys),
        key_types=tuple(to_arrow(analyzed.packed[key.sql].dataType) for key in physical.keys),
        originals=tuple((original.name, original.sql) for original in physical.originals),
        aggregates=tuple(_aggregate(a, analyzed) for a in physical.aggregates),
        emit=physical.emit.mode.value,
        every=physical.emit.every,
        max_groups=physical.options.max_groups,
        store_late=physical.emit.mode is not EmitMode.FINAL,
    )


def _aggregate(call: PackedAggregate, analyzed: Analyzed) -> AggregateSpec:
    return AggregateSpec(
        call.name,
        call.function,
        call.inputs,
        tuple(to_arrow(analyzed.packed[name].dataType) for name in call.inputs),
        to_arrow(analyzed.results[call.name].dataType),
        call.distinct,
        call.parameters,
    )
