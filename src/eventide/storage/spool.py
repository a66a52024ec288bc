"""The durable log of one source's input, numbered from 1: an Arrow file of rows per `db.write`, and a file with one
number per external watermark.

A row is kept as the JSON text that Spark's JSON reader will decode, with the order and time of its arrival. So Spark
converts the values, and a row that cannot be decoded can be shown as it was written.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from eventide.storage.atomic import damaged, open_arrow, read_arrow, replacing, write_bytes
from eventide.storage.paths import AnyPath, listed, remember, remembered

SCHEMA = pa.schema([("seq", pa.int64()), ("received_at", pa.int64()), ("row", pa.string())])


_ORIGIN = b"eventide.origin"


class Spool:
    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder

    def last(self) -> int:
        """The number of the newest item, 0 if there is none. A remote folder is listed once by who holds it."""
        known = remembered(self.folder)
        if known is None:
            known = max((int(path.stem) for path in self.folder.glob("[0-9]*.*")), default=0)
            remember(self.folder, known)
        return known

    def forget(self, upto: int, before: int) -> None:
        """Delete items up to `upto` that came before that time, in microseconds; the newest stays, for its number."""
        upto = min(upto, self.last() - 1)
        for path in sorted(listed(self.folder, "[0-9]*.*"), key=lambda path: int(path.stem)):
            if int(path.stem) > upto or path.stat().st_mtime_ns // 1000 >= before:
                break
            path.unlink(missing_ok=True)

    def rows_path(self, number: int) -> AnyPath:
        return self.folder / f"{number:012d}.arrow"

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
            return ""
        with open_arrow(path) as file:
            metadata = pa.ipc.open_file(file).schema.metadata or {}
        return (metadata.get(_ORIGIN) or b"").decode()

    def measure(self, number: int) -> tuple[int, int]:
        """When item `number` came, in nanoseconds, and its bytes; an external watermark has none."""
        try:
            found = self.rows_path(number).stat()
            return found.st_mtime_ns, found.st_size
        except FileNotFoundError:
            return self._watermark_path(number).stat().st_mtime_ns, 0

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
            return None
        except ValueError as error:
            raise damaged(path, error) from None

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

    def spool(self, source: str) -> Spool:
        return Spool(self._folder_of(source))

    def append(self, source: str, write: Callable[[Spool, int], None]) -> None:
        """Let `write` add the next item; if it fails, its number stays free, so there is never a gap."""
        spool = self.spool(source)
        number = (self._last[source] if source in self._last else spool.last()) + 1
        write(spool, number)
        self._last[source] = number

    def forget(self, source: str) -> None:
        self._last.pop(source, None)


def read_rows(path: AnyPath) -> pa.Table:
    """The rows of an item."""
    return read_arrow(path)
