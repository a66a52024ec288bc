"""The texts of the queries, and what they have to be told: where the files are."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template

NAMES = tuple(f"q{number}" for number in range(23))
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Places:
    """The values of $events and so on in the texts."""

    events: Path
    side_input: Path  # a folder
    output: Path
    files_per_batch: int = 4


def sources_sql(places: Places) -> str:
    return _filled("sources.sql", places)


def query_sql(name: str, places: Places) -> str:
    return _filled(f"queries/{name}.sql", places)


def has_windows(name: str) -> bool:
    """Whether results wait for windows to close."""
    return re.search(r"\b(TUMBLE|HOP|SESSION)\(", (_FOLDER / "queries" / f"{name}.sql").read_text()) is not None


def batch_sql(name: str) -> str:
    """The query that a database has to answer over all events at once: written for it, or the stream's own SELECT."""
    return _other("answers", name).replace("`", '"')


def flink_sources_sql(places: Places) -> str:
    return _quoted_times(_filled("flink/sources.sql", places))


def flink_sql(name: str) -> str:
    """The query for Flink: written for it, or the stream's own SELECT. Its parser knows a type DATETIME."""
    return _quoted_times(_other("flink", name))


def _other(folder: str, name: str) -> str:
    own = _FOLDER / folder / f"{name}.sql"
    if own.exists():
        return own.read_text()
    text = (_FOLDER / "queries" / f"{name}.sql").read_text()
    _, _, select = text.partition(f"CREATE STREAM {name} AS\n")
    return re.sub(r"\bop,\s+", "", select.partition(";")[0].replace("EMIT CHANGES", "").strip(), count=1)


def _quoted_times(sql: str) -> str:
    return re.sub(r"\bdateTime\b", "`dateTime`", sql)


def _filled(path: str, places: Places) -> str:
    return Template((_FOLDER / path).read_text()).substitute(asdict(places))
