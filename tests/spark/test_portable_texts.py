"""Functions of texts and times that tasks evaluate by themselves give what Spark gives, on texts that are hard to get
right.
"""

from __future__ import annotations

import random
import sys
import unicodedata
from typing import Any

import pyarrow as pa
import pytest

from eventide.spark.session import frame_of, streaming_session
from eventide.tasks.expressions import evaluate
from eventide.tasks.portable import portable, source_names

TEXTS = [
    None, "", " ", "a", "A", "ab", "aab", "abab", "é", "É", "ß", "İ", "ΑΣ", "Σ", "ǅ", "ﬁ", "😀", "a😀b", "\u0301a",
    "a\nb", "a\r\nb",
    "a\u0085b", "a\u2028b", "\n", "a\n", "b\r", " a\tb\u000b ", "\u00a0a", "a.b", "a%b", "a_b", "a\\b", "a\\%b",
    "[a]", "a-b",
    "x&channel_id=12&y", "channel_id=", "&channel_id=7", "/a/b//c", "k=v;k=w", "2026-11-18", "12", "١٢", "a\x00b",
    "$1", "^a",
    "a" * 3000 + "c", "cC" * 50, "\uffff", "\U0010ffff",
]  # fmt: skip
PATTERNS = [
    "a", "a+", "a*b", "a+?b", "(a)(b)?", "(&|^)channel_id=([^&]*)", "^a", "a|ab", "(ab|a)(c|b)", "[a-c]+", "[^a]",
    "[^a-c]b",
    r"\\d+", r"\\D", r"\\w+", r"\\W", r"\\s", r"\\S+", r"a\\sb", r"(\\d{4})-(\\d{2})", "a.b", ".", "(.)(.)", "a.*b",
    r"a\\.b",
    r"\\[a\\]", "[-a]+", "[a-]", "[.]", "[$]", r"[\\d_]+", "(?:ab)+", "(a(b)?)?c", "a{2}", "a{0,1}b", "a{2,}c",
    "k=(v|w)", "([^/]*)/b",
    "(a|b)(?:c|d)?", "a??b", r"\\$1", "^(a+)", "=([^;]*);",
]  # fmt: skip
LIKES = [
    "", "%", "a", "a%", "%b", "%a%", "_", "a_b", "%_", "_%b", "a%b", "%a%b%", "a\\\\%b", "a\\\\_b", "a\\\\\\\\b", ".",
    "a.b", "%é", "__", "(%",
    "a%%", "%%",
]  # fmt: skip
FIELDS = ["year", "quarter", "month", "day", "dayofmonth", "dayofyear", "dayofweek", "hour", "minute", "second"]
DAY = 86_400_000_000
NEWER = "\u019b\u0264\ua7d3\ua7d5"  # small letters whose capitals came with Unicode 16, of which Python may not know


def _answers(spark: Any, table: pa.Table, types: dict[str, str], every: list[str]) -> None:
    frame = frame_of(streaming_session(spark, 2), table)
    wanted = frame.selectExpr(*[f"{sql} AS c{number}" for number, sql in enumerate(every)])
    answers = wanted.toArrow()
    for number, sql in enumerate(every):
        expression = portable(sql, source_names(types))
        assert wanted.schema[number].dataType.simpleString() == expression.type, sql
        found, right = evaluate(expression, table).to_pylist(), answers[f"c{number}"].to_pylist()
        wrong = [each for each in zip(*table.to_pydict().values(), found, right, strict=True) if each[-2] != each[-1]]
        assert not wrong, (sql, wrong[:3])


def test_functions_of_texts_give_what_spark_gives(keep_spark: Any) -> None:
    every = [
        "lower(s)", "upper(s)", "lower('Ab')", "length(s)", "char_length(s) - char_length(replace(s, 'c', ''))",
        "trim(s)",
        "ltrim(s)", "rtrim(s)", "replace(s, 'a', 'é')", "replace(s, 'ab')", "replace(s, 'aa', 'a')",
        "replace(s, '\\\\', '/')",
        "substring(s, 2)", "substr(s, 1, 2)", "split_part(s, 'b', 2)", "concat(s, upper(s))", "s || 'x'",
        "CASE lower(s) WHEN 'a' THEN '0' WHEN 'ab' THEN '1' ELSE s END", "lower(s) IN ('a', 'ss', 'é')",
        *(f"s LIKE '{pattern}'" for pattern in LIKES), "s NOT LIKE 'a%'", "s LIKE r'a\\%b'",
    ]  # fmt: skip
    _answers(keep_spark, pa.table({"s": pa.array(TEXTS)}), {"s": "string"}, every)


def test_patterns_find_what_spark_finds(keep_spark: Any) -> None:
    chance = random.Random(3)
    mixed = ["".join(chance.choices("aabbc \n.&=/;é😀1-_", k=chance.randint(0, 12))) for _ in range(300)]
    every = []
    for pattern in PATTERNS:
        groups = pattern.count("(") - pattern.count("(?:")
        every += [f"s RLIKE '{pattern}'"]
        every += [f"regexp_extract(s, '{pattern}', {group})" for group in range(groups + 1)]
    every += ["regexp_like(s, 'b')", r"s RLIKE r'\d'", "regexp_extract(s, '(b)')", "s NOT RLIKE 'a'"]
    every += [
        f"regexp_replace(s, '{pattern}', 'é')" for pattern in ("a+", "a|ab", "[^a]", r"\\s", ".", "(a)(b)?", "^a")
    ]
    _answers(keep_spark, pa.table({"s": pa.array([*TEXTS, *mixed])}), {"s": "string"}, every)


def test_the_case_of_every_letter_is_changed_as_spark_changes_it(keep_spark: Any) -> None:
    known = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    known = [letter for letter in known if unicodedata.category(letter) != "Cn" and letter not in NEWER]
    beside = [letter for letter in known[:5000] if letter != "ʕ"]  # which was a small letter in older Unicode
    texts = [*known, *(f"{letter}Σ" for letter in beside), *(f"Σ{letter}" for letter in beside)]
    _answers(keep_spark, pa.table({"s": pa.array(texts)}), {"s": "string"}, ["lower(s)", "upper(s)"])


def test_fields_of_times_are_those_of_spark_in_every_era(keep_spark: Any) -> None:
    chance = random.Random(4)
    far = [chance.randrange(-(1 << 62), 1 << 62) for _ in range(500)]
    near = [chance.randrange(-800_000 * DAY, 3_000_000 * DAY) for _ in range(2000)]
    edges = [day * DAY + more for day in (-719_529, -719_528, -1, 0, 11_016, 59, 60) for more in (-1, 0, 1, DAY - 1)]
    times = pa.array([None, *far, *near, *edges], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    every = [*(f"{field}(p)" for field in FIELDS), *(f"extract({field} FROM p)" for field in ("YEAR", "DAY", "HOUR"))]
    frame = frame_of(streaming_session(keep_spark, 2), pa.table({"p": times}))
    answers = frame.selectExpr(*[f"{sql} AS c{number}" for number, sql in enumerate(every)]).toArrow()
    for number, sql in enumerate(every):
        found = evaluate(portable(sql, source_names({"p": "timestamp"})), pa.table({"p": times}))
        assert found.equals(answers[f"c{number}"].combine_chunks()), sql


@pytest.mark.parametrize("sql", ["lower(NULL)", "replace(NULL, 'a', 'b')", "s LIKE NULL"])
def test_what_has_no_value_is_left_to_spark(sql: str) -> None:
    from eventide.tasks.portable import NotPortableError

    with pytest.raises(NotPortableError):
        portable(sql, source_names({"s": "string"}))
