"""Finding files, writing them down, handing them out by number: without Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from eventide.admission.pacing import AdaptiveBatcher, Pacing
from eventide.connectors.files import listing as listings
from eventide.connectors.files.admission import FileAdmission
from eventide.connectors.files.discoveries import DiscoveryLog
from eventide.connectors.files.listing import FoundFile, Listing, expand_braces, local_path, name_pattern
from eventide.errors import CheckpointError, OptionError


def make(folder: Path, name: str, length: int = 10, modified: float | None = None) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * length)
    if modified is not None:
        os.utime(path, (modified, modified))
    return path


def names(found: list[FoundFile]) -> list[str]:
    return [Path(file.path).name for file in found]


def test_files_come_by_modification_time_then_path_without_hidden_ones(tmp_path: Path) -> None:
    for name, modified in [("c", 1000), ("b", 2000), ("a", 2000), (".d", 1), ("_e", 1), ("f._COPYING_", 1)]:
        make(tmp_path, name, modified=modified)
    make(tmp_path, "sub/inner")
    found = Listing(str(tmp_path)).new_files(set())
    assert names(found) == ["c", "a", "b"]
    assert found[0][:3] == (str(tmp_path / "c"), 1000_000_000, 10)
    assert abs(found[0].arrived - time.time_ns() // 1000) < 60_000_000  # when it was put there


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.json", ["1.json", "2.json"]),
        ("[2-9].json", ["2.json"]),
        ("[^2].json", ["1.json"]),
        ("?.{json,csv}", ["1.json", "2.json", "3.csv"]),
        ("*/*.json", ["4.json"]),
        ("d*", ["4.json"]),
        ("{d/4,1}.json", ["1.json", "4.json"]),
        ("*/deep/5.json", ["5.json"]),
        ("a\\*b", ["a*b"]),
        ("none*", []),
        ("nowhere/*", []),
    ],
)
def test_a_pattern_matches_as_in_spark(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    for name in ("1.json", "2.json", "3.csv", "d/4.json", "e/deep/5.json", "a*b", "_hidden/6.json"):
        make(tmp_path, name, modified=1000)
    assert sorted(names(Listing(f"{tmp_path}/{pattern}").new_files(set()))) == expected


@pytest.mark.parametrize(
    ("part", "yes", "no"), [("a.b", "a.b", "axb"), ("[a-c]?", "bx", "dx"), ("[[]", "[", "]"), ("[!a]*", "bc", "ac")]
)
def test_special_characters_of_regular_expressions_are_literal(part: str, yes: str, no: str) -> None:
    assert name_pattern(part).fullmatch(yes) and not name_pattern(part).fullmatch(no)


def test_braces_may_be_nested() -> None:
    assert expand_braces("a{b,c{d,e}}f{,g}") == ["abf", "abfg", "acdf", "acdfg", "acef", "acefg"]
    with pytest.raises(OptionError, match="not closed"):
        expand_braces("a{b")


def test_paths_of_other_file_systems_are_refused() -> None:
    assert local_path("file:///data/in") == local_path("file:/data/in") == local_path("/data//in/") == "/data/in"
    with pytest.raises(OptionError, match="s3a://bucket/in"):
        local_path("s3a://bucket/in")


def test_a_file_that_has_just_been_made_is_taken_when_it_is_filled(tmp_path: Path) -> None:
    """A writer opens a file, then writes: who looks in between must not take it for an empty one."""
    made = make(tmp_path, "filled", length=0).stat().st_ctime
    make(tmp_path, "stays empty", length=0)
    now = made
    listing = Listing(str(tmp_path), clock=lambda: now)
    assert listing.new_files(set()) == []
    make(tmp_path, "filled")
    now = made + 1.0
    assert names(listing.new_files(set())) == ["filled"]
    now = made + 5.0
    assert sorted(names(listing.new_files(set()))) == ["filled", "stays empty"]


def test_a_folder_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    now = time.time() + 3600
    make(tmp_path, "a")
    listing = Listing(str(tmp_path), clock=lambda: now)
    known: set[str] = set()
    assert names(listing.new_files(known)) == ["a"]
    assert listing.new_files(known) == []
    make(tmp_path, "b")
    assert names(listing.new_files(known)) == ["a", "b"]


def test_a_folder_that_has_just_changed_is_read_again_since_its_time_may_be_coarse(tmp_path: Path) -> None:
    make(tmp_path, "a")
    listing = Listing(str(tmp_path))
    assert names(listing.new_files(set())) == names(listing.new_files(set())) == ["a"]


def test_a_folder_that_appears_later_is_found(tmp_path: Path) -> None:
    now = time.time() + 3600
    listing = Listing(f"{tmp_path}/*/in", clock=lambda: now)
    (tmp_path / "x").mkdir()
    assert listing.new_files(set()) == []
    make(tmp_path, "x/in/a")
    assert names(listing.new_files(set())) == ["a"]


FILES = [FoundFile(f"/data/{number} \u00e9\n.json", 1_000_000 + number, number * 10) for number in range(6)]


def test_a_log_that_is_opened_again_holds_what_was_appended(tmp_path: Path) -> None:
    log = DiscoveryLog(tmp_path)
    log.append(FILES[:4])
    log.append(FILES[4:])
    log.append([])
    for opened in (log, DiscoveryLog(tmp_path)):
        assert (
            len(opened) == 6
            and opened.files(0, 6) == FILES
            and opened.files(2, 5) == FILES[2:5]
            and opened.files(3, 3) == []
        )
        assert opened.size(1, 4) == 60 and FILES[5].path in opened and "/data/9" not in opened
        assert [opened.end_near(1, room) for room in (0, 4, 5, 10, 19, 20, 30, 1000)] == [1, 1, 2, 2, 2, 3, 3, 6]


def test_a_line_that_a_crash_has_cut_short_is_removed(tmp_path: Path) -> None:
    DiscoveryLog(tmp_path).append(FILES)
    path = DiscoveryLog(tmp_path).path
    whole = path.read_bytes()
    for cut in range(len(whole) - 40, len(whole)):
        path.write_bytes(whole[:cut])
        log = DiscoveryLog(tmp_path)
        assert log.files(0, len(log)) == FILES[: len(log)] and len(log) >= 4
        log.append(FILES[len(log) :])
        assert path.read_bytes() == whole


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_never_taken_for_a_file(
    tmp_path_factory: pytest.TempPathFactory, place: float, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    DiscoveryLog(folder).append(FILES)
    path = folder / "files.log"
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    path.write_bytes(content)
    try:
        log = DiscoveryLog(folder)
    except CheckpointError as error:
        assert str(path) in str(error)
    else:
        assert log.files(0, len(log)) == FILES[: len(log)] and len(log) == 5  # the last line end


def test_a_line_that_is_missing_is_noticed(tmp_path: Path) -> None:
    DiscoveryLog(tmp_path).append(FILES)
    path = tmp_path / "files.log"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(CheckpointError, match="file 1 is missing"):
        DiscoveryLog(tmp_path)


def test_two_writers_are_noticed(tmp_path: Path) -> None:
    one, other = DiscoveryLog(tmp_path), DiscoveryLog(tmp_path)
    one.append(FILES[:1])
    with pytest.raises(CheckpointError, match="another process"):
        other.append(FILES[1:2])


def admission(folder: Path, state: Path, initial: int = 100) -> FileAdmission:
    pacing = Pacing(2.0, initial_batch=initial, min_batch=10)
    return FileAdmission(Listing(str(folder)), DiscoveryLog(state), AdaptiveBatcher(pacing))


def test_a_batch_takes_about_what_fits_and_at_least_one_file(tmp_path: Path) -> None:
    for number, length in enumerate([40, 50, 60, 500, 10]):
        make(tmp_path / "in", str(number), length, modified=1000 + number)
    admitted = admission(tmp_path / "in", tmp_path / "state")
    assert [admitted.admit(start, 0.0) for start in (0, 2, 3, 4, 5)] == [2, 3, 4, 5, 5]


def test_batches_grow_to_the_target_and_shrink_with_the_engine(tmp_path: Path) -> None:
    for number in range(2000):
        make(tmp_path / "in", f"{number:04d}", 100, modified=1000 + number)
    admitted = admission(tmp_path / "in", tmp_path / "state")
    start, now, taken = 0, 0.0, []
    for batch in range(24):
        end = admitted.admit(start, now)
        taken.append(end - start)
        now += 0.5 + (end - start) / (60 if batch < 14 else 20)
        start = end
    assert taken[13] == pytest.approx(90, rel=0.3) and taken[23] == pytest.approx(30, rel=0.3)


def test_the_same_number_means_the_same_file_after_a_restart(tmp_path: Path) -> None:
    make(tmp_path / "in", "new", 10, modified=2000)
    first = admission(tmp_path / "in", tmp_path / "state")
    assert first.admit(0, 0.0) == 1
    make(tmp_path / "in", "old", 10, modified=1000)
    again = admission(tmp_path / "in", tmp_path / "state")
    assert again.admit(1, 0.0) == 2
    assert names(again.files(0, 2)) == ["new", "old"]


def test_a_log_that_lost_files_that_were_taken_is_an_error(tmp_path: Path) -> None:
    make(tmp_path / "in", "a")
    with pytest.raises(CheckpointError, match="names 0 files, and the stream has taken 3"):
        admission(tmp_path / "in", tmp_path / "state").admit(3, 0.0)


def test_once_frozen_nothing_more_is_found(tmp_path: Path) -> None:
    make(tmp_path / "in", "a")
    admitted = admission(tmp_path / "in", tmp_path / "state")
    admitted.freeze()
    make(tmp_path / "in", "b")
    assert admitted.admit(0, 0.0) == admitted.admit(1, 1.0) == admitted.admit_all(1, 2.0) == 1


def test_files_that_are_known_are_not_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1_000):
        (tmp_path / f"{number}.json").write_text("{}")
    listing, log = Listing(str(tmp_path)), DiscoveryLog(tmp_path / "_state")
    asked: list[str] = []

    def found(path: str, stat: Callable[[], os.stat_result]) -> Iterator[FoundFile]:
        asked.append(path)
        return one_file(path, stat)

    one_file = listings._found
    monkeypatch.setattr(listings, "_found", found)
    log.append(listing.new_files(log))
    assert len(log) == len(asked) == 1_000
    make(tmp_path, "new.json")
    asked.clear()
    assert names(listing.new_files(log)) == ["new.json"] and asked == [str(tmp_path / "new.json")]
