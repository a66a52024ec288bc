"""Which functions of texts mean the same outside Spark, by their arguments; see `portable`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import expressions as exp

from eventide.tasks.expressions import Call, Constant, Expression
from eventide.tasks.patterns import like, regex

Arguments = Mapping[str, Expression]  # by sqlglot's names of them
Rule = Callable[[exp.Expr, Arguments], Expression | None]


def _is_text(value: Expression | None) -> bool:
    return value is not None and value.type == "string"


def _fixed_text(value: Expression | None) -> str | None:
    """The text that is the same for all rows."""
    return value.value if isinstance(value, Constant) and value.type == "string" else None


def _counts(value: Expression | None) -> bool:
    """Whether it is a number that is the same for all rows, from 1 on."""
    return isinstance(value, Constant) and value.type == "int" and value.value >= 1


def _length(node: exp.Expr, given: Arguments) -> Expression | None:
    if not _is_text(given["this"]) or node.args.get("encoding") or node.args.get("binary"):
        return None
    return Call("length", (given["this"],), "int")


def _case_of_letters(node: exp.Expr, given: Arguments) -> Expression | None:
    function = "lower" if isinstance(node, exp.Lower) else "upper"
    return Call(function, (given["this"],), "string") if _is_text(given["this"]) else None


def _trim(node: exp.Expr, given: Arguments) -> Expression | None:
    """Of blanks only."""
    position = node.args.get("position") or "BOTH"
    function = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(position)
    if function is None or not _is_text(given["this"]) or "expression" in given:
        return None
    return Call(function, (given["this"],), "string")


def _holds(function: str) -> Rule:
    def judged(node: exp.Expr, given: Arguments) -> Expression | None:
        value, piece = given["this"], given["expression"]
        if not _is_text(value) or _fixed_text(piece) is None:
            return None
        return Call(function, (value, piece), "boolean")

    return judged


def _like(node: exp.Expr, given: Arguments) -> Expression | None:
    value, pattern = given["this"], _fixed_text(given["expression"])
    if not _is_text(value) or pattern is None or like(pattern) is None:
        return None
    found = Call("like", (value, given["expression"]), "boolean")
    return Call("not", (found,), "boolean") if node.args.get("negate") else found


def _substring(node: exp.Expr, given: Arguments) -> Expression | None:
    bounds = tuple(given[part] for part in ("start", "length") if part in given)
    if not _is_text(given["this"]) or "start" not in given or not all(map(_counts, bounds)):
        return None
    return Call("substring", (given["this"], *bounds), "string")


def _split_part(node: exp.Expr, given: Arguments) -> Expression | None:
    inputs = tuple(given[part] for part in ("this", "delimiter", "part_index"))
    if not _is_text(inputs[0]) or not _fixed_text(inputs[1]) or not _counts(inputs[2]):
        return None
    return Call("split_part", inputs, "string")


def _replace(node: exp.Expr, given: Arguments) -> Expression | None:
    """What stands there instead is nothing if it is not said."""
    value, replacement = given["this"], given.get("replacement", Constant("", "string"))
    if not _is_text(value) or not _fixed_text(given["expression"]) or _fixed_text(replacement) is None:
        return None
    return Call("replace", (value, given["expression"], replacement), "string")


def _rlike(node: exp.Expr, given: Arguments) -> Expression | None:
    pattern = _fixed_text(given["expression"])
    found = None if pattern is None else regex(pattern)
    if not _is_text(given["this"]) or found is None or "flag" in given:
        return None
    return Call("rlike", (given["this"], Constant(found.text, "string")), "boolean")


def _regexp_extract(node: exp.Expr, given: Arguments) -> Expression | None:
    pattern, group = _fixed_text(given["expression"]), given.get("group")
    if not _is_text(given["this"]) or pattern is None or not given.keys() <= {"this", "expression", "group"}:
        return None
    if not isinstance(group, Constant) or group.type != "int" or group.value < 0:
        return None
    found = regex(pattern, group.value)
    return None if found is None else Call("regexp_extract", (given["this"], Constant(found.text, "string")), "string")


def _regexp_replace(node: exp.Expr, given: Arguments) -> Expression | None:
    """Empty matches between others are seen by Java alone; `$` and a backslash in what is put there name groups."""
    pattern, replacement = _fixed_text(given["expression"]), _fixed_text(given.get("replacement"))
    if not _is_text(given["this"]) or pattern is None or replacement is None or len(given) > 3:
        return None
    found = regex(pattern)
    if found is None or found.may_be_empty or "$" in replacement or "\\" in replacement:
        return None
    inputs = (given["this"], Constant(found.text, "string"), given["replacement"])
    return Call("regexp_replace", inputs, "string")


TEXT_RULES: Mapping[type[exp.Expr], Rule] = {
    exp.Length: _length,
    exp.Lower: _case_of_letters,
    exp.Upper: _case_of_letters,
    exp.Trim: _trim,
    exp.StartsWith: _holds("startswith"),
    exp.EndsWith: _holds("endswith"),
    exp.Contains: _holds("contains"),
    exp.Like: _like,
    exp.Substring: _substring,
    exp.SplitPart: _split_part,
    exp.Replace: _replace,
    exp.RegexpLike: _rlike,
    exp.RegexpExtract: _regexp_extract,
    exp.RegexpReplace: _regexp_replace,
}
