"""From a plan and the types that Spark found to the spec of a kernel."""

from __future__ import annotations

import sys
import sysconfig
from types import ModuleType
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import StringType

from eventide.errors import SqlError
from eventide.kernels.aggregates import OF_NUMBERS, AggregateSpec, UserAggregate, aggregates
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.logic.forward import ForwardSpec
from eventide.kernels.logic.panes import CumulateSpec, PanedSpec
from eventide.kernels.logic.sessions import SessionSpec
from eventide.kernels.logic.slides import SlideSpec
from eventide.plan.co_location import late_policy
from eventide.plan.modes import EmitMode
from eventide.plan.physical import PackedAggregate, Physical
from eventide.plan.windows import Cumulate, Hop, Session, Slide, Tumble
from eventide.spark.analysis import Analyzed, parsed_type
from eventide.spark.arrow_types import to_arrow


def kernel_spec(physical: Physical, analyzed: Analyzed) -> IntakeSpec:
    window = physical.window
    inner: PanedSpec | SessionSpec | SlideSpec | ForwardSpec
    match window:
        case None:
            inner = _forward(physical, analyzed)
        case Tumble():
            inner = PanedSpec(window.size, window.size, window.offset, **_common(physical, analyzed))
        case Hop():
            inner = PanedSpec(window.size, window.slide, window.offset, **_common(physical, analyzed))
        case Cumulate():
            inner = CumulateSpec(window.size, window.step, window.offset, **_common(physical, analyzed))
        case Session():
            inner = SessionSpec(window.gap, **_common(physical, analyzed))
        case Slide():
            inner = SlideSpec(window.lookback, window.lookahead, **_common(physical, analyzed))
    within = [branch.source.dedup.within for branch in physical.branches if branch.source.dedup is not None]
    policy = late_policy(physical).value
    return IntakeSpec(inner, inner.sides, policy, physical.options.max_lateness, dedup_within=max(within, default=None))


def _forward(physical: Physical, analyzed: Analyzed) -> ForwardSpec:
    originals = tuple((original.name, original.sql) for original in physical.originals)
    types = tuple(to_arrow(analyzed.packed[packed].dataType) for _, packed in originals)
    return ForwardSpec(originals, types, physical.ordered)


def _common(physical: Physical, analyzed: Analyzed) -> dict[str, Any]:
    """What all windowed kernels take."""
    return {
        "lateness": physical.emit.allowed_lateness,
        "keys": tuple((key.name, key.sql) for key in physical.keys),
        "key_types": tuple(to_arrow(analyzed.packed[key.sql].dataType) for key in physical.keys),
        "originals": tuple((original.name, original.sql) for original in physical.originals),
        "aggregates": tuple(_aggregate(call, analyzed) for call in physical.aggregates),
        "emit": physical.emit.mode.value,
        "every": physical.emit.every,
        "max_groups": physical.options.max_groups,
        "store_late": physical.emit.mode is not EmitMode.FINAL,
    }


def _aggregate(call: PackedAggregate, analyzed: Analyzed) -> AggregateSpec:
    inputs = tuple(analyzed.packed[name].dataType for name in call.inputs)
    if call.function in OF_NUMBERS and isinstance(inputs[0], StringType):
        raise SqlError(
            f"{call.sql}: {call.function} does not take text",
            help="cast it to the type that is meant: CAST(... AS DOUBLE)",
        )
    user = None if call.returns is None else aggregates.resolve(call.function)
    return AggregateSpec(
        call.name,
        call.function,
        call.inputs,
        tuple(map(to_arrow, inputs)),
        to_arrow(analyzed.results[call.name].dataType),
        call.distinct,
        call.parameters,
        user,
        None if user is None else _state_type(call, user),
    )


def _state_type(call: PackedAggregate, user: UserAggregate) -> pa.DataType:
    """The type of the state; the functions that keep it will be pickled by value, so that workers need not import
    them.
    """
    for function in (user.create, user.update, user.merge, user.finish):
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        if module is not None and not _is_installed(module):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return to_arrow(parsed_type(call.sql, user.state))


def _is_installed(module: ModuleType) -> bool:
    """Whether workers have the module too: Python's own, an installed one, or the main program, which is shipped in any
    case.
    """
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    file = getattr(module, "__file__", None)
    return module.__name__ == "__main__" or file is None or any(file.startswith(f"{place}/") for place in places)
