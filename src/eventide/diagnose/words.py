"""Words that answers are made of: times, lists, the conditions of a query."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from eventide.plan.logical import Explode, Filter, Lookup, Project, Relation, Union

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def conditions(relation: Relation) -> list[str]:
    """What WHERE asks of rows, below one of a query's relations."""
    match relation:
        case Filter():
            return [*conditions(relation.input), relation.condition]
        case Project() | Explode() | Lookup():
            return conditions(relation.input)
        case Union():
            return [condition for part in relation.inputs for condition in conditions(part)]
        case _:
            return []


def at(micros: int) -> str:
    """A time in UTC, without trailing zeros in the fraction."""
    moment = _EPOCH + dt.timedelta(microseconds=micros)
    text = moment.strftime("%Y-%m-%d %H:%M:%S")
    return text if moment.microsecond == 0 else f"{text}.{moment.microsecond:06d}".rstrip("0")


def listed(items: Collection[str]) -> str:
    """a, b and c"""
    listed = list(items)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
