"""SELECT as written: the clauses of a query and the tail of a stream, split into parts that are not yet understood."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from eventide.sql.clauses import at_clause, parse_watermark
from eventide.sql.cursor import Cursor, is_name
from eventide.sql.from_clause import Ctes, FromParser
from eventide.sql.lateral_views import moved_to_from
from eventide.sql.over_windows import frames_apart, named_window, refuse_unused, with_named_windows
from eventide.sql.ranked_groups import ranked_above
from eventide.sql.shape import aggregates, ranks, runs
from eventide.sql.subquery_conditions import with_subqueries
from eventide.sql.syntax import QueryNode, SelectItem, SelectNode, SubqueryRef, TableRef, Watermark, WindowClause
from eventide.sql.tokens import Span, closing, error_at, is_open, split_commas, word

_WINDOW_KINDS = {"TUMBLING": ("SIZE", "OFFSET"), "HOPPING": ("SIZE", "SLIDE", "OFFSET"), "SESSION": ("GAP",)}
_INSTEAD_OF_EXCEPT = "write SELECT DISTINCT ... WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)"
_REFUSED = {
    "LIMIT": ("LIMIT would end a stream that has no end", "leave it out; limit the rows when you read the result"),
    "OFFSET": ("OFFSET has no meaning in a stream", "leave it out"),
    "SORT BY": ("SORT BY is not supported", "write ORDER BY with the event-time column"),
    "CLUSTER BY": ("CLUSTER BY is not supported", "leave it out; Eventide shards by the group keys"),
    "DISTRIBUTE BY": ("DISTRIBUTE BY is not supported", "leave it out; Eventide shards by the group keys"),
    "EXCEPT": ("EXCEPT would have to wait for ever", _INSTEAD_OF_EXCEPT),
    "MINUS": ("MINUS would have to wait for ever", _INSTEAD_OF_EXCEPT),
    "INTERSECT": ("INTERSECT would have to wait for ever", "write SELECT DISTINCT ... WHERE k IN (SELECT k FROM r)"),
}


def parse_query(cursor: Cursor, ctes: Ctes | None = None) -> QueryNode:
    """[WITH ...] SELECT ... [UNION ALL SELECT ...], up to the end, a closing parenthesis or the stream's tail."""
    first = cursor.position
    known = dict(ctes or {})
    if cursor.accept("WITH"):
        _parse_ctes(cursor, known)
    selects = list(_parse_term(cursor, known))
    while cursor.at_words("UNION"):
        union = cursor.span.part(cursor.position, cursor.position + 1)
        cursor.next()
        is_distinct = not cursor.accept("ALL")
        if is_distinct:
            cursor.accept("DISTINCT")
        selects.extend(_parse_term(cursor, known))
        if is_distinct:
            selects = [_distinct_over(QueryNode(cursor.span.part(first, cursor.position), tuple(selects)), union)]
    following = cursor.peek()
    if following is not None and word(following) in ("INTERSECT", "EXCEPT", "MINUS"):
        raise cursor.error(*_REFUSED[word(following)])
    return QueryNode(cursor.span.part(first, cursor.position), tuple(selects))


def _distinct_over(query: QueryNode, word: Span) -> SelectNode:
    """SELECT DISTINCT * FROM (query); `word` is what asks for it."""
    return SelectNode(query.span, (SelectItem(word, star=True),), SubqueryRef(query, query.span), distinct=word)


def _parse_ctes(cursor: Cursor, known: dict[str, QueryNode]) -> None:
    if cursor.at_words("RECURSIVE"):
        raise cursor.error("a stream cannot be recursive", "leave RECURSIVE out")
    while True:
        name, _ = cursor.name("the name of a WITH query")
        if cursor.at(TokenType.L_PAREN):
            raise cursor.error("a WITH query takes no list of columns", "name the columns in its SELECT, with AS")
        cursor.expect("AS")
        known[name.lower()] = parse_subquery(cursor, known)
        if not cursor.accept_symbol(TokenType.COMMA):
            return


def parse_subquery(cursor: Cursor, ctes: Ctes) -> QueryNode:
    """A query in parentheses."""
    inner = cursor.parenthesized("a query in parentheses")
    if inner is None:
        raise cursor.expected("a query in parentheses")
    nested = Cursor(inner)
    query = parse_query(nested, ctes)
    if nested.at_words("EMIT") or nested.at_words("ALLOW") or nested.at_words("LATE"):
        raise nested.error(
            "this clause belongs to the whole stream", "write it at the end of the statement, outside the parentheses"
        )
    nested.end()
    return query


