"""Another stream of the same database, or its late rows. The stream's inbox names its batches."""

from __future__ import annotations

from eventide.connectors.declaration import Connector, Option, Reads

STREAM = Connector(
    name="stream",
    doc="another stream of the same database",
    source=Reads(
        options={
            "stream": Option(doc="its name"),
            "plan": Option(doc="what it means", identifies=True),
            "late": Option("flag", doc="whether its late rows are read", identifies=True),
            "changes": Option(doc="what it is a change log of"),
        }
    ),
)
