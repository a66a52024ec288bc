"""Files that are written whole or not at all, and survive a crash once written."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from eventide.errors import CheckpointError, StorageError
from eventide.storage.paths import AnyPath, RemotePath

_PRIVATE = 0o600


@contextlib.contextmanager
def replacing(path: AnyPath, private: bool = True) -> Iterator[Path]:
    """A temporary path in the same folder as `path`; if the block succeeds, the file is synced and renamed to `path`.
    For a remote `path` it is a file of this machine, whose content is put there.

    A `private` file is for its owner only.

    Readers see the old file or the new one, never part of one. The temporary name starts with a dot: Spark, pandas and
    DuckDB ignore such files in a folder. If the system refuses, a StorageError names the file.
    """
    if isinstance(path, RemotePath):
        with _uploading(path) as temporary:
            yield temporary
        return
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if private:
            temporary.touch(mode=_PRIVATE)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _uploading(path: RemotePath) -> Iterator[Path]:
    try:
        with tempfile.TemporaryDirectory(prefix="eventide-") as folder:
            temporary = Path(folder) / path.name
            temporary.touch(mode=_PRIVATE)
            yield temporary
            path.upload(temporary)
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: AnyPath, error: OSError) -> StorageError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "free some space" if is_full else "fix the cause"
    return StorageError(
        f"{path} cannot be written: {reason}", help=f"{remedy} and try again: nothing was lost or partly written"
    )


def write_bytes(path: AnyPath, content: bytes) -> None:
    if isinstance(path, RemotePath):
        try:
            path.write_bytes(content)
        except OSError as error:
            raise unwritable(path, error) from error
        return
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: AnyPath, value: Any) -> None:
    write_bytes(path, json.dumps(value, indent=1, ensure_ascii=False).encode())


def read_json(path: AnyPath) -> Any:
    """The value in `path`, or None where there is no such file; a damaged one is a CheckpointError that names it."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise damaged(path, error) from None


def read_arrow(path: AnyPath) -> pa.Table:
    """The table in an Arrow file; a missing or damaged one is a CheckpointError that names it."""
    try:
        with open_arrow(path) as file:
            return pa.ipc.open_file(file).read_all()
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from None


def open_arrow(path: AnyPath) -> pa.NativeFile:
    """The content of an Arrow file, without a copy."""
    return pa.BufferReader(path.read_buffer()) if isinstance(path, RemotePath) else pa.memory_map(str(path))


def damaged(path: AnyPath, error: Exception) -> CheckpointError:
    what = "is missing" if isinstance(error, FileNotFoundError) else "is damaged"
    reason = str(error).strip().splitlines()
    return CheckpointError(
        f"{path} {what}: {reason[0] if reason else type(error).__name__}",
        help="restore the checkpoint from a copy, or start over with an empty checkpoint folder",
    )


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
