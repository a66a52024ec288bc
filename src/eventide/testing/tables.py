"""Tables for the reference model: all rows of the files of a table, in the plainest way."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet

from eventide.plan.logical import Table
from eventide.testing.values import decoded


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    """The values of each row, in the order in which the columns are declared."""
    path = Path(table.options["path"])
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    found = [row for file in files for row in _read(table, file)]
    return [tuple(decoded(row.get(column.name), column.type) for column in table.columns) for row in found]


def _read(table: Table, file: Path) -> Iterator[dict[str, Any]]:
    match table.options["format"]:
        case "json":
            yield from (json.loads(line) for line in file.read_text().splitlines())
        case "parquet":
            yield from pyarrow.parquet.read_table(file).to_pylist()
        case _:
            has_header = table.options.get("header") == "true"
            names = [column.name for column in table.columns]
            with file.open(newline="") as lines:
                records = csv.DictReader(lines, None if has_header else names, delimiter=table.options.get("sep", ","))
                yield from (_typed(table, record) for record in records)


def _typed(table: Table, record: dict[str, str]) -> dict[str, Any]:
    """Texts of a CSV record as JSON would have them."""
    texts = {column.name: record.get(column.name) or None for column in table.columns}
    is_text = {column.name: column.type == "string" for column in table.columns}
    return {name: text if text is None or is_text[name] else json.loads(text) for name, text in texts.items()}
