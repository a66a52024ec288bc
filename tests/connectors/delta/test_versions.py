"""Which files the versions of a Delta table add, and the rows in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventide.errors import SourceError

deltalake = pytest.importorskip("deltalake", reason="no deltalake: pip install 'eventide[delta]'")


def write(path: Path, ids: list[int], **more: Any) -> None:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "day": [f"d{id % 2}" for id in ids]})
    deltalake.write_deltalake(str(path), rows, **{"mode": "append", **more})


def read(path: Path, start: int, end: int, **more: Any) -> list[tuple[Any, ...]]:
    from eventide.connectors.delta.data_source import TableSettings
    from eventide.connectors.delta.rows import rows_of
    from eventide.connectors.delta.versions import Versions

    schema = pa.schema([("ID", pa.int32()), ("day", pa.string()), ("more", pa.float64()), ("at", pa.int64())])
    settings = TableSettings(Versions("s", str(path), {}, **more), schema, "at", -1)
    files = settings.versions.files(start, end)
    batches = [batch for file in files for batch in rows_of(settings, file)]
    assert all(value > 1_700_000_000_000_000 for batch in batches for value in batch.column("at").to_pylist())
    return sorted((row["ID"], row["day"], row["more"]) for batch in batches for row in batch.to_pylist())


def test_versions_give_what_they_add_and_partitions_their_columns(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write(table, [1, 2], partition_by=["day"])
    write(table, [3])
    write(table, [4])
    assert read(table, -1, 1) == [(1, "d1", None), (2, "d0", None), (3, "d1", None)]
    assert read(table, 0, 2) == [(3, "d1", None), (4, "d0", None)]
    assert read(table, 2, 2) == []


def test_rearranged_files_are_not_new_and_rows_that_go_are_an_error(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write(table, [1])
    write(table, [2])
    deltalake.DeltaTable(str(table)).optimize.compact()
    write(table, [3])
    assert read(table, 0, 3) == [(2, "d0", None), (3, "d1", None)]
    deltalake.DeltaTable(str(table)).delete("id = 2")
    write(table, [5])
    with pytest.raises(SourceError, match=r"version 4 of the table .* \(DELETE\) takes rows away"):
        read(table, 3, 5)
    assert read(table, 3, 5, skips_changes=True) == [(5, "d1", None)]


def test_a_table_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no Delta table at"):
        read(tmp_path / "nothing", 0, 1)
