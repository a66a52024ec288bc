"""docs/architecture.md names files and folders: all of them exist, and every folder of the package is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "eventide"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([a-z_]+(?:/[A-Za-z_]+)*(?:/|\.py))`", PAGE)))


@pytest.mark.parametrize("name", NAMED)
def test_what_the_page_names_is_there(name: str) -> None:
    beside = [PACKAGE / folder / name for folder in ("", "plan", "kernels")] + [ROOT / name, ROOT / "src" / name]
    assert any(path.exists() for path in beside)


def test_every_folder_has_a_line() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {f"{name}/" for name in folders - {"cli", "app"}} <= set(NAMED)
