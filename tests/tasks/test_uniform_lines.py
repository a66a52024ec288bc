"""Lines with one layout: what is read of them is what JSON says, and what is not sure is left to the parser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, strategies as st

from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.json_lines import JsonLines
from eventide.tasks.line_layout import layout_of
from eventide.tasks.uniform_lines import read_again, sorted_lines

COLUMNS = (("k", "bigint"), ("v", "int"))
MANY = (
    ("t", "string"),
    ("n", "int"),
    ("d", "double"),
    ("b", "boolean"),
    ("s", "struct<a:string,i:struct<x:bigint>>"),
    ("l", "array<string>"),
    ("m", "array<bigint>"),
)
NUMBERS = st.one_of(
    st.integers(-20, 20), st.integers(-(2**31), 2**31 - 1), st.sampled_from([0, 9, 10, 99, 100, -1, 2**31 - 1])
)
LONG_NUMBERS = st.integers(0, 63).flatmap(lambda bits: st.integers(1 - 2**bits, 2**bits - 1))
TEXTS = st.text(st.characters(exclude_characters='"\\', exclude_categories=("Cc", "Cs")), max_size=70)
DOUBLES = st.one_of(
    st.integers(-(10**6), 10**6).map(lambda number: number / 100 or 0.0),
    st.floats(1e-4, 1e15),
    st.floats(-1e15, -1e-4),
    st.sampled_from([0.0, 1.0, 0.1, 123456789.125, 0.30000000000000004]),
)
ROWS = st.fixed_dictionaries(
    {
        "t": st.none() | TEXTS,
        "n": st.none() | NUMBERS,
        "d": st.none() | DOUBLES,
        "b": st.none() | st.booleans(),
        "s": st.fixed_dictionaries(
            {"a": st.none() | TEXTS, "i": st.fixed_dictionaries({"x": st.none() | LONG_NUMBERS}), "z": TEXTS}
        ),
        "l": st.none() | st.lists(st.none() | TEXTS, max_size=5),
        "m": st.none() | st.lists(st.none() | LONG_NUMBERS, max_size=3),
        "w": TEXTS,
    }
)


def read(*lines: str, columns: tuple[tuple[str, str], ...] = COLUMNS) -> list[dict[str, Any]] | None:
    """The rows, if all lines have one layout."""
    found = sorted_lines(columns, {name for name, _ in columns}, "".join(f"{line}\n" for line in lines).encode())
    if len(found.rest_places) or len(found.read) != 1:
        return None
    rows: list[dict[str, Any]] = found.read[0].rows.to_pylist()
    return rows


def declared(row: dict[str, Any]) -> dict[str, Any]:
    """What the types of MANY leave of a row."""
    return {name: row[name] for name, _ in MANY} | {"s": {"a": row["s"]["a"], "i": row["s"]["i"]}}


def test_integers_between_fixed_words() -> None:
    assert read('{"k": 1, "v": -20}', '{"k": 345, "v": 0}') == [{"k": 1, "v": -20}, {"k": 345, "v": 0}]


def test_no_spaces_and_columns_that_are_not_wanted_or_not_there() -> None:
    assert read('{"x":1,"v":5}', '{"x":22,"v":6}') == [{"k": None, "v": 5}, {"k": None, "v": 6}]


def test_any_name_without_escapes_will_do() -> None:
    assert read('{"start": 1, "end-é": 2}', columns=(("end-é", "bigint"),)) == [{"end-é": 2}]


def test_extreme_values() -> None:
    assert read(f'{{"k": {2**63 - 1}, "v": 0}}', f'{{"k": {1 - 2**63}, "v": 0}}') == [
        {"k": 2**63 - 1, "v": 0},
        {"k": 1 - 2**63, "v": 0},
    ]


ODD_LINES = [
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
    '{"-k": 1, "v": 2}x',
    '{"k"3: 1, "v": 2}',
    '{"k": 1, 3"v": 2}',
    '{"k": 1, "k": 2}',
    '{"k": 1, "v": 2.0}',
    '{"k": 1, "v": 1e2}',
    '{"k": 1, "v": +2}',
    '{"k": 1, "v": nul}',
    '{"k": 1, "v": nulll}',
    '{"k": 1, "v": -null}',
    '{"k": 1, "v": "2"}',
    '{"k": 1, "v": true}',
    '{"k": 1, "v": [2]}',
    '{"k": 1, "v": 2,}',
    '{"k": 1, "v": 2}{"k": 1, "v": 2}',
    '{"k": 1, "v": 2}\r',
    '{"k": 9223372036854775808, "v": 2}',
    '{"k": 18446744073709551617, "v": 2}',
    '{"k": 1234567890123456789012345, "v": 2}',
    '{"k": 00000000000000001, "v": 2}',
    '{"k": -9223372036854775808, "v": 2}',
    '{"k": 1, "v": 2147483648}',
    '{"k": 1, "v": -2147483649}',
    '{"k": 1, "v": 2, "x": "a\tb"}',
    '{"k": 1, "v": 2, "x": "a\\tb"}',
    "[1, 2]",
    "null",
    "",
]


@pytest.mark.parametrize("odd", ODD_LINES)
def test_a_line_that_is_not_sure_is_left_over_wherever_it_is(odd: str) -> None:
    plain = '{"k": 1, "v": 2}'
    for lines, place in (((plain, odd, plain), 1), ((plain, plain, odd), 2), ((odd, plain, plain), 0)):
        block = "".join(f"{line}\n" for line in lines).encode()
        found = sorted_lines(COLUMNS, {"k", "v"}, block)
        begins = np.cumsum([0, *(len(line) + 1 for line in lines)])
        assert begins[place] in found.rest_places
        for alike in found.read:
            assert alike.rows.to_pylist() == [{"k": 1, "v": 2}] * len(alike.places)


def test_digits_that_only_moved_between_names_and_values_are_noticed() -> None:
    assert read('{"k": 1, "v": 23}', '{"k2": 1, "v": 3}') is None
    assert read('{"k": 1, "v": 2}4', '{"k": 1, "v": 2}') is None


def test_a_quote_inside_a_text_of_the_expected_length_is_noticed() -> None:
    columns = (("t", "string"), ("u", "string"))
    plain, sly = '{"t":"abcdefgh","u":"x"}', '{"t":"a","u":"","u":"x"}'
    assert len(plain) == len(sly)
    assert read(plain, plain, columns=columns) is not None
    assert read(plain, sly, columns=columns) is None
    assert read(plain, '{"t":"abc"efgh","u":"x"}', columns=columns) is None
    assert read(plain, '{"t":"abcdefgh,"u":"x"}"', columns=columns) is None


def test_more_lines_than_are_looked_at_together() -> None:
    lines = [f'{{"k": {1_700_000_000_000_000_000 + number * 10**6}, "v": {number}}}' for number in range(150_000)]
    block = "".join(f"{line}\n" for line in lines).encode()
    assert len(block) > 4 << 20
    found = sorted_lines(COLUMNS, {"k", "v"}, block)
    assert len(found.rest_places) == 0
    rows = pa.concat_tables([each.rows for each in found.read])
    assert rows["v"].to_pylist() == list(range(150_000))
    begins = np.cumsum([0, *(len(line) + 1 for line in lines[:-1])])
    assert np.concatenate([each.places for each in found.read]).tolist() == begins.tolist()


@pytest.mark.parametrize("number", [7, 12345678, 123456789, 1234567890123456, 12345678901234567])
def test_all_values_the_same(number: int) -> None:
    assert read(*[f'{{"k": {number}, "v": 5}}'] * 3) == [{"k": number, "v": 5}] * 3
    assert read(f'{{"k": {number}, "v": 5}}', f'{{"k": -{number}, "v": 5}}') == [
        {"k": number, "v": 5},
        {"k": -number, "v": 5},
    ]


@pytest.mark.parametrize("odd", ["-0.0", "-0", "1.", ".5", "1e5", "NaN", '"NaN"', "00.5", "1.5.5", "Infinity"])
def test_a_double_that_parsers_may_see_differently_is_left_over(odd: str) -> None:
    columns = (("d", "double"),)
    assert read('{"d":1.5}', f'{{"d":{odd}}}', columns=columns) is None
    assert read('{"d":1.5}', '{"d":2}', '{"d":null}', columns=columns) == [{"d": 1.5}, {"d": 2.0}, {"d": None}]


def test_objects_are_structs_whatever_they_hold_and_missing_ones_are_null() -> None:
    columns = (("s", "struct<a:string>"),)
    assert read('{"s":{}}', '{"s":{}}', columns=columns) == [{"s": {"a": None}}] * 2
    assert read('{"s":{"z":1}}', columns=columns) == [{"s": {"a": None}}]
    assert read('{"x":1}', columns=columns) == [{"s": None}]
    assert read('{"s":null}', columns=columns) == [{"s": None}]
    assert read('{"s":{"a":"x"}}', '{"s":null}', columns=columns) is None


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
    said = dict(
        zip(
            np.cumsum([0, *(len(line) + 1 for line in text[:-1].split("\n")[:-1])]).tolist(),
            text[:-1].split("\n"),
            strict=True,
        )
    )
    found = sorted_lines(COLUMNS, {"k", "v"}, text.encode())
    for alike in found.read:
        for place, row in zip(alike.places.tolist(), alike.rows.to_pylist(), strict=True):
            expected = json.loads(said[place])
            assert row == {name: expected.get(name) for name in ("k", "v")}
    if not insertions:
        assert len(found.rest_places) == 0


@given(st.lists(ROWS, min_size=1, max_size=12), st.booleans())
def test_values_of_all_kinds(rows: list[dict[str, Any]], spaced: bool) -> None:
    separators = None if spaced else (",", ":")
    lines = [json.dumps(row, ensure_ascii=False, separators=separators) for row in rows]
    block = "".join(f"{line}\n" for line in lines).encode()
    found = sorted_lines(MANY, {name for name, _ in MANY}, block)
    begins = np.cumsum([0, *(len(line.encode()) + 1 for line in lines[:-1])]).tolist()
    by_place = dict(zip(begins, rows, strict=True))
    for alike in found.read:
        told = [declared(by_place[place]) for place in alike.places.tolist()]
        assert alike.rows.to_pylist() == told
    assert sum(len(each.places) for each in found.read) + len(found.rest_places) == len(rows)
    for alike in sorted_lines(MANY, {"n"}, block).read:
        assert alike.rows.to_pylist() == [{"n": by_place[place]["n"]} for place in alike.places.tolist()]
        chosen = np.arange(len(alike.places)) % 2 == 0
        told = [declared(by_place[place]) for place in alike.places[chosen].tolist()]
        assert read_again(MANY, block, alike, chosen).to_pylist() == told


@given(st.lists(ROWS, min_size=2, max_size=6), st.data())
def test_what_is_read_of_a_damaged_line_is_what_the_parser_reads(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    number = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.integers(0, len(lines[number])))
    added = data.draw(
        st.sampled_from(['"', "{", "}", "[", "]", ",", ":", "0", "1", "-", ".", "null", " ", "a", '",', ""])
    )
    cut = data.draw(st.integers(0, 2))
    lines[number] = lines[number][:place] + added + lines[number][place + cut :]
    block = "".join(f"{line}\n" for line in lines).encode()
    begins = np.cumsum([0, *(len(line.encode()) + 1 for line in lines[:-1])]).tolist()
    at = dict(zip(begins, lines, strict=True))
    parser = JsonLines(MANY)
    for alike in sorted_lines(MANY, {name for name, _ in MANY}, block).read:
        for begin, row in zip(alike.places.tolist(), alike.rows.to_pylist(), strict=True):
            parsed = parser._parsed(at[begin].encode(), 1)
            assert parsed is not None, at[begin]
            assert parsed.to_pylist() == [row]


@pytest.mark.parametrize(
    "line",
    [
        b'{"l":nul',
        b'{"l":n"a"}',
        b'{"s":nil}',
        b'{"unknown":n}',
        b'{"l":[n]}',
        b'{"\xff":1,"n":2}',
        b'{"s":{"\xc3":1}}',
    ],
)
def test_a_damaged_first_line_has_no_layout(line: bytes) -> None:
    assert layout_of(line, MANY) is None


@pytest.mark.parametrize("size", [1, 60, 440])
def test_a_last_line_that_is_cut_anywhere_is_left_to_the_parser(size: int) -> None:
    names = tuple(letter * size for letter in "ab")
    columns = ((names[0], "string"), (names[1], "array<bigint>"), ("c", "double"), ("d", "string"))
    line = json.dumps({names[0]: "x" * 20, names[1]: [1, 22], "c": 1.5, "d": "y"})
    for cut in range(0, len(line), 1 + size // 60):
        for end in ("", '"', "garbage"):
            block = f"{line}\n{line}\n{line[:cut]}{end}\n".encode()
            found = sorted_lines(columns, {name for name, _ in columns}, block)
            assert [alike.places.tolist() for alike in found.read] == [[0, len(line) + 1]]
            assert len(found.rest_places) == 1


def test_a_line_that_is_very_long_lends_its_layout_to_nobody() -> None:
    long = json.dumps({"k" * 1200: 1})
    found = sorted_lines((("k", "bigint"),), {"k"}, f"{long}\n{long}\n".encode())
    assert found.read == [] and len(found.rest_places) == 2


def test_times_are_judged_even_if_nobody_wants_them() -> None:
    columns = (("at", "timestamp"), ("n", "bigint"))
    good, bad = '{"at":"2020-02-29T12:00:00.5Z","n":1}', '{"at":"2021-02-29T12:00:00.5Z","n":1}'
    for lines, sure in (((good, good), True), ((good, bad), False)):
        found = sorted_lines(columns, {"n"}, "".join(f"{line}\n" for line in lines).encode())
        assert (len(found.rest_places) == 0) is sure


def test_a_file_that_stops_being_uniform_is_read_all_the_same_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"k": 1, "v": 2}\n' * 500 + '{"v": 3}\n' + '{"k": "x"}\n' + '{"k": 4, "v": 5}')
    pieces = list(JsonLines(COLUMNS).read(FileRange(str(path), 0, 0, 0, path.stat().st_size)))
    rows = [
        (place, row["v"], row["k"])
        for piece in pieces
        if piece.rows is not None
        for place, row in zip(piece.places.tolist(), piece.rows.to_pylist(), strict=True)  # type: ignore[union-attr]
    ]
    assert [(v, k) for _, v, k in sorted(rows)] == [(2, 1)] * 500 + [(3, None), (5, 4)]
    assert [piece.lines for piece in pieces if piece.rows is None] == [[b'{"k": "x"}']]
