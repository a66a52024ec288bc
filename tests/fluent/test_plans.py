"""The fluent API says what SQL says: equal programs have equal plans, and the same mistakes the same errors."""

from __future__ import annotations

import datetime as dt

import pytest

import eventide
from eventide.errors import EventideError
from eventide.fluent import FluentStream, hop, session, slide, tumble
from eventide.plan.difference import canonical
from tests.fluent.support import clicks, sql_over, unbound

PAIRS: dict[str, tuple[FluentStream, str]] = {
    "a tumbling window": (
        clicks()
        .where("v > 0")
        .group_by("k", "upper(x) AS u")
        .window(tumble("10 seconds"))
        .agg(n="count(*)", total="sum(v)"),
        "SELECT window_start, window_end, k, upper(x) AS u, count(*) AS n, sum(v) AS total FROM clicks WHERE v > 0 "
        "GROUP BY k, upper(x), TUMBLE(ts, INTERVAL '10' SECOND)",
    ),
    "an offset, HAVING and lateness": (
        clicks()
        .window(tumble("1 minute", offset="7s"))
        .agg(n="count(*)")
        .having("n > 1")
        .allow_lateness(dt.timedelta(seconds=9)),
        "SELECT window_start, window_end, count(*) AS n FROM clicks GROUP BY TUMBLE(ts, '1 minute', '7s') HAVING n > 1 "
        "ALLOW LATENESS '9 seconds'",
    ),
    "hopping windows on update": (
        clicks().group_by("k").window(hop(size="10 s", slide="5 s")).agg("max(v) AS most").emit("on update"),
        "SELECT window_start, window_end, k, max(v) AS most FROM clicks GROUP BY k, HOP(ts, SIZE => '10 s', "
        "SLIDE => '5 s') EMIT ON UPDATE",
    ),
    "sessions as a change log": (
        clicks().group_by("k").window(session(gap="30 s")).agg(n="count(*)").emit("changes"),
        "SELECT window_start, window_end, op, k, count(*) AS n FROM clicks GROUP BY k, SESSION(ts, '30 s') "
        "EMIT CHANGES",
    ),
    "sliding windows": (
        clicks().group_by("k").window(slide(lookback="10 s", lookahead="5 s")).agg(total="sum(v)"),
        "SELECT window_start, window_end, k, sum(v) AS total FROM clicks GROUP BY k, slidingwindow('ss', 10, 5)",
    ),
    "every so often": (
        clicks().window(tumble("1 m")).agg(n="count(*)").emit(every="5 s"),
        "SELECT window_start, window_end, count(*) AS n FROM clicks GROUP BY TUMBLE(ts, '1 m') EMIT EVERY '5 s'",
    ),
    "FILTER, DISTINCT and pseudo columns": (
        clicks()
        .group_by("k")
        .window(tumble("1 m"))
        .select(
            "k",
            "count(DISTINCT x) AS d",
            "count(*) FILTER (WHERE v > 0) AS n",
            "window_id",
            "emit_epoch",
            "window.end AS e",
        ),
        "SELECT k, count(DISTINCT x) AS d, count(*) FILTER (WHERE v > 0) AS n, window_id, emit_epoch, window.end "
        "AS e FROM clicks "
        "GROUP BY k, TUMBLE(ts, '1 m')",
    ),
    "a selection before the window": (
        clicks()
        .where("v > 0")
        .select("k", "v * 2 AS w")
        .where("w < 9")
        .group_by("k")
        .window(tumble("1 m"))
        .agg(t="sum(w)"),
        "SELECT window_start, window_end, k, sum(w) AS t FROM (SELECT k, v * 2 AS w FROM clicks WHERE v > 0) "
        "WHERE w < 9 "
        "GROUP BY k, tumblingwindow('mi', 1)",
    ),
    "several conditions": (
        clicks().where("v > 0 OR k = 'a'").where("x = 'b' -- why"),
        "SELECT * FROM clicks WHERE (v > 0 OR k = 'a') AND (x = 'b')",
    ),
    "rows as they come": (clicks().select("k", "v + 1 AS w"), "SELECT k, v + 1 AS w FROM clicks"),
    "rows in order": (clicks().select("k", "ts").order_by("ts"), "SELECT k, ts FROM clicks ORDER BY ts"),
    "another time": (
        clicks().group_by("k").window(tumble("1 m", on="at")).agg(n="count(*)"),
        "SELECT window_start, window_end, k, count(*) AS n FROM clicks GROUP BY k, TUMBLE(at, '1 m')",
    ),
    "two sources": (
        clicks()
        .select("k", "v")
        .union(unbound("taps").event_time("at", lag="1 s").select("k", "v"))
        .window(tumble("1 m"))
        .agg(t="sum(v)"),
        "SELECT window_start, window_end, sum(v) AS t FROM (SELECT k, v FROM clicks UNION ALL SELECT k, v FROM taps) "
        "GROUP BY tumblingwindow('mi', 1)",
    ),
    "options": (
        clicks().window(tumble("1 m")).agg(n="count(*)").late_policy("reassign", max_lateness="3 s").max_groups(7),
        "CREATE STREAM o WITH ('late.policy' = 'reassign', 'late.max_lateness' = '3 s', 'max_groups' = '7') AS "
        "SELECT window_start, window_end, count(*) AS n FROM clicks GROUP BY TUMBLE(ts, '1 m')",
    ),
    "processing time": (
        clicks().window(tumble("1 m")).agg(n="count(*)").processing_time(),
        "CREATE STREAM o WITH ('eventtime.enabled' = 'false') AS "
        "SELECT window_start, window_end, count(*) AS n FROM clicks GROUP BY TUMBLE(ts, '1 m')",
    ),
    "a stream and columns whose names are words of SQL": (
        unbound("stream", (("user", "string"), ("end", "timestamp")))
        .event_time("end")
        .group_by("user")
        .window(tumble("1 m"))
        .agg(n="count(*)"),
        "SELECT window_start, window_end, user, count(*) AS n FROM `stream` GROUP BY user, TUMBLE(end, '1 m')",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_sql_and_fluent_steps_give_equal_plans(name: str) -> None:
    fluent, sql = PAIRS[name]
    assert canonical(fluent.plan()) == canonical(sql_over(fluent, sql))


def test_a_step_leaves_the_object_as_it_was() -> None:
    before = clicks().group_by("k").window(tumble("1 m")).agg(n="count(*)")
    text = canonical(before.plan())
    before.having("n > 1").allow_lateness("1 m").max_groups(3)
    assert canonical(before.plan()) == text


def test_steps_that_are_given_again_replace_what_was_said() -> None:
    once = clicks().window(tumble("1 m")).agg(n="count(*)").late_policy("strict")
    twice = (
        clicks()
        .window(hop("9 m", "3 m"))
        .late_policy("reassign", "1 s")
        .agg(x="sum(v)")
        .window(tumble("1 m"))
        .agg(n="count(*)")
    )
    assert canonical(twice.late_policy("strict").plan()) == canonical(once.plan())


def test_explain_shows_the_plan_as_a_tree() -> None:
    text = clicks().where("v > 0").group_by("k").window(tumble("10 s")).agg(n="count(*)").explain()
    assert "Window tumble size 10s" in text and "Filter v > 0" in text and "Scan clicks (dataframe)" in text


def test_the_public_names_are_there_in_any_order_of_use() -> None:
    assert eventide.tumble is tumble and eventide.hop is hop and eventide.session is session and eventide.slide is slide
    assert callable(eventide.stream) and callable(eventide.configure)


WRONG = [
    (lambda: clicks().where("w > 0").window(tumble("1 m")).agg(n="count(*)").plan(), "where(): there is no column w"),
    (lambda: clicks().where("v > 0 GROUP BY k"), "where(): 'GROUP BY' is not expected here"),
    (lambda: clicks().where("v > 0; DROP"), "where(): ';' is not expected here"),
    (lambda: clicks().where("(v > 0"), "where(): this parenthesis is not closed"),
    (lambda: clicks().where(" "), "where(): expected a condition, found nothing"),
    (lambda: clicks().where("count(*) > 1").plan(), "where(): an aggregate cannot stand in WHERE"),
    (lambda: clicks().group_by("k").where("v > 0"), "where() comes before group_by() and window()"),
    (lambda: clicks().select("k, v"), "select(): ',' is not expected here"),
    (lambda: clicks().group_by("q").window(tumble("1 m")).agg(n="count(*)").plan(), "group_by(): there is no column q"),
    (lambda: clicks().window(tumble("1 m")).agg(n="count(q)").plan(), "agg(n): there is no column q"),
    (lambda: clicks().window(tumble("1 m")).agg(n="v").plan(), "agg(n): v is neither a group key nor aggregated"),
    (lambda: clicks().window(tumble("1 m")).agg(), "agg() needs an aggregate"),
    (lambda: clicks().group_by("k").agg(n="count(*)").plan(), "agg() without a window would never emit anything"),
    (lambda: clicks().group_by("k").window(tumble("1 m")).plan(), "group_by() and window() alone select nothing"),
    (lambda: clicks().window("1 m"), "window() takes a window"),  # type: ignore[arg-type]
    (lambda: tumble("ten"), "tumble(size): 'ten' is not a duration"),
    (lambda: tumble("0 s"), "tumble(): the window's size is 0"),
    (lambda: tumble(10), "a duration must be text or a timedelta"),  # type: ignore[arg-type]
    (lambda: hop(size="5 s", slide="10 s"), "hop(): the slide (10s) is larger than the size (5s)"),
    (lambda: slide("0 s"), "slide(lookback)"),
    (lambda: unbound().event_time("tss"), "event_time(column): there is no column tss\n  help: did you mean ts?"),
    (lambda: unbound().event_time("ts"), "event_time(column): how ts (bigint) gives a time is not declared"),
    (lambda: unbound().event_time("ts", type="unix"), "event_time(type): unknown event-time type 'unix'"),
    (lambda: unbound().event_time("at", lag="5"), "event_time(lag): "),
    (lambda: clicks().deduplicate("idd", within="1 m"), "deduplicate(): there is no column idd"),
    (lambda: clicks().deduplicate(within="1 m"), "deduplicate() needs a column"),
    (lambda: clicks().select("k").event_time("at"), "event_time() applies to the DataFrame's own columns"),
    (lambda: clicks().emit("on close"), "emit(): there is no mode 'on close'"),
    (lambda: clicks().emit(), "emit() takes a mode or every="),
    (lambda: clicks().late_policy("lenient"), "late_policy(): there is no policy 'lenient'"),
    (
        lambda: clicks().window(tumble("1 m")).agg(n="count(*)").late_policy("reassign").plan(),
        "late_policy(): late.policy 'reassign' needs",
    ),
    (
        lambda: clicks().window(tumble("1 m")).agg(n="count(*)").max_groups(0).plan(),
        "max_groups(): option 'max_groups' is a whole number",
    ),
    (lambda: clicks().union(clicks()), "two streams are called clicks"),
    (lambda: unbound("my stream").event_time("at"), "name: 'my stream' cannot be the name of a source"),
    (
        lambda: unbound(columns=(("__ts", "bigint"), ("k", "string"))).event_time("k", type="iso8601"),
        "the column name __ts is reserved",
    ),
]


@pytest.mark.parametrize(("build", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_mistake_is_an_error_that_names_the_step(build: object, message: str) -> None:
    with pytest.raises(EventideError) as raised:
        build()  # type: ignore[operator]
    assert message in str(raised.value)


def test_an_error_underlines_the_users_own_expression() -> None:
    with pytest.raises(EventideError) as raised:
        clicks().where("v > 0 AND\n  w < 3").plan()
    assert "  2 |   w < 3\n        ^" in str(raised.value)
