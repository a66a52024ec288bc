"""JOIN as written: its words, the other input, what bounds it in time, and its condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot.tokenizer_core import TokenType

from eventide.plan.joins import Interval, OverlappingPanes, OverlappingSessions, SameWindow
from eventide.plan.modes import JoinKind
from eventide.plan.windows import Hop, PanedWindow, Session, Tumble
from eventide.sql.clauses import at_clause
from eventide.sql.cursor import Cursor, is_name
from eventide.sql.interval_literals import interval_of
from eventide.sql.syntax import FromNode, JoinNode, Within
from eventide.sql.tokens import Span, calls, ends_operand, split_commas, word
from eventide.sql.window_functions import window_without_time

JOIN_WORDS = frozenset("JOIN INNER LEFT RIGHT FULL OUTER CROSS NATURAL ANTI SEMI ASOF LATERAL".split())
# Words that begin a part of a join, and so are no alias.
JOIN_PARTS = frozenset({"WITHIN", "ON", "USING", "MATCH_CONDITION", "FOR"})
_KINDS = {
    (): JoinKind.INNER,
    ("INNER",): JoinKind.INNER,
    ("CROSS",): JoinKind.INNER,
    ("LEFT",): JoinKind.LEFT,
    ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT",): JoinKind.RIGHT,
    ("RIGHT", "OUTER"): JoinKind.RIGHT,
    ("FULL",): JoinKind.FULL,
    ("FULL", "OUTER"): JoinKind.FULL,
    ("OUTER",): JoinKind.FULL,
    ("SEMI",): JoinKind.SEMI,
    ("LEFT", "SEMI"): JoinKind.SEMI,
    ("ANTI",): JoinKind.ANTI,
    ("LEFT", "ANTI"): JoinKind.ANTI,
}
_WITHIN_WINDOWS = ("tumble", "hop", "session", "cumulate")
_WITHIN_HELP = "write WITHIN TUMBLE(INTERVAL '10' SECOND), WITHIN SESSION(...) or WITHIN INTERVAL '10' SECOND"


def at_join(cursor: Cursor) -> bool:
    """Whether a further input of FROM begins at the cursor, which stands outside parentheses."""
    token = cursor.peek()
    if token is None:
        return False
    before = cursor.peek(-1) if cursor.position else None
    if token.token_type == TokenType.COMMA:
        return True
    return word(token) in JOIN_WORDS and before is not None and ends_operand(before)


@dataclass(frozen=True)
class JoinParser:
    """Reads what stands behind the first input of FROM. `input` reads one input, `alias` what may name it."""

    cursor: Cursor
    input: Callable[[], FromNode]
    alias: Callable[[Cursor], str | None]

    def parse(self, first: int, left: FromNode) -> FromNode:
        """All joins up to the next clause; `first` is where FROM begins."""
        node = left
        while at_join(self.cursor):
            node = self._join(first, node)
        return node

    def _join(self, first: int, left: FromNode) -> JoinNode:
        cursor, begin = self.cursor, self.cursor.position
        kind, asof = self._words()
        words = cursor.span.part(begin, cursor.position)
        right = self.input()
        node = JoinNode(left, right, kind, words, words, asof)
        if cursor.at_words("FOR"):
            node = self._temporal(node)
        if cursor.at_words("MATCH_CONDITION"):
            node = replace(node, match=self._match(node))
        if cursor.at_words("WITHIN"):
            node = replace(node, within=self._within(node))
        node = self._condition(node)
        return replace(node, span=cursor.span.part(first, cursor.position))

    def _words(self) -> tuple[JoinKind, bool]:
        """`LEFT OUTER JOIN`, `ASOF JOIN`, a comma, ...: the kind, and whether it is ASOF."""
        cursor, begin = self.cursor, self.cursor.position
        if cursor.accept_symbol(TokenType.COMMA):
            self._refuse_lateral()
            return JoinKind.INNER, False
        found: list[str] = []
        while not cursor.accept("JOIN"):
            token = cursor.peek()
            if token is None or word(token) not in JOIN_WORDS:
                raise cursor.expected("JOIN")
            self._refuse_lateral()
            if word(token) == "NATURAL":
                raise cursor.error("NATURAL JOIN would change with every new column", "write JOIN ... USING (column)")
            found.append(word(token))
            cursor.next()
        self._refuse_lateral()
        asof = "ASOF" in found
        kind = _KINDS.get(tuple(each for each in found if each != "ASOF"))
        words = cursor.span.part(begin, cursor.position)
        if kind is None or found.count("ASOF") > 1:
            help = "write [INNER | LEFT | RIGHT | FULL | LEFT SEMI | LEFT ANTI] JOIN, or ASOF [LEFT] JOIN"
            raise words.error("there is no such join", help)
        if asof and kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise words.error("an ASOF join is inner or left", "write ASOF JOIN or ASOF LEFT JOIN")
        return kind, asof

    def _refuse_lateral(self) -> None:
        if self.cursor.at_words("LATERAL"):
            raise self.cursor.error("LATERAL is not supported in a stream", "unnest the rows before they are written")

    def _temporal(self, node: JoinNode) -> JoinNode:
        """FOR SYSTEM_TIME AS OF l.ts [AS alias]."""
        cursor, begin = self.cursor, self.cursor.position
        help = "write JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k"
        cursor.expect("FOR", "SYSTEM_TIME", "AS", "OF", help=help)
        time = cursor.until(_ends_time, "the time of the left side")
        span = cursor.span.part(begin, cursor.position)
        if node.asof:
            raise span.error("ASOF and FOR SYSTEM_TIME AS OF say the same", "keep one of them")
        if node.kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise node.words.error("a join FOR SYSTEM_TIME AS OF is inner or left", "write JOIN or LEFT JOIN")
        alias = self.alias(cursor)
        right = node.right
        if alias is not None and not isinstance(right, JoinNode):
            right = replace(right, alias=alias)
        return replace(node, right=right, asof=True, system_time=time)

    def _match(self, node: JoinNode) -> Span:
        cursor = self.cursor
        if not node.asof or node.system_time is not None:
            raise cursor.error("MATCH_CONDITION belongs to an ASOF join", "write ASOF JOIN, or put it in ON")
        cursor.next()
        help = "write MATCH_CONDITION (l.ts >= r.ts)"
        if cursor.at(TokenType.L_PAREN):
            inner = cursor.parenthesized("a condition")
            if inner is None:
                raise cursor.expected("a comparison of the two times", help)
            return inner
        return cursor.until(_ends_part, "a comparison of the two times")

    def _within(self, node: JoinNode) -> Within:
        cursor, begin = self.cursor, self.cursor.position
        if node.asof:
            raise cursor.error(
                "an ASOF join takes a tolerance, not WITHIN",
                "write AND l.ts - r.ts <= INTERVAL '10' SECOND in its condition",
            )
        cursor.next()
        bound = self._bound()
        grace: tuple[int, Span] | None = None
        if cursor.at_words("GRACE"):
            place = cursor.position
            cursor.expect("GRACE", "PERIOD", help="write GRACE PERIOD 1 MINUTE")
            micros = cursor.duration("an interval, as in GRACE PERIOD 1 MINUTE")
            grace = (micros, cursor.span.part(place, cursor.position))
        return Within(bound, cursor.span.part(begin, cursor.position), grace)

    def _bound(self) -> SameWindow | OverlappingPanes | OverlappingSessions | Interval:
        cursor, begin = self.cursor, self.cursor.position
        token = cursor.peek()
        if cursor.at(TokenType.L_PAREN):
            return self._before_and_after()
        if token is None or word(token).lower() not in _WITHIN_WINDOWS:
            micros = cursor.duration("a window or an interval") if _begins_interval(cursor) else None
            if micros is None:
                raise cursor.expected("a window or an interval", _WITHIN_HELP)
            return Interval(-micros, micros)
        window = self._window()
        if cursor.accept("AND"):
            other = self._window()
            return _overlapping(window, other, cursor.span.part(begin, cursor.position))
        return OverlappingSessions(window.gap) if isinstance(window, Session) else SameWindow(window)

    def _window(self) -> PanedWindow | Session:
        cursor, begin = self.cursor, self.cursor.position
        token = cursor.next()
        if word(token).lower() not in _WITHIN_WINDOWS or not cursor.at(TokenType.L_PAREN):
            cursor.position = begin
            raise cursor.expected("a window", _WITHIN_HELP)
        cursor.parenthesized("the window's lengths")
        return window_without_time(next(calls(cursor.span.part(begin, cursor.position))))

    def _before_and_after(self) -> Interval:
        """ksqlDB's (before, after): how much earlier and how much later a right row may be."""
        begin = self.cursor.position
        parts = split_commas(self.cursor.parenthesized("two intervals"))
        if len(parts) != 2:
            span = self.cursor.span.part(begin, self.cursor.position)
            raise span.error(
                "expected two intervals: how much earlier and how much later a right row may be",
                "write WITHIN (1 HOUR, 2 HOURS)",
            )
        before, after = (interval_of(part) for part in parts)
        return Interval(-before, after)

    def _condition(self, node: JoinNode) -> JoinNode:
        cursor = self.cursor
        if cursor.accept("ON"):
            node = replace(node, on=cursor.until(_ends_part, "a condition"))
        elif cursor.at_words("USING"):
            begin = cursor.position
            cursor.next()
            names = split_commas(cursor.parenthesized("columns in parentheses"))
            if not names:
                raise cursor.span.part(begin, cursor.position).error("USING names no column", "write USING (column)")
            for name in names:
                if len(name.tokens) != 1 or not is_name(name.tokens[0], cursor.sql):
                    raise name.error("USING takes columns that both sides have", "write ON for everything else")
            node = replace(node, using=tuple(names))
        token = cursor.peek()
        if token is not None and word(token) in JOIN_PARTS:
            raise cursor.error(
                f"{word(token)} is not expected here",
                "the order is JOIN r [MATCH_CONDITION ...] [WITHIN ...] [ON ... | USING ...]",
            )
        return node


