"""Stores that are no folder of this machine, and how they are reached: `s3a://bucket/…`, `hdfs://host/…`.

What a store needs besides the usual places (environment variables, profiles, roles) comes from Spark's own settings,
`spark.hadoop.fs.s3a.*` and `spark.hadoop.dfs.*`. It is sent to tasks with what they do, never shown, and never written
to a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from eventide.errors import OptionError

if TYPE_CHECKING:
    from pyarrow import fs

S3, HDFS = "s3a", "hdfs"
SCHEMES = (S3, HDFS)
_S3A = "spark.hadoop.fs.s3a."
# by the setting of Spark's: what Arrow calls it
_ARGUMENTS = {
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
    "endpoint": "endpoint_override",
    "endpoint.region": "region",
}
_HADOOP = "spark.hadoop."
_OF_HDFS = ("dfs.", "fs.defaultFS", "hadoop.security.")  # settings of Hadoop's that say how a cluster is reached
_ATTEMPTS = "dfs.client.failover.max.attempts"
_ENDPOINTS, _REGIONS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True)
class Store:
    """One bucket, or one cluster, and what is known of how to reach it."""

    scheme: str
    authority: str
    arguments: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # of its client; credentials among them

    def files(self) -> fs.FileSystem:
        return _files(self)

    def impatient(self) -> Store:
        """The same, for a first look: a cluster that does not answer is not asked for minutes."""
        if self.scheme != HDFS or _ATTEMPTS in dict(self.arguments):
            return self
        return replace(self, arguments=(*self.arguments, (_ATTEMPTS, "3")))

    def spark_settings(self) -> dict[str, str]:
        """What Spark must be told to reach the same store: where it is, if it is not Amazon's. Credentials it finds by
        itself in the places in which they were found, or was told.
        """
        known = dict(self.arguments)
        if self.scheme != S3 or "endpoint_override" not in known:
            return {}
        told = {"endpoint": known["endpoint_override"], "path.style.access": "true"}
        if "region" in known:
            told["endpoint.region"] = known["region"]
        return {f"{_S3A}{name}": value for name, value in told.items()}


def store_of(uri: str, settings: Mapping[str, str]) -> Store:
    """The store that a URI names; `settings` are Spark's."""
    scheme, _, rest = uri.partition("://")
    authority = rest.partition("/")[0]
    if scheme not in SCHEMES:
        hint = "write s3a://" if scheme in ("s3", "s3n") else "give a folder, or a URI of s3a:// or hdfs://"
        raise OptionError(f"{uri} is on a file system that Eventide keeps no checkpoints on", help=hint)
    if "@" in authority:
        raise OptionError(
            f"a URI of {scheme}:// is no place for credentials",
            help="give them by environment variables, or by settings of Spark's",
        )
    if scheme == S3 and not authority:
        raise OptionError(f"{uri} names no bucket", help="write s3a://bucket/folder")
    found = _arguments(authority, settings) if scheme == S3 else _of_hdfs(settings)
    return Store(scheme, authority, tuple(sorted(found.items())))


def _of_hdfs(settings: Mapping[str, str]) -> dict[str, str]:
    hadoop = {name.removeprefix(_HADOOP): value for name, value in settings.items() if name.startswith(_HADOOP)}
    return {name: value for name, value in hadoop.items() if name.startswith(_OF_HDFS)}


def _arguments(bucket: str, settings: Mapping[str, str]) -> dict[str, str]:
    """What Arrow must be told; where a setting is for one bucket, it is in front of that for all."""
    found = {}
    for name, argument in _ARGUMENTS.items():
        value = settings.get(f"{_S3A}bucket.{bucket}.{name}") or settings.get(f"{_S3A}{name}")
        if value:
            found[argument] = value
    for argument, names in (("endpoint_override", _ENDPOINTS), ("region", _REGIONS)):
        told = next((os.environ[name] for name in names if os.environ.get(name)), None)
        if told and argument not in found:
            found[argument] = told
    endpoint = found.get("endpoint_override", "")
    if endpoint and "://" not in endpoint:
        plain = settings.get(f"{_S3A}connection.ssl.enabled", "true").lower() == "false"
        found["endpoint_override"] = f"{'http' if plain else 'https'}://{endpoint}"
    return found


@cache
def _files(store: Store) -> fs.FileSystem:
    """One for each process: a client holds connections and threads."""
    from pyarrow import fs

    if store.scheme == S3:
        return fs.S3FileSystem(allow_delayed_open=True, background_writes=False, **dict(store.arguments))
    from eventide.storage.hdfs import hdfs_files

    return hdfs_files(store.authority, dict(store.arguments))
