"""Conditions that bound how far apart the two rows of a join are in time, in whatever order and spelling.

Everything comes down to a range of r.ts - l.ts in microseconds, both ends included. Time is whole microseconds, so a
bound that is not included is one microsecond narrower.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sqlglot.tokenizer_core import Token, TokenType

from eventide.sql.conjuncts import Comparison, between, comparison, unwrapped
from eventide.sql.cursor import is_name
from eventide.sql.interval_literals import HELP, read_interval
from eventide.sql.join_scope import Moment
from eventide.sql.scope import Reference, references, single_reference
from eventide.sql.tokens import Span, calls, closing, word

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class Range:
    """lower <= r.ts - l.ts <= upper; None: no bound on that side."""

    lower: int | None = None
    upper: int | None = None

    def meet(self, other: Range) -> Range:
        lower = [bound for bound in (self.lower, other.lower) if bound is not None]
        upper = [bound for bound in (self.upper, other.upper) if bound is not None]
        return Range(max(lower, default=None), min(upper, default=None))


@dataclass(frozen=True)
class _Sum:
    """left * l.ts + right * r.ts + micros + number * the unit in which event times are counted."""

    left: int = 0
    right: int = 0
    micros: int = 0
    number: int = 0

    def plus(self, other: _Sum, sign: int = 1) -> _Sum:
        return _Sum(
            self.left + sign * other.left,
            self.right + sign * other.right,
            self.micros + sign * other.micros,
            self.number + sign * other.number,
        )


@dataclass(frozen=True)
class TimeBounds:
    """Reads bounds. `moment_of` says how far a reference is from the event time of which side; None for others.

    `unit` is the length in microseconds of one step of both event times, where they are numbers of the same unit.
    """

    moment_of: Callable[[Reference], Moment | None]
    unit: Fraction | None

    def range_of(self, condition: Span) -> Range | None:
        """The bound that a condition is; None if it is something else."""
        span = unwrapped(condition)
        moments = [self.moment_of(reference) for reference in references(span)]
        if {None if moment is None else moment.side for moment in moments} != {0, 1}:
            return None
        found = between(span)
        if found is not None:
            low = self._compared(Comparison(">=", found.value, found.low))
            high = self._compared(Comparison("<=", found.value, found.high))
            return low.meet(high) if low is not None and high is not None else None
        compared = comparison(span)
        if compared is None or compared.operator not in _MIRRORED:
            return None
        if compared.operator == "=" and any(moment is not None and moment.micros for moment in moments):
            return None  # equal bounds of windows are a key, which also says who meets whom
        return self._compared(compared)

    def _compared(self, compared: Comparison) -> Range | None:
        for span, other, operator in (
            (compared.left, compared.right, compared.operator),
            (compared.right, compared.left, _MIRRORED[compared.operator]),
        ):
            distance = _absolute(span)
            if distance is not None:
                return self._distance(distance, operator, other)
        left, right = self._sum(compared.left), self._sum(compared.right)
        if left is None or right is None:
            return None
        return self._solved(left.plus(right, -1), compared.operator)

    def _distance(self, inner: Span, operator: str, limit: Span) -> Range | None:
        """abs(inner) <= limit, which bounds from both sides."""
        difference, most = self._sum(inner), self._sum(limit)
        if difference is None or most is None or operator not in ("<", "<=", "="):
            return None
        if operator == "=" and most != _Sum():
            return None  # two moments, no range
        above = self._solved(difference.plus(most, -1), operator)
        below = self._solved(difference.plus(most), _MIRRORED[operator])
        return above.meet(below) if above is not None and below is not None else None

    def _solved(self, total: _Sum, operator: str) -> Range | None:
        """`total operator 0` for r.ts - l.ts."""
        if (total.left, total.right) == (1, -1):
            total, operator = _Sum().plus(total, -1), _MIRRORED[operator]
        if (total.left, total.right) != (-1, 1):
            return None
        offset = Fraction(total.micros)
        if total.number:
            if self.unit is None:
                return None
            offset += total.number * self.unit
        if offset.denominator != 1:
            return None
        bound = -int(offset)
        match operator:
            case "<=":
                return Range(upper=bound)
            case "<":
                return Range(upper=bound - 1)
            case ">=":
                return Range(lower=bound)
            case ">":
                return Range(lower=bound + 1)
        return Range(bound, bound)

    def _sum(self, span: Span) -> _Sum | None:
        """Event times, intervals and whole numbers that are added and subtracted; None for everything else."""
        total, index, tokens = _Sum(), 0, span.tokens
        while True:
            sign = 1
            while index < len(tokens) and tokens[index].token_type in (TokenType.DASH, TokenType.PLUS):
                sign = -sign if tokens[index].token_type == TokenType.DASH else sign
                index += 1
            read = self._term(span, index) if index < len(tokens) else None
            if read is None:
                return None
            term, index = read
            total = total.plus(term, sign)
            if index == len(tokens):
                return total
            if tokens[index].token_type not in (TokenType.DASH, TokenType.PLUS):
                return None

    def _term(self, span: Span, index: int) -> tuple[_Sum, int] | None:
        """The term at `index`, and where the next one begins."""
        tokens, token = span.tokens, span.tokens[index]
        if token.token_type == TokenType.L_PAREN:
            close = closing(span, index)
            inner = self._sum(span.part(index + 1, close)) if close > index + 1 else None
            return None if inner is None else (inner, close + 1)
        if word(token) == "INTERVAL":
            micros, length = _signed_interval(span.part(index, len(tokens)))
            return _Sum(micros=micros), index + length
        if token.token_type == TokenType.NUMBER:
            return (_Sum(number=int(token.text)), index + 1) if token.text.isdecimal() else None
        if not is_name(token, span.sql):
            return None
        end = index + 1
        while end + 1 < len(tokens) and tokens[end].token_type == TokenType.DOT:
            end += 2
        reference = single_reference(span.part(index, end))
        moment = self.moment_of(reference) if reference is not None else None
        if moment is None:
            return None
        return _Sum(left=1 - moment.side, right=moment.side, micros=moment.micros), end


def _absolute(span: Span) -> Span | None:
    """What stands in abs(...), if a span is such a call."""
    inner = unwrapped(span)
    call = next((call for call in calls(inner) if call.index == 0 and call.after == len(inner.tokens)), None)
    return call.arguments if call is not None and call.name == "abs" else None


def _signed_interval(span: Span) -> tuple[int, int]:
    """Microseconds and number of tokens of an interval, also of INTERVAL '-5' MINUTE and INTERVAL -5 MINUTES."""
    interval, *tokens = span.tokens
    sign, more = 1, 0
    if tokens and tokens[0].token_type == TokenType.DASH:
        sign, more, tokens = -1, 1, tokens[1:]
    elif tokens and tokens[0].token_type == TokenType.STRING and tokens[0].text.lstrip().startswith("-"):
        given = tokens[0]
        unsigned = given.text.lstrip().removeprefix("-")
        sign = -1
        tokens = [Token(given.token_type, unsigned, given.line, given.col, given.start, given.end), *tokens[1:]]
    bare = Span(span.sql, (interval, *tokens))
    micros, length = read_interval(bare, lambda: span.error("this is not an interval", HELP))
    return sign * micros, length + more
