"""Random SQL: statements from a grammar, statements of other tests, and both with random damage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import yaml

TESTS = Path(__file__).parent.parent

Rule = str | Callable[[Random], str]
_PART = re.compile(r"<(\w+)>")
_TOKEN = re.compile(r"'(?:[^']|'')*'|`[^`]*`|\w+|\s+|[^\w\s]")

GRAMMAR: dict[str, Sequence[str]] = {
    "statement": (
        "CREATE STREAM <name> <with>AS <query> <tail>",
        "CREATE STREAM <name> <with>AS <query> <tail>",
        "CREATE OR REPLACE STREAM <name> AS <query>",
        "CREATE SOURCE <name> (<columns>) <with>",
        "CREATE VIEW <name> AS <query>",
        "CREATE SINK <name> WITH (<option>, <option>)",
        "DROP STREAM <name>",
        "DROP SOURCE IF EXISTS <name>",
        "SHOW STREAMS",
        "DESCRIBE <name>",
        "EXPLAIN <query>",
        "<query>",
    ),
    "with": ("", "", "WITH (<option>) ", "WITH (<option>, <option>) "),
    "option": ("<text> = <text>", "'shards' = '<number>'", "'watermark_lag' = '<number>s'", "'late.policy' = 'reassign'"),
    "query": (
        "SELECT <items> FROM <from>",
        "SELECT <items> FROM <from> WHERE <boolean>",
        "SELECT <aggregates> FROM <from> GROUP BY <window>",
        "SELECT <value>, <aggregates> FROM <from> WHERE <boolean> GROUP BY <value>, <window> HAVING <boolean>",
        "SELECT k, <aggregates> FROM s GROUP BY k, <window>",
        "SELECT k, count(*) AS n FROM s GROUP BY k EMIT ON UPDATE",
        "SELECT <items> FROM <from> UNION ALL SELECT <items> FROM <from>",
        "WITH q AS (<query>) SELECT <items> FROM q",
        "SELECT * FROM <from> ORDER BY ts",
        "SELECT *, ROW_NUMBER() OVER (PARTITION BY <value> ORDER BY <value> DESC) AS rn FROM <from>",
    ),
    "tail": ("", "", "", "EMIT ON UPDATE", "EMIT ON WINDOW CLOSE", "EMIT EVERY <interval>", "ALLOW LATENESS <interval>",
             "LATE DATA TO <name>", "EMIT CHANGES", "EMIT FINAL"),
    "from": ("s", "s", "n", "w", "<name>", "s AS <name>", "(<query>)", "(<query>) AS q", "<join>", "s LATERAL VIEW explode(arr) AS x"),
    "join": (
        "s JOIN n ON s.k = n.k AND <boolean>",
        "s <kind> JOIN w WITHIN <interval> ON s.k = w.k",
        "s <kind> JOIN n WITHIN <window> ON s.k = n.k",
        "s ASOF JOIN n MATCH_CONDITION (s.ts >= n.t) ON s.k = n.k",
        "s <kind> JOIN w ON s.k = w.k AND w.ts BETWEEN s.ts - <interval> AND s.ts + <interval>",
    ),
    "kind": ("", "LEFT", "RIGHT", "FULL OUTER", "LEFT SEMI", "LEFT ANTI", "CROSS", "NATURAL"),
    "window": ("TUMBLE(ts, <interval>)", "HOP(ts, <interval>, <interval>)", "SESSION(ts, <interval>)",
               "tumblingwindow('ss', <number>)", "CUMULATE(ts, <interval>, <interval>)", "slidingwindow('ss', <number>)",
               "TUMBLE(<value>, <interval>, <interval>)"),
    "interval": ("INTERVAL '<number>' <unit>", "INTERVAL <number> <unit>", "INTERVAL '<number>:<number>' MINUTE TO SECOND", "<text>"),
    "unit": ("SECOND", "SECONDS", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "MILLISECOND", "FORTNIGHT"),
    "items": ("*", "<value>", "<value> AS <name>", "<value>, <items>", "s.*", "* EXCEPT (k)"),
    "aggregates": ("<aggregate>", "<aggregate> AS <name>", "<aggregate> + <aggregate>, window_start", "<aggregates>, <aggregate>"),
    "aggregate": ("count(*)", "sum(<value>)", "avg(<value>)", "count(DISTINCT <value>)", "min(<value>)", "median(<value>)",
                  "percentile(<value>, 0.<number>)", "sum(<value>) FILTER (WHERE <boolean>)", "first(<value>)", "mode(<value>)",
                  "max_by(<value>, <value>)", "sum(sum(<value>))"),
    "value": ("k", "v", "ts", "user", "st.a", "st.b[0].x", "m['a']", "arr[<number>]", "`odd name`", "value", "st:a.b", "<name>",
              "<number>", "<text>", "NULL", "<value> + <value>", "-(<value>)", "CAST(<value> AS <type>)", "<value>::<type>",
              "CASE WHEN <boolean> THEN <value> ELSE <value> END", "<function>(<value>)", "<function>(<value>, <value>)",
              "coalesce(<value>, <value>)", "transform(arr, x -> x + <value>)", "window_start", "date '2026-01-01'",
              "<value> || <value>", "(SELECT 1)", "interval '1' day"),
    "function": ("upper", "abs", "length", "date_format", "from_json", "sha2", "nosuch", "reflect", "explode", "rand", "concat",
                 "substring", "to_timestamp", "if", "nullif", "named_struct", "array", "map", "hash"),
    "boolean": ("<value> = <value>", "<value> > <value>", "<value> IS NOT NULL", "<boolean> AND <boolean>", "NOT (<boolean>)",
                "<value> IN (<value>, <value>)", "<value> LIKE <text>", "<value> <=> <value>", "<value> BETWEEN <value> AND <value>",
                "EXISTS (<query>)", "<value> IN (<query>)", "true"),
    "columns": ("<column>", "<column>, <columns>", "<columns>, EVENT TIME ts TYPE iso8601",
                "<columns>, WATERMARK FOR ts AS ts - <interval>", "<columns>, DEDUPLICATE BY <name> WITHIN <interval>"),
    "column": ("k STRING", "ts <type>", "<name> <type>", "v BIGINT NOT NULL"),
    "type": ("STRING", "BIGINT", "INT", "DOUBLE", "DECIMAL(<number>, 2)", "TIMESTAMP", "DATE", "ARRAY<INT>", "STRUCT<a: INT>",
             "MAP<STRING, INT>", "CHAR(3)", "VARIANT", "BINARY", "BOOLEAN", "<name>"),
    "name": ("k", "o", "p", "s", "n", "w", "window", "`a b`", "`a``b`", "select", "é", "x1", "_", "order", "rowtime", "o.late", "`'`"),
    "number": ("0", "1", "2", "5", "10", "60", "1000", "-1", "1.5", "1e3", "9223372036854775808", "0x1F", "1e999", "00", "99999999"),
    "text": ("'a'", "''", "'it''s'", "'10 seconds'", "'%'", "'\\\\'", "'\u2028'", "'{\"a\": 1}'", "'yyyy-MM-dd'", "'\U0001f600'", '"q"'),
}  # fmt: skip

HOSTILE = (
    "'", '"', "`", "--", "/*", "*/", ";", "\\", "\x00", "\u200b", "\ud800", "(", ")" * 40, "(" * 40, "[", "{", "<", ">", ",", ".",
    "::", "->", ":", "?", "$1", "${x}", "@", "#", "%", "\n", "\t", "NULL", "SELECT", "FROM", "WHERE", "AS", "ON", "JOIN", "OVER",
    "MATCH_RECOGNIZE", "PIVOT", "LIMIT 1", "INTERVAL", "9" * 50, "a" * 300, "é", "\U0001f600", "TUMBLE", "EMIT", "NOT " * 60, "1e999",
)  # fmt: skip

DEEPEST = 6  # parts within each other, after which the first, plainest form of each is taken


def sentence(random: Random, part: str = "statement", depth: int = 0) -> str:
    """A random text of a part of the grammar."""
    forms = GRAMMAR[part]
    form = random.choice(forms) if depth < DEEPEST else forms[0]
    return _PART.sub(lambda found: _filled(random, found[1], depth), form)


def _filled(random: Random, part: str, depth: int) -> str:
    return sentence(random, part, depth + 1) if part in GRAMMAR else f"<{part}>"


def damaged(random: Random, text: str, other: str) -> str:
    """A text with one to three tokens lost, doubled, swapped, replaced or taken from another text."""
    tokens, others = _TOKEN.findall(text), _TOKEN.findall(other)
    for _ in range(random.randint(1, 3)):
        if not tokens:
            break
        place = random.randrange(len(tokens))
        match random.randrange(6):
            case 0:
                del tokens[place]
            case 1:
                tokens.insert(place, tokens[place])
            case 2:
                tokens.insert(place, random.choice(HOSTILE))
            case 3:
                tokens[place] = random.choice(others or [""])
            case 4:
                elsewhere = random.randrange(len(tokens))
                tokens[place], tokens[elsewhere] = tokens[elsewhere], tokens[place]
            case _:
                begin = random.randrange(len(others) + 1)
                tokens[place:place] = others[begin : begin + random.randint(1, 8)]
    return "".join(tokens)


def known_texts() -> list[str]:
    """The SQL of all other tests that keep theirs in data files."""
    files = sorted([*TESTS.glob("sql/*.yaml"), *TESTS.glob("transcripts/*.yaml")])
    return list(dict.fromkeys(text for file in files for text in _texts(yaml.safe_load(file.read_text()))))


def _texts(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        for name, value in found.items():
            if isinstance(value, str) and name in ("sql", "query", "run", "execute"):
                yield value
            else:
                yield from _texts(value)
    elif isinstance(found, list):
        for value in found:
            yield from _texts(value)


def statements(random: Random, count: int) -> Iterator[str]:
    known = known_texts()
    for _ in range(count):
        text = sentence(random) if random.random() < 0.6 else random.choice(known)
        if random.random() < 0.5:
            text = damaged(random, text, sentence(random) if random.random() < 0.5 else random.choice(known))
        yield text
