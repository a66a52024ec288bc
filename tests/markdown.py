"""Fenced code blocks of Markdown files, so that documentation can be run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Block:
    file: str
    line: int
    language: str
    code: str
    output: str | None  # of a python block: the text block that follows it

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples" / "README.md"]


def blocks(file: Path) -> list[Block]:
    text = file.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    result = []
    for index, fence in enumerate(found):
        follower = found[index + 1] if index + 1 < len(found) else None
        follows = (
            follower is not None and follower["language"] == "text" and not text[fence.end() : follower.start()].strip()
        )
        output = follower["code"] if follower is not None and follows and fence["language"] == "python" else None
        line = text.count("\n", 0, fence.start()) + 1
        result.append(Block(str(file.relative_to(ROOT)), line, fence["language"], fence["code"], output))
    return result
