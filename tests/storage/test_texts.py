"""Which batch ran under which text, as plan.json keeps it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from eventide.kernels.state.past import Part, StateLayout
from eventide.storage.texts import Text, Texts, is_pending, next_batch

LAYOUT = StateLayout(
    "closing/1",
    "keys",
    (Part("sum(v)", (pa.int64(),)), Part("avg(w)", (pa.decimal128(38, 2), pa.list_(pa.int64())), begun_late=True)),
    keeps_groups=True,
)


def test_a_layout_comes_back_as_it_was() -> None:
    assert StateLayout.from_json(LAYOUT.to_json()) == LAYOUT


def test_texts_come_back_from_settings_and_the_newest_stands_in_front() -> None:
    texts = Texts((Text("1", "one"),)).with_layout(LAYOUT).followed_by(Text("2", "two", from_batch=3, passed=7))
    settings = texts.into({"shards": 2, "plan_id": "1", "plan": "one"})
    assert (settings["plan_id"], settings["plan"], settings["shards"]) == ("2", "two", 2)
    assert Texts.of(settings) == texts
    assert texts.past.layouts == (LAYOUT,)
    assert texts.past.passed == 7


def test_a_release_that_knew_one_text_only() -> None:
    assert Texts.of({"plan_id": "1", "plan": "one"}).all == (Text("1", "one"),)


def test_a_text_under_which_no_batch_began_gives_way_and_leaves_its_differences() -> None:
    texts = Texts((Text("1", "one"),)).followed_by(Text("2", "two", from_batch=3, differences=("a",)))
    assert [text.plan_id for text in texts.without_unused(3).all] == ["1"]
    assert texts.without_unused(4) == texts
    third = texts.followed_by(Text("3", "three", from_batch=3, differences=("b",)))
    assert [(text.plan_id, text.differences) for text in third.all] == [("1", ()), ("3", ("a", "b"))]
    assert [text.plan_id for text in texts.followed_by(Text("1", "one", from_batch=3)).all] == ["1"]
    later = texts.followed_by(Text("3", "three", from_batch=5))
    assert [text.plan_id for text in later.all] == ["1", "2", "3"]


def test_a_batch_that_is_planned_and_not_committed_is_pending(tmp_path: Path) -> None:
    assert (next_batch(tmp_path), is_pending(tmp_path)) == (0, False)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        for number in (9, 10):
            (tmp_path / folder / str(number)).touch()
    assert (next_batch(tmp_path), is_pending(tmp_path)) == (11, False)
    (tmp_path / "commits" / "10").unlink()
    assert (next_batch(tmp_path), is_pending(tmp_path)) == (11, True)
