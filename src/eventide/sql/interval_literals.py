"""Durations in SQL: INTERVAL '10' SECOND, INTERVAL 10 SECONDS, '10 seconds', INTERVAL '1:30' MINUTE TO SECOND."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from sqlglot.tokenizer_core import Token, TokenType

from eventide.errors import OptionError, SqlError
from eventide.eventtime.durations import parse_duration, unit_micros
from eventide.sql.tokens import Span, word

HELP = "write an interval such as INTERVAL '10' SECOND"
_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d+)?\s*")
_UNIT_TOKENS = (TokenType.DATE, TokenType.TIME, TokenType.YEAR)  # units that sqlglot knows as something else
_LONGEST = 60  # characters of an interval of several units
_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")


def interval_of(span: Span, signed: bool = False) -> int:
    """The microseconds of a span that is an interval and nothing else; below zero only if it is `signed`."""
    micros, length = read_interval(span, lambda: span.error("this is not an interval", HELP), signed)
    if length != len(span.tokens):
        raise span.error("this is not an interval of a fixed length", HELP)
    return micros


def read_interval(span: Span | None, missing: Callable[[], SqlError], signed: bool = False) -> tuple[int, int]:
    """Microseconds and number of tokens of the interval at the start of `span`; `missing` makes the error if none is
    there.
    """
    if span is None:
        raise missing()
    tokens = span.tokens
    if signed and tokens[0].token_type == TokenType.DASH and len(tokens) > 1:
        micros, length = read_interval(span.part(1, len(tokens)), missing, signed)
        return -micros, length + 1
    first = 1 if word(tokens[0]) == "INTERVAL" else 0
    sign = 0
    if first < len(tokens) and tokens[first].token_type == TokenType.DASH:
        sign = 1
    if first + sign >= len(tokens) or tokens[first + sign].token_type not in (TokenType.STRING, TokenType.NUMBER):
        raise missing()
    if sign and not signed:
        raise span.part(0, first + 2).error("an interval here cannot be negative", HELP)
    length = _interval_length(tokens, first + sign)
    interval = span.part(0, length)
    try:
        return _value(tokens[first + sign : length], signed) * (-1 if sign else 1), length
    except OptionError as error:
        raise interval.error(error.message, HELP if error.help is None else error.help) from None


def _interval_length(tokens: tuple[Token, ...], first: int) -> int:
    """How many tokens the interval has: a quantity with its unit, `TO` a finer unit, or several quantities."""
    index = first
    if tokens[index].token_type == TokenType.STRING:
        text = tokens[index].text
        if not _NUMBER.fullmatch(text) and not _spans_units(tokens, index):
            return index + 1
        return _after_unit(tokens, index + 1)
    while index < len(tokens) and tokens[index].token_type == TokenType.NUMBER:
        index = _after_unit(tokens, index + 1)
    return index


def _spans_units(tokens: tuple[Token, ...], index: int) -> bool:
    return len(tokens) > index + 3 and word(tokens[index + 2]) == "TO"


def _after_unit(tokens: tuple[Token, ...], index: int) -> int:
    if index < len(tokens) and _is_unit(tokens[index]):
        index += 1
        if index + 1 < len(tokens) and word(tokens[index]) == "TO" and _is_unit(tokens[index + 1]):
            index += 2
    return index


def _is_unit(token: Token) -> bool:
    """Whether a token is a unit, or a word in its place, which the error should name."""
    return word(token).isalpha() and token.token_type in (TokenType.VAR, *_UNIT_TOKENS)


def _value(tokens: tuple[Token, ...], signed: bool) -> int:
    if len(tokens) == 4 and word(tokens[2]) == "TO":
        return _compound(tokens[0].text, word(tokens[1]), word(tokens[3]))
    return parse_duration(" ".join(token.text for token in tokens), signed)


def _compound(text: str, coarse: str, fine: str) -> int:
    """'1 02:03:04.5' DAY TO SECOND and its shorter forms."""
    singular = [unit.removesuffix("S") for unit in (coarse, fine)]
    for unit in singular:
        unit_micros(unit)  # or an error for months and years
    if any(unit not in _FIELDS for unit in singular) or _FIELDS.index(singular[0]) >= _FIELDS.index(singular[1]):
        raise OptionError(f"{coarse} TO {fine} is not a range of units")
    units = _FIELDS[_FIELDS.index(singular[0]) : _FIELDS.index(singular[1]) + 1]
    numbers = re.split(r"[ :]+", text.strip())
    if len(numbers) != len(units) or not all(re.fullmatch(r"\d+(\.\d+)?", number) for number in numbers):
        raise OptionError(f"'{text}' does not give {coarse} TO {fine}")
    if len(text) > _LONGEST:
        raise OptionError(f"'{text}' does not give {coarse} TO {fine}")
    total = sum(
        (Fraction(number) * unit_micros(unit) for number, unit in zip(numbers, units, strict=True)), Fraction(0)
    )
    return parse_duration(f"{int(total)} microseconds") if total.denominator == 1 else _too_fine(text)


def _too_fine(text: str) -> int:
    raise OptionError(f"'{text}' is finer than a microsecond")
