"""Messages of a log as rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from eventide.tasks.messages import Decoded, Messages, Run, beside, received

COLUMNS = (("k", "string"), ("v", "bigint"))


@dataclass
class Sent:
    """As a client for Kafka gives it."""

    content: bytes | None
    place: int = 0
    name: bytes | None = None
    heads: Any = None
    time: tuple[int, int] = field(default=(1, 1_700_000_000_123))

    def value(self) -> bytes | None:
        return self.content

    def key(self) -> bytes | None:
        return self.name

    def headers(self) -> Any:
        return self.heads

    def offset(self) -> int:
        return self.place

    def timestamp(self) -> tuple[int, int]:
        return self.time


def run(*contents: bytes | None) -> Run:
    return Run("clicks", 3, [Sent(content, place) for place, content in enumerate(contents, 40)])


def row(number: int) -> bytes:
    return json.dumps({"k": f"k{number}", "v": number, "more": [1, {}]}).encode()


def rows(parts: list[Decoded]) -> list[dict[str, Any]]:
    return [row for part in parts if part.rows is not None for row in part.rows.to_pylist()]


def test_json_messages_are_decoded_together() -> None:
    (part,) = Messages("json", COLUMNS).decode(run(*map(row, range(1000))))
    assert (part.first, part.last) == (0, 1000)
    assert rows([part]) == [{"k": f"k{number}", "v": number} for number in range(1000)]


def test_what_arrow_refuses_is_left_to_spark_with_few_neighbours_and_nothing_is_lost() -> None:
    contents: list[bytes | None] = [*map(row, range(1000))]
    contents[500], contents[700] = b"not json", None
    parts = list(Messages("json", COLUMNS).decode(run(*contents)))
    left = [line for part in parts if part.rows is None for line in part.lines]
    assert b"not json" in left and b"null" in left and len(left) < 200
    assert len(rows(parts)) + len(left) == 1000
    assert [part.first for part in parts[1:]] == [part.last for part in parts[:-1]]


def test_a_message_with_line_breaks_or_two_objects_is_not_taken_for_several() -> None:
    for odd in (b'{"k": "a",\n "v": 1}', b'{"k": "a"}\n{"k": "b"}', b'{"v": 1} ', b"", b"[]", b'{"k": "a"}{"k": "b"}'):
        parts = list(Messages("json", COLUMNS).decode(run(row(1), odd)))
        assert sum(part.last - part.first for part in parts) == 2
        assert all(part.rows is None for part in parts), odd


def test_what_is_beside_the_content_becomes_columns() -> None:
    metadata = (("p", "partition"), ("t", "topic"), ("o", "offset"), ("at", "timestamp"), ("key", "key"))
    types = (("p", "int"), ("t", "string"), ("o", "bigint"), ("at", "timestamp"), ("key", "string"))
    sent = Run("clicks", 3, [Sent(row(1), 40, b"one"), Sent(row(2), 42, None, time=(0, -1))])
    (part,) = Messages("json", (*COLUMNS, *types), metadata).decode(sent)
    first, second = rows([part])
    assert (first["p"], first["t"], first["o"], first["key"]) == (3, "clicks", 40, "one")
    assert first["at"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert (second["o"], second["key"], second["at"], second["v"]) == (42, None, None, 2)


def test_raw_messages_are_one_column_whatever_they_hold() -> None:
    (part,) = Messages("raw", (("body", "string"),)).decode(run(b"a", None, b"", b"\n"))
    assert rows([part]) == [{"body": "a"}, {"body": None}, {"body": ""}, {"body": "\n"}]
    (part,) = Messages("raw", (("body", "binary"),)).decode(run(b"\xff", None))
    assert rows([part]) == [{"body": b"\xff"}, {"body": None}]


def test_no_content_is_needed_to_count_messages() -> None:
    (part,) = Messages("json", (("o", "bigint"),), (("o", "offset"),)).decode(run(row(1), row(2)))
    assert [each["o"] for each in rows([part])] == [40, 41]
    (part,) = Messages("raw", (("o", "bigint"),), (("o", "offset"),)).decode(run(b"", None))
    assert [each["o"] for each in rows([part])] == [40, 41]


def test_everything_is_left_to_spark_if_only_it_can_decode() -> None:
    (part,) = Messages("json", COLUMNS, left_to_spark=True).decode(run(row(1), b" ", None))
    assert part.rows is None and part.lines == [row(1), b"null", b"null"]
    (part,) = Messages("raw", COLUMNS, left_to_spark=True).decode(run(b"", None))
    assert part.lines == [b"", None]


def test_headers_are_a_map_in_which_the_last_of_a_name_counts() -> None:
    sent = Run("clicks", 0, [Sent(b"", 0, heads=[("a", b"1"), ("b", None), ("a", b"2")]), Sent(b"", 1)])
    table = beside(sent, 0, 2, ("headers", "offset"))
    assert table["headers"].to_pylist() == [[("a", b"2"), ("b", None)], []]


def test_the_time_of_messages_is_in_microseconds() -> None:
    assert received([Sent(b""), Sent(b"", time=(0, -1))]).to_pylist() == [1_700_000_000_123_000, None]
    assert received([]).type == pa.int64()
