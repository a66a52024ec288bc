"""The page docs/joins.md is true: its timelines come out as drawn, on the reference model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventide.testing import ReferenceDatabase
from tests.markdown import ROOT, blocks

SQL = [block.code for block in blocks(ROOT / "docs" / "joins.md") if block.language == "sql"]
SOURCES = SQL[0]


class Story:
    """One stream of the page. A row is told as "a3": the key and the time; the time is its value, too."""

    def __init__(self, stream: str, *more: str) -> None:
        wanted = (*more, f"CREATE STREAM {stream} AS")
        statements = [each for code in SQL for each in code.split(";") if any(words in each for words in wanted)]
        self.stream = stream
        self.db = ReferenceDatabase()
        self.db.execute(SOURCES + ";".join(statements))
        self.seen = 0

    def write(self, source: str, *rows: str) -> list[tuple[Any, ...]]:
        self.db.write(source, [self._row(source, row) for row in rows])
        return self._new()

    def advance(self, second: int) -> list[tuple[Any, ...]]:
        for source in ("orders", "payments", "trades", "quotes"):
            self.db.advance_watermark(source, second * 1000)
        return self._new()

    def _row(self, source: str, text: str) -> tuple[Any, ...]:
        key, time = ("x", int(text[1:])) if source in ("trades", "quotes") else (text[0], int(text[1:]))
        return (key, text if source == "orders" else time, time)

    def _new(self) -> list[tuple[Any, ...]]:
        self.db.tick()
        rows = [tuple(map(_plain, row.values())) for row in self.db.read(self.stream)]
        new, self.seen = rows[self.seen :], len(rows)
        return sorted(new, key=str)


def test_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items").mkdir()
    items = tmp_path / "items" / "a.csv"
    items.write_text("item,name,price\na1,tea,4\n")
    story = Story("named", "CREATE TABLE items")
    assert story.write("orders", "a1") == [("a", "tea", 4)]
    items.write_text("item,name,price\na1,tea,5\n")
    assert story.write("orders", "a1") == [("a", "tea", 4)], "it was not read anew"
    story.db.execute("REFRESH TABLE items")
    assert story.write("orders", "a1", "b2") == [("a", "tea", 5), ("b", None, None)]


def _plain(value: Any) -> Any:
    return value.timestamp() if hasattr(value, "timestamp") else value


def test_one_pane() -> None:
    story = Story("same_pane")
    assert story.write("orders", "a1", "b8", "c12") == []
    assert story.write("payments", "a3", "b11") == [(0, "a", "a1", 3)]
    assert story.advance(9) == []
    assert story.advance(10) == [(0, "b", "b8", None)]
    assert story.advance(20) == [(10, "c", "c12", None)]


def test_hopping_and_growing_windows() -> None:
    for stream, pairs in {
        "in_hops": [(0, 10, "a1", 4), (0, 10, "a1", 8), (0, 10, "a6", 4), (0, 10, "a6", 8), (5, 15, "a6", 8)],
        "growing": [(0, 10, "a1", 4), (0, 10, "a1", 8), (0, 10, "a6", 4), (0, 10, "a6", 8), (0, 5, "a1", 4)],
    }.items():
        story = Story(stream)
        story.write("orders", "a1", "a6")
        found = story.write("payments", "a4", "a8")
        assert [pair for pair in found if pair[0] >= 0] == pairs


def test_a_tumbling_pane_with_sliding_ones() -> None:
    story = Story("across")
    story.write("orders", "a2")
    assert story.write("payments", "a4", "a11", "a16") == [(0, "a2", 11), (0, "a2", 4)]


def test_sessions() -> None:
    story = Story("visits")
    story.write("orders", "a1", "a4")
    assert story.write("payments", "a8", "a20") == []
    assert story.advance(12) == []
    assert story.advance(13) == [(1, 13, "a1", 8), (1, 13, "a4", 8)]
    assert story.advance(25) == [(20, 25, None, 20)]


def test_intervals() -> None:
    story = Story("in_time")
    story.write("orders", "a5", "b5")
    assert story.write("payments", "a2", "a3", "a10", "a11") == [("a", "a5", 10), ("a", "a5", 3)]
    assert story.advance(9) == []
    assert story.advance(10) == [("b", "b5", None)]
    assert story.write("payments", "a8") == [] and story.db.accounting("in_time")["late"] == 1
    near = Story("near")
    near.write("orders", "a5")
    assert near.write("payments", "a0", "a10", "a11") == [("a5", 0), ("a5", 10)]


def test_as_of() -> None:
    outcomes = {
        "priced": [("x", 12, 8), ("x", 6, 2)],
        "next_quote": [(12, 14), (6, 8)],
        "nearest_quote": [(12, 14), (6, 8)],
    }
    for stream, answers in outcomes.items():
        story = Story(stream)
        story.write("quotes", "q2", "q8", "q14")
        assert story.write("trades", "t6", "t12") == []
        assert story.advance(30) == answers


def test_what_is_unpaid_and_what_waits_for_its_window() -> None:
    unpaid = Story("unpaid")
    unpaid.write("orders", "a1", "b2")
    unpaid.write("payments", "a3")
    assert unpaid.advance(601) == []
    assert unpaid.advance(602) == [("b", "b2")]
    at_close = Story("at_close")
    at_close.write("orders", "a1")
    assert at_close.write("payments", "a3") == []
    assert at_close.advance(69) == []
    assert at_close.advance(70) == [(0, "a1", 3)]
    assert at_close.write("payments", "a4") == []
    assert [tuple(row.values()) for row in at_close.db.read("too_late")] == [("payments", "a", None, 4, 4)]


def test_other_words_for_the_same() -> None:
    for stream in ("as_in_flink", "as_in_ksqldb"):
        story = Story(stream)
        story.write("orders", "a1")
        assert story.write("payments", "a3")[0][-2:] == ("a1", 3)
