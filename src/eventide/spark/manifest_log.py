"""Spark's own log of the manifests that it has taken in, which it never shortens: names of manifests that are deleted
are taken out of it.

Of every file that a source has seen, Spark keeps the name for ever, and writes all names anew with every tenth batch.
What it needs of them are those of the last batches, to take one again, and those of manifests that are still there, not
to take one twice. Only the newest of the files that hold all names is made shorter: the next one is made from it.
"""

from __future__ import annotations

import re

from eventide.spark.moving import hadoop_path
from eventide.storage.atomic import sync_folder, write_bytes
from eventide.storage.paths import AnyPath, RemotePath, listed

_EVERY = 100  # batches: a look at a store costs requests
_ALL_NAMES = ".compact"


class ManifestLog:
    """Of one stream: `spark` is Spark's checkpoint, `inbox` where the manifests are."""

    def __init__(self, spark: AnyPath, inbox: AnyPath) -> None:
        self._spark = spark
        self._inbox = inbox
        self._looked = 0  # the oldest manifest that was there then
        scheme = "" if isinstance(inbox, RemotePath) else "file:(?://)?"
        self._name = re.compile(rf'"path":"{scheme}{re.escape(hadoop_path(str(inbox)))}/(\d{{12}})\.json"')

    def shorten(self, oldest: int) -> None:
        """Take out manifests before `oldest`, which are deleted. The query may be running: Spark reads the file as it
        was or as it will be.
        """
        if oldest < self._looked + _EVERY:
            return
        self._looked = oldest
        if not isinstance(self._inbox, RemotePath):
            sync_folder(self._inbox)  # a manifest that came back after a crash would be a new one
        for source in listed(self._spark, "sources/*"):
            newest = max(listed(source, f"[0-9]*{_ALL_NAMES}"), key=_batch, default=None)
            if newest is not None:
                self._shorten(newest, oldest)

    def _shorten(self, path: AnyPath, oldest: int) -> None:
        version, *lines = path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if not self._is_deleted(line, oldest)]
        if len(kept) < len(lines):
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # of the old content; Spark does without
            write_bytes(path, "\n".join([version, *kept]).encode())

    def _is_deleted(self, line: str, oldest: int) -> bool:
        found = self._name.search(line)
        return found is not None and int(found[1]) < oldest


def _batch(path: AnyPath) -> int:
    return int(path.name.removesuffix(_ALL_NAMES))
