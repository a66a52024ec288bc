"""Patterns of Spark SQL that RE2, which Arrow runs, understands as Spark does: those of regular expressions, which
Spark hands to Java, and those of LIKE.

RE2 and Java agree on the first match and its groups, except where a repeated part may be empty or holds a group. They
differ in what some signs mean: `.` and `\\s` are written for RE2 as what they are to Java. Where that is impossible
(`$`, `\\b`, look-arounds, flags, Unicode classes, intersections, ...) a pattern is left to Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GROUP = "found"  # the name of the group that is asked for

_LONGEST = 200  # characters of a pattern; RE2 refuses very large ones
_MOST_TIMES = 100  # that a character is repeated
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\x0b\f\r "}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r"}
_NO_LINE_END = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_TIMES = re.compile(r"\{(\d{1,3})(?:,(\d{0,3}))?\}")
_ONE_STEP = "*+?"


@dataclass(frozen=True)
class Regex:
    """`text` is for RE2, and has no group but the one that was asked for, called GROUP."""

    text: str
    may_be_empty: bool


def regex(java: str, group: int | None = None) -> Regex | None:
    """A pattern of Java's for RE2; None if the two might differ. `group` 0 is the whole match.

    >>> regex("(a|b)=(.*?)c", 1).text
    '(?P<found>a|b)\\\\=(?:[^\\\\n\\\\r\\\\x{85}\\\\x{2028}\\\\x{2029}]*?)c'
    >>> regex("a$") is None
    True
    """
    if len(java) > _LONGEST or not java.isascii() or not java.isprintable():
        return None
    reader = _Reader(java, group)
    try:
        part = reader.whole()
    except _NotUnderstood:
        return None
    if group is not None and group > reader.groups:
        return None
    return Regex(f"(?P<{GROUP}>{part.text})" if group == 0 else part.text, part.may_be_empty)


class _NotUnderstood(Exception):
    pass


@dataclass(frozen=True)
class _Part:
    text: str
    may_be_empty: bool = False
    has_groups: bool = False
    is_one: bool = False  # character, whichever


class _Reader:
    """Reads a pattern from left to right, and writes it for RE2."""

    def __init__(self, java: str, group: int | None) -> None:
        self._rest = java
        self._group = group
        self.groups = 0

    def whole(self) -> _Part:
        part = self._choice()
        if self._rest:
            raise _NotUnderstood
        return part

    def _take(self, text: str) -> bool:
        found = self._rest.startswith(text)
        if found:
            self._rest = self._rest[len(text) :]
        return found

    def _next(self) -> str:
        if not self._rest:
            raise _NotUnderstood
        sign, self._rest = self._rest[0], self._rest[1:]
        return sign

    def _choice(self) -> _Part:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return _Part(
            "|".join(part.text for part in parts),
            any(part.may_be_empty for part in parts),
            any(part.has_groups for part in parts),
        )

    def _sequence(self) -> _Part:
        parts = []
        while self._rest and self._rest[0] not in "|)":
            parts.append(self._repeated(self._one()))
        if not parts:
            raise _NotUnderstood
        return _Part(
            "".join(part.text for part in parts),
            all(part.may_be_empty for part in parts),
            any(part.has_groups for part in parts),
        )

    def _repeated(self, part: _Part) -> _Part:
        times = _TIMES.match(self._rest)
        if times is None and not (self._rest and self._rest[0] in _ONE_STEP):
            return part
        how = self._next() if times is None else times[0]
        if part.may_be_empty or (part.has_groups and how != "?"):
            raise _NotUnderstood
        if times is not None:
            self._rest = self._rest[len(how) :]
            if not part.is_one or any(int(each) > _MOST_TIMES for each in times.groups() if each):
                raise _NotUnderstood
        how += "?" if self._take("?") else ""
        if self._rest and self._rest[0] in "*+?{":
            raise _NotUnderstood
        may_be_empty = how[0] in "*?" or (times is not None and int(times[1]) == 0)
        return _Part(part.text + how, may_be_empty, part.has_groups)

    def _one(self) -> _Part:
        sign = self._next()
        if sign == "(":
            return self._in_parentheses()
        if sign == "[":
            return _Part(self._class(), is_one=True)
        if sign == "^":
            return _Part(r"\A", may_be_empty=True)
        if sign == ".":
            return _Part(_NO_LINE_END, is_one=True)
        if sign in "$*+?{}])|":
            raise _NotUnderstood
        return _Part(self._escaped() if sign == "\\" else _literal(sign), is_one=True)

    def _in_parentheses(self) -> _Part:
        is_group = not self._take("?:")
        if is_group and self._rest.startswith("?"):
            raise _NotUnderstood
        self.groups += is_group
        is_wanted = is_group and self.groups == self._group
        inside = self._choice()
        if not self._take(")"):
            raise _NotUnderstood
        opened = f"(?P<{GROUP}>" if is_wanted else "(?:"
        return _Part(f"{opened}{inside.text})", inside.may_be_empty, is_group or inside.has_groups)

    def _escaped(self) -> str:
        sign = self._next()
        if sign in _CLASSES:
            return f"[{_CLASSES[sign]}]"
        if sign.lower() in _CLASSES:
            return f"[^{_CLASSES[sign.lower()]}]"
        return self._escaped_sign(sign)

    def _escaped_sign(self, sign: str) -> str:
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign.isalnum():
            raise _NotUnderstood
        return _literal(sign)

    def _class(self) -> str:
        written = "[^" if self._take("^") else "["
        first = True
        while first or not self._take("]"):
            written += self._of_class(first)
            first = False
        return f"{written}]"

    def _of_class(self, first: bool) -> str:
        """A sign, a range of letters or digits, or a class by its letter."""
        sign = self._next()
        if sign == "\\":
            sign = self._next()
            return _CLASSES[sign] if sign in _CLASSES else self._escaped_sign(sign)
        is_at_the_edge = first or self._rest.startswith("]")
        if sign in "[]^" or (sign == "&" and self._rest.startswith("&")) or (sign == "-" and not is_at_the_edge):
            raise _NotUnderstood
        if not self._rest.startswith("-") or self._rest.startswith("-]"):
            return _literal(sign)
        self._next()
        last = self._next()
        if not (_is_one_kind(sign, last) and sign <= last):
            raise _NotUnderstood
        return f"{sign}-{last}"


def _is_one_kind(first: str, last: str) -> bool:
    return any(test(first) and test(last) for test in (str.isdigit, str.islower, str.isupper))


def _literal(sign: str) -> str:
    return sign if sign.isalnum() or sign in " _" else f"\\{sign}"


@dataclass(frozen=True)
class Like:
    """What LIKE asks: that a text has these pieces in this order, with anything in between. If it has places for one
    character, whichever, only `regex` says it all.
    """

    pieces: tuple[str, ...]
    regex: str
    has_places: bool


def like(pattern: str) -> Like | None:
    """A pattern of LIKE with Spark's own escape; None if Spark would refuse it.

    >>> like("a%b")
    Like(pieces=('a', 'b'), regex='(?s)\\\\Aa.*b\\\\z', has_places=False)
    """
    pieces, written, has_places, rest = [""], "", False, iter(pattern)
    for sign in rest:
        if sign == "%":
            pieces.append("")
            written += ".*"
        elif sign == "_":
            has_places = True
            written += "."
        else:
            if sign == "\\":
                sign = next(rest, "")
                if sign not in ("%", "_", "\\"):
                    return None
            pieces[-1] += sign
            written += re.escape(sign)
    return Like(tuple(pieces), rf"(?s)\A{written}\z", has_places)
