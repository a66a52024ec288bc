"""Filters that follow each other become one, so that Spark evaluates one condition and EXPLAIN shows one line."""

from __future__ import annotations

from dataclasses import replace

from eventide.plan.logical import Filter, Step
from eventide.plan.physical import Physical


def merge_filters(plan: Physical) -> Physical:
    return replace(plan, inputs=tuple(replace(input, steps=_merged(input.steps)) for input in plan.inputs))


def _merged(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    merged: list[Step] = []
    for step in steps:
        last = merged[-1] if merged else None
        if isinstance(step, Filter) and isinstance(last, Filter):
            merged[-1] = replace(last, condition=f"({last.condition}) AND ({step.condition})")
        else:
            merged.append(step)
    return tuple(merged)
