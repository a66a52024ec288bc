"""Many items of a spool in one file, when everybody has taken them: `db.write` makes a file each time.

    000000001001-000000002000.pack   items 1001 to 2000: an Arrow file of all their rows, and in its schema what else is
                                     known of each

Which file an item is in follows from its number. A pack takes the place of its items at once; what a crash leaves of
them beside it is deleted later, and says the same until then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from eventide.storage.atomic import damaged, open_arrow, replacing

ITEMS = 1000  # of a pack: what is stored goes by it
LARGEST = 32 << 20  # bytes: more are left as they are, for they are few files
_INDEX = b"eventide.items"


@dataclass(frozen=True)
class Item:
    """`came` is nanoseconds, `bytes` what the item had as a file of its own; one with a `watermark` has no rows."""

    came: int
    bytes: int
    rows: int
    watermark: int | None = None
    origin: str = ""


class Pack:
    def __init__(self, path: Path) -> None:
        first, _, _ = path.stem.partition("-")
        self._first = int(first)
        try:
            with open_arrow(path) as file:
                self._rows = pa.ipc.open_file(file).read_all()
            self._items = [Item(*item) for item in json.loads(self._rows.schema.metadata[_INDEX])]
            if sum(item.rows for item in self._items) != self._rows.num_rows:
                raise ValueError("it does not hold the rows that it names")
        except (pa.ArrowException, OSError, TypeError, KeyError, ValueError) as error:
            raise damaged(path, error) from None
        self._starts = [0]
        for item in self._items:
            self._starts.append(self._starts[-1] + item.rows)

    def item(self, number: int) -> Item:
        return self._items[number - self._first]

    def rows(self, number: int) -> pa.Table:
        place = number - self._first
        return self._rows.slice(self._starts[place], self._items[place].rows).replace_schema_metadata(None)


def pack_path(folder: Path, number: int) -> Path:
    """Of the pack that an item belongs to."""
    first = (number - 1) // ITEMS * ITEMS + 1
    return folder / f"{first:012d}-{first + ITEMS - 1:012d}.pack"


def write_pack(path: Path, items: Sequence[Item], tables: Sequence[pa.Table], schema: pa.Schema) -> None:
    """All items of a pack in their order, and the rows of those that have any. It is as old as its last item."""
    rows = pa.concat_tables([schema.empty_table(), *(table.replace_schema_metadata(None) for table in tables)])
    index = json.dumps([astuple(item) for item in items], separators=(",", ":"))
    rows = rows.combine_chunks().replace_schema_metadata({_INDEX: index})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with replacing(path) as temporary:
        with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, rows.schema, options=options) as writer:
            writer.write_table(rows, max_chunksize=65_536)
        os.utime(temporary, ns=(items[-1].came, items[-1].came))


def opened(path: Path) -> Pack | None:
    """The pack, if there is one."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return _opened(path, found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=4)
def _opened(path: Path, inode: int, modified: int) -> Pack:
    return Pack(path)
