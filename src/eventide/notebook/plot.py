"""A result as curves, with matplotlib: time to the right, a line for each number, or for each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from eventide.errors import OptionError, suggest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_GROUPS = 12
_TIMES = ("window_start", "window_end", "rowtime", "window_time")
_NO_FIGURES = ("window_id", "emit_epoch", "op")


def plot(table: pa.Table, x: str | None, y: str | None, by: str | None, ax: Axes | None) -> Axes:
    """See `Result.plot`."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        raise OptionError("plot() needs matplotlib", help="pip install 'eventide[notebook]'") from None
    across = _named(table, x, "x") or _time_column(table)
    if across is None:
        raise OptionError("there is no column of times to plot over", help="name one: plot(x='…')")
    figures = [given] if (given := _named(table, y, "y")) else _numbers(table, but=(across, by))
    if not figures:
        raise OptionError("there is no column of numbers to plot", help="name one: plot(y='…')")
    group = _named(table, by, "by") or (_text_column(table) if len(figures) == 1 or y is not None else None)
    axes: Axes = ax if ax is not None else pyplot.subplots(figsize=(9, 3.5))[1]
    ordered = table.sort_by(across)
    for label, rows, column in _lines(ordered, figures, group):
        axes.plot(rows[across].to_numpy(), rows[column].cast(pa.float64()).to_numpy(), marker=".", label=label)
    axes.set_xlabel(across)
    if len(figures) == 1:
        axes.set_ylabel(figures[0])
    if group is not None or len(figures) > 1:
        axes.legend(title=group, loc="best", fontsize="small")
    axes.figure.autofmt_xdate()
    return axes


def _lines(table: pa.Table, figures: list[str], group: str | None) -> list[tuple[str, pa.Table, str]]:
    """What is drawn: a name, rows, and the column with their numbers. Of many groups those with the largest sums."""
    if group is None:
        return [(column, table, column) for column in figures]
    sums = table.group_by(group).aggregate([(figures[0], "sum")]).sort_by([(f"{figures[0]}_sum", "descending")])
    shown = sums[group].to_pylist()[:MOST_GROUPS]
    return [
        (str(value), table.filter(pc.equal(table[group], pa.scalar(value, table[group].type))), column)
        for value in shown
        if value is not None
        for column in figures[:1]
    ]


def _named(table: pa.Table, name: str | None, what: str) -> str | None:
    if name is not None and name not in table.column_names:
        raise OptionError(f"there is no column {name} for {what}", help=suggest(name, table.column_names))
    return name


def _time_column(table: pa.Table) -> str | None:
    times = [field.name for field in table.schema if pa.types.is_temporal(field.type)]
    return next((name for name in (*_TIMES, *times) if name in times), None)


def _numbers(table: pa.Table, but: tuple[str | None, ...]) -> list[str]:
    def is_figure(kind: Any) -> bool:
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))

    return [f.name for f in table.schema if is_figure(f.type) and f.name not in (*_NO_FIGURES, *but)]


def _text_column(table: pa.Table) -> str | None:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_boolean)
    return next((field.name for field in table.schema if any(kind(field.type) for kind in kinds)), None)
