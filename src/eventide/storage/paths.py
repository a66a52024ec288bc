"""Paths of a checkpoint: those of this machine are `pathlib.Path`, all others a `RemotePath`, which has the same
methods as far as a checkpoint needs them.

What is written to a store is there as a whole or not at all, and replaces what was there: for an object store that is
what a PUT does, for HDFS see `storage.hdfs`. Nothing is ever appended to.
"""

from __future__ import annotations

import fnmatch
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

from eventide.storage.stores import S3, Store, store_of

if TYPE_CHECKING:
    from pyarrow import fs

_MAGIC = "*?["


@dataclass(frozen=True)
class Stat:
    st_size: int
    st_mtime_ns: int


@dataclass
class Ownership:
    """Of a checkpoint that this process holds: `check` raises if it does not any more, and is called before anything is
    written below it. Nobody else changes it, so that what was found there can be remembered.
    """

    check: Callable[[], None]
    own: RemotePath  # where the holder says that it is: written without a check
    memory: dict[RemotePath, int] = field(default_factory=dict)


OWNED: dict[RemotePath, Ownership] = {}  # by the folder of the checkpoint: see `storage.lease`


@dataclass(frozen=True, order=True)
class RemotePath:
    """A file or a folder of a store. It can be sent to other processes, and takes what is needed to reach it along."""

    store: Store
    key: PurePosixPath  # below the bucket, or the root of the file system; relative

    def __str__(self) -> str:
        key = "" if self.key == PurePosixPath() else f"/{self.key}"
        return f"{self.store.scheme}://{self.store.authority}{key}"

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.store, self.key / name)

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def stem(self) -> str:
        return self.key.stem

    @property
    def parts(self) -> tuple[str, ...]:
        return self.key.parts

    @property
    def suffix(self) -> str:
        return self.key.suffix

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.store, self.key.parent)

    @property
    def root(self) -> RemotePath:
        """The whole bucket, or the root of the file system."""
        return RemotePath(self.store, PurePosixPath())

    def with_name(self, name: str) -> RemotePath:
        return RemotePath(self.store, self.key.with_name(name))

    # Questions ------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        return bool(self._info().type)

    def is_file(self) -> bool:
        return bool(self._info().is_file)

    def is_dir(self) -> bool:
        info = self._info()
        return bool(info.type) and not info.is_file

    def stat(self) -> Stat:
        info = self._info()
        if not info.type:
            raise FileNotFoundError(2, "No such file or directory", str(self))
        return Stat(info.size or 0, info.mtime_ns or 0)

    def iterdir(self) -> Iterator[RemotePath]:
        yield from (path for path, _ in self.entries())

    def entries(self) -> Iterator[tuple[RemotePath, fs.FileInfo]]:
        """What is in a folder, with what the store tells of it by the way."""
        yield from ((self / PurePosixPath(info.path).name, info) for info in self._listed() if self._is_below(info))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        first, _, rest = pattern.partition("/")
        if not any(mark in first for mark in _MAGIC):
            found = iter([self / first] if rest or (self / first).exists() else [])
        else:
            found = (child for child in self.iterdir() if fnmatch.fnmatchcase(child.name, first))
        for child in found:
            if rest:
                yield from child.glob(rest)
            else:
                yield child

    def rglob(self, pattern: str) -> Iterator[RemotePath]:
        for info in self._listed(recursive=True):
            path = PurePosixPath(info.path)
            if self._is_below(info) and fnmatch.fnmatchcase(path.name, pattern):
                yield RemotePath(self.store, path.relative_to(self._root))

    # Content --------------------------------------------------------------------------------------------------

    def open(self) -> Any:
        """The content, to be read in any place."""
        return self.store.files().open_input_file(self._place)

    def read_bytes(self) -> bytes:
        with self.store.files().open_input_stream(self._place, compression=None) as file:
            content: bytes = file.read()
            return content

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def read_buffer(self) -> Any:
        """The content without a copy, as Arrow has it."""
        with self.open() as file:
            return file.read_buffer()

    def write_bytes(self, content: bytes) -> None:
        """There as a whole, and durably, when it returns."""
        with self.create() as file:
            file.write(content)

    def create(self) -> Any:
        """A file to write to. It is there when it is closed; one that a process leaves open when it dies never is."""
        self._check()
        return self.store.files().open_output_stream(self._place, compression=None)  # whatever it is called

    def upload(self, local: Path) -> None:
        """Put the content of a file of this machine here."""
        with local.open("rb") as source, self.create() as target:
            shutil.copyfileobj(source, target, 4 << 20)

    # Changes --------------------------------------------------------------------------------------------------

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing to do for an object store: a folder is there as long as something is in it."""
        if self.store.scheme != S3:
            self._check()
            self.store.files().create_dir(self._place, recursive=True)

    def touch(self) -> None:
        self.write_bytes(b"")

    def unlink(self, missing_ok: bool = False) -> None:
        self._check()
        try:
            self.store.files().delete_file(self._place)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, target: RemotePath) -> None:
        """Move a folder with everything below, at once; no object store can."""
        self._check()
        target._check()
        target.parent.mkdir()
        self.store.files().move(self._place, target._place)

    def copy_tree(self, target: RemotePath) -> None:
        """Copy everything below to another place of the same store."""
        for path in list(self.rglob("*")):
            if path.is_file():
                to = RemotePath(self.store, target.key / path.key.relative_to(self.key))
                to._check()
                self.store.files().copy_file(path._place, to._place)

    def remove_tree(self, ignore_errors: bool = True) -> None:
        """With everything below."""
        self._check()
        owned = self.ownership
        if owned is not None:
            for path in [path for path in owned.memory if path.key.is_relative_to(self.key)]:
                del owned.memory[path]
        with suppress(OSError if ignore_errors else FileNotFoundError):
            self.store.files().delete_dir(self._place)

    # ----------------------------------------------------------------------------------------------------------

    @property
    def _root(self) -> str:
        return self.store.authority if self.store.scheme == S3 else "/"

    @property
    def _place(self) -> str:
        """As Arrow's file system has it."""
        return str(PurePosixPath(self._root) / self.key)

    def _info(self) -> fs.FileInfo:
        return self.store.files().get_file_info(self._place)

    def _listed(self, recursive: bool = False) -> list[fs.FileInfo]:
        from pyarrow import fs

        chosen = fs.FileSelector(self._place, allow_not_found=True, recursive=recursive)
        return list(self.store.files().get_file_info(chosen))

    def _is_below(self, info: fs.FileInfo) -> bool:
        return PurePosixPath(info.path) != PurePosixPath(self._place)

    @property
    def ownership(self) -> Ownership | None:
        """That of the checkpoint which this is in, if this process holds it."""
        for folder, ownership in list(OWNED.items()):
            if folder.store == self.store and self.key.is_relative_to(folder.key):
                return ownership
        return None

    def _check(self) -> None:
        """Raise if this process may not write here any more."""
        ownership = self.ownership
        if ownership is not None and not self.key.is_relative_to(ownership.own.key):
            ownership.check()


