"""Items of a spool that were put together are what they were, and a crash in between harms nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eventide.errors import CheckpointError
from eventide.storage import spool as spools, spool_pack
from eventide.storage.spool import Spool, Spools
from eventide.storage.spool_pack import pack_path

ITEMS = 20  # of a pack, here
SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (spools, spool_pack):
        monkeypatch.setattr(module, "ITEMS", ITEMS)


def filled(folder: Path, count: int) -> Spool:
    """Every fifth item is a watermark, every seventh was sent back by a stream."""
    spool = Spool(folder)
    for number in range(1, count + 1):
        if number % 5 == 0:
            spool.append_watermark(number * 10, number)
        else:
            rows = [f'{{"v": {number}}}'] * (number % 3)
            spool.append_rows(rows, number, number, origin="o/1" if number % 7 == 0 else "")
        path = spool.rows_path(number) if number % 5 else folder / f"{number:012d}.watermark"
        os.utime(path, ns=(number * SECOND, number * SECOND))
    return spool


def seen(spool: Spool, count: int) -> list[object]:
    found: list[object] = []
    for number in range(1, count + 1):
        at = spool.watermark(number)
        rows = spool.rows(number) if at is None else None
        found.append((at, spool.measure(number), spool.origin(number), None if rows is None else rows.to_pydict()))
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_put_together_is_what_it_was(tmp_path: Path) -> None:
    count = 2 * ITEMS + 5
    spool = filled(tmp_path, count)
    before = seen(spool, count)
    several = Spools(lambda source: tmp_path)
    several.put_together("s", ITEMS - 1)
    assert len(names(tmp_path)) == count, "an item was put away that somebody may ask for"
    several.put_together("s", 2 * ITEMS)
    assert names(tmp_path)[:2] == ["000000000001-000000000020.pack", "000000000021-000000000040.pack"]
    assert len(names(tmp_path)) == 2 + 5
    assert seen(spool, count) == before
    assert spool.last() == count and Spool(tmp_path).last() == count


def test_the_newest_item_is_known_when_all_are_put_together(tmp_path: Path) -> None:
    spool = filled(tmp_path, ITEMS)
    Spools(lambda source: tmp_path).put_together("s", ITEMS)
    assert len(names(tmp_path)) == 1 and spool.last() == ITEMS
    several = Spools(lambda source: tmp_path)
    several.append("s", lambda spool, number: spool.append_rows(["{}"], 0, number))
    assert spool.last() == ITEMS + 1


@pytest.mark.parametrize("deleted", [0, 1, ITEMS // 2, ITEMS - 1])
def test_what_a_crash_leaves_beside_a_pack_is_deleted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    spool = filled(tmp_path, ITEMS)
    before, unlink, left = (
        seen(spool, ITEMS),
        Path.unlink,
        [2 * deleted],
    )  # each item is looked for as rows, as watermark

    def dying(path: Path, missing_ok: bool = False) -> None:
        if path.suffix in (".arrow", ".watermark"):
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
        unlink(path, missing_ok)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "unlink", dying)
        spool.put_together(1)
    assert len(names(tmp_path)) == 1 + ITEMS - deleted
    assert seen(spool, ITEMS) == before
    Spools(lambda source: tmp_path).put_together("s", ITEMS)
    assert len(names(tmp_path)) == 1 and seen(spool, ITEMS) == before


def test_items_that_are_large_or_not_all_there_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = filled(tmp_path, ITEMS)
    with monkeypatch.context() as patched:
        patched.setattr(spools, "LARGEST", 1000)
        spool.put_together(1)
    assert len(names(tmp_path)) == ITEMS
    spool.forget(1, before=2 * SECOND)
    spool.put_together(1)
    assert len(names(tmp_path)) == ITEMS - 1


def test_a_pack_is_forgotten_when_its_last_item_may_be(tmp_path: Path) -> None:
    spool = filled(tmp_path, 2 * ITEMS)
    Spools(lambda source: tmp_path).put_together("s", ITEMS)
    spool.forget(ITEMS - 1, before=10**18)
    assert pack_path(tmp_path, 1).exists(), "somebody may ask for its last item"
    spool.forget(2 * ITEMS, before=ITEMS * SECOND // 1000)
    assert pack_path(tmp_path, 1).exists(), "its last item is to be kept"
    spool.forget(2 * ITEMS, before=(ITEMS + 1) * SECOND // 1000)
    assert not pack_path(tmp_path, 1).exists() and len(names(tmp_path)) == ITEMS


def test_a_damaged_pack_is_named(tmp_path: Path) -> None:
    spool = filled(tmp_path, ITEMS)
    spool.put_together(1)
    path = pack_path(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"\.pack is damaged"):
        spool.rows(1)
