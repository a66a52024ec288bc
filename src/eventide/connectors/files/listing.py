"""The files that a path names: those in a folder, or those that match a pattern, as in Spark's file source.

A pattern is Hadoop's: `*` and `?` within a name, `[a-c]`, `[^a]`, `{json,csv}`, `\\` before a character that is
meant literally. A folder stands for the files directly in it, or for those in folders named `column=value` below it
(see `partitions`). Names that begin with `.` or `_` are not data, except `_a=b`.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Container, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from eventide.connectors.files.partitions import FolderColumns, is_file, is_folder, is_hidden, readable
from eventide.errors import OptionError, SourceError

MAGIC = frozenset("*?[{\\")
_FRESH = 2_000_000_000  # nanoseconds: the coarsest file-system clock; what changed this recently may change unseen
_TRUSTED = 10.0  # seconds for which a folder with an unchanged time is assumed to be unchanged


class FoundFile(NamedTuple):
    """Times in microseconds. A file that was moved or copied may keep its time of modification: `settled` is how much
    later it came to where it is, as far as the file system tells.
    """

    path: str
    modified: int
    length: int
    settled: int = 0

    @property
    def arrived(self) -> int:
        return self.modified + self.settled


class Listing:
    """The new files below a path. Folders that have not changed since the last call are not read again."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self._patterns = [pattern.split("/") for pattern in expand_braces(local_path(path))]
        self._is_pattern = bool(MAGIC & set(path))
        self._clock = clock
        self._listed_at = 0.0
        self._folders: dict[str, int] = {}  # what the last listing depended on, with the time of its last change

    def new_files(self, known: Container[str]) -> list[FoundFile]:
        """The files not in `known`, by modification time, then path. Empty if no folder has changed since the last
        call. A file that has just been made and is still empty is left to a later call: its writer may be about to
        fill it.
        """
        now = self._clock()
        if self._is_unchanged(now):
            return []
        self._listed_at, self._folders = now, {}
        found = {file.path: file for pattern in self._patterns for file in self._matches(pattern, known)}
        filled = [file for file in found.values() if file.length or now * 1e9 - file.arrived * 1000 > _FRESH]
        return sorted(filled, key=lambda file: (file.modified, file.path))

    def _is_unchanged(self, now: float) -> bool:
        if not self._folders or not 0 <= now - self._listed_at < _TRUSTED:
            return False
        listed = round(self._listed_at * 1e9)
        return all(
            listed - changed > _FRESH and _changed(folder) == changed for folder, changed in self._folders.items()
        )

    def _matches(self, pattern: list[str], known: Container[str]) -> Iterator[FoundFile]:
        plain = next((index for index, part in enumerate(pattern) if MAGIC & set(part)), len(pattern))
        paths = ["/".join(pattern[:plain]) or "/"]
        for part in pattern[plain:]:
            paths = [match for path in paths for match in self._children(path, part)]
        for path in paths:
            if os.path.isdir(path):
                yield from self._files(path, known, FolderColumns(), 0)
            elif path not in known and not is_hidden(os.path.basename(path)):
                yield from _found(path, partial(os.stat, path))

    def _children(self, folder: str, part: str) -> list[str]:
        if not self._watch(folder):
            return []
        if not MAGIC & set(part):
            child = os.path.join(folder, part)
            return [child] if os.path.exists(child) else []
        matches = name_pattern(part).fullmatch
        with readable(folder):
            names = os.listdir(folder)
        return sorted(os.path.join(folder, name) for name in names if matches(name) and not is_hidden(name))

    def _files(self, folder: str, known: Container[str], columns: FolderColumns, level: int) -> Iterator[FoundFile]:
        if not self._watch(folder):
            return
        with readable(folder), os.scandir(folder) as entries:
            seen = [entry for entry in entries if not is_hidden(entry.name)]
        files = [entry for entry in seen if is_file(entry)]
        folders = columns.below(folder, level, files, [entry for entry in seen if is_folder(entry)])
        if folders and self._is_pattern:
            raise SourceError(
                f"{folders[0]} is a partition folder below a pattern",
                help="name the folder above it, without a pattern; or name the folders themselves by one",
            )
        for entry in files:
            path = os.path.join(folder, entry.name)
            if path not in known:
                yield from _found(path, entry.stat)
        for path in folders:
            yield from self._files(path, known, columns, level + 1)

    def _watch(self, folder: str) -> bool:
        """Note the folder's time before reading it, so that changes made meanwhile are seen next time; False if it is
        not a folder.
        """
        changed = _changed(folder)
        if changed is None or not os.path.isdir(folder):
            return False
        self._folders[folder] = changed
        return True


def root_of(path: str) -> str:
    """Below which the files are: as `local_path`, or elsewhere."""
    return path.rstrip("/") if is_elsewhere(path) else local_path(path)


def is_elsewhere(path: str) -> bool:
    """Whether a path is not one of this machine's: `s3a://bucket/folder`."""
    return re.match(r"^(?!file:)[A-Za-z][A-Za-z0-9+.-]*:/", path) is not None


def local_path(path: str) -> str:
    """`path`, as users write it, as an absolute path on the local file system."""
    local = re.sub(r"^file:(//)?(?=/)", "", path)
    if re.match(r"^[A-Za-z][A-Za-z0-9+.-]*:/", local):
        raise OptionError(
            f"target_latency is for folders that are local, mounted, or in s3a:// or hdfs://, not for {path}",
            help="leave target_latency out, and bound batches with max_files_per_batch",
        )
    return os.path.abspath(local)


def expand_braces(pattern: str) -> list[str]:
    """`a{b,c}d` as `abd` and `acd`; braces may be nested."""
    depth, start, commas = 0, -1, []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            position += 1
        elif char == "{":
            depth += 1
            start = position if depth == 1 else start
        elif char == "," and depth == 1:
            commas.append(position)
        elif char == "}" and depth:
            depth -= 1
            if depth == 0:
                edges = [start, *commas, position]
                middles = [pattern[left + 1 : right] for left, right in pairwise(edges)]
                rest = expand_braces(pattern[position + 1 :])
                return [
                    pattern[:start] + inner + end
                    for middle in middles
                    for inner in expand_braces(middle)
                    for end in rest
                ]
        position += 1
    if depth:
        raise OptionError(
            f"the path {pattern} has a brace that is not closed", help="write {a,b}, or \\{ for the character itself"
        )
    return [pattern]


_TOKEN = re.compile(
    r"\\(?P<plain>.)|(?P<star>\*)|(?P<one>\?)|\[(?P<not>[!^]?)(?P<set>[^\]]+)\]|(?P<other>.)", re.DOTALL
)


def name_pattern(part: str) -> re.Pattern[str]:
    """One path component of a pattern, without braces, as a regular expression."""
    made = []
    for found in _TOKEN.finditer(part):
        if found["set"]:
            inner = re.sub(r"([\\\[\]^&|~])", r"\\\1", found["set"])
            made.append(f"[{'^' if found['not'] else ''}{inner}]")
        elif found["star"] or found["one"]:
            made.append(".*" if found["star"] else ".")
        else:
            made.append(re.escape(found["plain"] or found["other"]))
    return re.compile("".join(made), re.DOTALL)


def _changed(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except FileNotFoundError:
        return None


def _found(path: str, stat: Callable[[], os.stat_result]) -> Iterator[FoundFile]:
    """The file, unless it has disappeared meanwhile, or is a link that leads nowhere."""
    try:
        status = stat()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return
    modified, changed = status.st_mtime_ns // 1000, status.st_ctime_ns // 1000
    yield FoundFile(path, modified, status.st_size, max(changed - modified, 0))
