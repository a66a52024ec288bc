"""What a plan says of change logs: how a query names the op of its rows, and which aggregates can take rows back."""

from __future__ import annotations

from eventide.kernels.aggregates import INSTEAD_OF_RETRACTING, can_retract
from eventide.kernels.contract import CHANGE, OP
from eventide.plan.logical import Forward, Query, WindowAggregate
from eventide.plan.modes import EmitMode

__all__ = ["CHANGE", "op_of", "refusal_to_retract"]


def op_of(query: Query, mode: EmitMode) -> str | None:
    """How the outputs of a query name the op of what they give; None if they give no change log."""
    match query:
        case Forward():
            return query.changes
        case _ if mode is not EmitMode.CHANGES:
            return None
        case WindowAggregate():
            return OP
        case _:
            return CHANGE


def refusal_to_retract(function: str) -> str | None:
    """What to do instead of an aggregate that cannot take rows back; None if it can."""
    if can_retract(function):
        return None
    instead = INSTEAD_OF_RETRACTING.get(function)
    return "aggregate in the stream that is read" if instead is None else f"use {instead}"