AnyPath: TypeAlias = Path | RemotePath


def remote_path(uri: str, settings: Mapping[str, str]) -> RemotePath:
    """The path that a URI names; `settings` are Spark's."""
    return RemotePath(store_of(uri, settings), PurePosixPath(uri.partition("://")[2].partition("/")[2].strip("/")))


def path_in(text: str, store: Store | None) -> AnyPath:
    """The path that `str` has made of one: of this machine if there is no store."""
    if store is None:
        return Path(text)
    return RemotePath(store, PurePosixPath(text.partition("://")[2].partition("/")[2]))


def store_in(path: AnyPath | None) -> Store | None:
    return path.store if isinstance(path, RemotePath) else None


def listed(folder: AnyPath, pattern: str) -> list[AnyPath]:
    """What is in a folder under such names, in their order."""
    found: list[AnyPath] = [*folder.glob(pattern)]
    return sorted(found, key=lambda path: path.parts)


def make_folder(folder: AnyPath) -> None:
    """Let a folder be there for Spark, though nothing is in it yet. In a store something must be: Spark ignores it."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(folder, RemotePath) and folder.store.scheme == S3:
        (folder / "_folder").touch()


def set_aside(folder: AnyPath, aside: AnyPath) -> None:
    """Move a folder. An object store cannot do that at once: everything is copied, then it is said that all of it is
    there, and only then the folder is deleted.
    """
    if isinstance(folder, Path) or isinstance(aside, Path):
        Path(str(folder)).rename(Path(str(aside)))
        return
    if folder.store.scheme != S3:
        folder.rename(aside)
        return
    folder.copy_tree(aside)
    _whole(aside).write_bytes(b"")
    folder.remove_tree(ignore_errors=False)


def put_back(aside: AnyPath, folder: AnyPath) -> None:
    """Undo a `set_aside`, whether it came to its end or not; may be cut short and be done again."""
    if isinstance(folder, Path) or isinstance(aside, Path):
        if aside.exists():
            remove_tree(folder)
            Path(str(aside)).rename(Path(str(folder)))
        return
    if folder.store.scheme != S3:
        if aside.exists():
            folder.remove_tree(ignore_errors=False)
            aside.rename(folder)
        return
    if _whole(aside).exists():
        folder.remove_tree(ignore_errors=False)
        aside.copy_tree(folder)


def _whole(aside: RemotePath) -> RemotePath:
    return aside.with_name(f"{aside.name}.whole")


def remember(folder: AnyPath, number: int) -> None:
    """Keep the newest number in a remote folder, if this process is the only one that may add to it."""
    if isinstance(folder, RemotePath) and (owned := folder.ownership) is not None:
        owned.memory[folder] = number


def remembered(folder: AnyPath) -> int | None:
    if isinstance(folder, RemotePath) and (owned := folder.ownership) is not None:
        return owned.memory.get(folder)
    return None


def remove_tree(path: AnyPath) -> None:
    """Delete a folder with everything in it; what cannot be deleted stays."""
    if isinstance(path, Path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.remove_tree()
