"""Names in expressions: which column a name means, and the expression in Spark's words.

A `Scope` is what one FROM gives to the clauses above it. `rewrite` renders an expression with every column reference
replaced by what a lookup says it means; the rest of the expression stays as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from eventide.errors import SqlError, suggest
from eventide.plan.column_roles import SideTime, WindowBound
from eventide.plan.logical import Column, Relation
from eventide.plan.names import quoted
from eventide.plan.stream_source import OP_COLUMN, ChangeLog
from eventide.plan.windows import Calendar, PanedWindow
from eventide.sql.aggregate_calls import INSTEAD_OF_OVER, NO_OVER
from eventide.sql.json_paths import JsonPath, check_colons, json_paths
from eventide.sql.tokens import Edit, Span, calls, error_at, split_commas, word


class TimeOf(Enum):
    """Where the event time of a relation's rows comes from."""

    SOURCE = "source"  # each source's declared event time, which travels with the row
    COLUMN = "column"  # a column that a WATERMARK clause of the query names
    NONE = "none"  # processing time


@dataclass(frozen=True)
class ScopeColumn:
    name: str  # in the relation
    type: str  # Spark DDL, or "" if only Spark knows
    is_event_time: bool = False
    time_field: str | None = None  # of a message: the field that is its event time
    of_stream: bool = False  # read from a stream: where a window has a column of the same name, that one is meant
    is_exploded: bool = False  # by an item of the select list: no star shows it
    is_hidden: bool = False  # no star shows it: the event time that goes with the rows of a stream
    label: str | None = None  # the user's name, where the relation has another: two inputs of a join had the same
    qualifier: str | None = None  # of the input of a join that it comes from
    side_time: SideTime | None = None  # if it is the event time of one input of a join, and not that of the pair
    bound: WindowBound | None = None  # if it is the start or the end of a window that the row has
    changes: ChangeLog | None = None  # if it says whether the row of a change log is taken back: what that is one of
    is_made: bool = False  # by the window of the scope: the relation has no such column, what is made of it has

    @property
    def called(self) -> str:
        return self.label or self.name

    def renamed(self, name: str) -> ScopeColumn:
        """The same column, selected under another name."""
        changes = self.changes if name.lower() == OP_COLUMN else None
        return replace(self, name=name, time_field=None, is_hidden=False, label=None, qualifier=None, changes=changes)


@dataclass(frozen=True)
class Scope:
    relation: Relation
    columns: tuple[ScopeColumn, ...]
    time_of: TimeOf
    qualifier: str | None = None  # the name in front of the dot: the alias, or the source's name
    window: PanedWindow | Calendar | None = None  # into which a table function puts the rows
    where: str | None = None  # which of these windows are wanted

    @property
    def op(self) -> ScopeColumn | None:
        """The column that says which rows are taken back, if the rows are those of a change log."""
        return next((column for column in self.columns if column.changes is not None), None)

    @property
    def changes(self) -> str | None:
        """The same as SQL."""
        return None if self.op is None else quoted(self.op.name)

    def find(self, name: str) -> ScopeColumn | None:
        """The column that a name without a qualifier means; of several, the first."""
        return next(iter(self.all_called(name)), None)

    def all_called(self, name: str) -> list[ScopeColumn]:
        """The columns that a name without a qualifier may mean: not the times of a join's inputs."""
        return [
            column
            for column in self.columns
            if column.called.lower() == name.lower() and not (column.is_hidden and column.qualifier is not None)
        ]

    def qualified(self, qualifier: str, name: str) -> ScopeColumn | None:
        """The column that `qualifier.name` means."""
        wanted = qualifier.lower()
        for column in self.columns:
            if column.called.lower() == name.lower() and wanted == (column.qualifier or self.qualifier or "").lower():
                return column
        return None

    def logical_columns(self) -> tuple[Column, ...]:
        return tuple(Column(column.name, column.type) for column in self.columns if not column.is_made)


@dataclass(frozen=True)
class Reference:
    """A dotted name in an expression: `parts` with the places where each begins and ends."""

    span: Span
    parts: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    path: JsonPath | None = None  # into the JSON that the column holds

    def upto(self, count: int, text: str) -> Edit:
        """Replace the first `count` parts."""
        if self.path is None:
            return Edit(self.places[0][0], self.places[count - 1][1], text)
        column = ".".join([text, *map(quoted, self.parts[count:])])
        return Edit(self.places[0][0], self.path.end, f"get_json_object({column}, {self.path.sql})")

    def error(self, message: str, help: str | None = None) -> SqlError:
        return SqlError(message, sql=self.span.sql, start=self.places[0][0], end=self.places[-1][1], help=help)


Lookup = Callable[[Reference], Edit]

