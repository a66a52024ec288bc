"""GROUPING SETS, ROLLUP and CUBE: rows are grouped once for every set of keys.

Each row becomes one row for every set, with the number of the set in a column of its own. A key that does not belong to
the set is NULL there. The number is a key as well, so a group whose key is NULL and a group without the key are two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product

from eventide.plan.logical import Column, Explode, Named, Relation
from eventide.sql.tokens import Call, Span, calls, closing, is_open, split_commas, word

COLUMN = "grouping_set"
FUNCTIONS = frozenset({"grouping", "grouping_id"})
_MOST_SETS = 64
_WORDS = "GROUPING SETS"
_HELP = "write GROUP BY window_start, window_end, GROUPING SETS ((a, b), (a), ())"

Sets = list[tuple[Span, ...]]


@dataclass(frozen=True)
class GroupingSets:
    """How many sets there are, and by number those to which each key belongs."""

    count: int
    members: tuple[frozenset[int], ...]

    def relation(self, input: Relation) -> Relation:
        """Rows, each as often as there are sets."""
        return Explode(input, f"array({', '.join(map(str, range(self.count)))})", (COLUMN,))

    def columns(self, known: tuple[Column, ...]) -> tuple[Column, ...]:
        return (*known, Column(COLUMN, "INT"))

    def keys(self, keys: tuple[Named, ...]) -> tuple[Named, ...]:
        """The keys of a group: those of its set, and the set."""
        found = (self._in_its_sets(key, members) for key, members in zip(keys, self.members, strict=True))
        return (*found, Named(COLUMN, COLUMN))

    def _in_its_sets(self, key: Named, members: frozenset[int]) -> Named:
        if len(members) == self.count:
            return key
        return replace(key, sql=f"CASE WHEN {COLUMN} IN {_listed(members)} THEN {key.sql} END")

    def grouping(self, key: int) -> str:
        """1 for a group in whose set a key is not, else 0; as in Spark a TINYINT."""
        members = self.members[key]
        text = "0" if len(members) == self.count else f"CASE WHEN {self._set} IN {_listed(members)} THEN 0 ELSE 1 END"
        return f"CAST({text} AS TINYINT)"

    def grouping_id(self, keys: tuple[int, ...]) -> str:
        """The bits of these keys, the last one lowest; as in Spark a BIGINT."""
        ids = [
            sum((number not in self.members[key]) << at for at, key in enumerate(reversed(keys)))
            for number in range(self.count)
        ]
        cases = " ".join(f"WHEN {self._set} = {number} THEN {id}" for number, id in enumerate(ids))
        return f"CAST(CASE {cases} END AS BIGINT)"

    @property
    def _set(self) -> str:
        """The packed key that holds the number."""
        return f"__k{len(self.members)}"


def _listed(numbers: frozenset[int]) -> str:
    return f"({', '.join(map(str, sorted(numbers)))})"


def is_sets(span: Span) -> bool:
    """Whether an item of GROUP BY stands for several sets of keys."""
    return _is_words(span) or _whole(span) is not None


def read_sets(items: list[Span]) -> Sets:
    """What items of GROUP BY mean together: each set of the first with each of the second, and so on. Any other item is
    one set of one key.
    """
    sets = [tuple(span for part in parts for span in part) for parts in product(*map(_sets_of, items))]
    if len(sets) > _MOST_SETS:
        raise next(filter(is_sets, items)).error(
            f"these are {len(sets)} sets of keys, and a row is grouped once for each",
            f"name those that you want with GROUPING SETS; {_MOST_SETS} are the most",
        )
    return sets


def refuse_old_spelling(item: Span) -> None:
    """GROUP BY a, b WITH ROLLUP; GROUP BY a, b GROUPING SETS (...)."""
    for at, token in enumerate(item.tokens[1:], 1):
        if word(token) == "WITH" and at + 2 == len(item.tokens) and word(item.tokens[-1]) in ("ROLLUP", "CUBE"):
            kind = word(item.tokens[-1])
            raise item.part(at, at + 2).error(f"WITH {kind} is not supported", f"write GROUP BY {kind}(a, b)")
        if _is_words(item.part(at, len(item.tokens))):
            raise item.part(at, at + 1).error("GROUPING SETS is an item of its own", f"put a comma in front: {_HELP}")


def _sets_of(span: Span) -> Sets:
    """The sets that are written as one."""
    call = _whole(span)
    if call is not None:
        groups = [_keys_of(part) for part in split_commas(call.arguments)]
        if not groups:
            raise span.error(f"{call.name.upper()} has no keys", f"write {call.name.upper()}(a, b)")
        return [tuple(key for group in chosen for key in group) for chosen in _chosen(call.name, groups)]
    if _is_words(span):
        if len(span.tokens) < 3 or not is_open(span.tokens[1]) or closing(span, 1) != len(span.tokens) - 1:
            raise span.error("GROUPING SETS takes sets of keys in parentheses", _HELP)
        inside = span.part(2, len(span.tokens) - 1)
        parts = split_commas(inside) if inside.tokens else []
        if not parts:
            raise span.error("GROUPING SETS has no sets", _HELP)
        return [found for part in parts for found in _sets_of(part)]
    return [_keys_of(span)]


def _chosen(kind: str, groups: Sets) -> list[tuple[tuple[Span, ...], ...]]:
    if kind == "rollup":
        return [tuple(groups[:count]) for count in range(len(groups), -1, -1)]
    return [chosen for count in range(len(groups), -1, -1) for chosen in combinations(groups, count)]


def _keys_of(span: Span) -> tuple[Span, ...]:
    """`a`, `(a, b)` or `()`."""
    if not is_open(span.tokens[0]) or closing(span, 0) != len(span.tokens) - 1:
        return (span,)
    return tuple(split_commas(span.part(1, len(span.tokens) - 1))) if len(span.tokens) > 2 else ()


def _is_words(span: Span) -> bool:
    return " ".join(word(span.tokens[0]).split()) == _WORDS


def _whole(span: Span) -> Call | None:
    """The ROLLUP or CUBE that an item is."""
    found = (call for call in calls(span) if call.index == 0 and len(call.span.tokens) == len(span.tokens))
    return next((call for call in found if call.name in ("rollup", "cube")), None)
