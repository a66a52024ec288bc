"""Files that a scan does not take: nobody knows whether it has taken them before its names of old were forgotten."""

from __future__ import annotations

from collections.abc import Collection

from eventide.storage.atomic import read_json, write_json
from eventide.storage.paths import AnyPath

FIGURE = "files_passed_over"
_NOTE = "passed_over.json"
_NAMED = 100  # files


class PassedOver:
    """`folder` is that of one scan. The note says how many there are, and the names of some."""

    def __init__(self, folder: AnyPath) -> None:
        self._path = folder / _NOTE
        self._names: set[str] = set()
        self._noted: int | None = None

    def note(self, names: Collection[str], taken: Collection[str]) -> None:
        """Files that were passed over, and files that were not, be it that they have been touched meanwhile."""
        self._names = self._names.union(names).difference(taken)
        if self._noted is None:
            self._noted = _count(self._path)
        if len(self._names) != self._noted:
            write_json(self._path, {"files": len(self._names), "names": sorted(self._names)[:_NAMED]})
            self._noted = len(self._names)


def scan_figures(scans: AnyPath) -> dict[str, int]:
    """Of all scans of a stream, which keep theirs in folders of `scans`; empty unless files were passed over."""
    count = sum(map(_count, scans.glob(f"*/{_NOTE}")))
    return {FIGURE: count} if count else {}


def _count(path: AnyPath) -> int:
    noted = read_json(path)
    return int(noted["files"]) if noted else 0
