"""Spark's reports of a checkpoint that it cannot read, as errors that name the file."""

from __future__ import annotations

import re

from eventide.errors import CheckpointError
from eventide.storage.paths import AnyPath

# How Spark's offset, commit and state files fail when they are cut short, empty or overwritten.
_SIGNS = (
    "Incomplete log file",
    "malformed log file",
    "MALFORMED_LOG_FILE",
    "CANNOT_LOAD_STATE_STORE",
    "CANNOT_LOAD_CHECKPOINT",
    "CHECKPOINT_FILE_CHECKSUM",
    "STATE_STORE_",
    "Error reading delta file",
    "Checksum error",
    "Corruption:",
    "MismatchedInputException",
    "JsonParseException",
    "JsonEOFException",
    "MappingException",
    "Multiple streaming queries are concurrently using",
    "BATCH_METADATA_NOT_FOUND",
    "UNEXPECTED_FILE_SIZE",
)
_PATH = re.compile(r"(?:file:)?((?:\w+:/)?/[^\s'\"\],;:)]+)")


def checkpoint_damage(stream: str, folder: AnyPath, text: str) -> CheckpointError | None:
    """The error if `text`, Spark's report, says that its files below `folder` are damaged; else None."""
    if not any(sign in text for sign in _SIGNS):
        return None
    named = [path for path in _PATH.findall(text) if path.startswith(str(folder))]
    where = named[0] if named else str(folder)
    return CheckpointError(
        f"stream {stream}: the checkpoint is damaged: {where}",
        help="restore the checkpoint from a copy, or start anew with an empty checkpoint folder",
    )
