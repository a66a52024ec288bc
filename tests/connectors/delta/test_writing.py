"""A Delta table as a sink: every batch once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventide.errors import OptionError, SinkError

deltalake = pytest.importorskip("deltalake", reason="no deltalake: pip install 'eventide[delta]'")


def sink(path: Path, identity: str = "id", **options: str) -> Any:
    from eventide.connectors.delta.write import DeltaSink

    return DeltaSink("out", {"path": str(path), **options}, identity)


def rows(*values: tuple[str, int], **more: list[Any]) -> pa.Table:
    return pa.table({"k": [key for key, _ in values], "v": [value for _, value in values], **more})


def content(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(found, key=str)


def test_every_batch_is_a_version_and_one_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    table = tmp_path / "table"
    sink(table).write(0, rows(("a", 1)))
    sink(table).write(0, rows(("a", 1)))
    sink(table).write(1, rows())
    sink(table).write(4, rows(("b", 2)))
    sink(table).write(4, rows(("b", 2)))
    assert content(table) == [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
    assert deltalake.DeltaTable(str(table)).version() == 1
    sink(table, identity="another stream").write(4, rows(("c", 3)))
    assert len(content(table)) == 3


def test_a_crash_before_the_version_is_there_leaves_nothing_that_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eventide.connectors.delta import write

    table = tmp_path / "table"
    sink(table).write(0, rows(("a", 1)))
    with monkeypatch.context() as patched:
        patched.setattr(write, "write_deltalake", _dying)
        with pytest.raises(SinkError, match="batch 1 could not be written"):
            sink(table).write(1, rows(("b", 2)))
    sink(table).write(1, rows(("b", 2)))
    assert content(table) == [{"k": "a", "v": 1}, {"k": "b", "v": 2}]


def _dying(*_: Any, **__: Any) -> None:
    raise OSError("no more room")


def test_with_a_key_rows_replace_those_of_the_same_key(tmp_path: Path) -> None:
    table = tmp_path / "table"
    keyed = sink(table, key="k")
    keyed.write(0, rows(("a", 1), ("b", 1), ("a", 2)))
    keyed.write(1, rows(("b", 3), ("c", 4)))
    keyed.write(1, rows(("b", 3), ("c", 4)))
    assert content(table) == [{"k": "a", "v": 2}, {"k": "b", "v": 3}, {"k": "c", "v": 4}]
    with pytest.raises(OptionError, match="there is no column x"):
        sink(table, key="x").write(2, rows(("a", 1)))


def test_null_is_a_key_like_any_other(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for batch in range(2):
        nothing = pa.table({"k": pa.array([None], pa.string()), "v": [batch]})
        sink(table, key="k").write(batch, nothing)
    assert content(table) == [{"k": None, "v": 1}]


def test_a_log_of_changes_leaves_the_current_state(tmp_path: Path) -> None:
    table = tmp_path / "table"
    changes = sink(table, key="k")
    changes.write(0, rows(("a", 1), ("b", 1), op=[1, 1]))
    changes.write(1, rows(("a", 1), ("b", 1), ("a", 2), op=[-1, -1, 1]))
    changes.write(2, rows(("never there", 1), op=[-1]))
    assert content(table) == [{"k": "a", "v": 2, "op": 1}]


def test_new_columns_are_refused_unless_the_table_may_evolve(tmp_path: Path) -> None:
    table = tmp_path / "table"
    sink(table).write(0, rows(("a", 1)))
    with pytest.raises(SinkError, match="'schema' = 'evolve'"):
        sink(table).write(1, rows(("b", 2), more=[True]))
    sink(table, schema="evolve").write(1, rows(("b", 2), more=[True]))
    assert content(table) == [{"k": "a", "v": 1, "more": None}, {"k": "b", "v": 2, "more": True}]


def test_times_maps_structs_and_intervals_are_kept(tmp_path: Path) -> None:
    table = tmp_path / "table"
    values = pa.table(
        {
            "at": pa.array([1_000_000], pa.timestamp("us", "UTC")),
            "m": pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int32())),
            "s": [{"a": [1, 2]}],
            "d": pa.array([90_000_000], pa.duration("us")),
        }
    )
    sink(table).write(0, values)
    (row,) = content(table)
    assert (row["at"].timestamp(), row["m"], row["s"], row["d"]) == (
        1.0,
        [("x", 1)],
        {"a": [1, 2]},
        "0 00:01:30.000000",
    )


def test_a_place_that_cannot_be_written_is_a_sink_error_without_secrets(tmp_path: Path) -> None:
    options = {"storage.AWS_SECRET_ACCESS_KEY": "hush-hush"}
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError) as raised:
        sink(tmp_path / "file" / "table", **options).write(0, rows(("a", 1)))
    assert "batch 0 could not be written" in str(raised.value) and "hush" not in str(raised.value)
