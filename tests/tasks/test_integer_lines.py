"""Lines of integers with one layout: read as a table, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, strategies as st

from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.integer_lines import may_be_uniform, uniform_rows
from eventide.tasks.json_lines import JsonLines

COLUMNS = (("k", "bigint"), ("v", "int"))
NUMBERS = st.one_of(
    st.integers(-20, 20), st.integers(-(2**31), 2**31 - 1), st.sampled_from([0, 9, 10, 99, 100, -1, 2**31 - 1])
)

LONG_NUMBERS = st.integers(0, 63).flatmap(lambda bits: st.integers(1 - 2**bits, 2**bits - 1))


def read(*lines: str, columns: tuple[tuple[str, str], ...] = COLUMNS) -> list[dict[str, int | None]] | None:
    block = "".join(f"{line}\n" for line in lines).encode()
    rows = uniform_rows(columns, block) if may_be_uniform(columns, block) else None
    return None if rows is None else rows.to_pylist()


def test_integers_between_fixed_words() -> None:
    assert read('{"k": 1, "v": -20}', '{"k": 345, "v": 0}') == [{"k": 1, "v": -20}, {"k": 345, "v": 0}]


def test_no_spaces_and_columns_that_are_not_wanted_or_not_there() -> None:
    assert read('{"x":1,"v":5}', '{"x":22,"v":6}') == [{"k": None, "v": 5}, {"k": None, "v": 6}]


def test_any_plain_name_will_do() -> None:
    assert read('{"start": 1, "end": 2}', columns=(("end", "bigint"),)) == [{"end": 2}]


def test_extreme_values() -> None:
    assert read(f'{{"k": {2**63 - 1}, "v": 0}}', f'{{"k": {1 - 2**63}, "v": 0}}') == [
        {"k": 2**63 - 1, "v": 0},
        {"k": 1 - 2**63, "v": 0},
    ]


@pytest.mark.parametrize(
    "odd",
    [
        '{"k": 01, "v": 2}',
        '{"k": -0, "v": 2}',
        '{"k": --1, "v": 2}',
        '{"k": 1-1, "v": 2}',
        '{"k": -, "v": 2}',
        '{"k": , "v": 2}',
        '{"k": 1 1, "v": 2}',
        '{"k": 1, "v": 2}3',
        '3{"k": 1, "v": 2}',
        '{3"k": 1, "v": 2}',
        '{"k3": 1, "v": 2}',
        '{"-k": 1, "v": 2}',
        '{"k"3: 1, "v": 2}',
        '{"k": 1, 3"v": 2}',
        '{"k": 1, "v": 2 }',
        '{"k":1, "v": 2}',
        '{"v": 1, "k": 2}',
        '{"k": 1, "k": 2}',
        '{"k": 1, "v": 2.0}',
        '{"k": 1, "v": 1e2}',
        '{"k": 1, "v": +2}',
        '{"k": 1, "v": null}',
        '{"k": 1, "v": "2"}',
        '{"k": 1, "v": 2, "w": 3}',
        '{"k": 1, "v": 2,}',
        '{"k": 1}',
        '{"k": 1, "v": 2}{"k": 1, "v": 2}',
        '{"k": 1, "v": 2}\r',
        '{"k": 1,\n"v": 2}',
        '{"k": 9223372036854775808, "v": 2}',
        '{"k": 18446744073709551617, "v": 2}',
        '{"k": 1234567890123456789012345, "v": 2}',
        '{"k": 00000000000000001, "v": 2}',
        '{"k": -9223372036854775808, "v": 2}',
        '{"k": 1, "v": 2147483648}',
        "[1, 2]",
        "null",
        "",
    ],
)
def test_a_line_with_another_layout_is_refused_wherever_it_is(odd: str) -> None:
    plain = '{"k": 1, "v": 2}'
    assert read(plain, odd, plain) is None
    assert read(odd, plain) is None
    assert read(plain, plain, odd) is None


def test_digits_that_only_moved_between_names_and_values_are_noticed() -> None:
    assert read('{"k": 1, "v": 23}', '{"k2": 1, "v": 3}') is None
    assert read('{"k": 1, "v": 2}4', '{"k": 1, "v": 2}') is None


def test_more_lines_than_are_looked_at_together() -> None:
    lines = [f'{{"k": {1_700_000_000_000_000_000 + number * 10**6}, "v": {number}}}' for number in range(60_000)]
    assert read(*lines) == [json.loads(line) for line in lines]
    assert read(*lines[:-1], '{"k": 1 , "v": 2}') is None


@pytest.mark.parametrize("number", [7, 12345678, 123456789, 1234567890123456, 12345678901234567])
def test_all_values_the_same(number: int) -> None:
    assert read(*[f'{{"k": {number}, "v": 5}}'] * 3) == [{"k": number, "v": 5}] * 3
    assert read(f'{{"k": {number}, "v": 5}}', f'{{"k": -{number}, "v": 5}}') == [
        {"k": number, "v": 5},
        {"k": -number, "v": 5},
    ]


@given(
    st.lists(st.tuples(st.one_of(NUMBERS, LONG_NUMBERS), NUMBERS), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 600), st.sampled_from('0123456789-, :{}"kv\n')), max_size=3),
)
@example([(0, 0)], [(2, "k")])
def test_what_is_read_is_what_json_says(rows: list[tuple[int, int]], insertions: list[tuple[int, str]]) -> None:
    text = "".join(f'{{"k": {k}, "v": {v}}}\n' for k, v in rows)
    for place, character in insertions:
        text = text[: place % len(text)] + character + text[place % len(text) :]
    text = text if text.endswith("\n") else f"{text}\n"
    found = read(*text[:-1].split("\n"))
    if found is None:
        assert insertions
        return
    said = [json.loads(line) for line in text[:-1].split("\n")]
    assert found == [
        {name: row.get(name) for name in ("k", "v")} for row in said
    ]  # a name that a change has turned into another is missing


def test_a_file_that_stops_being_uniform_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"k": 1, "v": 2}\n' * 5 + '{"v": 3}\n' + '{"k": 4, "v": 5}')
    pieces = list(JsonLines(COLUMNS).read(FileRange(str(path), 0, 0, 0, path.stat().st_size)))
    rows = pa.concat_tables([piece.rows for piece in pieces if piece.rows is not None])
    assert rows["v"].to_pylist() == [2, 2, 2, 2, 2, 3, 5]
    assert rows["k"].to_pylist() == [1, 1, 1, 1, 1, None, 4]
