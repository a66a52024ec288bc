"""A log that only grows is what was appended, in a file and in the pieces that a store has."""

from __future__ import annotations

import pytest

from eventide.errors import CheckpointError
from eventide.storage import growing as module
from eventide.storage.growing import growing
from eventide.storage.paths import AnyPath


def test_what_was_appended_is_there_in_order_and_by_its_place(folder: AnyPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", 100)
    log, whole = growing(folder / "files.log"), b"header\n"
    assert not log.exists()
    log.create(whole)
    for number in range(40):
        line = f"line {number}\n".encode()
        log.append(line, len(whole))
        whole += line
    again = growing(folder / "files.log")
    assert again.exists() and again.read_all() == whole
    for start, end in ((0, 7), (0, len(whole)), (95, 107), (100, 100), (3, 250)):
        assert log.read(start, end) == again.read(start, end) == whole[start:end]
    again.append(b"more", len(whole))
    assert growing(folder / "files.log").read_all() == whole + b"more"


def test_two_that_append_are_told_so(folder: AnyPath) -> None:
    growing(folder / "files.log").create(b"header\n")
    one, other = growing(folder / "files.log"), growing(folder / "files.log")
    for log in (one, other):
        log.read_all()
    one.append(b"a\n", 7)
    with pytest.raises(CheckpointError, match="another process"):
        other.append(b"b\n", 7)
    assert growing(folder / "files.log").read_all() == b"header\na\n"
