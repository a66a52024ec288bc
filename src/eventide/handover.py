"""What sinks get of streams that have begun anew.

It is written down before the new streams take the place of the old ones. The switch is one file, `migration.json`,
which from then on says what is to be handed over; whoever opens the checkpoint next after a crash does that first.
Sinks know the rows by the stream's identity and the number of its last batch, so that they count once however often
they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eventide.plan.logical import Forward, Join, Stream
from eventide.plan.modes import JoinKind
from eventide.sql.catalog import Catalog
from eventide.storage.atomic import read_arrow, read_json, write_json
from eventide.storage.layout import Layout
from eventide.storage.paths import AnyPath, remove_tree
from eventide.storage.results import OUTPUT_TIME, Results, fitted, read_batch

HANDOVERS = "handovers"  # in migration.json: the new streams are in their place


@dataclass(frozen=True)
class Handover:
    """Rows of a stream that its sinks are to get as the batch `batch`, the last that it has had."""

    stream: str
    batch: int
    identity: str
    sinks: tuple[str, ...]


def gives_at_once(stream: Stream) -> bool:
    """Whether all rows that it has taken in have left it, or will not."""
    query = stream.query
    if isinstance(query, Join):
        return query.kind is JoinKind.INNER and not query.at_close
    return isinstance(query, Forward) and not query.ordered


def rows_since(folder: AnyPath, passed: int | None, schema: pa.Schema) -> pa.Table:
    """The results of a stream that belong to `passed` or a later time."""
    timed = schema.append(pa.field(OUTPUT_TIME, pa.int64()))
    found = [table for batch in Results(folder).batches() for table in read_batch(folder, batch, "main")]
    rows = pa.concat_tables([timed.empty_table(), *(fitted(table, timed) for table in found)])
    if passed is not None:
        rows = rows.filter(pc.greater_equal(rows[OUTPUT_TIME], passed))
    return rows.drop_columns([OUTPUT_TIME])


def written_down(layout: Layout, catalog: Catalog, stream: str, rows: pa.Table) -> Handover | None:
    """Keep what the sinks of a stream are to get; None if that is nothing."""
    latest = Results(layout.results(stream)).latest()
    sinks = tuple(sink.name for sink in catalog.sinks_of(stream) if sink.stream == stream)
    if latest is None or not sinks or not rows.num_rows:
        return None
    Results(layout.handover).write_table(_file(stream), rows)
    return Handover(stream, latest.batch, read_json(layout.plan(stream))["identity"], sinks)


def switch(layout: Layout, handovers: Sequence[Handover]) -> None:
    """From here on the new streams are those of the checkpoint."""
    write_json(layout.migration, {HANDOVERS: [asdict(handover) for handover in handovers]})


def hand_over(layout: Layout, catalog: Catalog) -> None:
    """Give sinks what a switch has left to be handed over, if there was one; then the old streams are forgotten."""
    marker: dict[str, Any] | None = read_json(layout.migration)
    if marker is None or HANDOVERS not in marker:
        return
    from eventide.connectors.writers import open_sink

    for kept in marker[HANDOVERS]:
        handover = Handover(**kept)
        rows = read_arrow(layout.handover / _file(handover.stream))
        for name in handover.sinks:
            writer = open_sink(catalog.sinks[name], handover.identity)
            if writer is not None:
                writer.write(handover.batch, rows)
                writer.close()
    layout.migration.unlink()
    for folder in (layout.before, layout.handover):
        remove_tree(folder)


def _file(stream: str) -> str:
    return f"{stream}.arrow"
