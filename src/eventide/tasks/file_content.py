"""What is in files that tasks read: of this machine, or in a store."""

from __future__ import annotations

import os
from typing import IO, Any

import pyarrow as pa

from eventide.storage.paths import RemotePath, path_in
from eventide.tasks.byte_ranges import FileRange

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def is_empty(part: FileRange) -> bool:
    return not (os.path.getsize(part.path) if part.store is None else part.length)


def content(part: FileRange) -> IO[bytes]:
    """The file, open for reading in any place."""
    place = path_in(part.path, part.store)
    return place.open() if isinstance(place, RemotePath) else place.open("rb", buffering=0)


def decompressed(part: FileRange) -> Any:
    """The content of a compressed file, from its beginning."""
    if part.store is None:
        return pa.input_stream(part.path, compression="detect")
    return pa.CompressedInputStream(content(part), _CODECS[os.path.splitext(part.path)[1]])


def readable_by_arrow(part: FileRange) -> Any:
    """What Arrow's readers take for the file."""
    return part.path if part.store is None else content(part)
