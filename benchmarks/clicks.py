"""Rows as people have them: clicks with ISO times, text ids, floats and a flag, flat or with a struct and an array.

About 200 bytes of JSON each. The query reads three of the columns: k, v and ts. Values are fractions that doubles hold
exactly, so that sums do not depend on the order of rows.
"""

from __future__ import annotations

_FLAT = {
    "id": "STRING",
    "ts": "TIMESTAMP",
    "k": "STRING",
    "visitor": "STRING",
    "country": "STRING",
    "v": "DOUBLE",
    "latitude": "DOUBLE",
    "session": "BIGINT",
    "mobile": "BOOLEAN",
}
_NESTED = {
    "id": "STRING",
    "ts": "TIMESTAMP",
    "k": "STRING",
    "visitor": "STRUCT<name: STRING, country: STRING, visits: BIGINT>",
    "v": "DOUBLE",
    "latitude": "DOUBLE",
    "tags": "ARRAY<STRING>",
    "mobile": "BOOLEAN",
}


def click_columns(nested: bool) -> dict[str, str]:
    """Names and types as Spark writes them."""
    return _NESTED if nested else _FLAT


def click_types(nested: bool) -> dict[str, str]:
    """Names and types as DuckDB writes them."""
    words = {
        "STRUCT<name: STRING, country: STRING, visits: BIGINT>": "STRUCT(name VARCHAR, country VARCHAR, visits BIGINT)"
    }
    return {
        name: words.get(type, type).replace("ARRAY<STRING>", "VARCHAR[]")
        for name, type in click_columns(nested).items()
    }


def click_values(key: str, event_ms: str, nested: bool) -> dict[str, str]:
    """SQL of each column over the number `n` of the row."""
    country = "['DE', 'FR', 'US', 'IN', 'BR', 'JP', 'NG', 'ZA'][1 + (hash(n, 5) % 8)::INT]"
    name = "printf('visitor-%d', hash(n, 6) % 3000000)"
    values = {
        "id": "left(md5(n::VARCHAR), 20)",
        "ts": f"strftime(make_timestamp_ms({event_ms}), '%Y-%m-%dT%H:%M:%S.%gZ')",
        "k": f"printf('/shop/products/%d', {key})",
        "visitor": name,
        "country": country,
        "v": "(hash(n, 3) % 4000)::BIGINT / 4",
        "latitude": "((hash(n, 7) % 180000000)::BIGINT - 90000000) / 1000000",
        "session": "(hash(n, 8) % 100000000)::BIGINT",
        "mobile": "hash(n, 9) % 3 = 0",
        "tags": "list_slice(['new', 'sale', 'summer', 'mail'], 1 + (hash(n, 10) % 3)::INT, 1 + (hash(n, 11) % 4)::INT)",
    }
    if nested:
        values["visitor"] = f"{{'name': {name}, 'country': {country}, 'visits': (hash(n, 8) % 1000)::BIGINT}}"
    return values
