"""SQL that is too large or too deep: a short error in a moment, whatever it is."""

from __future__ import annotations

import pytest

from eventide.errors import EventideError, SqlError
from eventide.sql.parser import parse_statements
from tests.sql.support import catalog

SHORT = 1_500  # characters
TOO_LARGE = {
    "a name of a million letters": f"CREATE STREAM o AS SELECT {'a' * 999_900} FROM s",
    "a text of over a million letters": f"CREATE STREAM o AS SELECT '{'a' * 1_000_000}' AS x FROM s",
    "a thousand calls in each other": f"CREATE STREAM o AS SELECT {'abs(' * 1000}v{')' * 1000} FROM s",
    "300 pairs of parentheses": f"CREATE STREAM o AS SELECT {'(' * 300}v{')' * 300} FROM s",
    "200 subqueries": f"CREATE STREAM o AS SELECT * FROM {'(SELECT * FROM ' * 200}s{')' * 200}",
    "200 CASEs": f"CREATE STREAM o AS SELECT {'CASE WHEN v > 1 THEN ' * 200}1{' END' * 200} AS x FROM s",
    "500 NOTs": f"CREATE STREAM o AS SELECT k FROM s WHERE {'NOT ' * 500}true",
    "500 minus signs": f"CREATE STREAM o AS SELECT {'- ' * 500}v FROM s",
    "a sum of 3000": f"CREATE STREAM o AS SELECT {' + '.join(['v'] * 3000)} FROM s",
    "500 elements": f"CREATE STREAM o AS SELECT arr{'[0]' * 500} FROM s",
    "500 fields": f"CREATE STREAM o AS SELECT st{'.a' * 500} FROM s",
    "2000 arrays in each other": f"CREATE SOURCE x (a {'ARRAY<' * 2000}INT{'>' * 2000})",
    "5000 columns": f"CREATE SOURCE x ({', '.join(f'c{number} INT' for number in range(5000))})",
    "100,000 open parentheses": f"CREATE STREAM o AS SELECT {'(' * 100_000}",
    "10,000 comments": "/* " * 10_000,
    "a count of 5000 digits": f"CREATE STREAM o WITH ('shards' = '{'9' * 5000}') AS SELECT k FROM s",
    "a rate of 5000 digits": f"CREATE STREAM o WITH ('side_output.late.rate_limit' = '{'9' * 5000}/s') AS SELECT",
    "a number of 5000 digits": f"CREATE STREAM o AS SELECT k FROM s GROUP BY {'9' * 5000}",
    "an interval of 5000 digits": f"CREATE STREAM o AS SELECT count(*) FROM s GROUP BY TUMBLE(ts, '{'9' * 5000}s')",
    "an option of 100,000 letters": f"CREATE STREAM o WITH ('late.policy' = '{'a' * 100_000}') AS SELECT k FROM s",
}


def take(sql: str) -> None:
    made = catalog()
    for statement in parse_statements(sql):
        made.apply(statement)


@pytest.mark.parametrize("name", TOO_LARGE)
def test_too_much_is_a_short_error(name: str) -> None:
    with pytest.raises(EventideError) as raised:
        take(TOO_LARGE[name])
    assert len(str(raised.value)) < SHORT
    assert raised.value.help


def test_half_a_character_is_shown_at_its_place() -> None:
    with pytest.raises(SqlError, match=r"U\+D800 is half of a character") as raised:
        take("CREATE STREAM o AS SELECT '\ud800' AS x FROM s")
    assert raised.value.start == 27
    str(raised.value).encode()


@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE STREAM o AS SELECT {'abs(' * 32}v{')' * 32} AS x FROM s",
        f"CREATE STREAM o AS SELECT k FROM s WHERE {' AND '.join(['v > 1'] * 3000)}",
        f"CREATE STREAM o AS SELECT k FROM s WHERE v IN ({', '.join(map(str, range(10_000)))})",
        f"CREATE STREAM o AS SELECT {' + '.join(['v'] * 150)} AS x FROM s",
        f"CREATE STREAM {'a' * 128} AS SELECT k FROM s",
        "CREATE STREAM o AS SELECT 1e308 AS x, 1e-999 AS y, 12345678901234567890123456789012345678 AS z FROM s",
    ],
)
def test_what_is_within_the_limits_is_taken(sql: str) -> None:
    take(sql)


def test_the_place_in_a_long_line_is_shown_with_what_is_around_it() -> None:
    with pytest.raises(SqlError) as raised:
        take(f"CREATE STREAM o AS SELECT {', '.join(f'v AS c{number}' for number in range(100))}, nope AS n, k FROM s")
    line, carets = str(raised.value).splitlines()[1:3]
    assert line.startswith("  1 | …")
    assert line.endswith("v AS c99, nope AS n, k FROM s")
    assert line[carets.index("^") : carets.rindex("^") + 1] == "nope"
