"""Lines read by compiled code: what is read of them is what JSON says, and what is not sure is left to others."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.json_columns import Read, read_again, read_lines
from eventide.tasks.json_lines import JsonLines

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
COLUMNS = (("k", "bigint"), ("v", "int"))
MANY = (
    ("t", "string"),
    ("n", "int"),
    ("d", "double"),
    ("b", "boolean"),
    ("s", "struct<a:string,i:struct<x:bigint>>"),
    ("l", "array<string>"),
    ("m", "array<bigint>"),
    ("o", "array<struct<a:string,n:array<double>>>"),
)
NUMBERS = st.one_of(
    st.integers(-20, 20), st.integers(-(2**31), 2**31 - 1), st.sampled_from([0, 9, 10, 99, 100, -1, 2**31 - 1])
)
LONG_NUMBERS = st.integers(0, 63).flatmap(lambda bits: st.integers(1 - 2**bits, 2**bits - 1))
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=70)
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
        "o": st.none()
        | st.lists(
            st.none()
            | st.fixed_dictionaries(
                {"a": st.none() | TEXTS, "n": st.none() | st.lists(st.none() | DOUBLES, max_size=3)}
            ),
            max_size=3,
        ),
        "w": TEXTS,
    }
)


def block_of(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def of_block(block: bytes, columns: tuple[tuple[str, str], ...] = COLUMNS, wanted: str | None = None) -> Read:
    """All columns, or those wanted."""
    names = frozenset(name for name, _ in columns) if wanted is None else frozenset(wanted.split())
    return read_lines(block, columns, names, None)


def read(*lines: str, columns: tuple[tuple[str, str], ...] = COLUMNS) -> list[dict[str, Any]] | None:
    """The rows, if all lines can be read."""
    found = of_block(block_of(*lines), columns)
    rows: list[dict[str, Any]] = found.rows.to_pylist()
    return None if len(found.left) else rows


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
    '{"k": 1, "v": 2, "x": "a\\qb"}',
    '{"k": 1, "v": 2, "x": "\\ud800"}',
    '{"k": 1, "v": 2, "x": "\\udc00"}',
    '{"k": 1, "v": 2, "x": "\\u12g4"}',
    '{"k": 1, "v": 2, "x": [1, 2}',
    '{"k": 1, "v": 2, "x": {"y": 1]}',
    '{"k": 1, "v": 2, "x": {"y"}}',
    '{"k": 1, "v": 2, "x": {"y": 1,}}',
    '{"k": 1, "v": 2, "x": [1,]}',
    '{"k": 1, "v": 2, "x": 1.}',
    '{"k": 1, "v": 2, "x": 1e}',
    '{"k": 1, "v": 2, "x": tru}',
    '{"k": 1, "\\u0076": 2}',
    "[1, 2]",
    "null",
    "",
]


@pytest.mark.parametrize("odd", ODD_LINES)
def test_a_line_that_is_not_sure_is_left_over_wherever_it_is(odd: str) -> None:
    plain = '{"k": 1, "v": 2}'
    for lines, place in (((plain, odd, plain), 1), ((plain, plain, odd), 2), ((odd, plain, plain), 0)):
        found = of_block(block_of(*lines))
        begins = np.cumsum([0, *(len(line) + 1 for line in lines)])
        assert found.left.tolist() == [begins[place]]
        assert found.rows.to_pylist() == [{"k": 1, "v": 2}] * 2


def test_digits_that_moved_from_a_value_to_a_name_are_noticed() -> None:
    assert read('{"k": 1, "v": 23}', '{"k2": 1, "v": 3}') == [{"k": 1, "v": 23}, {"k": None, "v": 3}]
    assert read('{"k": 1, "v": 2}4', '{"k": 1, "v": 2}') is None


def test_a_quote_inside_a_text_of_the_expected_length_is_noticed() -> None:
    columns = (("t", "string"), ("u", "string"))
    plain, sly = '{"t":"abcdefgh","u":"x"}', '{"t":"a","u":"","u":"x"}'
    assert len(plain) == len(sly)
    assert read(plain, plain, columns=columns) is not None
    assert read(plain, sly, columns=columns) is None
    assert read(plain, '{"t":"abc"efgh","u":"x"}', columns=columns) is None
    assert read(plain, '{"t":"abcdefgh,"u":"x"}"', columns=columns) is None


def test_escapes_are_what_they_stand_for() -> None:
    columns = (("t", "string"),)
    text = 'a"b\\c/d\b\f\n\r\té\u1234\U0001f600\x00'
    assert read(json.dumps({"t": text}), columns=columns) == [{"t": text}]
    assert read('{"t":"\\/\\u00E9\\ud83d\\ude00"}', '{"t":""}', columns=columns) == [{"t": "/é\U0001f600"}, {"t": ""}]


def test_the_order_of_members_and_spaces_may_change_from_line_to_line() -> None:
    lines = (
        '{"k":1,"v":2}',
        '{"v":3,"k":4}',
        ' { "v" : 5 , "x":{"k":[7,{}]},"k":6 } ',
        "{}",
        '{"v":8}',
        '{"k":9,"v":10}',
    )
    assert read(*lines) == [
        {"k": 1, "v": 2}, {"k": 4, "v": 3}, {"k": 6, "v": 5}, {"k": None, "v": None}, {"k": None, "v": 8},
        {"k": 9, "v": 10},
    ]  # fmt: skip


def test_what_a_bad_line_has_left_behind_is_not_part_of_the_next() -> None:
    columns = (("s", "struct<a:bigint,l:array<double>>"), ("d", "double"), ("t", "string"))
    good, bad = '{"t":"x"}', '{"s":{"a":1,"l":[1.5,0.1234567890123456789]},"d":0.1234567890123456789,"t":7}'
    last = '{"s":{"l":[2]}}'
    found = of_block(block_of(good, bad, good, last), columns)
    empty = {"s": None, "d": None, "t": "x"}
    assert found.rows.to_pylist() == [empty, empty, {"s": {"a": None, "l": [2.0]}, "d": None, "t": None}]


def test_depth_has_a_limit_where_nobody_asks() -> None:
    for depth, is_read in ((50, True), (70, False), (5000, False)):
        line = f'{{"k": 1, "v": 2, "x": {"[" * depth}{"]" * depth}}}'
        assert (read(line) is not None) is is_read


@pytest.mark.parametrize("number", [7, 12345678, 123456789, 1234567890123456, 12345678901234567])
def test_all_values_the_same(number: int) -> None:
    assert read(*[f'{{"k": {number}, "v": 5}}'] * 3) == [{"k": number, "v": 5}] * 3
    assert read(f'{{"k": {number}, "v": 5}}', f'{{"k": -{number}, "v": 5}}') == [
        {"k": number, "v": 5},
        {"k": -number, "v": 5},
    ]


@pytest.mark.parametrize(
    "odd", ["-0.0", "-0", "1.", ".5", "1e400", "1e-400", "NaN", '"NaN"', "00.5", "1.5.5", "Infinity"]
)
def test_a_double_that_parsers_may_see_differently_is_left_over(odd: str) -> None:
    columns = (("d", "double"),)
    assert read('{"d":1.5}', f'{{"d":{odd}}}', columns=columns) is None
    assert read('{"d":1.5}', '{"d":2}', '{"d":null}', columns=columns) == [{"d": 1.5}, {"d": 2.0}, {"d": None}]


def test_numbers_with_very_many_digits_are_never_infinite() -> None:
    columns = (("d", "double"),)
    many = "1" + "0" * 280
    assert read(f'{{"d":{many}e200}}', columns=columns) is None
    assert read(f'{{"d":{"1" + "0" * 100}}}', f'{{"d":-{"0." + "0" * 70 + "125"}}}', columns=columns) == [
        {"d": 1e100},
        {"d": -0.125e-70},
    ]


def test_objects_are_structs_whatever_they_hold_and_missing_ones_are_null() -> None:
    columns = (("s", "struct<a:string>"),)
    assert read('{"s":{}}', '{"s":{}}', columns=columns) == [{"s": {"a": None}}] * 2
    assert read('{"s":{"z":1}}', columns=columns) == [{"s": {"a": None}}]
    assert read('{"x":1}', columns=columns) == [{"s": None}]
    assert read('{"s":null}', columns=columns) == [{"s": None}]
    assert read('{"s":{"a":"x"}}', '{"s":null}', columns=columns) == [{"s": {"a": "x"}}, {"s": None}]


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
    found = of_block(text.encode())
    for place, row in zip(found.places.tolist(), found.rows.to_pylist(), strict=True):
        expected = json.loads(said[place])
        assert row == {name: expected.get(name) for name in ("k", "v")}
    if not insertions:
        assert len(found.left) == 0


@given(st.lists(DOUBLES | st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_doubles_are_rounded_as_python_rounds_them(numbers: list[float]) -> None:
    found = of_block(block_of(*(f'{{"d":{number!r}}}' for number in numbers)), (("d", "double"),))
    begins = np.cumsum([0, *(len(repr(number)) + 7 for number in numbers)])[:-1]
    told = dict(zip(begins.tolist(), numbers, strict=True))
    assert found.rows["d"].to_pylist() == [told[place] for place in found.places.tolist()]
    for place in found.left.tolist():
        assert told[place] == 0 or not 1e-200 < abs(told[place]) < 1e200


@given(
    st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)),
    st.sampled_from(["", "Z", "+01:00", "-11:30", "+17:59"]),
    st.integers(0, 6),
)
def test_times_are_what_their_text_says(time: dt.datetime, zone: str, digits: int) -> None:
    time = time.replace(microsecond=time.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
    fraction = f".{time.microsecond:06d}"[: digits + 1] if digits else ""
    text = f"{time:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + fraction + zone
    expected = dt.datetime.fromisoformat(text)
    expected = expected.replace(tzinfo=dt.UTC) if expected.tzinfo is None else expected
    found = of_block(block_of(f'{{"t":"{text}"}}'), (("t", "timestamp"),))
    assert found.rows["t"].cast("int64").to_pylist() == [(expected - EPOCH) // dt.timedelta(microseconds=1)]


@pytest.mark.parametrize(
    "odd",
    ["2021-02-29T12:00:00", "2021-13-01T12:00:00", "0000-01-01T00:00:00", "2021-01-01T24:00:00", "2021-01-01T12:60:00",
     "2021-01-01T12:00:60", "2021-01-01T12:00:00.", "2021-01-01T12:00:00.1234567", "2021-01-01T12:00:00+18:30",
     "2021-01-01T12:00:00z", "2021-01-01", "2021-01-01T12:00", "20x1-01-01T12:00:00", "2021-1-01T12:00:00", "now", ""],
)  # fmt: skip
def test_a_time_in_another_spelling_is_left_over(odd: str) -> None:
    assert read(f'{{"t":"{odd}"}}', columns=(("t", "timestamp"),)) is None


@pytest.mark.parametrize("text", ["0999-01-01", "2021-02-29", "2021-2-01", "2021-02-01 ", "2021-02-01T00:00:00", ""])
def test_only_dates_are_dates(text: str) -> None:
    columns = (("d", "date"),)
    assert read('{"d":"2024-02-29"}', '{"d":null}', columns=columns) == [{"d": dt.date(2024, 2, 29)}, {"d": None}]
    assert read(f'{{"d":"{text}"}}', columns=columns) is None


@given(st.lists(ROWS, min_size=1, max_size=12), st.booleans(), st.booleans())
def test_values_of_all_kinds(rows: list[dict[str, Any]], spaced: bool, ascii_only: bool) -> None:
    separators = None if spaced else (",", ":")
    lines = [json.dumps(row, ensure_ascii=ascii_only, separators=separators) for row in rows]
    block = block_of(*lines)
    found = of_block(block, MANY)
    assert len(found.left) == 0
    assert found.rows.to_pylist() == [declared(row) for row in rows]
    found = of_block(block, MANY, "n")
    assert found.rows.to_pylist() == [{"n": row["n"]} for row in rows]
    assert read_again(block, MANY, found.places[::2]).to_pylist() == [declared(row) for row in rows[::2]]


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
    found = of_block(block_of(*lines), MANY)
    begins = np.cumsum([0, *(len(line.encode()) + 1 for line in lines[:-1])]).tolist()
    at = dict(zip(begins, lines, strict=True))
    parser = JsonLines(MANY)
    for begin, row in zip(found.places.tolist(), found.rows.to_pylist(), strict=True):
        parsed = parser._parsed(at[begin].encode(), 1)
        assert parsed is not None, at[begin]
        assert parsed.to_pylist() == [row]


@pytest.mark.parametrize("size", [1, 60, 440])
def test_a_last_line_that_is_cut_anywhere_is_left_to_the_parser(size: int) -> None:
    names = tuple(letter * size for letter in "ab")
    columns = ((names[0], "string"), (names[1], "array<bigint>"), ("c", "double"), ("d", "string"))
    line = json.dumps({names[0]: "x" * 20, names[1]: [1, 22], "c": 1.5, "d": "y"})
    for cut in range(0, len(line), 1 + size // 60):
        for end in ("", '"', "garbage"):
            found = of_block(block_of(line, line, f"{line[:cut]}{end}"), columns)
            assert found.places.tolist() == [0, len(line) + 1]
            assert len(found.left) == 1


def test_times_are_judged_even_if_nobody_wants_them() -> None:
    columns = (("at", "timestamp"), ("n", "bigint"))
    good, bad = '{"at":"2020-02-29T12:00:00.5Z","n":1}', '{"at":"2021-02-29T12:00:00.5Z","n":1}'
    for lines, sure in (((good, good), True), ((good, bad), False)):
        assert (len(of_block(block_of(*lines), columns, "n").left) == 0) is sure


def test_a_file_with_a_line_for_spark_is_read_in_order(tmp_path: Path) -> None:
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
