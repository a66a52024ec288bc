"""FROM as written: a source, a query in parentheses, a window table function over one of them, or joins of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from eventide.sql.clauses import TAIL_WORDS, parse_watermark
from eventide.sql.cursor import CLAUSE_WORDS, Cursor, is_name
from eventide.sql.join_clause import JOIN_PARTS, JOIN_WORDS, JoinParser
from eventide.sql.lateral_views import parse_lateral_views
from eventide.sql.syntax import FromNode, QueryNode, SubqueryRef, TableRef, WindowTable
from eventide.sql.tokens import Span, error_at, split_commas, word

_NO_ALIAS = JOIN_WORDS | JOIN_PARTS | CLAUSE_WORDS | TAIL_WORDS | {"TABLESAMPLE", "PIVOT", "UNPIVOT", "MATCH_RECOGNIZE"}
WINDOW_TABLES = ("TUMBLE", "HOP", "SESSION", "CUMULATE")

Ctes = Mapping[str, QueryNode]


class FromParser:
    """Reads what stands behind FROM. `subquery` reads a query in parentheses: the two call each other."""

    def __init__(self, cursor: Cursor, ctes: Ctes, subquery: Callable[[Cursor, Ctes], QueryNode]) -> None:
        self.cursor, self.ctes, self.subquery = cursor, ctes, subquery

    def parse(self) -> FromNode:
        """One relation, or several that are joined."""
        first = self.cursor.position
        node = JoinParser(self.cursor, self._joined, _alias).parse(first, self._relation())
        self._refuse_unsupported()
        return node

    def _joined(self) -> FromNode:
        node = self._relation()
        self._refuse_unsupported()
        return node

    def _refuse_unsupported(self) -> None:
        token = self.cursor.peek()
        if token is not None and word(token) in ("TABLESAMPLE", "PIVOT", "UNPIVOT"):
            raise self.cursor.error(f"{word(token)} is not supported in a stream", "leave it out")
        if token is not None and word(token) == "MATCH_RECOGNIZE":
            help = "rows that belong together are found by SESSION(ts, gap), or by an aggregate of your own"
            raise self.cursor.error("patterns over rows (MATCH_RECOGNIZE) are not supported", help)

    def _relation(self) -> FromNode:
        cursor = self.cursor
        if cursor.at_words("TABLE") and _opens(cursor, 1):
            cursor.next()
            inner = cursor.parenthesized("a window table function")
            if inner is None:
                raise cursor.expected("a window table function")
            nested = Cursor(inner)
            node = self._window_table(nested)
            nested.end()
            return replace(node, alias=_alias(cursor))
        token = cursor.peek()
        if token is not None and word(token) in WINDOW_TABLES and _opens(cursor, 1):
            return replace(self._window_table(cursor), alias=_alias(cursor))
        return self._input()

    def _input(self) -> TableRef | SubqueryRef:
        """A source or a subquery, with its alias and its watermark in either order."""
        cursor, first = self.cursor, self.cursor.position
        node: TableRef | SubqueryRef
        if cursor.at(TokenType.L_PAREN):
            query = self.subquery(cursor, self.ctes)
            node = SubqueryRef(query, cursor.span.part(first, cursor.position))
        else:
            node = self._table(cursor)
        alias = _alias(cursor)
        watermark = parse_watermark(cursor) if cursor.at_words("WATERMARK") else None
        alias = alias or _alias(cursor)
        steps = parse_lateral_views(cursor)
        return replace(node, alias=alias or node.alias, watermark=watermark, steps=steps)

    def _table(self, cursor: Cursor) -> TableRef | SubqueryRef:
        """`name`, `STREAM name` or `STREAM(name)`; the name of a WITH query stands for that query."""
        following = cursor.peek(1)
        if cursor.at_words("STREAM") and _opens(cursor, 1):
            cursor.next()
            inner = cursor.parenthesized("a name")
            if inner is None or len(inner.tokens) != 1 or not is_name(inner.tokens[0], cursor.sql):
                raise cursor.error("STREAM takes the name of a source", "write FROM STREAM name")
            return self._named(inner.tokens[0].text, inner)
        if (
            cursor.at_words("STREAM")
            and following is not None
            and is_name(following, cursor.sql)
            and word(following) not in _NO_ALIAS
        ):
            cursor.next()
        name, token = cursor.name("the name of a source")
        if cursor.at(TokenType.L_PAREN):
            help = "FROM takes a source, a query in parentheses, TUMBLE(...), HOP(...) or SESSION(...)"
            if name.upper() == "UNNEST":
                help = "write FROM source LATERAL VIEW explode(array) AS name"
            raise error_at(cursor.sql, token, f"unknown table function {name}", help)
        if cursor.at(TokenType.DOT):
            raise error_at(cursor.sql, token, "names have no schema", "write the name alone")
        return self._named(name, cursor.span.part(cursor.position - 1, cursor.position))

    def _named(self, name: str, span: Span) -> TableRef | SubqueryRef:
        if name.lower() in self.ctes:
            return SubqueryRef(self.ctes[name.lower()], span, alias=name)
        return TableRef(name, span)

    def _window_table(self, cursor: Cursor) -> WindowTable:
        """TUMBLE(TABLE s, DESCRIPTOR(ts), ...), its arguments by position or by name."""
        first = cursor.position
        token = cursor.peek()
        if token is None or word(token) not in WINDOW_TABLES:
            raise cursor.expected(f"one of {', '.join(WINDOW_TABLES)}")
        function = word(token)
        cursor.next()
        help = f"write {function}(TABLE source, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
        parts = split_commas(cursor.parenthesized("arguments"))
        span = cursor.span.part(first, cursor.position)
        if len(parts) < 3:
            raise span.error(f"{function} in FROM takes a table, a descriptor and intervals", help)
        input_node, partition = self._table_argument(parts[0], help)
        return WindowTable(function.lower(), input_node, partition, _descriptor(parts[1], help), tuple(parts[2:]), span)

    def _table_argument(self, span: Span, help: str) -> tuple[TableRef | SubqueryRef, tuple[Span, ...]]:
        cursor = Cursor(span)
        if cursor.accept("DATA"):
            cursor.expect_symbol(TokenType.FARROW, "=>", help)
        if not cursor.at(TokenType.L_PAREN):
            cursor.expect("TABLE", help=help)
        node: TableRef | SubqueryRef
        if cursor.at(TokenType.L_PAREN):
            node = SubqueryRef(self.subquery(cursor, self.ctes), span)
        else:
            node = self._table(cursor)
        partition: tuple[Span, ...] = ()
        if cursor.accept("PARTITION BY"):
            wrapped = cursor.at(TokenType.L_PAREN)
            partition = tuple(
                split_commas(cursor.parenthesized("columns") if wrapped else cursor.until(lambda at: False, "columns"))
            )
        cursor.end()
        return node, partition


def _opens(cursor: Cursor, ahead: int) -> bool:
    token = cursor.peek(ahead)
    return token is not None and token.token_type == TokenType.L_PAREN


def _alias(cursor: Cursor) -> str | None:
    explicit = cursor.accept("AS")
    token = cursor.peek()
    if token is None or not is_name(token, cursor.sql) or (not explicit and word(token) in _NO_ALIAS):
        if explicit:
            raise cursor.expected("an alias")
        return None
    cursor.next()
    if cursor.at(TokenType.L_PAREN):
        raise cursor.error("an alias takes no list of columns", "name the columns in the subquery, with AS")
    return token.text


def _descriptor(span: Span, help: str) -> Span:
    cursor = Cursor(span)
    if cursor.accept("TIMECOL"):
        cursor.expect_symbol(TokenType.FARROW, "=>", help)
    cursor.expect("DESCRIPTOR", help=help)
    inner = cursor.parenthesized("a column")
    cursor.end()
    if inner is None:
        raise span.error("DESCRIPTOR takes a column", help)
    return inner
