"""Checks arguments from users and converts them to the form the database works with."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

from eventide.errors import OptionError
from eventide.storage.paths import AnyPath, RemotePath, remote_path

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def checkpoint_folder(checkpoint: str | Path, settings: Mapping[str, str]) -> AnyPath:
    """The folder, created if it does not exist; `settings` are Spark's, which may say how a store is reached."""
    found = checkpoint_path(checkpoint, settings)
    if isinstance(found, RemotePath):
        try:
            next(found.iterdir(), None)
        except OSError as error:
            raise OptionError(
                f"the checkpoint {found} cannot be reached: {error}",
                help="see that the bucket is there, and that the address and the credentials are right "
                "(docs/checkpoints.md)",
            ) from None
        return found
    folder = found
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"the checkpoint folder {folder} cannot be created: {error.strerror}") from None
    return folder


def checkpoint_path(checkpoint: str | Path, settings: Mapping[str, str] | None = None) -> AnyPath:
    """The path of a checkpoint that is there; nothing is touched."""
    text = str(checkpoint).removeprefix("file://")
    return remote_path(text, settings or {}) if "://" in text else Path(text).expanduser().absolute()


def moment_micros(ts: int | dt.datetime) -> int:
    """Microseconds since the epoch, from an int of milliseconds or a datetime, which is UTC if it has no zone."""
    if isinstance(ts, bool) or not isinstance(ts, int | dt.datetime):
        raise OptionError(f"a watermark is an int of milliseconds or a datetime, not {ts!r}")
    if isinstance(ts, int):
        return ts * 1000
    moment = ts if ts.tzinfo else ts.replace(tzinfo=dt.UTC)
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)
