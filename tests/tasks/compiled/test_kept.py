"""Machine code is kept for later processes, and does without a place to keep it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOAD = """
from eventide.tasks.compiled import kept
print(kept.is_there())
kept.load()
from eventide.tasks.compiled.json_parser import parsed_lines
print(sum(parsed_lines.stats.cache_hits.values()))
"""


def said(home: Path) -> list[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.slow
def test_a_second_process_loads_what_the_first_has_compiled(tmp_path: Path) -> None:
    assert said(tmp_path) == ["False", "0"]
    assert said(tmp_path) == ["True", "1"]


@pytest.mark.slow
def test_without_a_folder_for_it_it_is_compiled_in_each_process(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("no folder")
    assert said(in_the_way)[0] == "False"
