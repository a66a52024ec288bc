"""Everything that makes a Spark on this machine faster, behind one switch.

It is on unless `EVENTIDE_LOCAL_SPEED=0` or `eventide.connect(local_speed=False)` says otherwise, and it changes no
outcome. A session asks what is here, and knows none of the parts.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.spark.local.class_archive import archive, java_options, make
from eventide.spark.settings import JAVA_OPTIONS, PYTHONS, is_local
from eventide.tasks.compiled import kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eventide.spark.local.nursery import Nursery
    from eventide.spark.local.warming import Warming

SWITCH = "EVENTIDE_LOCAL_SPEED"
_OFF = ("0", "false", "no", "off")

_DAEMON = {"spark.python.daemon.module": "eventide.spark.local.daemon"}
_STREAMING = {
    # By way of local_files.py, which Spark's first choice would pass by.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Spark adds up a hash of every byte that is shuffled, to find out whether a task that runs a second time, since an
    # executor is lost, gives the same as before. Here there is one executor.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
}


def is_wanted(option: bool | None) -> bool:
    """`option` if it says anything, else the environment."""
    return os.environ.get(SWITCH, "").strip().lower() not in _OFF if option is None else option


def speed_of(master: str, java: str, scratch: Path, option: bool | None) -> Ordinary:
    """For a Spark that will be started. `java` is what Java says about its version, `scratch` Spark's own folder."""
    return LocalSpeed(java, scratch) if is_local(master) and is_wanted(option) else Ordinary()


def streaming_settings(master: str, option: bool | None) -> Mapping[str, str]:
    """For a session that runs streams, on a Spark that was started here or by the user."""
    return _STREAMING if is_local(master) and is_wanted(option) else {}


def built_ahead(java: str) -> Path | None:
    """What `build_ahead` builds, if all of it is there."""
    path = archive(java)
    return path if path.exists() and kept.is_there() else None


def build_ahead() -> Path:
    """Build, once per machine, what makes every later start faster; a RuntimeError says why that cannot be."""
    kept.load()
    return make()


class Ordinary:
    """A Spark as it comes: what a session asks of any, with the answers of one that is not made faster."""

    @contextlib.contextmanager
    def starting(self, settings: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """Around the start of Spark; gives the settings to start it with."""
        yield settings

    def started(self, spark: SparkSession) -> None:
        """Right after the start."""

    def start_workers(self, session: SparkSession) -> None:
        """Before the first query of a session that runs streams."""

    @contextlib.contextmanager
    def stopping(self) -> Iterator[None]:
        """Around the stop of Spark."""
        yield


class LocalSpeed(Ordinary):
    """A Spark on this machine, with all that makes it faster."""

    def __init__(self, java: str, scratch: Path) -> None:
        self._java = java
        self._scratch = scratch
        self._nursery: Nursery | None = None
        self._warming: Warming | None = None

    @contextlib.contextmanager
    def starting(self, settings: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        options = f"{settings.get(JAVA_OPTIONS, '')} {java_options(self._java)}".strip()
        plain = {name: os.environ[name] for name in PYTHONS}
        self._nursery = self._open_nursery(plain)
        if self._nursery is not None:
            os.environ.update(dict.fromkeys(PYTHONS, str(self._nursery.python)))
        try:
            yield {**settings, **_DAEMON, JAVA_OPTIONS: options}
        except BaseException:  # there is no Spark that would need it
            self._close_nursery()
            raise
        finally:
            os.environ.update(plain)

    def started(self, spark: SparkSession) -> None:
        from eventide.spark.local.warming import Warming

        self._warming = Warming(spark)

    def start_workers(self, session: SparkSession) -> None:
        if self._warming is not None:
            self._warming.start_workers(session)

    @contextlib.contextmanager
    def stopping(self) -> Iterator[None]:
        if self._warming is not None:
            self._warming.wait()
        try:
            yield
        finally:
            self._close_nursery()

    def _open_nursery(self, pythons: Mapping[str, str]) -> Nursery | None:
        """None on another system than Linux, with a Python of the user's choice, or in a folder that does not fit."""
        if sys.platform != "linux" or set(pythons.values()) != {sys.executable}:
            return None
        from eventide.spark.local.nursery import Nursery

        with contextlib.suppress(OSError):
            return Nursery(self._scratch)
        return None

    def _close_nursery(self) -> None:
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None
