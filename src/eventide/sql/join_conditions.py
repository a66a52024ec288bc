"""The conditions of a join: equal keys, filters of one side's rows, and what is left to be tested on pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from eventide.errors import suggest
from eventide.plan.joins import Asof, JoinBound, OverlappingSessions
from eventide.plan.logical import Filter, Relation
from eventide.plan.modes import JoinKind
from eventide.plan.names import quoted
from eventide.sql.conjuncts import comparison, conjunction
from eventide.sql.join_scope import JoinScope
from eventide.sql.join_windows import Conditions
from eventide.sql.scope import Lookup, columns_of, rewrite, single_reference
from eventide.sql.tokens import Span, word

_BOTH, _LEFT, _RIGHT, _NONE = {0, 1}, {0}, {1}, set[int]()
# The sides whose rows a condition on that side alone may filter before the join, with the same outcome.
_FILTERED_BY_ON = {
    JoinKind.INNER: _BOTH,
    JoinKind.SEMI: _BOTH,
    JoinKind.LEFT: _RIGHT,
    JoinKind.ANTI: _RIGHT,
    JoinKind.RIGHT: _LEFT,
    JoinKind.FULL: _NONE,
}
_FILTERED_BY_WHERE = {
    JoinKind.INNER: _BOTH,
    JoinKind.SEMI: _LEFT,
    JoinKind.LEFT: _LEFT,
    JoinKind.ANTI: _LEFT,
    JoinKind.RIGHT: _RIGHT,
    JoinKind.FULL: _NONE,
}


@dataclass(frozen=True)
class Key:
    """Expressions of the left and of the right side that must be equal."""

    sides: tuple[str, str]
    null_safe: bool = False


@dataclass
class Sorted:
    """`filters` are by side, `condition` and `where` over the columns of pairs."""

    keys: list[Key] = field(default_factory=list)
    filters: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    condition: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)

    def filtered(self, relation: Relation, side: int) -> Relation:
        condition = conjunction(self.filters[side])
        return relation if condition is None else Filter(relation, condition)


def sort_conditions(scope: JoinScope, conditions: Conditions, bound: JoinBound, above: Lookup) -> Sorted:
    """`above` looks names up in WHERE. An inner join does not care whether something stands in ON or in WHERE.

    Sessions are made of all rows of a key, so nothing is filtered before them, and the keys are those of ON. What WHERE
    says of the right side must not choose the row of an ASOF join.
    """
    made = Sorted()
    for name in conditions.using:
        _add_key(made, _using_key(name, scope))
    if scope.kind is JoinKind.ANTI and conditions.equal:
        made.condition.append(_may_be_equal(scope, conditions.equal))
    else:
        for one, other in conditions.equal:
            right = quoted(other) if isinstance(other, str) else rewrite(other, columns_of(scope.right.scope))
            _add_key(made, Key((rewrite(one, columns_of(scope.left.scope)), right)))
    by_on, by_where = _FILTERED_BY_ON[scope.kind], _FILTERED_BY_WHERE[scope.kind]
    if isinstance(bound, OverlappingSessions):
        by_on = by_where = _NONE
    elif isinstance(bound, Asof):
        by_where = _LEFT
    for condition in conditions.on:
        _sort(condition, scope, made, made.condition, scope.of_pairs, by_on, is_key=True)
    as_on = scope.kind is JoinKind.INNER and not isinstance(bound, Asof | OverlappingSessions)
    for condition in conditions.where:
        _sort(condition, scope.behind(), made, made.where, above, by_where, is_key=as_on)
    return made


def _may_be_equal(scope: JoinScope, equal: list[tuple[Span, Span | str]]) -> str:
    """Of NOT IN: what keeps a row from coming out. A NULL on either side might be the same value, so it does as well.
    Rows that meet need not be equal, hence a condition, and no key.
    """
    compared = []
    for one, other in equal:
        left = rewrite(one, partial(scope.pair_column, 0))
        right = scope.named(1, other) if isinstance(other, str) else rewrite(other, partial(scope.pair_column, 1))
        compared.append(f"{left} = {right}")
    return f"coalesce({' AND '.join(compared)}, true)"


def _sort(
    condition: Span, scope: JoinScope, made: Sorted, rest: list[str], lookup: Lookup, filtered: set[int], is_key: bool
) -> None:
    if [word(token) for token in condition.tokens] == ["TRUE"]:
        return
    key = _key(condition, scope) if is_key else None
    if key is not None:
        _add_key(made, key)
        return
    sides = scope.sides_of(condition)
    side = sides.pop() if len(sides) == 1 else None
    if side in filtered:
        made.filters[side].append(rewrite(condition, scope.of_side))
    else:
        rest.append(rewrite(condition, lookup))


def _add_key(made: Sorted, key: Key) -> None:
    if key not in made.keys:
        made.keys.append(key)


def _key(condition: Span, scope: JoinScope) -> Key | None:
    """An equality between an expression of one side and one of the other."""
    compared = comparison(condition)
    if compared is None or compared.operator not in ("=", "<=>"):
        return None
    for left, right in ((compared.left, compared.right), (compared.right, compared.left)):
        if scope.sides_of(left) == {0} and scope.sides_of(right) == {1}:
            for operand in (left, right):
                _refuse_map(operand, scope)
            sides = rewrite(left, scope.of_side), rewrite(right, scope.of_side)
            return Key(sides, compared.operator == "<=>")
    return None


def _refuse_map(operand: Span, scope: JoinScope) -> None:
    reference = single_reference(operand)
    found = scope.find(reference) if reference is not None else None
    is_column = found is not None and reference is not None and found.parts == len(reference.parts)
    if found is not None and is_column and found.column.type.startswith("map<"):
        raise operand.error("maps cannot be compared", f"compare one of their values, as in {operand.text}['key']")


def _using_key(name: Span, scope: JoinScope) -> Key:
    text = name.tokens[0].text
    columns = []
    for side in scope.sides:
        found = side.scope.all_called(text)
        if not found:
            where = "this side" if side.qualifier is None else side.qualifier
            known = suggest(text, [other.called for other in side.scope.columns])
            raise name.error(f"there is no column {text} in {where}", known)
        if len(found) > 1:
            raise name.error(f"{text} is a column of both sides of the join before", "write ON with qualified names")
        column = found[0]
        if column.type.startswith("map<"):
            raise name.error("maps cannot be compared", "compare one of their values in ON")
        columns.append(column)
    return Key((quoted(columns[0].name), quoted(columns[1].name)))
