"""The pairs of a join as rows that another part of the query reads: their columns, and how that part may call them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot.tokenizer_core import TokenType

from eventide.plan.logical import Source
from eventide.plan.modes import JoinKind
from eventide.plan.stream_source import TIME_COLUMNS
from eventide.sql.join_bounds import Bounded
from eventide.sql.join_scope import JoinScope
from eventide.sql.join_sides import WINDOW_BOUNDS
from eventide.sql.relations import Readable, scan
from eventide.sql.scope import Scope, ScopeColumn, fresh_name
from eventide.sql.tokens import Span

Texts = list[tuple[ScopeColumn, str]]


@dataclass(frozen=True)
class Names:
    """The names by which columns are asked for: `k`, and `l.k`; in lower case. `all`: whatever a star shows."""

    names: frozenset[str] = frozenset()
    all: bool = False

    def with_those_of(self, *spans: Span | None) -> Names:
        return replace(self, names=self.names.union(*(_names_in(span) for span in spans if span is not None)))

    def ask_for(self, column: ScopeColumn) -> bool:
        name = column.called.lower()
        if column.changes is not None:
            return False  # the pairs have an op of their own
        if f"{(column.qualifier or '').lower()}.{name}" in self.names:
            return True
        is_time_of_side = column.is_hidden and name in TIME_COLUMNS  # rowtime alone is the time of the pair
        return not is_time_of_side and (self.all or name in self.names)


def _names_in(span: Span) -> set[str]:
    """Of `a.b.c`, where a may be an input or a column: a, and a.b."""
    found = set()
    tokens = span.tokens
    for index, token in enumerate(tokens):
        if index and tokens[index - 1].token_type == TokenType.DOT:
            continue
        found.add(token.text.lower())
        if index + 2 < len(tokens) and tokens[index + 1].token_type == TokenType.DOT:
            found.add(f"{token.text}.{tokens[index + 2].text}".lower())
    return found


def pair_columns(scope: JoinScope, bounded: Bounded, names: Names) -> Texts:
    """The columns of a pair that `names` ask for, each with its SQL over the join.

    Two inputs may have columns of one name: these get names of their own, and keep the old one as a label.
    """
    found = [
        (column, text)
        for column, text in (*_merged(scope), *_of_sides(scope), *_of_windows(scope, bounded, names))
        if names.ask_for(column)
    ]
    if not found:
        found = list(_of_sides(scope))[:1]  # count(*) needs rows, and a row has a column
    labels = [column.called.lower() for column, _ in found]
    taken = {*labels, *TIME_COLUMNS}
    made: Texts = []
    for column, text in found:
        own = column.called.lower() not in TIME_COLUMNS and labels.count(column.called.lower()) == 1
        name = column.called if own else fresh_name(f"{column.qualifier or 'pair'}_{column.called}", taken)
        taken.add(name.lower())
        made.append((replace(column, name=name, label=column.called), text))
    return made


def pair_scope(source: Source, columns: list[ScopeColumn], catalog: Readable) -> Scope:
    """The scope of the inner stream that gives these columns."""
    whole = scan(source, catalog)
    known = {column.name: column for column in columns}
    named = tuple(
        replace(
            column,
            label=known[column.name].label,
            qualifier=known[column.name].qualifier,
            is_hidden=known[column.name].is_hidden,
        )
        if column.name in known
        else column
        for column in whole.columns
    )
    return replace(whole, columns=named, qualifier=None)


def _of_sides(scope: JoinScope) -> Iterator[tuple[ScopeColumn, str]]:
    merged = {name.lower() for name in scope.merged}
    for number, side in enumerate(scope.sides):
        if number == 1 and scope.kind in (JoinKind.SEMI, JoinKind.ANTI):
            continue
        for index, column in enumerate(side.scope.columns):
            yield (
                replace(
                    column,
                    qualifier=column.qualifier or side.qualifier,
                    of_stream=True,
                    is_hidden=column.is_hidden or column.called.lower() in merged,
                ),
                f"__{'lr'[number]}{index}",
            )


def _merged(scope: JoinScope) -> Iterator[tuple[ScopeColumn, str]]:
    """The columns of USING, which need no qualifier."""
    for name in scope.merged:
        found = scope.behind().merged_column(name)
        if found is not None:
            yield ScopeColumn(found.column.called, "", of_stream=True), found.text


def _of_windows(scope: JoinScope, bounded: Bounded, names: Names) -> Iterator[tuple[ScopeColumn, str]]:
    """The bounds of the join's windows. A star shows them where they are columns of a window table."""
    if not bounded.has_windows:
        return
    shown = [which for which in WINDOW_BOUNDS if which in names.names or scope.left.window_columns]
    yield from ((ScopeColumn(which, "", of_stream=True), which) for which in shown)
    for side in scope.sides:
        for name, which in side.window_columns.items() if side.qualifier is not None else ():
            yield ScopeColumn(name, "", of_stream=True, is_hidden=True, qualifier=side.qualifier), which
