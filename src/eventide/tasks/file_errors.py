"""Files that cannot be read, whatever is wrong with them: the error names the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pyarrow as pa

from eventide.errors import SourceError, UnreadableFileError

_Part = TypeVar("_Part")


def naming_file(path: str, parts: Iterator[_Part]) -> Iterator[_Part]:
    """What is read of the file at `path`; errors of reading it name it."""
    try:
        yield from parts
    except FileNotFoundError:
        raise SourceError(
            f"the file {path} has gone since the stream found it",
            help="put it back; delete or move files only after the stream has taken them in",
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise UnreadableFileError.of(path, " ".join(str(error).split())) from None
