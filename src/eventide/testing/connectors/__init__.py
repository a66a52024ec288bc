"""What every connector must pass, ours and others'.

    from eventide.testing.connectors import SinkCase, check_declaration, check_sink

Give each check a place of its own (`SinkCase`, `SourceCase`, `TableCase`), and it raises an AssertionError that says
which promise is broken. `check_declaration` needs no Spark; the others are handed `eventide.connect`, or a function
like it.
"""

from eventide.testing.connectors.declarations import check_declaration
from eventide.testing.connectors.sinks import SinkCase, check_sink
from eventide.testing.connectors.sources import SourceCase, check_source
from eventide.testing.connectors.tables import TableCase, check_table

__all__ = [
    "SinkCase",
    "SourceCase",
    "TableCase",
    "check_declaration",
    "check_sink",
    "check_source",
    "check_table",
]