def _begins_interval(cursor: Cursor) -> bool:
    token = cursor.peek()
    return token is not None and (word(token) == "INTERVAL" or token.token_type in (TokenType.STRING, TokenType.NUMBER))


def _ends_part(cursor: Cursor) -> bool:
    """Whether what stands in a part of a join ends at the cursor."""
    token, before = cursor.peek(), cursor.peek(-1)
    if at_clause(cursor) or at_join(cursor):
        return True
    begins = token is not None and word(token) in JOIN_PARTS
    return begins and before is not None and ends_operand(before)


def _ends_time(cursor: Cursor) -> bool:
    token, before = cursor.peek(), cursor.peek(-1)
    if _ends_part(cursor) or cursor.at_words("AS"):
        return True
    is_alias = token is not None and before is not None and is_name(token, cursor.sql)
    return is_alias and before is not None and ends_operand(before) and before.token_type != TokenType.DOT


def _overlapping(left: PanedWindow | Session, right: PanedWindow | Session, span: Span) -> OverlappingPanes:
    if isinstance(left, Tumble) and isinstance(right, Hop):
        return OverlappingPanes(left, right)
    if isinstance(left, Hop) and isinstance(right, Tumble):
        return OverlappingPanes(left, right)
    raise span.error(
        "two windows must be one tumbling and one sliding",
        "write WITHIN TUMBLE(size) AND HOP(slide, size), HOP(...) AND TUMBLE(...), or one window for both sides",
    )
