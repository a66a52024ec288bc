"""The switch of local speed: what turns it off, and that nothing is done then."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from eventide.spark.local.speed import SWITCH, LocalSpeed, Ordinary, is_wanted, speed_of, streaming_settings
from eventide.spark.settings import JAVA_OPTIONS, PYTHONS

SETTINGS = {JAVA_OPTIONS: "-Dmine", "spark.ui.enabled": "false"}


@pytest.fixture(autouse=True)
def pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a session has them before it starts Spark."""
    for name in PYTHONS:
        monkeypatch.setenv(name, sys.executable)
    monkeypatch.delenv(SWITCH, raising=False)


@pytest.mark.parametrize(
    ("environment", "option", "expected"),
    [
        (None, None, True),
        ("", None, True),
        ("1", None, True),
        ("0", None, False),
        ("False", None, False),
        ("off", None, False),
        ("0", True, True),
        ("1", False, False),
    ],
)
def test_an_option_wins_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: str | None, option: bool | None, expected: bool
) -> None:
    if environment is not None:
        monkeypatch.setenv(SWITCH, environment)
    assert is_wanted(option) is expected


@pytest.mark.parametrize(
    ("master", "option", "expected"),
    [("local[*]", None, LocalSpeed), ("local[*]", False, Ordinary), ("spark://host:7077", True, Ordinary)],
)
def test_it_is_for_a_local_spark_that_wants_it(
    tmp_path: Path, master: str, option: bool | None, expected: type[Ordinary]
) -> None:
    assert type(speed_of(master, "17", tmp_path, option)) is expected
    assert bool(streaming_settings(master, option)) is (expected is LocalSpeed)


def test_an_ordinary_spark_gets_its_settings_and_its_python_as_they_are(tmp_path: Path) -> None:
    before = dict(os.environ)
    with speed_of("local[*]", "17", tmp_path, False).starting(SETTINGS) as chosen:
        assert chosen == SETTINGS and dict(os.environ) == before
    assert list(tmp_path.iterdir()) == []


def test_a_fast_one_gets_more_and_a_start_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no archive"))
    before = dict(os.environ)
    speed = LocalSpeed("17", tmp_path)
    with pytest.raises(RuntimeError, match="no Java"), speed.starting(SETTINGS) as chosen:
        assert chosen == {**SETTINGS, "spark.python.daemon.module": "eventide.spark.local.daemon"}
        if sys.platform == "linux":
            assert {os.environ[name] for name in PYTHONS} == {str(tmp_path / "python")}
        nursery = speed._nursery
        raise RuntimeError("no Java")
    assert dict(os.environ) == before
    assert nursery is None or nursery._process.returncode is not None


@pytest.mark.parametrize("case", ["a long path", "a Python of the user's"])
def test_where_there_can_be_no_nursery_python_is_the_plain_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    folder = tmp_path
    if case == "a long path":
        folder = tmp_path / ("long" * 30)
        folder.mkdir()
    else:
        monkeypatch.setenv(PYTHONS[0], "/usr/bin/another")
    before = dict(os.environ)
    with LocalSpeed("17", folder).starting(SETTINGS):
        assert dict(os.environ) == before