def _parse_term(cursor: Cursor, ctes: Ctes) -> tuple[SelectNode, ...]:
    if cursor.at(TokenType.L_PAREN):
        return parse_subquery(cursor, ctes).selects
    return (_parse_select(cursor, ctes),)


@dataclass
class _Clauses:
    where: Span | None = None
    group_by: tuple[Span, ...] = ()
    group_span: Span | None = None
    having: Span | None = None
    window: WindowClause | None = None
    watermark: Watermark | None = None
    order_by: Span | None = None
    qualify: Span | None = None
    named: dict[str, Span] = field(default_factory=dict)  # WINDOW w AS (...)
    seen: dict[str, Token] = field(default_factory=dict)


def _parse_select(cursor: Cursor, ctes: Ctes) -> SelectNode:
    first = cursor.position
    select = cursor.expect("SELECT", help="a stream is made by a SELECT")
    if cursor.at(TokenType.HINT):
        raise cursor.error("hints have no effect in a stream", "leave the hint out")
    distinct = _parse_distinct(cursor)
    items = tuple(_select_item(part) for part in split_commas(cursor.until(at_clause, "what to select")))
    if not cursor.done and not cursor.at_words("FROM"):
        raise cursor.expected("FROM", "separate columns with commas, and close what you open")
    if not cursor.accept("FROM"):
        raise error_at(cursor.sql, select, "this SELECT has no FROM", "a stream reads a source: SELECT ... FROM source")
    source = FromParser(cursor, ctes, parse_subquery).parse()
    if isinstance(source, TableRef | SubqueryRef):
        items, source = moved_to_from(items, source)
    clauses = _Clauses()
    while not cursor.done and _parse_clause(cursor, clauses):
        pass
    refuse_unused(clauses.named, items)
    items = with_named_windows(items, clauses.named)
    made = SelectNode(
        cursor.span.part(first, cursor.position),
        items,
        source,
        clauses.where,
        clauses.group_by,
        clauses.group_span,
        clauses.having,
        clauses.window,
        clauses.watermark,
        clauses.order_by,
        qualify=clauses.qualify,
    )
    made = frames_apart(made)
    made = ranked_above(with_subqueries(made, lambda nested: parse_subquery(nested, ctes)))
    if distinct is None:
        return made
    is_operator = aggregates(made) or ranks(made) or runs(made)
    return _distinct_over(QueryNode(made.span, (made,)), distinct) if is_operator else replace(made, distinct=distinct)


def _parse_distinct(cursor: Cursor) -> Span | None:
    """The word DISTINCT, or nothing, or ALL, which means nothing."""
    if cursor.accept("ALL") or not cursor.at_words("DISTINCT"):
        return None
    first = cursor.position
    cursor.next()
    if cursor.at_words("ON"):
        help = "rank the rows: ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS place, and WHERE place = 1 around it"
        raise cursor.error("DISTINCT ON is not supported", help)
    return cursor.span.part(first, first + 1)


def _parse_clause(cursor: Cursor, clauses: _Clauses) -> bool:
    """Read the clause at the cursor into `clauses`; False if none begins here."""
    token = cursor.peek()
    if token is None:
        return False
    name = " ".join(word(token).split())
    if name in _REFUSED:
        raise cursor.error(*_REFUSED[name])
    if name not in ("WHERE", "GROUP BY", "HAVING", "QUALIFY", "ORDER BY", "WINDOW", "WATERMARK"):
        return False
    if name in clauses.seen:
        raise cursor.error(f"{name} is given twice", "keep one of them")
    clauses.seen[name] = token
    cursor.next()
    if name == "WHERE":
        clauses.where = cursor.until(at_clause, "a condition")
    elif name == "GROUP BY":
        clauses.group_span = cursor.until(at_clause, "what to group by")
        clauses.group_by = tuple(split_commas(clauses.group_span))
    elif name == "HAVING":
        clauses.having = cursor.until(at_clause, "a condition")
    elif name == "QUALIFY":
        clauses.qualify = cursor.until(at_clause, "a condition")
    elif name == "ORDER BY":
        clauses.order_by = cursor.until(at_clause, "a column")
    elif name == "WINDOW" and (following := cursor.peek(1)) is not None and word(following) == "AS":
        for part in split_commas(cursor.until(at_clause, "windows with names")):
            named = named_window(part)
            if named is None or named[0] in clauses.named:
                raise part.error(
                    "this is no window with a name of its own", "write WINDOW w AS (PARTITION BY k ORDER BY ts)"
                )
            clauses.named[named[0]] = named[1]
    elif name == "WINDOW":
        clauses.window = _window_clause(cursor, token)
    else:
        cursor.position -= 1
        clauses.watermark = parse_watermark(cursor)
    return True


