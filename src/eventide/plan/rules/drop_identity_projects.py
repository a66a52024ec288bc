"""A projection that gives its input's columns, all of them, in order and under their names, does nothing."""

from __future__ import annotations

from dataclasses import replace

from eventide.plan.logical import Explode, Lookup, Project, Step
from eventide.plan.names import quoted
from eventide.plan.physical import Input, Physical


def drop_identity_projects(plan: Physical) -> Physical:
    return replace(plan, inputs=tuple(_without(input) for input in plan.inputs))


def _without(input: Input) -> Input:
    names = [column.name for column in input.source.columns]
    kept: list[Step] = []
    for step in input.steps:
        if isinstance(step, Project):
            if [(column.name, column.sql) for column in step.columns] == [(name, quoted(name)) for name in names]:
                continue
            names = [column.name for column in step.columns]
        elif isinstance(step, Explode | Lookup):
            names = [*names, *step.names]
        kept.append(step)
    return replace(input, steps=tuple(kept))
