"""What a source promises: every row once, over restarts, and over a crash between every two steps of a batch.

A batch leaves traces in a checkpoint, one after the other: what it reads, its rows, its account, that it is complete. A
crash at any moment leaves some of them; the same is had by taking the last ones away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.connectors.declaration import Connector
from eventide.errors import EventideError
from eventide.storage.layout import Layout
from eventide.storage.paths import AnyPath
from eventide.testing.connectors.statements import create_sql, expect

if TYPE_CHECKING:
    from eventide.database import Database

_COLUMNS = "id BIGINT, name STRING"
STREAM = "kit"


@dataclass(frozen=True)
class SourceCase:
    """A place that nobody else writes to. `put` makes rows with the columns `id` and `name` available, in a new file
    or as new messages; it is handed the database for sources that need it. `put_bad` makes one available that cannot be
    decoded; None if there are none. `other` are the options of another place, empty or not, which is another source's.
    """

    options: Mapping[str, str]
    put: Callable[[Database, list[dict[str, Any]]], None]
    put_bad: Callable[[Database], None] | None = None
    other: Mapping[str, str] | None = None


def check_source(connector: Connector, case: SourceCase, connect: Callable[..., Database], checkpoint: Path) -> None:
    """`checkpoint` is a folder that is not there yet."""
    run = _Run(connector, case, connect, checkpoint)
    with closing(run.connect()) as db:
        run.feed(db, "the first batch")
        run.feed(db, "a second batch")
        if case.put_bad is not None:
            case.put_bad(db)
            run.feed(db, "a row that does not decode")
            found = db.accounting(STREAM)
            expect(found["error"] == 1, f"a row that does not decode is one error: {found}")
            (payload,) = db.side_output(STREAM, "error")
            expect(bool(payload["error_detail"]), "the payload of a row that does not decode shows it")
    for after, step in {"a restart": None, **CRASHES}.items():
        if step is not None:
            step(Layout(checkpoint))
        with closing(run.connect()) as db:
            run.feed(db, after)  # what comes again, and a batch more
    if case.other is not None:
        _check_other_place(run, case.other)


def _check_other_place(run: _Run, other: Mapping[str, str]) -> None:
    try:
        with closing(run.connect(other)) as db:
            db.tick()
    except EventideError as error:
        changed = [name for name in other if other[name] != run.case.options.get(name)]
        expect(any(name in str(error) for name in changed), f"the error names what is another place: {error}")
    else:
        raise AssertionError("another place under the same checkpoint is noticed")


class _Run:
    def __init__(
        self, connector: Connector, case: SourceCase, connect: Callable[..., Database], checkpoint: Path
    ) -> None:
        self.connector, self.case = connector, case
        self._connect, self._checkpoint = connect, checkpoint
        self._numbers = count(1)
        self._given: list[tuple[int, str]] = []

    def connect(self, options: Mapping[str, str] | None = None) -> Database:
        db = self._connect(checkpoint=self._checkpoint)
        try:
            db.execute(create_sql(self.connector, "source", "s", _COLUMNS, options or self.case.options))
            db.execute(f"CREATE STREAM {STREAM} AS SELECT id, name FROM s")
        except BaseException:
            db.close()
            raise
        return db

    def feed(self, db: Database, after: str) -> None:
        numbers = [next(self._numbers) for _ in range(3)]
        rows = [(number, f"row {number} 'ünlike'") for number in numbers]
        self.case.put(db, [{"id": number, "name": name} for number, name in rows])
        self._given += rows
        db.tick()
        self.check(db, after)

    def check(self, db: Database, after: str) -> None:
        found = sorted((row["id"], row["name"]) for row in db.read(STREAM))
        expect(found == self._given, f"every row is there once after {after}: {found}, and not {self._given}")
        used = db.accounting(STREAM)["used"]
        expect(used == len(self._given), f"every row is used once after {after}: {used} of {len(self._given)}")


def _newest(layout: Layout) -> int:
    """The newest batch that gave rows; what came after it is taken away."""
    results, spark = layout.results(STREAM), layout.spark(STREAM)
    batch = max(int(path.name.split(".")[0]) for path in results.glob("*.main.arrow"))
    for path in [*results.iterdir(), *spark.glob("offsets/*"), *spark.glob("commits/*")]:
        number = path.name.lstrip(".").split(".")[0]
        if number.isdecimal() and int(number) > batch:
            path.unlink()
    return batch


def _not_complete(layout: Layout) -> None:
    _remove(layout.spark(STREAM) / "commits", _newest(layout))


def _not_accounted(layout: Layout) -> None:
    _not_complete(layout)
    (layout.results(STREAM) / f"{_newest(layout):012d}.json").unlink()


def _not_stored(layout: Layout) -> None:
    batch = _newest(layout)
    _not_accounted(layout)
    for path in layout.results(STREAM).glob(f"{batch:012d}.*"):
        path.unlink()


def _not_planned(layout: Layout) -> None:
    batch = _newest(layout)
    _not_stored(layout)
    _remove(layout.spark(STREAM) / "offsets", batch)


def _remove(folder: AnyPath, batch: int) -> None:
    (folder / str(batch)).unlink()
    (folder / f".{batch}.crc").unlink(missing_ok=True)


# what each leaves of a checkpoint's stream STREAM
CRASHES: Mapping[str, Callable[[Layout], None]] = {
    "a crash before the batch was complete": _not_complete,
    "a crash before the account was written": _not_accounted,
    "a crash before rows were stored": _not_stored,
    "a crash before the batch was planned": _not_planned,
}
