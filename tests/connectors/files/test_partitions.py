"""Trees of folders named after columns: which are read, and what keeps others from it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eventide.connectors.files.infer import infer
from eventide.connectors.files.listing import Listing
from eventide.connectors.files.partitions import folder_columns, is_hidden
from eventide.errors import OptionError, SourceError
from eventide.tasks.folder_names import texts_of


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"v": 1}')


def found(root: Path | str) -> list[str]:
    return sorted(file.path.removeprefix(f"{root}/") for file in Listing(str(root)).new_files(set()))


def test_files_are_found_on_the_lowest_level(tmp_path: Path) -> None:
    make(tmp_path, "day=1/hour=2/a.json", "day=1/hour=3/b.json", "day=2/hour=2/c.json", "day=2/_SUCCESS", ".x=1/d.json")
    (tmp_path / "day=3").mkdir()
    assert found(tmp_path) == ["day=1/hour=2/a.json", "day=1/hour=3/b.json", "day=2/hour=2/c.json"]
    assert folder_columns(str(tmp_path)) == ("day", "hour")


def test_a_folder_without_partition_folders_has_no_columns(tmp_path: Path) -> None:
    make(tmp_path, "a.json", "other/b.json", "c=d.json")
    assert found(tmp_path) == ["a.json", "c=d.json"]
    assert folder_columns(str(tmp_path)) == ()


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("day=1/a.json", "b.json"), r"b\.json lies beside the partition folder .*day=1"),
        (("day=1/a.json", "other/b.json"), r"other lies beside the partition folder .*day=1"),
        (("day=1/hour=2/a.json", "day=1/b.json"), r"day=1/b\.json lies beside the partition folder .*hour=2"),
        (("day=1/a.json", "day=2/deeper/b.json"), "deeper is not named column=value"),
        (("day=1/a.json", "hour=2/b.json"), "hour=2 is named after hour, and others after day"),
        (("day=1/hour=1/a.json", "day=2/b.json"), "have files, and are not named after the same columns"),
        (("day=1/day=2/a.json",), "day=2 is named after day"),
        (("day=1/DAY=2/a.json",), "DAY=2 is named after DAY"),
        (("day=/a.json",), "names no column, or no value"),
        (("=1/a.json",), "names no column, or no value"),
    ],
)
def test_a_tree_whose_files_would_not_have_the_same_columns_is_refused(
    tmp_path: Path, names: tuple[str, ...], told: str
) -> None:
    make(tmp_path, *names)
    for look in (found, lambda root: folder_columns(str(root))):
        with pytest.raises(OptionError, match=told):
            look(tmp_path)


def test_a_link_to_a_folder_above_is_refused_rather_than_followed_for_ever(tmp_path: Path) -> None:
    (tmp_path / "day=1").symlink_to(".")
    with pytest.raises(OptionError, match="named after day"):
        found(tmp_path)


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"k=\xff")).mkdir()
    with pytest.raises(OptionError, match="is not UTF-8") as raised:
        found(tmp_path)
    str(raised.value).encode()


def test_partition_folders_below_a_pattern_are_refused(tmp_path: Path) -> None:
    make(tmp_path, "in/day=1/a.json")
    with pytest.raises(SourceError, match="day=1 is a partition folder below a pattern"):
        found(f"{tmp_path}/i*")


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("day=2026-01-01/a", {"day": "2026-01-01"}),
        ("a%20b=1%2F2/c==/x.json", {"a b": "1/2", "c": "="}),
        ("k=__HIVE_DEFAULT_PARTITION__/x", {"k": None}),
        ("k=%5F_HIVE_DEFAULT_PARTITION__/x", {"k": "__HIVE_DEFAULT_PARTITION__"}),
        ("k=%/x", {"k": "%"}),
        ("k=%zz%4/x", {"k": "%zz%4"}),
        ("k=%C3%A9é/x", {"k": "\u00c3\u00a9é"}),
        ("x=1.json", {}),
    ],
)
def test_what_the_names_of_folders_say(path: str, texts: dict[str, str | None]) -> None:
    assert texts_of("/data/root=1", f"/data/root=1/{path}") == texts


def test_names_that_are_not_data() -> None:
    names = (".a", "_a", "_a=1", ".a=1", "a._COPYING_", "a=1")
    assert [name for name in names if not is_hidden(name)] == ["_a=1", "a=1"]


def test_inferred_columns_end_with_those_of_folders(tmp_path: Path) -> None:
    make(tmp_path, "day=2026-01-01/V=7/a.json")
    assert infer({"path": str(tmp_path)}) == (("v", "bigint"), ("day", "string"))