def _window_clause(cursor: Cursor, at: Token) -> WindowClause:
    """TUMBLING (ON ts, SIZE INTERVAL '10' SECOND, ...), behind the word WINDOW."""
    first = cursor.position - 1
    kind_token = cursor.peek()
    kind = word(kind_token) if kind_token is not None else ""
    help = (
        "write WINDOW TUMBLING (ON ts, SIZE INTERVAL '10' SECOND), HOPPING (.., SIZE .., SLIDE ..) or SESSION "
        "(.., GAP ..)"
    )
    if kind not in _WINDOW_KINDS:
        raise cursor.expected("TUMBLING, HOPPING or SESSION", help)
    cursor.next()
    on: Span | None = None
    durations: dict[str, tuple[int, Span]] = {}
    for part in split_commas(cursor.parenthesized("the window in parentheses")):
        inner = Cursor(part)
        if inner.accept("ON"):
            if on is not None:
                raise part.error("ON is given twice", "keep one of them")
            on = inner.until(lambda at: False, "an expression that gives the time")
            continue
        name = _window_parameter(inner, kind, part, help)
        if name in durations:
            raise part.error(f"{name.upper()} is given twice", "keep one of them")
        durations[name] = (inner.duration("an interval", signed=name == "offset"), part)
        inner.end()
    span = cursor.span.part(first, cursor.position)
    if on is None:
        raise span.error("the window has no ON", help)
    return WindowClause(kind.lower(), on, durations, span)


def _window_parameter(cursor: Cursor, kind: str, part: Span, help: str) -> str:
    if cursor.accept("ALLOWED", "LATENESS"):
        return "allowed lateness"
    for name in (*_WINDOW_KINDS[kind], "WATERMARK"):
        if cursor.accept(name):
            cursor.accept_symbol(TokenType.FARROW)
            return name.lower()
    raise part.error(f"a {kind} window has no such part", help)


def _select_item(span: Span) -> SelectItem:
    star = _star(span)
    if star is not None:
        return star
    tokens = span.tokens
    if len(tokens) > 2 and word(tokens[-2]) == "AS" and is_name(tokens[-1], span.sql):
        return SelectItem(span.part(0, len(tokens) - 2), tokens[-1].text)
    tree = span.tree()
    if isinstance(tree, exp.Aliases) or (
        len(tokens) > 2 and tokens[-1].token_type == TokenType.R_PAREN and _alias_list(span)
    ):
        raise span.error("an expression has one alias", "write expression AS name")
    if isinstance(tree, exp.Alias):
        last = span.part(len(tokens) - 1, len(tokens))
        if not is_name(tokens[-1], span.sql) or word(tokens[-2]) == "AS" or len(tokens) < 2:
            raise last.error("this cannot be an alias", "write AS name, with backticks around an odd name")
        return SelectItem(span.part(0, len(tokens) - 1), tokens[-1].text)
    return SelectItem(span)


def _alias_list(span: Span) -> bool:
    opened = [
        index for index, token in enumerate(span.tokens[:-1]) if word(token) == "AS" and is_open(span.tokens[index + 1])
    ]
    return any(closing(span, index + 1) == len(span.tokens) - 1 for index in opened)


def _star(span: Span) -> SelectItem | None:
    """`*`, `s.*` and `* EXCEPT (a, b)`."""
    tokens = span.tokens
    qualified = len(tokens) > 2 and tokens[1].token_type == TokenType.DOT
    at = 2 if qualified else 0
    if len(tokens) <= at or tokens[at].token_type != TokenType.STAR or (qualified and not is_name(tokens[0], span.sql)):
        return None
    qualifier = tokens[0].text if qualified else None
    if len(tokens) == at + 1:
        return SelectItem(span, star=True, qualifier=qualifier)
    cursor = Cursor(span)
    cursor.position = at + 1
    excluded = []
    cursor.expect("EXCEPT", help="write * or * EXCEPT (column, ...)")
    for part in split_commas(cursor.parenthesized("columns in parentheses")):
        if len(part.tokens) != 1 or not is_name(part.tokens[0], span.sql):
            raise part.error("this is not a column", "write * EXCEPT (column, ...)")
        excluded.append(part.tokens[0].text)
    cursor.end()
    return SelectItem(span, star=True, qualifier=qualifier, excluded=tuple(excluded))
