"""README and docs are true: their Python runs and prints what they say, their SQL works, their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DatabaseFactory
from tests.markdown import ROOT, Block, blocks, documents

PYTHON = [block for file in documents() for block in blocks(file) if block.language == "python"]
SQL_DOCUMENTS = [file for file in documents() if any(block.language == "sql" for block in blocks(file))]
PATH = re.compile(r"'path' = '([^']*)'")
LINK = re.compile(r"\]\((?!https?://)([^)#]+)")


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_prints_what_the_document_says(
    block: Block, keep_spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile("\n" * block.line + block.code, block.file, "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert block.output is None or printed == block.output


@pytest.mark.parametrize("file", SQL_DOCUMENTS, ids=lambda file: file.name)
def test_sql_is_valid_from_the_first_block_of_a_document_to_the_last(file: Path) -> None:
    from eventide.cli.files import check

    check("\n".join(block.code for block in blocks(file) if block.language == "sql"))


@pytest.mark.parametrize("file", SQL_DOCUMENTS, ids=lambda file: file.name)
def test_sql_runs(file: Path, db_factory: DatabaseFactory, tmp_path: Path) -> None:
    db = db_factory()
    for block in blocks(file):
        if block.language == "sql":
            db.execute(PATH.sub(lambda path: f"'path' = '{folder_in(tmp_path, path[1])}'", block.code))


def folder_in(parent: Path, name: str) -> Path:
    """The folder that a document calls `name`, created below `parent`."""
    folder = parent / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("file", documents(), ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path) -> None:
    for target in LINK.findall(file.read_text(encoding="utf-8")):
        assert (file.parent / target).exists(), f"{file.relative_to(ROOT)} links to {target}"


def test_the_commands_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"\bmake (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert {"demo", "test"} <= set(targets)
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
