"""What a tree of folders named `column=value` must look like, so that every file in it has the same columns.

On every level all folders are named after one column, and only the lowest have files. Else the source is refused: Spark
would leave some of the files out, or not know what their columns are.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from eventide.errors import OptionError, SourceError
from eventide.tasks.folder_names import column_of

_APART = "move one or the other elsewhere: a source reads plain files, or files in folders named after columns"
_ALIKE = "name all folders of a level after the same column"


class Entry(Protocol):
    @property
    def name(self) -> str: ...


@dataclass
class FolderColumns:
    """The columns that folders are named after, level by level, as one walk through the tree finds them."""

    names: list[str] = field(default_factory=list)
    _leaves: int | None = None  # the level that has files
    _leaf: str = ""

    def below(self, folder: str, level: int, files: Sequence[Entry], folders: Sequence[Entry]) -> list[str]:
        """The folders in `folder` that are read, in order. Names that are not data are left out of what is given.

        Raises an OptionError if the tree is not one that can be read.
        """
        partitions = sorted(each.name for each in folders if "=" in each.name)
        if not partitions and level == 0:
            return []
        others = sorted(each.name for each in (*files, *folders) if each.name not in partitions)
        if partitions and others:
            raise OptionError(
                f"{os.path.join(folder, others[0])} lies beside the partition folder "
                f"{os.path.join(folder, partitions[0])}",
                help=_APART,
            )
        if not partitions and folders:
            raise OptionError(
                f"the folder {os.path.join(folder, others[0])} is not named column=value, as those above it are",
                help="move its files one folder up",
            )
        if files:
            self._note_leaf(folder, level)
        for name in partitions:
            self._note(os.path.join(folder, name), name, level)
        return [os.path.join(folder, name) for name in partitions]

    def _note_leaf(self, folder: str, level: int) -> None:
        if self._leaves not in (None, level):
            raise OptionError(
                f"{folder} and {self._leaf} have files, and are not named after the same columns", help=_ALIKE
            )
        self._leaves, self._leaf = level, folder

    def _note(self, path: str, folder: str, level: int) -> None:
        column = column_of(folder)
        if any(map(_is_no_text, folder)):
            raise OptionError(f"the name of the folder {path!a} is not UTF-8", help="rename it")
        if not column or (folder.endswith("=") and folder.count("=") == 1):
            raise OptionError(
                f"the folder {path} names no column, or no value", help="__HIVE_DEFAULT_PARTITION__ stands for NULL"
            )
        if level == len(self.names) and column.lower() not in map(str.lower, self.names):
            self.names.append(column)
        elif level >= len(self.names) or self.names[level].lower() != column.lower():
            others = " and ".join(self.names)
            raise OptionError(f"the folder {path} is named after {column}, and others after {others}", help=_ALIKE)


def _is_no_text(character: str) -> bool:
    """Whether it stands for a byte that is not part of UTF-8, as Python has it in names of files."""
    return "\udc80" <= character <= "\udcff"


def is_hidden(name: str) -> bool:
    """Whether Spark's reader, and so ours, takes a file or folder of this name for something that is not data."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def folder_columns(folder: str) -> tuple[str, ...]:
    """The columns that the folders below a folder are named after, from above; () if it has none."""
    columns = FolderColumns()
    _walk(folder, columns, 0)
    return tuple(columns.names)


def _walk(folder: str, columns: FolderColumns, level: int) -> None:
    with readable(folder), os.scandir(folder) as entries:
        seen = [entry for entry in entries if not is_hidden(entry.name)]
    files, folders = [each for each in seen if is_file(each)], [each for each in seen if is_folder(each)]
    for path in columns.below(folder, level, files, folders):
        _walk(path, columns, level + 1)


def is_file(entry: os.DirEntry[str]) -> bool:
    return _leads_somewhere(entry.is_file)


def is_folder(entry: os.DirEntry[str]) -> bool:
    return _leads_somewhere(entry.is_dir)


def _leads_somewhere(asked: Callable[[], bool]) -> bool:
    try:
        return asked()
    except OSError as error:
        if error.errno != errno.ELOOP:  # a link that leads to itself leads nowhere
            raise
        return False


@contextlib.contextmanager
def readable(folder: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise SourceError(
            f"the folder {folder} cannot be read: {error.strerror}", help="let the user who runs the stream read it"
        ) from None
