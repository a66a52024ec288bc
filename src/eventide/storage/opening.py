"""The place that a user names for a checkpoint, as a path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from eventide.errors import OptionError
from eventide.storage.paths import AnyPath, RemotePath, remote_path
from eventide.storage.stores import S3


def checkpoint_path(checkpoint: str | Path, settings: Mapping[str, str] | None = None) -> AnyPath:
    """The path of a checkpoint; nothing is touched. `settings` are Spark's, which may say how a store is reached."""
    text = str(checkpoint).removeprefix("file://")
    return remote_path(text, settings or {}) if "://" in text else Path(text).expanduser().absolute()


def checkpoint_folder(checkpoint: str | Path, settings: Mapping[str, str]) -> AnyPath:
    """The same, created if it does not exist; in a store the bucket must be there."""
    found = checkpoint_path(checkpoint, settings)
    if isinstance(found, RemotePath):
        try:
            problem = (
                None if RemotePath(found.store.impatient(), found.root.key).exists() else f"there is no {found.root}"
            )
        except OSError as error:
            problem = str(error)
        if problem is not None:
            what = "the bucket" if found.store.scheme == S3 else "the cluster"
            raise OptionError(
                f"the checkpoint {found} cannot be reached: {problem}",
                help=f"see that {what} is there, and that the address and the credentials are right "
                "(docs/checkpoints.md)",
            )
        return found
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"the checkpoint folder {found} cannot be created: {error.strerror}") from None
    return found
