"""What a stream may see of what was written: all of it, or as much as a batch should take."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from eventide.errors import CheckpointError
from eventide.storage.inbox import Entry, Inbox
from eventide.storage.spool import Spool


def spool(folder: Path, name: str) -> Spool:
    (folder / name).mkdir(exist_ok=True)
    return Spool(folder / name)


def write(spool: Spool, number: int, came: int, rows: int = 1) -> int:
    """Item `number`, which came at `came` seconds; its bytes."""
    spool.append_rows([json.dumps({"id": row}) for row in range(rows)], came, number)
    os.utime(spool.rows_path(number), (came, came))
    return spool.measure(number)[1]


def entries(inbox: Inbox) -> list[tuple[str | None, str, int | None]]:
    """All that was published, in order."""
    lines = [json.loads(line) for path in sorted(inbox.folder.glob("*.json")) for line in path.read_text().splitlines()]
    return [(line["source"], line["kind"], line["number"]) for line in lines if line["kind"] in ("rows", "watermark")]


@dataclass
class Output:
    """What another stream has given: batch n is as long as it says."""

    sizes: list[int] = field(default_factory=list)

    def entries(self, name: str, after: int) -> list[Entry]:
        return [Entry("rows", name, number) for number in range(after + 1, len(self.sizes) + 1)]

    def waiting(self, after: int) -> int:
        return sum(self.sizes[after:])

    def bytes(self, number: int) -> int:
        return self.sizes[number - 1]


def test_without_a_budget_everything_is_published_at_once_in_the_order_in_which_it_came(tmp_path: Path) -> None:
    a, b = spool(tmp_path, "a"), spool(tmp_path, "b")
    write(a, 1, 10), write(b, 1, 20), write(a, 2, 30)
    b.append_watermark(99, 2)
    os.utime(tmp_path / "b" / "000000000002.watermark", (25, 25))
    inbox = Inbox(tmp_path / "inbox")
    assert inbox.publish_new({"a": a, "b": b}, {}, now=1)
    assert entries(inbox) == [("a", "rows", 1), ("b", "rows", 1), ("b", "watermark", 2), ("a", "rows", 2)]
    assert inbox.held({"a": a, "b": b}) == {} and not inbox.publish_new({"a": a, "b": b}, {}, now=2)


def test_a_budget_lets_in_what_fits_and_the_rest_when_a_batch_has_taken_it(tmp_path: Path) -> None:
    a = spool(tmp_path, "a")
    size, *_ = [write(a, number, number) for number in range(1, 6)]
    inbox, spools = Inbox(tmp_path / "inbox"), {"a": a}
    inbox.publish_new(spools, {}, now=100, budget=2 * size)
    assert len(entries(inbox)) == 2 and inbox.sent_bytes == 2 * size and inbox.held(spools) == {"a": 3 * size}
    assert not inbox.publish_new(spools, {}, now=110, budget=2 * size)  # a batch has still to take the first two
    assert inbox.took(began=99) == 0  # that batch had begun before
    assert inbox.took(began=120) == 2 * size and inbox.sent_bytes == 0
    inbox.publish_new(spools, {}, now=130, budget=1)  # an item larger than the budget is a batch of its own
    assert len(entries(inbox)) == 3


def test_what_another_stream_gives_comes_whole_and_counts(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox")
    inbox.publish_new({}, {"up": Output([5, 7])}, now=1, budget=1)
    assert entries(inbox) == [("up", "rows", 1), ("up", "rows", 2)]
    assert inbox.sent_bytes == 12 and inbox.took(began=1) == 12


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_pacing_neither_loses_nor_repeats_nor_reorders(tmp_path_factory: object, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("inbox")  # type: ignore[attr-defined]
    spools = {name: spool(folder, name) for name in ("a", "b")}
    for name, each in spools.items():
        for number in range(1, data.draw(st.integers(0, 6), name) + 1):
            write(each, number, data.draw(st.integers(0, 9)), data.draw(st.integers(1, 30)))
    inbox, now = Inbox(folder / "inbox"), 0
    while inbox.held(spools):
        now += 1
        inbox.publish_new(spools, {}, now, budget=data.draw(st.sampled_from([1, 900, 5000])))
        if data.draw(st.booleans()):
            inbox = Inbox(folder / "inbox")  # a restart
        inbox.took(began=now)
    for name, each in spools.items():
        assert [entry[2] for entry in entries(inbox) if entry[0] == name] == list(range(1, each.last() + 1))


def test_a_stream_that_begins_takes_what_is_still_there_and_one_that_goes_on_misses_what_is_not(tmp_path: Path) -> None:
    a = spool(tmp_path, "a")
    for number in range(1, 6):
        write(a, number, came=number)
    a.forget(3, before=10**18)
    inbox = Inbox(tmp_path / "inbox")
    assert inbox.publish_new({"a": a}, {})
    assert entries(inbox) == [("a", "rows", 4), ("a", "rows", 5)]
    write(a, 6, came=6), write(a, 7, came=7)
    a.rows_path(6).unlink()
    with pytest.raises(CheckpointError, match=r"000000000006\.arrow is missing"):
        inbox.publish_new({"a": a}, {})