_UNIT_FIRST = frozenset({"dateadd", "date_add", "timestampadd", "datediff", "date_diff", "timestampdiff"})
GENERATORS = frozenset(
    {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"}
)


def references(span: Span) -> list[Reference]:
    """All column references of an expression, lambda variables and units of time left out."""
    units = _unit_places(span)
    found = []
    tree = span.tree()
    paths = json_paths(span, tree)
    for column in tree.find_all(exp.Column):
        identifiers = [
            part
            for part in (column.args.get(key) for key in ("catalog", "db", "table", "this"))
            if isinstance(part, exp.Identifier)
        ]
        if any("start" not in part.meta for part in identifiers):
            raise span.error(f"{column.sql()} uses a word of SQL as a name", "put the name in backticks")
        places = tuple((part.meta["start"], part.meta["end"] + 1) for part in identifiers)
        if places and places[0][0] not in units:
            names = tuple(part.name for part in identifiers)
            found.append(Reference(span, names, places, paths.get(places[-1][1])))
    return found


def rewrite(span: Span, lookup: Lookup) -> str:
    """The expression for Spark, each reference replaced as `lookup` says; errors for what no stream can evaluate."""
    check_scalar(span)
    return span.render([lookup(reference) for reference in references(span)])


def columns_of(
    scope: Scope, hint: Callable[[Reference], str | None] = lambda _: None, made_too: bool = False
) -> Lookup:
    """The lookup of WHERE and of aggregate inputs: the columns of FROM and nothing else."""

    def lookup(reference: Reference) -> Edit:
        found = resolve(scope, reference)
        if found is None:
            raise unknown_column(scope, reference, hint(reference))
        column, count = found
        if column.is_made and not made_too:
            raise reference.error(
                f"{column.called} is made by the window, and is not known before rows are in it",
                "use it in the SELECT around this one",
            )
        if reference.path is not None and count == len(reference.parts) and column.type not in ("string", ""):
            help = "write a.b for the field of a struct, a['b'] for the value of a map"
            raise reference.error(
                f"{column.name} is a {column.type}, and a path with : goes into JSON in a STRING", help
            )
        return reference.upto(count, quoted(column.name))

    return lookup


def resolve(scope: Scope, reference: Reference) -> tuple[ScopeColumn, int] | None:
    """The column that a reference begins with and how many of its parts name it; the rest are fields of a struct."""
    parts = reference.parts
    column = scope.qualified(parts[0], parts[1]) if len(parts) > 1 else None
    if column is not None:
        return column, 2
    found = scope.all_called(parts[0])
    if len(found) > 1:
        raise ambiguous(reference, [column.qualifier or scope.qualifier for column in found])
    return (found[0], 1) if found else None


def ambiguous(reference: Reference, qualifiers: Sequence[str | None]) -> SqlError:
    """The error for a name that several inputs of a join have; `qualifiers` are what they are called."""
    name = reference.parts[0]
    known = [qualifier for qualifier in qualifiers if qualifier is not None]
    if len(known) < len(qualifiers):
        help = f"give the subqueries aliases, and write a.{quoted(name)} or b.{quoted(name)}"
    else:
        help = "write " + " or ".join(f"{quoted(qualifier)}.{quoted(name)}" for qualifier in known)
    where = "both sides" if len(qualifiers) == 2 else f"{len(qualifiers)} inputs of the join"
    return reference.error(f"{name} is a column of {where}", help)


def unknown_column(scope: Scope, reference: Reference, help: str | None = None) -> SqlError:
    names = dict.fromkeys(column.called for column in scope.columns)
    return reference.error(
        f"there is no column {'.'.join(reference.parts)}", help or suggest(reference.parts[-1], names)
    )


def check_scalar(span: Span, allow_star: bool = False) -> None:
    """Refuse what is SQL but cannot be part of a stream's expression."""
    for token in span.tokens:
        if word(token) == "SELECT":
            help = "put it in FROM; in WHERE, EXISTS (SELECT ...) and IN (SELECT ...) are conditions of their own"
            raise error_at(span.sql, token, "a subquery cannot be used in an expression", help)
        if word(token) == "OVER":
            raise error_at(span.sql, token, NO_OVER, INSTEAD_OF_OVER)
    check_colons(span)
    for call in calls(span):
        if call.name in GENERATORS:
            help = "write LATERAL VIEW explode(array) AS name after FROM source"
            raise call.span.error(f"{call.name} makes several rows of one, which cannot be done here", help)
    tree = span.tree()
    if not allow_star and next(tree.find_all(exp.Star), None) is not None:
        raise span.error("* cannot be used here", "name the columns")


def refuse_quoted_columns(scope: Scope, span: Span) -> None:
    """Double quotes make a string in Spark; where one spells a column, the user surely meant the column."""
    for token in span.tokens:
        if token.token_type == TokenType.STRING and span.sql[token.start] == '"' and scope.find(token.text) is not None:
            raise error_at(
                span.sql,
                token,
                f'"{token.text}" is a string in Spark SQL',
                f"write {quoted(token.text)} for the column",
            )


def single_reference(span: Span) -> Reference | None:
    """The reference that the whole expression is, if it is one."""
    bare = span
    while (
        len(bare.tokens) > 2
        and bare.tokens[0].token_type == TokenType.L_PAREN
        and bare.tokens[-1].token_type == TokenType.R_PAREN
    ):
        bare = bare.part(1, len(bare.tokens) - 1)
    if any(index % 2 != (token.token_type == TokenType.DOT) for index, token in enumerate(bare.tokens)):
        return None
    found = references(bare)
    return found[0] if len(found) == 1 and len(found[0].parts) * 2 - 1 == len(bare.tokens) else None


def duplicate(names: Sequence[str]) -> str | None:
    """The first name that comes twice, whatever its case."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            return name
        seen.add(name.lower())
    return None


def fresh_name(name: str, taken: Iterable[str]) -> str:
    """`name`, or the first of name_2, name_3, ... that is not taken; `taken` are in lower case."""
    known, fresh, number = set(taken), name, 2
    while fresh.lower() in known:
        fresh, number = f"{name}_{number}", number + 1
    return fresh


def _unit_places(span: Span) -> set[int]:
    """Where a bare word is the unit of a call such as timestampadd(DAY, 1, ts)."""
    places = set()
    for call in calls(span):
        arguments: Iterable[Span] = split_commas(call.arguments) if call.name in _UNIT_FIRST else ()
        listed = list(arguments)
        if len(listed) == 3 and len(listed[0].tokens) == 1:
            places.add(listed[0].start)
    return places
