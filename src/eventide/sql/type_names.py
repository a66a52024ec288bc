"""Column types of CREATE SOURCE as Spark DDL, such as decimal(10,2) or struct<a:int>."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from eventide.errors import suggest
from eventide.plan.names import quoted
from eventide.sql.cursor import Cursor
from eventide.sql.dialect import tokenize
from eventide.sql.limits import MOST_DIGITS
from eventide.sql.tokens import Span, error_at, word

_SIMPLE = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "BYTE": "tinyint",
    "SMALLINT": "smallint",
    "SHORT": "smallint",
    "INT": "int",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "LONG": "bigint",
    "FLOAT": "float",
    "REAL": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
}
_DECIMAL = ("DECIMAL", "DEC", "NUMERIC")
_TEXT = ("VARCHAR", "CHAR", "CHARACTER")
_NESTED = ("ARRAY", "MAP", "STRUCT")
KNOWN = (*(name.lower() for name in _SIMPLE), "decimal", "array", "map", "struct")

TIME_TYPES = frozenset({"timestamp", "timestamp_ntz", "date"})


def read_type(cursor: Cursor) -> str:
    """The type at the cursor as Spark writes it: lower case but for the names of struct fields."""
    token = cursor.next()
    name = word(token)
    if name in _SIMPLE:
        _refuse_precision(cursor, name, token)
        return _SIMPLE[name]
    if name in _DECIMAL:
        numbers = _numbers(cursor, 2)
        return "decimal(10,0)" if not numbers else _decimal(cursor, token, *numbers)
    if name in _TEXT:
        message = f"{name} would have to check lengths, which Spark's readers do not"
        raise error_at(cursor.sql, token, message, "write STRING; check with WHERE length(...) <= 10 in the stream")
    if name in _NESTED:
        return _nested(cursor, name)
    cursor.position -= 1
    raise cursor.error(f"unknown type '{token.text}'", suggest(token.text.lower(), KNOWN))


def _decimal(cursor: Cursor, token: Token, precision: str, scale: str = "0") -> str:
    if not 1 <= int(precision) <= MOST_DIGITS or int(scale) > int(precision):
        message = f"{token.text} has 1 to {MOST_DIGITS} digits, and no more of them after the decimal point"
        raise error_at(cursor.sql, token, message, "write DECIMAL(10, 2): 10 digits, 2 of them after the decimal point")
    return f"decimal({int(precision)},{int(scale)})"


def _refuse_precision(cursor: Cursor, name: str, token: Token) -> None:
    if cursor.at(TokenType.L_PAREN):
        help = (
            "Spark's timestamps have microseconds; write TIMESTAMP" if name.startswith("TIMESTAMP") else f"write {name}"
        )
        raise cursor.error(f"{token.text} takes no arguments", help)


def _numbers(cursor: Cursor, most: int) -> list[str]:
    if not cursor.accept_symbol(TokenType.L_PAREN):
        return []
    numbers = []
    while True:
        token = cursor.expect_symbol(TokenType.NUMBER, "a number")
        if not token.text.isdecimal():
            raise error_at(cursor.sql, token, "this is not a whole number", "write DECIMAL(10, 2)")
        numbers.append(token.text)
        if len(numbers) == most or not cursor.accept_symbol(TokenType.COMMA):
            break
    cursor.expect_symbol(TokenType.R_PAREN, ")")
    return numbers


def _nested(cursor: Cursor, name: str) -> str:
    cursor.expect_symbol(TokenType.LT, "<", help="write ARRAY<type>, MAP<key, value> or STRUCT<name: type, ...>")
    if name == "ARRAY":
        inner = read_type(cursor)
    elif name == "MAP":
        key = read_type(cursor)
        cursor.expect_symbol(TokenType.COMMA, ",")
        inner = f"{key},{read_type(cursor)}"
    else:
        inner = ",".join(_fields(cursor))
    cursor.expect_symbol(TokenType.GT, ">")
    return f"{name.lower()}<{inner}>"


def element_types(type_name: str, position: bool) -> tuple[str, ...]:
    """The types of the columns into which an array or a map is exploded; none for another type."""
    if not type_name.startswith(("array<", "map<")):
        return ()
    inside = type_name.partition("<")[2].removesuffix(">")
    cursor = Cursor(Span(inside, tuple(tokenize(inside))))
    types = [read_type(cursor)]
    if cursor.accept_symbol(TokenType.COMMA):
        types.append(read_type(cursor))
    return ("int", *types) if position else tuple(types)


def struct_fields(type_name: str) -> dict[str, str]:
    """The fields of a struct by name, with their types; none for another type."""
    if not type_name.startswith("struct<"):
        return {}
    inside = type_name.removeprefix("struct<").removesuffix(">")
    cursor = Cursor(Span(inside, tuple(tokenize(inside))))
    fields: dict[str, str] = {}
    while True:
        name, _ = cursor.name("the name of a field")
        cursor.accept_symbol(TokenType.COLON)
        fields[name] = read_type(cursor)
        if not cursor.accept_symbol(TokenType.COMMA):
            return fields


def _fields(cursor: Cursor) -> list[str]:
    fields = []
    while True:
        field, _ = cursor.name("the name of a field")
        cursor.accept_symbol(TokenType.COLON)
        fields.append(f"{quoted(field)}:{read_type(cursor)}")
        if not cursor.accept_symbol(TokenType.COMMA):
            return fields
