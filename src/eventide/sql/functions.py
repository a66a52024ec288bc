"""Which functions a query calls: those that nobody knows, and those that reach out of SQL into the JVM."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from sqlglot.tokenizer_core import TokenType

from eventide.plan.validate import USER_AGGREGATES
from eventide.sql.aggregate_calls import AGGREGATE_NAMES, INSTEAD_OF_OVER
from eventide.sql.cursor import RESERVED
from eventide.sql.dialect import EventideParser
from eventide.sql.spark_functions import SPARK_FUNCTIONS
from eventide.sql.statements import Create, CreateSource, CreateStream, CreateView
from eventide.sql.tokens import Span, calls, error_at, word
from eventide.sql.window_functions import BOUND_FUNCTIONS, UNSUPPORTED_BOUNDS, WINDOW_FUNCTIONS

JVM_CALLS = frozenset({"java_method", "reflect", "try_reflect"})
# IDENTIFIER('java_' || 'method')(...) is a call, too.
_HIDING = frozenset({"identifier"})
_NEEDS_OVER = frozenset("row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value".split())
# What may come before a parenthesis in a query without being a function of Spark's list.
_GRAMMAR = {word.lower() for word in RESERVED} | frozenset(
    """char varchar numeric dec character table stream descriptor watermark tumbling hopping except using values
    partition exists within filter rollup cube grouping sets all interval lateral
    view""".split()
)
_KNOWN = (
    SPARK_FUNCTIONS
    | AGGREGATE_NAMES
    | WINDOW_FUNCTIONS
    | frozenset(BOUND_FUNCTIONS)
    | UNSUPPORTED_BOUNDS
    | {name.lower() for name in EventideParser.FUNCTION_PARSERS}
    | _GRAMMAR
)


def check_known(statement: Create, others: Collection[str] = ()) -> None:
    """An error at the first function that is not Spark's, nor in `others`, nor an aggregate of the user's own.

    Only for a check without Spark: at run time Spark is asked, which also knows what was registered on its session.
    """
    known = {name.lower() for name in others}
    for span in _expressions(statement):
        for call in calls(span):
            has_over = call.after < len(span.tokens) and word(span.tokens[call.after]) == "OVER"
            if call.name in _NEEDS_OVER and not has_over:
                raise call.span.error(f"{call.name} needs OVER", INSTEAD_OF_OVER)
            if call.name in _KNOWN or call.name in USER_AGGREGATES or call.name in known:
                continue
            close = difflib.get_close_matches(call.name, _KNOWN - _GRAMMAR, n=1)
            help = (f"did you mean {close[0]}? " if close else "") + (
                f"if it is registered on the Spark session, say so: --function {call.name}"
            )
            raise call.span.error(f"there is no function {call.name}", help)


def refuse_jvm_calls(statement: Create) -> None:
    """An error at a call with which SQL would run code of the JVM: a checkpoint's catalog is SQL, too."""
    for span in _expressions(statement):
        refuse_jvm_calls_in(span)


def refuse_jvm_calls_in(span: Span) -> None:
    for token, following in zip(span.tokens, span.tokens[1:], strict=False):
        name = token.text.lower()
        if token.token_type == TokenType.STRING or following.token_type not in (TokenType.L_PAREN, TokenType.STRING):
            continue
        if name in JVM_CALLS and following.token_type == TokenType.L_PAREN:
            help = "if you trust whoever wrote it: connect(allow_jvm_calls=True), or --allow-jvm-calls"
            raise error_at(span.sql, token, f"{name} runs code of the JVM, which is not allowed", help)
        if name == "using" and following.token_type == TokenType.STRING:
            help = "read the rows with db.read and do it in Python"
            raise error_at(span.sql, token, "TRANSFORM ... USING runs a program, which is not allowed", help)
        if name in _HIDING:
            raise error_at(span.sql, token, f"{name.upper()}(...) hides what it names", "write the name itself")


def _expressions(statement: Create) -> list[Span]:
    if isinstance(statement, CreateStream | CreateView):
        return [statement.query.span]
    watermark = statement.source.watermark if isinstance(statement, CreateSource) else None
    return [] if watermark is None or watermark.expression is None else [watermark.expression]
