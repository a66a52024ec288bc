"""Columns with the same SQL travel to the operator once, whether a key, an input or an original column asks for
them.
"""

from __future__ import annotations

from dataclasses import replace

from eventide.plan.logical import Named
from eventide.plan.physical import Physical


def share_packed_columns(plan: Physical) -> Physical:
    """Keys keep their names and numbers; inputs and originals that are left are numbered anew without gaps."""
    by_sql: dict[str, str] = {}
    renamed: dict[str, str] = {}
    packed: list[Named] = []
    counts: dict[str, int] = {}
    for column in plan.packed:
        if column.sql not in by_sql:
            prefix = column.name[:3]
            by_sql[column.sql] = f"{prefix}{counts.get(prefix, 0)}"
            counts[prefix] = counts.get(prefix, 0) + 1
            packed.append(Named(by_sql[column.sql], column.sql))
        renamed[column.name] = by_sql[column.sql]
    return replace(
        plan,
        packed=tuple(packed),
        keys=tuple(replace(key, sql=renamed[key.sql]) for key in plan.keys),
        originals=tuple(replace(original, sql=renamed[original.sql]) for original in plan.originals),
        aggregates=tuple(
            replace(call, inputs=tuple(renamed[name] for name in call.inputs)) for call in plan.aggregates
        ),
    )
