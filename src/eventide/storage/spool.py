"""The durable log of one source's input, numbered from 1: an Arrow file of rows per `db.write`, and a file with one
number per external watermark. When all who read them have taken them, small ones are put together: `spool_pack`.

A row is kept as the JSON text that Spark's JSON reader will decode, with the order and time of its arrival. So Spark
converts the values, and a row that cannot be decoded can be shown as it was written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from eventide.storage.atomic import damaged, open_arrow, read_arrow, replacing, write_bytes
from eventide.storage.paths import AnyPath, listed, remember, remembered
from eventide.storage.spool_pack import ITEMS, LARGEST, Item, Pack, opened, pack_path, write_pack

SCHEMA = pa.schema([("seq", pa.int64()), ("received_at", pa.int64()), ("row", pa.string())])

_ORIGIN = b"eventide.origin"
_AT_ONCE = 4  # packs that are written in one call


class Spool:
    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder

    def last(self) -> int:
        """The number of the newest item, 0 if there is none. A remote folder is listed once by who holds it."""
        known = remembered(self.folder)
        if known is None:
            known = max((_number(path) for path in self.folder.glob("[0-9]*.*")), default=0)
            remember(self.folder, known)
        return known

    def first(self) -> int:
        """The number of the oldest item that is still there, 1 if there is none."""
        return min((int(path.stem.partition("-")[0]) for path in self.folder.glob("[0-9]*.*")), default=1)

    def forget(self, upto: int, before: int) -> None:
        """Delete items up to `upto` that came before that time, in microseconds; the newest stays, for its number."""
        upto = min(upto, self.last() - 1)
        for path in sorted(listed(self.folder, "[0-9]*.*"), key=_number):
            if _number(path) > upto or path.stat().st_mtime_ns // 1000 >= before:
                break
            path.unlink(missing_ok=True)

    def rows_path(self, number: int) -> AnyPath:
        return self.folder / f"{number:012d}.arrow"

    def rows(self, number: int) -> pa.Table:
        """The rows of item `number`."""
        path = self.rows_path(number)
        pack = None if path.exists() else self._pack(number)
        return read_rows(path) if pack is None else pack.rows(number)

    def append_rows(self, rows: list[str], received_at: int, number: int, origin: str = "") -> None:
        """Keep `rows` as item `number`; durable when it returns. `origin` says which stream and batch sent them
        back.
        """
        count = len(rows)
        columns = [
            pa.array(range(count), pa.int64()),
            pa.repeat(pa.scalar(received_at, pa.int64()), count),
            pa.array(rows, pa.string()),
        ]
        schema = SCHEMA.with_metadata({_ORIGIN: origin}) if origin else SCHEMA
        table = pa.table(columns, schema=schema)
        with replacing(self.rows_path(number)) as temporary, pa.OSFile(str(temporary), "wb") as file:
            with pa.ipc.new_file(file, schema) as writer:
                writer.write_table(table, max_chunksize=65_536)
        self._remember(number)

    def origin(self, number: int) -> str:
        """The stream and batch that sent item `number` back; empty for rows from outside, or if there is no such
        item.
        """
        path = self.rows_path(number)
        if not path.exists():
            pack = self._pack(number)
            return "" if pack is None else pack.item(number).origin
        with open_arrow(path) as file:
            metadata = pa.ipc.open_file(file).schema.metadata or {}
        return (metadata.get(_ORIGIN) or b"").decode()

    def measure(self, number: int) -> tuple[int, int]:
        """When item `number` came, in nanoseconds, and its bytes; an external watermark has none."""
        try:
            found = self.rows_path(number).stat()
            return found.st_mtime_ns, found.st_size
        except FileNotFoundError:
            pack = self._pack(number)
            if pack is not None:
                return pack.item(number).came, pack.item(number).bytes
            try:
                return self._watermark_path(number).stat().st_mtime_ns, 0
            except FileNotFoundError as error:
                raise damaged(self.rows_path(number), error) from None

    def append_watermark(self, at: int, number: int) -> None:
        """Keep an external watermark, in microseconds, as item `number`; durable when it returns."""
        write_bytes(self._watermark_path(number), f"{at}\n".encode())
        self._remember(number)

    def watermark(self, number: int) -> int | None:
        """The watermark in item `number`, or None if the item holds rows."""
        path = self._watermark_path(number)
        try:
            text = path.read_text()
            if not text.endswith("\n"):
                raise ValueError("its end is missing")
            return int(text)
        except FileNotFoundError:
            pack = None if self.rows_path(number).exists() else self._pack(number)
            return None if pack is None else pack.item(number).watermark
        except ValueError as error:
            raise damaged(path, error) from None

    def put_together(self, first: int) -> None:
        """Make one file of the items from `first` on that belong together, if all are there and they are small. Nobody
        may be about to read them.
        """
        if not isinstance(self.folder, Path):
            return  # each would be a request
        pack, numbers = pack_path(self.folder, first), range(first, first + ITEMS)
        if not pack.exists():
            if not all(map(self._is_alone, numbers)) or sum(self.measure(number)[1] for number in numbers) > LARGEST:
                return
            items = [self._item(number) for number in numbers]
            write_pack(pack, [item for item, _ in items], [rows for _, rows in items], SCHEMA)
        elif not self._is_alone(numbers[-1]):
            return
        for number in numbers:
            self.rows_path(number).unlink(missing_ok=True)
            self._watermark_path(number).unlink(missing_ok=True)

    def _item(self, number: int) -> tuple[Item, pa.Table]:
        """What is known of an item that is a file of its own, and its rows."""
        at = self.watermark(number)
        rows = SCHEMA.empty_table() if at is not None else self.rows(number)
        return Item(*self.measure(number), rows.num_rows, at, self.origin(number)), rows

    def _is_alone(self, number: int) -> bool:
        return self.rows_path(number).exists() or self._watermark_path(number).exists()

    def _pack(self, number: int) -> Pack | None:
        return opened(pack_path(self.folder, number)) if isinstance(self.folder, Path) else None

    def _remember(self, number: int) -> None:
        known = remembered(self.folder)
        if known is not None:
            remember(self.folder, max(known, number))

    def _watermark_path(self, number: int) -> AnyPath:
        return self.folder / f"{number:012d}.watermark"


class Spools:
    """The spools of all sources, and the number of each one's newest item. Not thread-safe."""

    def __init__(self, folder_of: Callable[[str], AnyPath]) -> None:
        self._folder_of = folder_of
        self._last: dict[str, int] = {}
        self._together: dict[str, int] = {}  # how many items of each were looked at to put them together

    def spool(self, source: str) -> Spool:
        return Spool(self._folder_of(source))

    def append(self, source: str, write: Callable[[Spool, int], None]) -> None:
        """Let `write` add the next item; if it fails, its number stays free, so there is never a gap."""
        spool = self.spool(source)
        number = (self._last[source] if source in self._last else spool.last()) + 1
        write(spool, number)
        self._last[source] = number

    def put_together(self, source: str, upto: int) -> None:
        """Make fewer files of items up to `upto`, which all have taken for good; a few at a time."""
        done = self._together.get(source, 0)
        for first in range(done + 1, min(upto, done + _AT_ONCE * ITEMS) - ITEMS + 2, ITEMS):
            self.spool(source).put_together(first)
            self._together[source] = first + ITEMS - 1

    def forget(self, source: str) -> None:
        self._last.pop(source, None)
        self._together.pop(source, None)


def read_rows(path: AnyPath) -> pa.Table:
    """The rows of an item."""
    return read_arrow(path)


def _number(path: AnyPath) -> int:
    """Of an item, or of the last one in a pack."""
    return int(path.stem.rpartition("-")[2])
