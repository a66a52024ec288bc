"""`embedded`: rows that this process writes and reads itself. The stream's inbox carries them."""

from __future__ import annotations

from eventide.connectors.declaration import Connector, Option, Promise, Reads, Writes

EMBEDDED = Connector(
    name="embedded",
    doc="rows from `db.write`, durable when it returns; results for `db.read`",
    source=Reads(
        options={
            "target_latency": Option("span", doc="how long a batch should take; see [batches.md](../batches.md)"),
        },
        is_paced=True,
    ),
    sink=Writes(promise=Promise.EXACTLY_ONCE),
)
