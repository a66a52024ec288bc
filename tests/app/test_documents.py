"""The app files that users are shown are valid and mean what the text says."""

from __future__ import annotations

from pathlib import Path

from eventide.app.reader import load_app
from eventide.app.transform import KEYS
from eventide.plan.difference import canonical
from tests.markdown import ROOT, blocks
from tests.sql.support import catalog

FILES = ROOT / "examples" / "files"


def test_the_example_app_file_and_the_example_sql_are_one_program() -> None:
    app, written = load_app((FILES / "app.toml").read_text()), catalog((FILES / "app.sql").read_text())
    assert app.catalog.sources == written.sources and app.catalog.sinks == written.sinks
    assert canonical(app.catalog.streams["per_page"]) == canonical(written.streams["per_page"])


def test_the_app_file_in_the_documentation_is_valid() -> None:
    (shown,) = [block for block in blocks(Path(ROOT / "docs" / "app.md")) if block.language == "toml"]
    assert list(load_app(shown.code).catalog.streams) == ["per_visitor"]


def test_every_key_of_a_transform_is_documented() -> None:
    text = (ROOT / "docs" / "app.md").read_text()
    assert [key for key in KEYS if f"`{key}`" not in text and key != "side_output"] == []
