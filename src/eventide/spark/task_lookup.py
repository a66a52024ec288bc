"""The version of a table that counts for a batch, as tasks of fused scans get it: the same that Spark's join would use.

A task is told when its batch began, as Spark logs it; so a batch that is repeated finds the same rows. Tables stay in
the memory of the process that runs tasks, the last few of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from eventide.connectors.contract import SourceContext, TableFiles
from eventide.errors import CheckpointError, EngineError
from eventide.plan.physical import Input
from eventide.spark.batch_facts import FactsOf
from eventide.spark.remote import is_remote
from eventide.storage.paths import AnyPath
from eventide.storage.tables import TableVersions, VersionLog
from eventide.tasks.table_lookup import KeyedTable, TableLookup, TaskLookup

LARGEST = 500_000  # rows of a table that every process keeps; a larger one is left to Spark's join
_MOST_KEPT = 4
_KEPT: dict[tuple[str, int, int, TableLookup], KeyedTable] = {}


@dataclass(frozen=True)
class VersionOfBatch:
    """`stream` is the folder of the stream."""

    log: AnyPath
    folder: AnyPath
    stream: str

    def __call__(self, lookup: TableLookup) -> KeyedTable:
        number = VersionLog(self.log).at(FactsOf(self.stream)().began).get(lookup.table)
        versions = TableVersions(self.folder)
        version = next((each for each in versions.state().versions if each.number == number), None)
        if version is None:
            raise CheckpointError(f"{self.log} does not say which version of the table {lookup.table} counts")
        key = (str(self.folder), version.number, version.read_at, lookup)
        if key not in _KEPT:
            while len(_KEPT) >= _MOST_KEPT:
                _KEPT.pop(next(iter(_KEPT)))
            _KEPT[key] = KeyedTable(versions.read(version.number), lookup)
        return _KEPT[key]


def is_for_tasks(context: SourceContext, lookup: TableLookup) -> bool:
    """Whether tasks can look rows up by themselves: in a table with versions that is not too large, if the driver can
    tell them of the batch.
    """
    if not isinstance(context.tables, TableFiles) or context.inbox is None or is_remote(context.spark):
        return False
    latest = TableVersions(context.tables.folder / lookup.table).state().latest
    return latest is None or latest.rows <= LARGEST


def task_lookup(context: SourceContext, lookup: TableLookup) -> TaskLookup:
    if not isinstance(context.tables, TableFiles) or context.inbox is None:
        raise EngineError(f"nobody knows where the table {lookup.table} is")
    folder = context.tables.folder / lookup.table
    return TaskLookup(lookup, VersionOfBatch(context.tables.log, folder, str(context.inbox.parent)))


def looks_up(inputs: tuple[Input, ...]) -> bool:
    """Whether tasks may need to know when batches began, to look rows up."""
    return any(input.fusion is not None and input.fusion.lookup is not None for input in inputs)
