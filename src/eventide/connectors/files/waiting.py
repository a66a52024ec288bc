"""How many bytes of files lie in front of a source and no batch has taken: what the driver sees of a folder."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field

from eventide.connectors.files.listing import FoundFile
from eventide.errors import SourceError
from eventide.storage.atomic import read_json
from eventide.storage.paths import AnyPath

TAKEN = "taken.json"  # in the folder of a scan's state: what the running batch left


class _Met:
    """Names of files, and which of them a listing has asked for: those are still there."""

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self._met: set[str] = set()

    def __contains__(self, name: object) -> bool:
        if name not in self._names:
            return False
        self._met.add(str(name))
        return True

    def after_listing(self, found: Iterable[str]) -> _Met:
        """With what a listing has found, and without what it has not met, unless it has looked at nothing."""
        now = self._met.union(found)
        return _Met(now or self._names)


@dataclass
class FilesWaiting:
    """`new_files` gives those that are not in the set it is handed, as `Listing` does. A paced scan notes in `note` how
    many bytes it left of the files that it had found; others leave none.
    """

    new_files: Callable[[Container[str]], list[FoundFile]]
    note: AnyPath | None = None
    _known: _Met = field(default_factory=lambda: _Met(set()))
    _recent: list[FoundFile] = field(default_factory=list)
    _waited: int | None = None

    def observe(self, began: int) -> tuple[int, int] | None:
        """The batch that began at `began` has ended: (the bytes that it took, those that wait). None if the folder
        cannot be read, or is seen for the first time.
        """
        try:
            found = self.new_files(self._known)
        except (OSError, SourceError):
            return None
        self._known = self._known.after_listing(file.path for file in found)
        self._recent = [file for file in (*self._recent, *found) if file.modified >= began]
        waiting = self._left() + sum(file.length for file in self._recent)
        before, self._waited = self._waited, waiting
        if before is None:
            return None
        return max(before + sum(file.length for file in found) - waiting, 0), waiting

    def _left(self) -> int:
        noted = None if self.note is None else read_json(self.note)
        return int(noted["left"]) if noted else 0
