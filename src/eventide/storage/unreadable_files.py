"""Files at which a stream has stopped because they could not be read. Of these, one that is deleted later is skipped;
a deleted file that could have been read never is.
"""

from __future__ import annotations

from eventide.storage.atomic import read_json, write_json
from eventide.storage.paths import AnyPath, path_in
from eventide.storage.stores import Store


class UnreadableFiles:
    def __init__(self, folder: AnyPath) -> None:
        self._path = folder / "unreadable.json"

    def note(self, path: str) -> None:
        known = self._names()
        if path not in known:
            write_json(self._path, [*known, path])

    def gone(self, store: Store | None = None) -> set[str]:
        """Those that are not there any more."""
        return {path for path in self._names() if not path_in(path, store).exists()}

    def _names(self) -> list[str]:
        return read_json(self._path) or []
