"""The spec of a stream's kernel, with the types that Spark found."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import replace
from types import ModuleType

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import StringType

from eventide.connectors.arrow_types import to_arrow
from eventide.errors import SqlError
from eventide.kernels.aggregates import OF_NUMBERS, UserAggregate, aggregates
from eventide.kernels.aggregates.basic import WIDE_SUM
from eventide.kernels.intake import IntakeSpec
from eventide.plan.joins import Asof
from eventide.plan.kernel_spec import KernelTypes, kernel_spec, trials
from eventide.plan.modes import JoinKind
from eventide.plan.physical import JoinRows, PackedAggregate, Physical
from eventide.spark.analysis import Analyzed, parsed_type
from eventide.spark.finishing import checked_sums
from eventide.spark.guard import Guard
from eventide.tasks.expressions import Column, Condition
from eventide.tasks.portable import NotPortableError, portable


def spec_of(physical: Physical, analyzed: Analyzed, guard: Guard) -> IntakeSpec:
    condition = None
    _check_numbers(physical, analyzed)
    if isinstance(physical.operator, JoinRows):
        condition = _condition(physical.operator, analyzed)
    results = {name: to_arrow(field.dataType) for name, field in analyzed.results.items()}
    types = KernelTypes(
        packed=tuple({name: to_arrow(field.dataType) for name, field in side.items()} for side in analyzed.packed),
        results=results | dict.fromkeys(checked_sums(physical, analyzed.results), WIDE_SUM),
        user=_user,
        condition=condition,
    )
    spec = kernel_spec(physical, types)
    tried = trials(physical, spec) if guard.is_on else ()
    guard.guarded += [trial.sql for trial in tried]
    return replace(spec, trials=tried)


def filtered_by_spark(physical: Physical, spec: IntakeSpec) -> str | None:
    """The condition of a join that the kernel cannot evaluate, so that Spark filters the pairs after it."""
    operator = physical.operator
    if not isinstance(operator, JoinRows) or operator.condition is None:
        return None
    return operator.condition if getattr(spec.inner, "condition", None) is None else None


def _condition(join: JoinRows, analyzed: Analyzed) -> Condition | None:
    """The residual condition where the kernel runs; None if there is none, or if Spark may evaluate it on the pairs."""
    if join.condition is None:
        return None
    names = {field.name: Column(field.name, field.dataType.simpleString()) for field in analyzed.main.fields}
    try:
        return Condition(portable(join.condition, names))
    except NotPortableError as error:
        if join.kind is JoinKind.INNER and not isinstance(join.bound, Asof):
            return None
        raise SqlError(
            f"{join.condition}: only Spark can evaluate {error}, and a {join.kind.value} join must know while it "
            "matches",
            help="compute it for each side in a subquery, and compare the columns here",
        ) from None


def _check_numbers(physical: Physical, analyzed: Analyzed) -> None:
    for call in physical.aggregates:
        if call.function in OF_NUMBERS and isinstance(analyzed.packed[0][call.inputs[0]].dataType, StringType):
            raise SqlError(
                f"{call.sql}: {call.function} does not take text",
                help="cast it to the type that is meant: CAST(... AS DOUBLE)",
            )


def _user(call: PackedAggregate) -> tuple[UserAggregate, pa.DataType] | None:
    """An aggregate of the user's own; its functions will be pickled by value, so that workers need not import them."""
    user = None if call.returns is None else aggregates.resolve(call.function)
    if user is None:
        return None
    for function in (user.create, user.update, user.merge, user.finish):
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        if module is not None and not _is_installed(module):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return user, to_arrow(parsed_type(call.sql, user.state))


def _is_installed(module: ModuleType) -> bool:
    """Whether workers have the module too: Python's own, an installed one, or the main program, which is shipped in any
    case.
    """
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    file = getattr(module, "__file__", None)
    return module.__name__ == "__main__" or file is None or any(file.startswith(f"{place}/") for place in places)
