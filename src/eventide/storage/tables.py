"""Tables that are looked up: their versions, and which of them a stream's batches use. Decisions are data.

    tables/NAME/NNNNNN.arrow    the rows of a version
    tables/NAME/table.json      which versions there are, when the files were looked at, what went wrong
    streams/NAME/tables.json    from when on which version counts for the stream

A stream changes to another version between two batches. A task looks up the version that counted when its batch began,
which Spark logs: so a batch that is repeated after a crash finds the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from eventide.storage.atomic import damaged, read_arrow, read_json, replacing, write_json
from eventide.storage.paths import AnyPath

_ONE_MILLISECOND = 1000  # the resolution of the time that Spark logs for a batch, in microseconds


@dataclass(frozen=True)
class Version:
    number: int
    rows: int
    read_at: int  # microseconds
    fingerprint: str | None  # of what was read: the same again is not read again


@dataclass(frozen=True)
class TableState:
    """What is known of a table. `error` says why it could not be read when it was last looked at, if so."""

    versions: tuple[Version, ...] = ()
    checked_at: int | None = None
    failures: int = 0  # in a row
    error: str | None = None

    @property
    def latest(self) -> Version | None:
        return self.versions[-1] if self.versions else None


class TableVersions:
    """The versions of one table. One process writes them, and tasks of any read."""

    def __init__(self, folder: AnyPath) -> None:
        self._folder = folder

    def state(self) -> TableState:
        path = self._folder / "table.json"
        kept: dict[str, Any] | None = read_json(path)
        if kept is None:
            return TableState()
        try:
            return TableState(**{**kept, "versions": tuple(Version(**version) for version in kept["versions"])})
        except (TypeError, KeyError) as error:
            raise damaged(path, error) from None

    def publish(self, rows: pa.Table, at: int, fingerprint: str | None) -> Version:
        """Keep rows as the newest version."""
        state = self.state()
        number = 1 if state.latest is None else state.latest.number + 1
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with replacing(self._path(number)) as temporary, pa.OSFile(str(temporary), "wb") as file:
            with pa.ipc.new_file(file, rows.schema, options=options) as writer:
                writer.write_table(rows)
        version = Version(number, rows.num_rows, at, fingerprint)
        self._write(TableState((*state.versions, version), at))
        return version

    def unchanged(self, at: int) -> None:
        """The table was looked at, and is as it was."""
        self._write(replace(self.state(), checked_at=at, failures=0, error=None))

    def failed(self, at: int, error: str) -> None:
        state = self.state()
        self._write(replace(state, checked_at=at, failures=state.failures + 1, error=error))

    def read(self, number: int) -> pa.Table:
        return read_arrow(self._path(number))

    def forget_all_but(self, numbers: Iterable[int]) -> None:
        """Delete the versions that no stream needs; the newest stays."""
        state, needed = self.state(), set(numbers)
        kept = tuple(version for version in state.versions if version == state.latest or version.number in needed)
        if kept != state.versions:
            self._write(replace(state, versions=kept))
            for version in set(state.versions) - set(kept):
                self._path(version.number).unlink(missing_ok=True)

    def _write(self, state: TableState) -> None:
        write_json(self._folder / "table.json", asdict(state))

    def _path(self, number: int) -> AnyPath:
        return self._folder / f"{number:06d}.arrow"


@dataclass
class VersionLog:
    """From when on which versions count for a stream: numbers by table."""

    path: AnyPath
    _entries: list[tuple[int, dict[str, int]]] = field(init=False)

    def __post_init__(self) -> None:
        try:
            self._entries = [(since, dict(versions)) for since, versions in read_json(self.path) or []]
        except (TypeError, ValueError) as error:
            raise damaged(self.path, error) from None

    def at(self, time: int) -> Mapping[str, int]:
        """The versions that counted at `time`; those that came first, if it is before all of them."""
        held = [versions for since, versions in self._entries if since <= time]
        return held[-1] if held else (self._entries[0][1] if self._entries else {})

    def latest(self) -> Mapping[str, int]:
        return self._entries[-1][1] if self._entries else {}

    def needed(self) -> list[Mapping[str, int]]:
        """The versions that a batch may still ask for."""
        return [versions for _, versions in self._entries]

    def add(self, now: int, began: int | None, versions: Mapping[str, int]) -> None:
        """Let `versions` count from the next batch on; `began` is when the newest batch did, which may be repeated."""
        earliest = now if began is None else max(now, began + _ONE_MILLISECOND)
        since = earliest // _ONE_MILLISECOND * _ONE_MILLISECOND
        repeatable = [] if began is None else [entry for entry in self._entries if entry[0] <= began][-1:]
        later = [entry for entry in self._entries if began is None or entry[0] > began]
        self._entries = [*repeatable, *later, (since, dict(versions))]
        write_json(self.path, self._entries)


def table_figures(state: TableState, used: int | None) -> dict[str, Any]:
    """How a table is doing, of which the version `used` counts. Times are milliseconds."""
    known = {version.number: version for version in state.versions}
    version = None if used is None else known.get(used)
    return {
        "version": used,
        "rows": None if version is None else version.rows,
        "read_at": None if version is None else version.read_at // 1000,
        "checked_at": None if state.checked_at is None else state.checked_at // 1000,
        "refresh_failures": state.failures,
        "refresh_error": state.error,
    }
