"""Rows returned to the user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eventide.notebook.html import MOST_ROWS, result_html

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_WIDEST = 40
_MOST_SHOWN = 20


class Result:
    """An Arrow table that behaves like a query result. Iterating yields dicts, with `json_columns` decoded."""

    def __init__(self, table: pa.Table, json_columns: tuple[str, ...] = ()) -> None:
        self._table = table
        self._json = json_columns

    @property
    def columns(self) -> list[str]:
        names: list[str] = self._table.column_names
        return names

    def __len__(self) -> int:
        rows: int = self._table.num_rows
        return rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches(max_chunksize=10_000):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                for name in self._json:
                    row[name] = None if row[name] is None else json.loads(row[name])
                yield row

    def fetchall(self) -> list[dict[str, Any]]:
        return list(self)

    def arrow(self) -> pa.Table:
        return self._table

    def df(self) -> pd.DataFrame:
        frame: pd.DataFrame = self._table.to_pandas()
        return frame

    def show(self, limit: int = _MOST_SHOWN) -> None:
        """Print the first `limit` rows as a table."""
        print(self.to_text(limit))

    def to_text(self, limit: int = _MOST_SHOWN) -> str:
        shown = list(Result(self._table.slice(0, limit)))
        cells = [[_cell(row[name]) for name in self.columns] for row in shown]
        widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(self.columns)]
        rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
        lines = [rule, _line(self.columns, widths), rule, *(_line(row, widths) for row in cells), rule]
        if len(self) > limit:
            lines.append(f"{limit} of {len(self)} rows")
        return "\n".join(lines)

    def plot(self, x: str | None = None, y: str | None = None, by: str | None = None, ax: Axes | None = None) -> Axes:
        """Curves over time, with matplotlib. Needs eventide[notebook].

        `x` is a column of times (default: window_start, or the first there is), `y` one of numbers (default: all), `by`
        one whose values get a curve each (default: the first of text, if there is one `y`); at most 12 are drawn.
        """
        from eventide.notebook.plot import plot

        return plot(self._table, x, y, by, ax)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        shown = list(Result(self._table.slice(0, MOST_ROWS), self._json))
        return result_html(self.columns, shown, len(self))

    def __repr__(self) -> str:
        return f"<Result: {len(self)} rows, {', '.join(self.columns)}>"


def _line(cells: list[str], widths: list[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if hasattr(value, "isoformat"):
        text = value.isoformat(sep=" ") if hasattr(value, "hour") else value.isoformat()
        return str(text).removesuffix("+00:00")
    text = str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
