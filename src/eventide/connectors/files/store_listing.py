"""The files that a path in a store names, by the same rules as those of this machine (`listing`).

To list a folder of a store takes a request or more. So of many partition folders only some are listed before each
batch: new ones, the newest of each level by name, and those in which something was written of late. All of them are
listed at the start and then every `full_every` seconds, so that a file that appears anywhere else is found as well,
that much later. HDFS tells when a folder has changed: there only changed folders are listed, and nothing is found late.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from eventide.connectors.files.listing import MAGIC, FoundFile, expand_braces, name_pattern
from eventide.connectors.files.partitions import FolderColumns, is_hidden
from eventide.errors import SourceError
from eventide.storage.paths import RemotePath
from eventide.storage.stores import Store

FULL_EVERY = 60.0  # seconds
_FEW = 8  # folders: so few are listed every time
_NEWEST = 2  # of each level
_WARM = 900.0  # seconds for which a folder in which something was found is listed every time
_FRESH = 2.0  # seconds after a change was seen in which another may have the same time


@dataclass
class _Known:
    """A partition folder that has been listed. Times are those of the clock, unless the store tells them."""

    changed: int | None  # as the store tells it
    since: float  # when that was seen first
    listed: float
    newest: float  # when its newest file was written, as the store tells it; or when it was found itself
    has_folders: bool = False


@dataclass(frozen=True)
class _Entry:
    path: RemotePath
    is_file: bool
    changed: int | None  # nanoseconds
    length: int

    @property
    def name(self) -> str:
        return self.path.name


@dataclass(frozen=True)
class _Look:
    """One look at everything below a folder; `known` are files that were found before."""

    known: Container[str]
    now: float
    is_full: bool
    columns: FolderColumns = field(default_factory=FolderColumns)

    def new(self, entries: Iterable[_Entry]) -> Iterator[FoundFile]:
        for entry in entries:
            if str(entry.path) not in self.known:
                yield FoundFile(str(entry.path), (entry.changed or 0) // 1000, entry.length)


class StoreListing:
    """The new files below a path of a store. `clock` is seconds, as those of the store."""

    def __init__(
        self, path: str, store: Store, full_every: float = FULL_EVERY, clock: Callable[[], float] = time.time
    ) -> None:
        key = path.partition("://")[2].partition("/")[2].strip("/")
        self._store = store
        self._patterns = [[part for part in pattern.split("/") if part] for pattern in expand_braces(key)]
        self._is_pattern = bool(MAGIC & set(key))
        self._full_every, self._clock = full_every, clock
        self._listed_in_full: float | None = None
        self._known: dict[RemotePath, _Known] = {}

    def new_files(self, known: Container[str]) -> list[FoundFile]:
        """The files not in `known`, by modification time, then path."""
        now, last = self._clock(), self._listed_in_full
        is_full = last is None or now - last >= self._full_every or len(self._known) <= _FEW
        found = {
            file.path: file for pattern in self._patterns for file in self._matches(pattern, _Look(known, now, is_full))
        }
        if is_full:
            self._listed_in_full = now
        return sorted(found.values(), key=lambda file: (file.modified, file.path))

    def _matches(self, pattern: list[str], look: _Look) -> Iterator[FoundFile]:
        plain = next((index for index, part in enumerate(pattern) if MAGIC & set(part)), len(pattern))
        start = RemotePath(self._store, PurePosixPath(*pattern[:plain]))
        if plain == len(pattern):
            yield from self._named(start, look)
            return
        paths = [start]
        for part in pattern[plain:-1]:
            paths = [entry.path for path in paths for entry in _matching(path, part) if not entry.is_file]
        for entry in (entry for path in paths for entry in _matching(path, pattern[-1])):
            if entry.is_file:
                yield from look.new([entry])
            else:
                yield from self._below(entry.path, _visible(entry.path), replace(look, columns=FolderColumns()), 0)

    def _named(self, path: RemotePath, look: _Look) -> Iterator[FoundFile]:
        """Those in a folder; or the one file that the path names."""
        seen = _visible(path)
        if seen:
            yield from self._below(path, seen, look, 0)
        elif path.name and path.is_file():
            stat = path.stat()
            yield from look.new([_Entry(path, True, stat.st_mtime_ns, stat.st_size)])

    def _below(self, folder: RemotePath, seen: list[_Entry], look: _Look, level: int) -> Iterator[FoundFile]:
        """`seen` is what is in the folder."""
        files = [entry for entry in seen if entry.is_file]
        folders = {str(entry.path): entry for entry in seen if not entry.is_file}
        read = look.columns.below(str(folder), level, files, list(folders.values()))
        if read and self._is_pattern:
            raise SourceError(
                f"{read[0]} is a partition folder below a pattern",
                help="name the folder above it, without a pattern; or name the folders themselves by one",
            )
        yield from look.new(files)
        newest = set(sorted(read, key=_by_number)[-_NEWEST:])
        for entry in (folders[path] for path in read):
            if self._is_due(entry, str(entry.path) in newest, look):
                inside = _visible(entry.path)
                yield from self._below(entry.path, inside, look, level + 1)
                self._note(entry, inside, look.now)

    def _is_due(self, entry: _Entry, is_newest: bool, look: _Look) -> bool:
        """Whether a partition folder is listed now."""
        noted = self._known.get(entry.path)
        if noted is None or look.is_full:
            return True
        if entry.changed is None:
            return is_newest or look.now - noted.newest < _WARM
        return noted.has_folders or noted.changed != entry.changed or noted.listed - noted.since < _FRESH

    def _note(self, entry: _Entry, inside: list[_Entry], now: float) -> None:
        before = self._known.get(entry.path)
        is_unchanged = before is not None and before.changed == entry.changed
        since = before.since if before is not None and is_unchanged else now
        below = [self._known[each.path].newest for each in inside if each.path in self._known]
        written = [(each.changed or 0) / 1e9 for each in inside if each.is_file]
        newest = max([*below, *written], default=now)
        self._known[entry.path] = _Known(entry.changed, since, now, newest, any(not each.is_file for each in inside))


def first_folders(root: RemotePath) -> tuple[str, ...]:
    """The columns after which the first folder of every level below a folder is named, from above."""
    columns, level, folder = FolderColumns(), 0, root
    while True:
        seen = _visible(folder)
        folders = {str(entry.path): entry.path for entry in seen if not entry.is_file}
        below = columns.below(str(folder), level, [], [each for each in seen if str(each.path) in folders])
        if not below:
            return tuple(columns.names)
        level, folder = level + 1, folders[below[0]]


def _visible(folder: RemotePath) -> list[_Entry]:
    """What is in a folder, but for names that are not data."""
    found = [_Entry(path, info.is_file, info.mtime_ns, info.size or 0) for path, info in folder.entries()]
    return [entry for entry in found if not is_hidden(entry.name)]


def _matching(folder: RemotePath, part: str) -> list[_Entry]:
    matches = name_pattern(part).fullmatch
    return sorted((each for each in _visible(folder) if matches(each.name)), key=lambda entry: entry.path)


def _by_number(path: str) -> str:
    """`hour=9` comes before `hour=10`."""
    return re.sub(r"\d+", lambda number: number[0].zfill(20), path)
