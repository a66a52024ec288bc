"""Rows that wait in the state, under another text of the stream: columns are found by name, and new ones are NULL."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eventide.errors import CheckpointError
from eventide.kernels.state.codec import Earlier
from eventide.kernels.state.past import Part, Past, StateLayout


def parts_of(columns: Sequence[pa.Field]) -> tuple[Part, ...]:
    return tuple(Part(field.name, (field.type,)) for field in columns)


def check_types(past: Past, columns: Sequence[pa.Field]) -> None:
    """Refuse a column that waits in the state with another type."""
    wanted = {field.name: field.type for field in columns}
    for part in (part for layout in past.layouts for part in layout.parts):
        if wanted.get(part.identity, part.types[0]) != part.types[0]:
            raise CheckpointError(
                f"rows that wait in the state have {part.identity} as {part.types[0]}, not {wanted[part.identity]}",
                help="give the column another name, or leave its type as it was",
            )


def earlier_rows(
    past: Past, head: Sequence[pa.Field], columns: Sequence[pa.Field], names: Sequence[str] | None = None
) -> tuple[Earlier, ...]:
    """How stored rows of earlier texts become rows with `columns` behind `head`, which all texts share.

    `names` are those that head and columns have in the store, where they are others.
    """
    return tuple(_earlier(layout, head, columns, names) for layout in past.layouts)


def _earlier(
    layout: StateLayout, head: Sequence[pa.Field], columns: Sequence[pa.Field], names: Sequence[str] | None
) -> Earlier:
    kept = [pa.field(f"v{number}", kind) for number, part in enumerate(layout.parts) for kind in part.types]
    place = {part.identity: len(head) + number for number, part in enumerate(layout.parts)}

    def renewed(table: pa.Table) -> pa.Table:
        users = [
            table.column(place[field.name]) if field.name in place else pa.nulls(table.num_rows, field.type)
            for field in columns
        ]
        own = [field.name for field in (*head, *columns)] if names is None else list(names)
        return pa.table([*table.columns[: len(head)], *users], names=own)

    return Earlier(layout.fingerprint, pa.schema([*head, *kept]), renewed)
