"""Functions of texts, as Spark evaluates them, on whole Arrow columns; see `expressions`.

Patterns arrive as they are for RE2: see `patterns`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.tasks.patterns import GROUP, like


def _concat(type: pa.DataType, *values: Any) -> Any:
    return pc.binary_join_element_wise(*values, "", null_handling="emit_null")


def _substring(type: pa.DataType, text: Any, start: Any, length: Any = None) -> Any:
    first = start.as_py() - 1
    return pc.utf8_slice_codeunits(text, first, None if length is None else first + length.as_py())


def _on_arrays(function: Callable[..., pa.Array]) -> Callable[..., Any]:
    """For what Arrow does with arrays only."""

    def apply(type: pa.DataType, text: Any, *others: Any) -> Any:
        if isinstance(text, pa.Array):
            return function(text, *others)
        return function(pa.repeat(text, 1), *others)[0]

    return apply


def _split_part(texts: pa.Array, separator: Any, number: Any) -> pa.Array:
    """The part with this number, counted from 1; empty where there are not so many."""
    parts = pc.split_pattern(texts, separator.as_py())
    places = np.asarray(parts.offsets[:-1]) + number.as_py() - 1
    missing = places >= np.asarray(parts.offsets[1:])
    found = parts.values.take(pa.array(places, mask=missing))
    return pc.if_else(texts.is_valid(), pc.fill_null(found, ""), pa.scalar(None, pa.string()))


def _extracted(texts: pa.Array, pattern: Any) -> pa.Array:
    """The group of the first match; empty where there is none."""
    found = pc.struct_field(pc.extract_regex(texts, pattern.as_py()), GROUP)
    if found.null_count == texts.null_count:
        return found
    return pc.if_else(texts.is_valid(), pc.fill_null(found, ""), pa.scalar(None, pa.string()))


def _in_case(of_ascii: Callable[[Any], Any], of_any: Callable[[str], str]) -> Callable[[pa.Array], pa.Array]:
    """Letters beyond ASCII are few as a rule, and follow Unicode's rules, as in Python."""

    def apply(texts: pa.Array) -> pa.Array:
        others = pc.fill_null(pc.invert(pc.string_is_ascii(texts)), False)
        converted = of_ascii(texts)
        if not pc.any(others).as_py():
            return converted
        exact = pa.array([of_any(text) for text in texts.filter(others).to_pylist()], pa.string())
        return pc.replace_with_mask(converted, others, exact)

    return apply


def _like(type: pa.DataType, text: Any, pattern: Any) -> Any:
    asked = like(pattern.as_py())
    if asked is None:
        raise ValueError(f"{pattern} is no pattern")  # such a one is not portable
    match asked.pieces:
        case _ if asked.has_places:
            return pc.match_substring_regex(text, asked.regex)
        case (whole,):
            return pc.equal(text, whole)
        case (start, ""):
            return pc.starts_with(text, start)
        case ("", end):
            return pc.ends_with(text, end)
        case ("", inside, ""):
            return pc.match_substring(text, inside)
    return pc.match_substring_regex(text, asked.regex)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "length": lambda type, a: pc.cast(pc.utf8_length(a), type),
    "concat": _concat,
    "substring": _substring,
    "trim": lambda type, a: pc.utf8_trim(a, " "),
    "ltrim": lambda type, a: pc.utf8_ltrim(a, " "),
    "rtrim": lambda type, a: pc.utf8_rtrim(a, " "),
    "lower": _on_arrays(_in_case(pc.ascii_lower, str.lower)),
    "upper": _on_arrays(_in_case(pc.ascii_upper, str.upper)),
    "startswith": lambda type, a, b: pc.starts_with(a, b.as_py()),
    "endswith": lambda type, a, b: pc.ends_with(a, b.as_py()),
    "contains": lambda type, a, b: pc.match_substring(a, b.as_py()),
    "like": _like,
    "rlike": lambda type, a, b: pc.match_substring_regex(a, b.as_py()),
    "replace": lambda type, a, b, c: pc.replace_substring(a, b.as_py(), c.as_py()),
    "regexp_extract": _on_arrays(_extracted),
    "regexp_replace": lambda type, a, b, c: pc.replace_substring_regex(a, b.as_py(), c.as_py()),
    "split_part": _on_arrays(_split_part),
}
