"""HDFS as a file system of Arrow's, by hdfs-native, which speaks HDFS's own protocol without Java.

A file that is written has another name until it is closed, and then takes its place at once: HDFS would show it from
the first byte on. What was written is on the disks of the data nodes before it has its name.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from pyarrow import fs

from eventide.errors import EnvironmentError

_CHUNK = 4 << 20


def hdfs_files(authority: str, settings: Mapping[str, str]) -> fs.FileSystem:
    """Those of a cluster; `settings` are Hadoop's. Others are read where `HADOOP_CONF_DIR` says."""
    try:
        from hdfs_native import Client
    except ImportError:
        raise EnvironmentError("hdfs:// needs the package hdfs-native", help="pip install 'eventide[hdfs]'") from None
    try:
        client = Client(f"hdfs://{authority}" if authority else None, dict(settings))
    except Exception as error:
        raise EnvironmentError(
            f"hdfs://{authority} is not known: {_first_line(error)}",
            help="write hdfs://host:port, or say by HADOOP_CONF_DIR or spark.hadoop.dfs.* what the name stands for",
        ) from None
    return fs.PyFileSystem(_Hdfs(client))


class _Hdfs(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """What Arrow asks of a file system."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path

    # Questions ------------------------------------------------------------------------------------------------

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        try:
            with _plain_errors():
                return _as_info(self._client.get_file_info(path))
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        try:
            with _plain_errors():
                return [_as_info(each) for each in self._client.list_status(selector.base_dir, selector.recursive)]
        except FileNotFoundError:
            if not selector.allow_not_found:
                raise
            return []

    # Content --------------------------------------------------------------------------------------------------

    def open_input_file(self, path: str) -> pa.PythonFile:
        with _plain_errors():
            return pa.PythonFile(_Reader(self._client.read(path)), mode="r")

    open_input_stream = open_input_file

    def open_output_stream(self, path: str, metadata: Mapping[str, str]) -> pa.PythonFile:
        return pa.PythonFile(_Writer(self._client, path), mode="w")

    def open_append_stream(self, path: str, metadata: Mapping[str, str]) -> pa.PythonFile:
        raise io.UnsupportedOperation(f"{path}: a file is written whole, with open_output_stream")

    # Changes --------------------------------------------------------------------------------------------------

    def create_dir(self, path: str, recursive: bool) -> None:
        with _plain_errors():
            self._client.mkdirs(path, create_parent=recursive)

    def delete_file(self, path: str) -> None:
        self._delete(path)

    def delete_dir(self, path: str) -> None:
        self._delete(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        for each in self.get_file_info_selector(fs.FileSelector(path, allow_not_found=missing_dir_ok)):
            self._delete(each.path)

    def delete_root_dir_contents(self) -> None:
        raise io.UnsupportedOperation("the root of a cluster is not emptied: delete its folders, with delete_dir")

    def _delete(self, path: str) -> None:
        with _plain_errors():
            if not self._client.delete(path, recursive=True):
                raise FileNotFoundError(2, "No such file or directory", path)

    def move(self, src: str, dest: str) -> None:
        with _plain_errors():
            self._client.rename(src, dest, overwrite=False)

    def copy_file(self, src: str, dest: str) -> None:
        with self.open_input_file(src) as source, self.open_output_stream(dest, {}) as target:
            shutil.copyfileobj(source, target, _CHUNK)


class _Reader(io.RawIOBase):
    """One file."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: len(self._inner)}[whence]
        self._inner.seek(min(start + offset, len(self._inner)))  # further is not possible there
        return self.tell()

    def tell(self) -> int:
        return int(self._inner.tell())

    def read(self, size: int | None = -1) -> bytes:
        left = len(self._inner) - self.tell()
        with _plain_errors():
            return bytes(self._inner.read(left if size is None or size < 0 else min(size, left)))


class _Writer:
    """A file that is there when it is closed, unless something went wrong before. One that is only dropped never is."""

    def __init__(self, client: Any, path: str) -> None:
        from hdfs_native import WriteOptions

        self._client, self._path = client, path
        place = PurePosixPath(path)
        self._written = str(place.with_name(f".{place.name}.{uuid.uuid4().hex}.tmp"))
        self._is_whole = True
        self.closed = False
        with _plain_errors():
            self._inner = client.create(self._written, WriteOptions(create_parent=True))

    def write(self, content: Any) -> int:
        with self._noticing():
            return int(self._inner.write(bytes(content)))

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        try:
            with self._noticing():
                with contextlib.suppress(NotImplementedError):  # of files with erasure codes
                    self._inner.hsync()
                self._inner.close()
                if self._is_whole:
                    self._client.rename(self._written, self._path, overwrite=True)
        finally:
            if not self._is_whole:
                with contextlib.suppress(Exception):
                    self._client.delete(self._written)

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            with _plain_errors():
                yield
        except BaseException:
            self._is_whole = False
            raise


def _as_info(status: Any) -> fs.FileInfo:
    if status.isdir:
        return fs.FileInfo(status.path, fs.FileType.Directory, mtime_ns=status.modification_time * 1_000_000)
    changed = status.modification_time * 1_000_000
    return fs.FileInfo(status.path, fs.FileType.File, mtime_ns=changed, size=status.length)


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Errors of the cluster are errors of the system, in a line: theirs come with a trace of Java's."""
    try:
        yield
    except NotImplementedError:
        raise
    except OSError as error:
        if error.errno is not None:
            raise
        raise type(error)(_first_line(error)) from None
    except (RuntimeError, ValueError) as error:
        raise OSError(_first_line(error)) from None


def _first_line(error: BaseException) -> str:
    return str(error).replace("\\n", "\n").strip().partition("\n")[0]
