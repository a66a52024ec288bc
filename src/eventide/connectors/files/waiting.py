"""How many bytes of files lie in front of a source and no batch has taken: what the driver sees of a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from eventide.connectors.files.listing import FoundFile
from eventide.errors import SourceError
from eventide.storage.atomic import read_json
from eventide.storage.paths import AnyPath

TAKEN = "taken.json"  # in the folder of a scan's state: what the running batch left


@dataclass
class FilesWaiting:
    """`new_files` gives those that are not in the set it is handed, as `Listing` does. A paced scan notes in `note` how
    many bytes it left of the files that it had found; others leave none.
    """

    new_files: Callable[[set[str]], list[FoundFile]]
    note: AnyPath | None = None
    _known: set[str] = field(default_factory=set)
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
        self._known.update(file.path for file in found)
        self._recent = [file for file in (*self._recent, *found) if file.modified >= began]
        waiting = self._left() + sum(file.length for file in self._recent)
        before, self._waited = self._waited, waiting
        if before is None:
            return None
        return max(before + sum(file.length for file in found) - waiting, 0), waiting

    def _left(self) -> int:
        noted = None if self.note is None else read_json(self.note)
        return int(noted["left"]) if noted else 0
