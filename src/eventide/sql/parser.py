"""SQL text to statements. Several statements in one text are separated by semicolons."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import Token, TokenType

from eventide.plan.names import quoted
from eventide.sql.create import object_name, parse_sink, parse_source
from eventide.sql.create_table import parse_table
from eventide.sql.cursor import Cursor, is_name
from eventide.sql.dialect import tokenize
from eventide.sql.limits import check_text, check_tokens, too_deep
from eventide.sql.options import SIDE_OPTIONS, STREAM_OPTIONS, Options, check_options, read_options
from eventide.sql.query import parse_query
from eventide.sql.statements import (
    Alter,
    Create,
    CreateStream,
    CreateView,
    Describe,
    Drop,
    Explain,
    RefreshTable,
    Select,
    Show,
    Statement,
)
from eventide.sql.syntax import QueryNode
from eventide.sql.tail import parse_tail
from eventide.sql.tokens import Edit, Span, is_close, is_open, word

_STATEMENTS = (
    "CREATE SOURCE, CREATE STREAM, CREATE SINK, CREATE TABLE, CREATE VIEW, ALTER, DROP, REFRESH TABLE, SHOW, "
    "DESCRIBE, EXPLAIN, SELECT"
)
_KINDS = ("SOURCE", "STREAM", "SINK", "TABLE", "VIEW")
_ANY_KIND = "SOURCE, STREAM, SINK, TABLE or VIEW"
_SHOWN = ("SOURCES", "STREAMS", "SINKS", "VIEWS", "TABLES")
_FROM_INSIDE = ("EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY", "POSITION")  # calls in which FROM names no table
ANONYMOUS = "query"  # the name of a stream that is only explained


def parse_statements(text: str) -> list[Statement]:
    """The statements of a text, in order; none for a text without any. Errors carry their place in the whole text."""
    return [_parse_shallow(span) for span in _split(text)]


def _parse_shallow(span: Span) -> Statement:
    """A statement, or an error if it is nested too deeply."""
    try:
        return _parse(span)
    except RecursionError:
        raise too_deep(span.sql, span.tokens) from None


def _split(text: str) -> list[Span]:
    spans: list[Span] = []
    tokens: list[Token] = []
    depth = 0
    check_text(text)
    all_tokens = tokenize(text)
    check_tokens(text, all_tokens)
    for token in all_tokens:
        depth += is_open(token) - is_close(token)
        if token.token_type == TokenType.SEMICOLON and depth <= 0:
            if tokens:
                spans.append(Span(text, tuple(tokens)))
            tokens, depth = [], 0
        else:
            tokens.append(token)
    if tokens:
        spans.append(Span(text, tuple(tokens)))
    return spans


def _parse(span: Span) -> Statement:
    cursor = Cursor(span)
    if cursor.at_words("SELECT") or cursor.at_words("WITH"):
        return _parse_select(span)
    if cursor.accept("CREATE"):
        return _parse_create(cursor)
    if cursor.accept("ALTER"):
        return _parse_alter(cursor)
    if cursor.accept("DROP"):
        return _parse_drop(cursor)
    if cursor.accept("SHOW"):
        return _parse_show(cursor)
    if cursor.accept("DESCRIBE") or cursor.accept("DESC"):
        is_extended = len(span.tokens) > 2 and cursor.accept("EXTENDED")
        name, _ = cursor.name("the name of a source, stream, sink, table or view")
        cursor.end()
        return Describe(span.text, name, is_extended)
    if cursor.accept("REFRESH"):
        cursor.expect("TABLE", help="write REFRESH TABLE name")
        name, _ = cursor.name("the name of a table")
        cursor.end()
        return RefreshTable(span.text, name)
    if cursor.accept("EXPLAIN"):
        return _parse_explain(cursor)
    raise cursor.error(f"'{span.tokens[0].text}' does not start a statement", f"statements: {_STATEMENTS}")


def _parse_create(cursor: Cursor) -> Create:
    text = cursor.span.text
    or_replace = cursor.accept("OR", "REPLACE")
    cursor, keep_state = _keep_state(cursor, or_replace)
    kind = next((kind for kind in _KINDS if cursor.accept(kind)), None)
    if kind is None:
        instead = "write CREATE SOURCE for input, CREATE STREAM for a query, CREATE SINK for output"
        raise cursor.expected(_ANY_KIND, instead)
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if or_replace and if_not_exists:
        raise cursor.error("OR REPLACE and IF NOT EXISTS contradict each other", "keep one of them")
    name, token = object_name(cursor, kind.lower())
    if keep_state and kind not in ("SOURCE", "STREAM"):
        raise cursor.error(f"a {kind.lower()} keeps no state", "leave KEEP STATE out")
    if kind == "SOURCE":
        made = parse_source(cursor, name, token)
        return replace(made, text=text, or_replace=or_replace, if_not_exists=if_not_exists, keep_state=keep_state)
    if kind == "SINK":
        return replace(parse_sink(cursor, name, token), or_replace=or_replace, if_not_exists=if_not_exists)
    if kind == "TABLE":
        return replace(parse_table(cursor, name, token), or_replace=or_replace, if_not_exists=if_not_exists)
    if kind == "VIEW":
        return CreateView(text, name, _view_query(cursor, name), or_replace, if_not_exists)
    options = check_options(read_options(cursor), {**STREAM_OPTIONS, **SIDE_OPTIONS}, "a stream")
    cursor.expect("AS", help=f"write CREATE STREAM {name} AS SELECT ...")
    query = parse_query(cursor)
    return CreateStream(text, name, query, parse_tail(cursor), options, or_replace, if_not_exists, keep_state)


def _keep_state(cursor: Cursor, or_replace: bool) -> tuple[Cursor, bool]:
    """The rest of the statement without KEEP STATE at its end, and whether that stands there."""
    count = len(cursor.span.tokens)
    if [word(token) for token in cursor.span.tokens[-2:]] != ["KEEP", "STATE"] or count < 4:
        return cursor, False
    if not or_replace:
        raise cursor.span.part(count - 2, count).error(
            "KEEP STATE is for a stream or a source that is replaced", "write CREATE OR REPLACE ... KEEP STATE"
        )
    rest = Cursor(cursor.span.part(0, count - 2))
    rest.position = cursor.position
    return rest, True


def _parse_alter(cursor: Cursor) -> Alter:
    kind = next((kind for kind in ("STREAM", "SOURCE") if cursor.accept(kind)), None)
    if kind is None:
        instead = "write ALTER STREAM name SET ('key' = 'value'); for other changes CREATE OR REPLACE ... KEEP STATE"
        raise cursor.expected("STREAM or SOURCE", instead)
    name, _ = cursor.name(f"the name of a {kind.lower()}")
    if not cursor.at_words("SET"):
        raise cursor.expected("SET", f"write ALTER {kind} {name} SET ('key' = 'value', ...)")
    options = read_options(cursor, "SET")
    cursor.end()
    if kind == "STREAM":
        options = check_options(options, {**STREAM_OPTIONS, **SIDE_OPTIONS}, "a stream")
    return Alter(cursor.span.text, kind.lower(), name, options)


def _view_query(cursor: Cursor, name: str) -> QueryNode:
    cursor.expect("AS", help=f"write CREATE VIEW {name} AS SELECT ...")
    query = parse_query(cursor)
    if not cursor.done:
        raise cursor.error(
            "a view has a query and nothing after it", "EMIT, ALLOW LATENESS and LATE DATA TO belong to its readers"
        )
    return query


def _parse_drop(cursor: Cursor) -> Drop:
    kind = next((kind for kind in _KINDS if cursor.accept(kind)), None)
    if kind is None:
        raise cursor.expected(_ANY_KIND, "write DROP STREAM name")
    if_exists = cursor.accept("IF", "EXISTS")
    name, _ = cursor.name(f"the name of a {kind.lower()}")
    cursor.end()
    return Drop(cursor.span.text, kind.lower(), name, if_exists)


def _parse_show(cursor: Cursor) -> Show:
    what = next((what for what in _SHOWN if cursor.accept(what)), None)
    if what is None:
        raise cursor.expected(", ".join(_SHOWN[:-1]) + " or " + _SHOWN[-1])
    cursor.end()
    return Show(cursor.span.text, what.lower())


def _parse_explain(cursor: Cursor) -> Explain:
    text = cursor.span.text
    if cursor.accept("CREATE"):
        created = _parse_create(cursor)
        if not isinstance(created, CreateStream):
            raise cursor.span.error(
                "only a stream has a plan to explain",
                "write EXPLAIN SELECT ..., EXPLAIN CREATE STREAM ... or EXPLAIN name",
            )
        return Explain(text, stream=created)
    if cursor.at_words("SELECT") or cursor.at_words("WITH") or cursor.at(TokenType.L_PAREN):
        query = parse_query(cursor)
        return Explain(text, stream=CreateStream(text, ANONYMOUS, query, parse_tail(cursor), Options(cursor.sql, {})))
    name, _ = cursor.name("the name of a stream, or a SELECT")
    cursor.end()
    return Explain(text, name=name)


def _parse_select(span: Span) -> Select:
    """A query that Spark runs as it is, but for names such as x$late, which Spark wants in backticks."""
    edits = [
        Edit(token.start, token.end + 1, quoted(token.text))
        for token in span.tokens
        if "$" in word(token) and token.token_type != TokenType.IDENTIFIER
    ]
    spark_sql = span.text
    for edit in reversed(edits):
        spark_sql = spark_sql[: edit.start - span.start] + edit.text + spark_sql[edit.end - span.start :]
    return Select(span.text, spark_sql, _tables(span))


def _tables(span: Span) -> tuple[str, ...]:
    """Names behind FROM and JOIN, and those that follow them after commas; WITH queries left out."""
    tokens = span.tokens
    ctes = {
        tokens[i - 1].text.lower()
        for i in range(1, len(tokens) - 1)
        if word(tokens[i]) == "AS" and is_open(tokens[i + 1])
    }
    tables: dict[str, None] = {}
    opened: list[str] = []  # for each open bracket the word in front of it
    for index, token in enumerate(tokens):
        before = word(tokens[index - 1]) if index else ""
        if is_open(token):
            opened.append(before)
        elif is_close(token) and opened:
            opened.pop()
        elif word(token) == "JOIN" or (
            word(token) == "FROM" and before != "DISTINCT" and not (opened and opened[-1] in _FROM_INSIDE)
        ):
            tables.update(
                dict.fromkeys(name for name in _listed(tokens[index + 1 :], span.sql) if name.lower() not in ctes)
            )
    return tuple(tables)


def _listed(tokens: tuple[Token, ...], sql: str) -> list[str]:
    """The names of `a, b AS x, c`, as far as the list goes."""
    names = []
    position = 0
    while position < len(tokens) and is_name(tokens[position], sql):
        following = tokens[position + 1] if position + 1 < len(tokens) else None
        if following is not None and following.token_type == TokenType.L_PAREN:
            break  # a table function
        names.append(tokens[position].text)
        position += 1
        while position < len(tokens) and (word(tokens[position]) == "AS" or is_name(tokens[position], sql)):
            position += 1
        if position >= len(tokens) or tokens[position].token_type != TokenType.COMMA:
            break
        position += 1
    return names
