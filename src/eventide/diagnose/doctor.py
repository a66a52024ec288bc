"""Is this machine fit to run streams, and is a checkpoint well? Each check says what it found and what to do."""

from __future__ import annotations

import importlib.metadata
import os
import re
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from eventide.diagnose.observer import CheckpointObserver, Observed
from eventide.diagnose.pressure_words import pressure_lines
from eventide.errors import EventideError
from eventide.storage.paths import AnyPath

OK, CARE, BAD = "ok", "care", "bad"
_GB = 1_000_000_000
_FEW_FILES = 4096


@dataclass(frozen=True)
class Finding:
    """`what` was looked at, how it is, and if it is not well, what to do."""

    what: str
    state: str
    words: str
    way_out: str | None = None


def examine(checkpoint: AnyPath | None = None) -> Iterator[Finding]:
    """All findings, one after the other; a check that breaks is a finding too."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        _python,
        _java,
        _versions,
        _memory,
        lambda: _disk(Path(tempfile.gettempdir()), "temporary files"),
        _files,
        _network,
    ]
    folder = checkpoint if isinstance(checkpoint, Path) else None
    if folder is not None:
        checks.append(lambda: _disk(folder, "checkpoint"))
    if checkpoint is not None:
        checks.append(lambda: _checkpoint(checkpoint))
    checks.append(lambda: _clock(folder))
    for check in checks:
        try:
            yield from check()
        except EventideError as error:
            yield Finding("checkpoint", BAD, error.message, error.help)
        except Exception as error:
            yield Finding("doctor", CARE, f"a check did not work: {type(error).__name__}: {error}")


def _python() -> Iterator[Finding]:
    yield Finding("Python", OK, ".".join(map(str, sys.version_info[:3])))


def _java() -> Iterator[Finding]:
    from eventide.spark.java import check_java

    try:
        told = check_java()
    except EventideError as error:
        yield Finding("Java", BAD, error.message, error.help)
        return
    found = re.search(r'"([^"]+)"', told)
    yield Finding("Java", OK, found[1] if found else told.splitlines()[0])


def _versions() -> Iterator[Finding]:
    """Whether what is installed is what Eventide was made with; only pins are compared."""
    wrong, extra = [], re.compile(r"extra\s*==")
    for text in importlib.metadata.requires("eventide") or []:
        pinned = re.match(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==([^;\s]+)", text)
        if pinned is None:
            continue
        try:
            found = importlib.metadata.version(pinned[1])
        except importlib.metadata.PackageNotFoundError:
            if not extra.search(text):
                wrong.append(f"{pinned[1]} is missing")
            continue
        if found != pinned[2]:
            wrong.append(f"{pinned[1]} {found} instead of {pinned[2]}")
    if wrong:
        way_out = "pip install eventide, in an environment of its own"
        yield Finding("versions", CARE, ", ".join(dict.fromkeys(wrong)), way_out)
    else:
        spark = importlib.metadata.version("pyspark")
        yield Finding("versions", OK, f"eventide {importlib.metadata.version('eventide')} on Spark {spark}")


def _memory() -> Iterator[Finding]:
    free, limit = _available_memory(), _container_limit()
    if free is None:
        return
    room = free if limit is None else min(free, limit)
    words = f"{room / _GB:.1f} GB to be had" + ("" if limit is None else f" (the container has {limit / _GB:.1f} GB)")
    if room < 1 * _GB:
        yield Finding("memory", BAD, words, "Spark needs 1 GB at least: end something else, or give the container more")
    elif room < 2 * _GB:
        yield Finding("memory", CARE, words, "enough to try things; for real streams have 2 GB or more")
    else:
        yield Finding("memory", OK, words)


def _available_memory() -> int | None:
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"))
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024


def _container_limit() -> int | None:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            told = Path(path).read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if told.isdigit() and int(told) < 1 << 50:
            return int(told)
    return None


def _disk(folder: Path, what: str) -> Iterator[Finding]:
    place = next((each for each in (folder, *folder.absolute().parents) if each.exists()), Path("/"))
    usage, inodes = shutil.disk_usage(place), os.statvfs(place)
    words = f"{usage.free / _GB:.1f} GB free"
    if usage.free < 1 * _GB or (inodes.f_files and inodes.f_favail < 10_000):
        yield Finding(f"disk of {what}", BAD, words, "make room: a stream stops when its disk is full")
    elif usage.free < 0.05 * usage.total:
        yield Finding(f"disk of {what}", CARE, f"{words}, less than 5 %", "make room before it is full")
    else:
        yield Finding(f"disk of {what}", OK, words)


def _files() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FEW_FILES:
        wanted = 65_536 if hard == resource.RLIM_INFINITY else min(65_536, hard)
        yield Finding("open files", CARE, f"at most {soft}", f"ulimit -n {wanted}")
    else:
        yield Finding("open files", OK, "as many as are needed")


def _network() -> Iterator[Finding]:
    """Spark looks its own machine up by name."""
    name = socket.gethostname()
    if os.environ.get("SPARK_LOCAL_IP") or os.environ.get("SPARK_LOCAL_HOSTNAME"):
        yield Finding("host name", OK, "Spark's address is set")
        return
    try:
        yield Finding("host name", OK, f"{name} is {socket.gethostbyname(name)}")
    except OSError:
        way_out = f"add '127.0.0.1 {name}' to /etc/hosts, or set SPARK_LOCAL_IP=127.0.0.1"
        yield Finding("host name", BAD, f"{name} leads nowhere, and Spark looks it up when it starts", way_out)


def _clock(checkpoint: Path | None) -> Iterator[Finding]:
    """Against the clock of the disk, and against what the last batch was written with."""
    now = time.time()
    folder = checkpoint if checkpoint is not None and os.access(checkpoint, os.W_OK) else None
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
        apart = Path(file.name).stat().st_mtime - now
    if now < 1_700_000_000:
        yield Finding("clock", BAD, "the clock is years behind", "set it, and keep it right with NTP")
    elif abs(apart) > 2:
        yield Finding("clock", CARE, f"the disk's clock is {apart:+.0f} s apart", "keep both right with NTP")
    else:
        yield Finding("clock", OK, time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now)))


def _checkpoint(root: AnyPath) -> Iterator[Finding]:
    observer = CheckpointObserver(root)
    observer.check()
    catalog = observer.catalog()
    if observer.layout.migration.exists():
        way_out = "open it once, which undoes what was begun or hands sinks what is left"
        yield Finding("checkpoint", CARE, "a migration was not finished", way_out)
    counts = ((len(catalog.sources), "sources"), (len(catalog.streams), "streams"), (len(catalog.sinks), "sinks"))
    yield Finding("checkpoint", OK, ", ".join(f"{count} {what}" for count, what in counts))
    for name in catalog.graph():
        yield _stream(observer.observe(name), name)


def _stream(seen: Observed, name: str) -> Finding:
    account = seen.account
    if account is None:
        return Finding(f"stream {name}", OK, "has not run yet")
    totals = account.totals
    unused = totals.get("rows_in", 0) - totals.get("used", 0)
    words = f"{seen.state}, batch {account.batch:,}, {totals.get('rows_in', 0):,} rows in, {unused:,} of them not used"
    if account.began is not None and account.began > time.time_ns() // 1000 + 60_000_000:
        return Finding(f"stream {name}", CARE, f"{words}; its last batch is in the future", "set the clock")
    strained = pressure_lines(account, seen.figures)
    if strained:
        return Finding(f"stream {name}", CARE, words, " ".join(strained))
    return Finding(f"stream {name}", OK, words)
