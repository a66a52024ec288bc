"""Rows sent back to sources: each batch once, whatever crashes, and no row a second time."""

from __future__ import annotations

import pytest

from eventide.storage.outbox import Outbox, Returned
from eventide.storage.paths import AnyPath
from eventide.storage.spool import Spool, Spools, read_rows


def everything(kind: str, rows: int) -> int:
    return rows


def texts(spools: Spools, source: str = "clicks") -> list[str]:
    spool = spools.spool(source)
    return [
        text for number in range(1, spool.last() + 1) for text in read_rows(spool.rows_path(number))["row"].to_pylist()
    ]


def returned(*values: str, kind: str = "late") -> list[Returned]:
    return [Returned("clicks", kind, value) for value in values]


@pytest.fixture
def spools(folder: AnyPath) -> Spools:
    return Spools(lambda source: folder / "sources" / source)


@pytest.fixture
def outbox(folder: AnyPath) -> Outbox:
    return Outbox(folder / "reinject", "totals")


def test_rows_go_to_their_source_once(outbox: Outbox, spools: Spools) -> None:
    outbox.put(0, [*returned("a", "b"), Returned("other", "error", "c")], everything)
    assert outbox.empty(spools, 7, upto=0) and not outbox.empty(spools, 7, upto=0)
    assert texts(spools) == ["a", "b"] and texts(spools, "other") == ["c"]
    assert outbox.counts() == {
        "side_sent_late": 2, "side_sent_error": 1, "side_dropped_late": 0, "side_dropped_error": 0,
        "side_looped_late": 0,
        "side_looped_error": 0,
    }  # fmt: skip


def test_a_row_that_comes_round_again_is_not_sent_a_second_time(outbox: Outbox, spools: Spools) -> None:
    outbox.put(0, returned("a", "b"), everything)
    outbox.put(1, returned("a", "c"), everything)
    outbox.empty(spools, 7, upto=1)
    assert texts(spools) == ["a", "b", "c"] and outbox.counts()["side_looped_late"] == 1


def test_a_new_row_with_equal_content_is_sent(outbox: Outbox, spools: Spools) -> None:
    for batch in range(4):
        outbox.put(batch, returned("a"), everything)
    outbox.empty(spools, 7, upto=9)
    assert texts(spools) == ["a", "a"] and outbox.counts()["side_looped_late"] == 2


def test_the_guard_outlives_a_restart(outbox: Outbox, spools: Spools, folder: AnyPath) -> None:
    outbox.put(0, returned("a"), everything)
    Outbox(folder / "reinject", "totals").put(1, returned("a"), everything)
    outbox.empty(spools, 7, upto=1)
    assert texts(spools) == ["a"]


def test_a_batch_that_is_repeated_replaces_itself(outbox: Outbox, spools: Spools, folder: AnyPath) -> None:
    outbox.put(0, returned("a"), everything)
    again = Outbox(folder / "reinject", "totals")
    again.put(0, returned("a"), everything)
    again.empty(spools, 7, upto=0)
    assert texts(spools) == ["a"] and again.counts()["side_sent_late"] == 1 and again.counts()["side_looped_late"] == 0


def test_a_batch_whose_account_is_not_there_yet_waits(outbox: Outbox, spools: Spools) -> None:
    outbox.put(3, returned("a"), everything)
    assert not outbox.empty(spools, 7, upto=2)


def test_a_crash_between_the_spool_and_the_outbox_sends_nothing_twice(
    outbox: Outbox, spools: Spools, folder: AnyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox.put(0, returned("a"), everything)
    kind = type(folder)
    kept = kind.unlink

    def die(path: AnyPath, missing_ok: bool = False) -> None:
        if path.suffix == ".json":
            raise KeyboardInterrupt
        kept(path, missing_ok)

    monkeypatch.setattr(kind, "unlink", die)
    with pytest.raises(KeyboardInterrupt):
        outbox.empty(spools, 7, upto=0)
    monkeypatch.undo()
    Spools(lambda source: folder / "sources" / source).append(
        "clicks", lambda spool, number: spool.append_rows(["x"], 8, number)
    )
    assert Outbox(folder / "reinject", "totals").empty(Spools(lambda source: folder / "sources" / source), 7, upto=0)
    assert texts(spools) == ["a", "x"]


def test_a_crash_before_the_spool_loses_nothing_even_if_others_have_written_since(
    outbox: Outbox, spools: Spools, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox.put(0, returned("a"), everything)
    kept = Spool.append_rows
    monkeypatch.setattr(Spool, "append_rows", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError):
        outbox.empty(spools, 7, upto=0)
    monkeypatch.setattr(Spool, "append_rows", kept)
    spools.append("clicks", lambda spool, number: spool.append_rows(["x"], 8, number))
    assert outbox.empty(spools, 7, upto=0)
    assert texts(spools) == ["x", "a"]


def test_rows_beyond_the_rate_are_dropped_and_counted(outbox: Outbox, spools: Spools) -> None:
    outbox.put(0, returned("a", "b", "c"), lambda kind, rows: 2)
    outbox.empty(spools, 7, upto=0)
    assert texts(spools) == ["a", "b"] and outbox.counts()["side_dropped_late"] == 1
