"""What each query has to answer, by DuckDB over the same files, and how a stream's answer differs from it.

A change log is summed up: a row counts as often as it was added less the times that it was taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.nexmark.queries import batch_sql

_EVENTS = """{
  event_type: 'INTEGER',
  person: 'STRUCT(id BIGINT, name VARCHAR, emailAddress VARCHAR, creditCard VARCHAR, city VARCHAR, state VARCHAR,
    extra VARCHAR)',
  auction: 'STRUCT(id BIGINT, itemName VARCHAR, description VARCHAR, initialBid BIGINT, reserve BIGINT,
    expires TIMESTAMP, seller BIGINT, category BIGINT, extra VARCHAR)',
  bid: 'STRUCT(auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, extra VARCHAR)',
  dateTime: 'TIMESTAMP'
}"""
_VIEWS = {
    "person": "person.id, person.name, person.emailAddress, person.creditCard, person.city, person.state, dateTime, "
    "person.extra",
    "auction": "auction.id, auction.itemName, auction.description, auction.initialBid, auction.reserve, dateTime, "
    "auction.expires, auction.seller, auction.category, auction.extra",
    "bid": "bid.auction, bid.bidder, bid.price, bid.channel, bid.url, dateTime, bid.extra",
}
_DATE_FORMAT = (
    "CREATE MACRO date_format(time, pattern) AS strftime(time, CASE pattern WHEN 'HH:mm' THEN '%H:%M' "
    "WHEN 'yyyy-MM-dd' THEN '%Y-%m-%d' END)"
)
# What is certain where several events have the same time or price: the columns of which the order of events does not
# decide. Of q12, whose windows are those of the clock, the sums.
_CERTAIN = {
    "q6": [("seller",)],
    "q9": [("id", "expires", "price", "bid_dateTime")],
    "q18": [("auction", "bidder", "dateTime")],
    "q19": [("auction", "price", "rank_number")],
}
_CERTAIN_WITHOUT_EQUAL_TIMES = {
    "q19": [("auction", "price", "rank_number"), ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")]
}
_SUMMED = {"q12": "SELECT bidder, sum(bid_count)::BIGINT AS bid_count FROM given GROUP BY bidder"}


TOO_MANY, MISSING = "too many", "missing"  # what a difference is


class Answers:
    def __init__(self, events: Sequence[Path], side_input: Path, have_equal_times: bool) -> None:
        self._certain = _CERTAIN if have_equal_times else _CERTAIN_WITHOUT_EQUAL_TIMES
        self._database = duckdb.connect()
        names = ", ".join(f"'{path}'" for path in events)
        self._database.execute(
            f"CREATE TABLE events AS FROM read_json([{names}], columns = {_EVENTS}, format = 'newline_delimited')"
        )
        for kind, (name, columns) in enumerate(_VIEWS.items()):
            self._database.execute(f"CREATE VIEW {name} AS SELECT {columns} FROM events WHERE event_type = {kind}")
        self._database.execute(
            "CREATE TABLE side_input AS "
            f"FROM read_csv('{side_input}', columns = {{'key': 'BIGINT', 'value': 'VARCHAR'}}, header = false)"
        )
        self._database.execute(_DATE_FORMAT)
        self._known: set[str] = set()

    def asked(self, sql: str) -> list[tuple[Any, ...]]:
        """The answer to any query over the events."""
        return self._database.execute(sql).fetchall()

    def rows(self, name: str) -> int:
        """How many rows the answer has."""
        [(count,)] = self._database.execute(f"SELECT count(*) FROM {self._wanted(name)}").fetchall()
        return int(count)

    def table(self, name: str) -> pa.Table:
        return self._database.table(self._wanted(name)).to_arrow_table()

    def differences(self, name: str, given: pa.Table) -> list[str]:
        """Rows that a stream gave and should not have, or should have given and did not: no more than ten of each."""
        wanted = self._wanted(name)
        self._database.register("given", _without_zones(given))
        rows = f"({_SUMMED[name]})" if name in _SUMMED else "given"
        every = self._database.table(wanted).columns
        found = []
        for columns in self._certain.get(name, [tuple(every)]):
            listed = ", ".join(f'"{column}"' for column in columns)
            times = "sum(op)" if "op" in given.column_names else "count(*)"
            have = f"SELECT {listed}, {times} AS times FROM {rows} GROUP BY ALL HAVING times <> 0"
            want = f"SELECT {listed}, count(*) AS times FROM {wanted} GROUP BY ALL"
            for what, one, other in ((TOO_MANY, have, want), (MISSING, want, have)):
                odd = self._database.execute(f"({one}) EXCEPT ({other}) ORDER BY ALL LIMIT 10").fetchall()
                found += [f"{name} {what}: {dict(zip((*columns, 'times'), row, strict=True))}" for row in odd]
        return found

    def _wanted(self, name: str) -> str:
        if name not in self._known:
            self._database.execute(f"CREATE TABLE answer_{name} AS {batch_sql(name)}")
            self._known.add(name)
        return f"answer_{name}"


def _without_zones(rows: pa.Table) -> pa.Table:
    """Times in UTC without saying so, as in the files."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            rows = rows.set_column(place, field.name, rows.column(place).cast(pa.timestamp(field.type.unit)))
    return rows
