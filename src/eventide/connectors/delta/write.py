"""Rows as a Delta table, each batch one version of it, exactly once: the version holds the number of the batch.

A table remembers for every writer the number of the last transaction that it has committed (its `txn` actions). A batch
that comes again finds its number there, and is not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, SchemaMismatchError

from eventide.connectors.files.write import interval_texts
from eventide.errors import OptionError, SinkError

FAMILY = "storage."
OP = "op"  # of a stream of changes: -1 takes a row back, +1 gives one
_DELETED = "__deleted"


class DeltaSink:
    """`identity` is the stream's in its checkpoint; `hide` takes secrets out of a text."""

    def __init__(self, name: str, options: Mapping[str, str], identity: str, hide: Callable[[str], str] = str) -> None:
        self._name, self._path = name, options["path"]
        self._keys = [key.strip() for key in options.get("key", "").split(",") if key.strip()]
        self._evolves = options.get("schema") == "evolve"
        self._storage = {
            key.removeprefix(FAMILY): value for key, value in options.items() if key.startswith(FAMILY)
        } or None
        self._writer = f"eventide.{identity}.{name}"
        self._hide = hide

    def write(self, batch: int, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        try:
            table = self._table()
            written = None if table is None else table.transaction_version(self._writer)
            if written is not None and batch <= written:
                return
            properties = CommitProperties(app_transactions=[Transaction(self._writer, batch)])
            if self._keys:
                self._upsert(table, interval_texts(rows), properties)
            else:
                self._append(interval_texts(rows), properties)
        except SchemaMismatchError as error:
            raise self._failure(batch, error, _OTHER_SCHEMA) from None
        except (DeltaError, OSError) as error:
            raise self._failure(batch, error, _AGAIN) from None

    def close(self) -> None:
        pass

    def _table(self) -> DeltaTable | None:
        if not DeltaTable.is_deltatable(self._path, self._storage):
            return None
        return DeltaTable(self._path, storage_options=self._storage)

    def _append(self, rows: pa.Table, properties: CommitProperties) -> None:
        write_deltalake(
            self._path,
            rows,
            mode="append",
            schema_mode="merge" if self._evolves else None,
            storage_options=self._storage,
            commit_properties=properties,
        )

    def _upsert(self, table: DeltaTable | None, rows: pa.Table, properties: CommitProperties) -> None:
        missing = [key for key in self._keys if key not in rows.column_names]
        if missing:
            raise OptionError(
                f"sink {self._name}: there is no column {missing[0]}",
                help=f"'key' names some of: {', '.join(rows.column_names)}",
            )
        rows = self._newest(rows)
        if table is None:
            self._append(rows.filter(pc.invert(rows[_DELETED])).drop_columns([_DELETED]), properties)
            return
        same = " AND ".join(f"t.`{key}` IS NOT DISTINCT FROM s.`{key}`" for key in self._keys)
        columns = {f"`{name}`": f"s.`{name}`" for name in rows.column_names if name != _DELETED}
        merge = table.merge(
            rows, same, source_alias="s", target_alias="t", merge_schema=self._evolves, commit_properties=properties
        )
        merge = merge.when_matched_delete(f"s.`{_DELETED}`").when_matched_update(columns)
        merge.when_not_matched_insert(columns, f"NOT s.`{_DELETED}`").execute()

    def _newest(self, rows: pa.Table) -> pa.Table:
        """The last row of every key, and whether it takes the key's row back."""
        numbered = rows.select(self._keys).append_column("__place", pa.array(range(rows.num_rows)))
        places = numbered.group_by(self._keys).aggregate([("__place", "max")])["__place_max"].combine_chunks()
        rows = rows.take(places.sort())
        if OP in rows.column_names and pa.types.is_integer(rows[OP].type):
            deleted = pc.fill_null(pc.less(rows[OP], 0), False)
            return rows.append_column(_DELETED, deleted)
        return rows.append_column(_DELETED, pa.repeat(False, rows.num_rows))

    def _failure(self, batch: int, error: Exception, help: str) -> SinkError:
        told = self._hide(" ".join(str(error).split("stack backtrace")[0].split()))
        return SinkError(f"sink {self._name}: batch {batch} could not be written to {self._path}: {told}", help=help)


_AGAIN = "mend the cause and run the stream again: the batch is written again, and takes effect once"
_OTHER_SCHEMA = "write to another path, or add 'schema' = 'evolve' to let the table take new columns"
