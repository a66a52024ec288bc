"""The fluent API says what SQL says: equal programs have equal plans, and the same mistakes the same errors."""

from __future__ import annotations

import datetime as dt

import pytest

import eventide
from eventide.admission.options import parse_admission
from eventide.errors import EventideError
from eventide.fluent import FluentStream, cumulate, hop, interval, session, slide, table, tumble
from eventide.plan.difference import canonical
from tests.fluent.support import clicks, sql_over, unbound


def taps() -> FluentStream:
    return unbound("taps").event_time("at", lag="1 s")


USERS = table("users", {"k": "STRING", "country": "STRING"}, "/users", format="csv", header="true", refresh="1 hour")


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
    "a lookup before a window": (
        clicks().join(USERS, on="k", how="left").group_by("country").window(tumble("10 seconds")).agg(n="count(*)"),
        "SELECT window_start, window_end, country, count(*) AS n FROM clicks LEFT JOIN users USING (k) "
        "GROUP BY country, TUMBLE(ts, INTERVAL '10' SECOND)",
    ),
    "a lookup by a condition": (
        clicks().join(USERS, on="clicks.x = users.k AND v > 1").select("id", "country"),
        "SELECT id, country FROM clicks JOIN users ON clicks.x = users.k AND v > 1",
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
    "growing windows": (
        clicks().group_by("k").window(cumulate(size="1 h", step="1 m")).agg(n="count(*)"),
        "SELECT window_start, window_end, k, count(*) AS n FROM clicks GROUP BY k, CUMULATE(ts, '1 m', '1 h')",
    ),
    "a join of tumbling windows": (
        clicks().join(taps(), on="k", within=tumble("5 s", offset="1 s"), how="left").select("k", "taps.v AS w"),
        "SELECT k, taps.v AS w FROM clicks LEFT JOIN taps WITHIN TUMBLE('5 s', '1 s') USING (k)",
    ),
    "a join by a condition, at the close of its window": (
        clicks()
        .where("v > 0")
        .join(taps().select("k", "v AS w"), on="upper(clicks.k) = taps.k AND w < v", within=session("5 s"))
        .select("clicks.k", "window_start")
        .emit("on window close")
        .allow_lateness("1 m"),
        "SELECT c.k, window_start FROM (SELECT * FROM clicks WHERE v > 0) c JOIN (SELECT k, v AS w FROM taps) t "
        "WITHIN SESSION('5 s') ON upper(c.k) = t.k AND w < v EMIT ON WINDOW CLOSE ALLOW LATENESS '1 m'",
    ),
    "a join of tumbling and sliding windows": (
        clicks().join(taps(), on=["k", "x"], within=(tumble("5 s"), hop("4 s", "2 s")), how="full").select("k", "x"),
        "SELECT k, x FROM clicks FULL JOIN taps WITHIN TUMBLE('5 s') AND HOP('2 s', '4 s') USING (k, x)",
    ),
    "a join within an interval": (
        clicks().join(taps(), on="k", within=interval(before="1 s", after=dt.timedelta(minutes=1)), how="anti"),
        "SELECT * FROM clicks LEFT ANTI JOIN taps WITHIN (1 SECOND, 1 MINUTE) USING (k)",
    ),
    "a join within a distance, and what comes behind it": (
        clicks()
        .join(taps(), on="k", within=interval("1 s"))
        .where("clicks.v < taps.v")
        .select("k", "taps.v - clicks.v AS d")
        .where("d > 3"),
        "SELECT * FROM (SELECT k, taps.v - clicks.v AS d FROM clicks JOIN taps WITHIN 1 SECOND USING (k) "
        "WHERE clicks.v < taps.v) WHERE d > 3",
    ),
    "a join whose condition bounds the time": (
        clicks()
        .join(taps(), on="clicks.k = taps.k AND taps.at BETWEEN clicks.ts AND clicks.ts + INTERVAL 1 HOUR")
        .select("clicks.v"),
        "SELECT clicks.v FROM clicks, taps WHERE clicks.k = taps.k AND taps.at BETWEEN clicks.ts AND clicks.ts + "
        "INTERVAL '1' HOUR",
    ),
    "the last row before": (
        clicks().join_asof(taps(), on="k", how="left").select("clicks.v", "taps.x"),
        "SELECT clicks.v, taps.x FROM clicks ASOF LEFT JOIN taps MATCH_CONDITION (clicks.ts >= taps.at) USING (k)",
    ),
    "a later row, not too late": (
        clicks()
        .join_asof(taps(), on="k", direction="forward", tolerance="5 s", allow_exact_matches=False)
        .select("clicks.v"),
        "SELECT clicks.v FROM clicks ASOF JOIN taps ON clicks.k = taps.k AND clicks.ts < taps.at "
        "AND taps.at <= clicks.ts + INTERVAL '5' SECOND",
    ),
    "the nearest row": (
        clicks().join_asof(taps(), on="clicks.k = taps.x", direction="nearest", tolerance="5 s").select("clicks.v"),
        "SELECT clicks.v FROM clicks ASOF JOIN taps MATCH_CONDITION (NEAREST(clicks.ts, taps.at) "
        "AND abs(clicks.ts - taps.at) <= INTERVAL '5' SECOND) ON clicks.k = taps.x",
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


def test_admit_sets_what_the_options_of_sql_set_whatever_comes_first() -> None:
    limits = {"max_lag": dt.timedelta(seconds=3), "rate": 12.5, "burst": 40, "jitter_budget": "1 m", "token_cost": 2}
    (origin,) = clicks().admit("silver", **limits)._origins  # type: ignore[arg-type]
    wanted = parse_admission(
        {
            "sla.class": "silver",
            "sla.max_lag": "3 s",
            "sla.max_events_per_sec": "12.5",
            "sla.burst": "40",
            "sla.jitter_budget": "1 m",
            "sla.token_cost": "2",
        }
    )
    assert origin.source().admission == wanted
    (late,) = unbound().admit(rate=3).admit(max_lag="9 s").event_time("at", lag="5 s")._origins
    assert late.source().admission == parse_admission({"sla.max_lag": "9 s"})
    assert late.source().watermark_lag == 5_000_000


def test_explain_shows_the_plan_as_a_tree() -> None:
    text = clicks().where("v > 0").group_by("k").window(tumble("10 s")).agg(n="count(*)").explain()
    assert "Window tumble size 10s" in text and "Filter v > 0" in text and "Scan clicks (dataframe)" in text


def test_the_public_names_are_there_in_any_order_of_use() -> None:
    assert eventide.tumble is tumble and eventide.hop is hop and eventide.session is session and eventide.slide is slide
    assert eventide.cumulate is cumulate and eventide.interval is interval
    assert callable(eventide.stream) and callable(eventide.configure)


WRONG = [
    (lambda: clicks().where("w > 0").window(tumble("1 m")).agg(n="count(*)").plan(), "where(): there is no column w"),
    (lambda: clicks().where("v > 0 GROUP BY k"), "where(): 'GROUP BY' is not expected here"),
    (lambda: clicks().where("v > 0; DROP"), "where(): ';' is not expected here"),
    (lambda: clicks().where("(v > 0"), "where(): this parenthesis is not closed"),
    (lambda: clicks().where(" "), "where(): expected a condition, found nothing"),
    (lambda: clicks().where("count(*) > 1").plan(), "where(): an aggregate cannot be used in WHERE"),
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
    (lambda: clicks().admit(), "admit() needs a limit"),
    (lambda: clicks().admit("titanium"), "admit(sla_class): sla.class is 'titanium'"),
    (lambda: clicks().admit(burst=3), "admit(burst): sla.burst is of no use without a rate"),
    (lambda: clicks().select("k").admit(rate=3), "admit() applies to the DataFrame's own columns"),
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
    (lambda: clicks().join(clicks(), on="k", within=tumble("1 m")), "two streams are called clicks"),
    (lambda: clicks().join(taps(), on="k", within="1 m"), "join(within) takes a window"),  # type: ignore[arg-type]
    (lambda: clicks().join(taps(), on="k", within=tumble("1 m"), how="lefty"), "join(how): there is no 'lefty'"),
    (lambda: clicks().join(taps(), on="k", within=slide("1 m")), "join(within): slide() is the window of one row"),
    (
        lambda: clicks().join(taps(), on="k", within=tumble("1 m", on="at")),
        "join(within): tumble(on=...) is for window()",
    ),
    (lambda: clicks().join(taps(), on=[], within=tumble("1 m")), "join(on) is empty"),
    (lambda: clicks().join(taps(), on="k").select("k").plan(), "clicks: a join of two streams needs a bound in time"),
    (lambda: clicks().join(taps(), on="q", within=tumble("1 m")).select("v").plan(), "join(on): there is no column q"),
    (lambda: clicks().join(taps(), on="k", within=interval("1")).select("k").plan(), "interval(): "),
    (lambda: clicks().join(taps(), on="k", within=tumble("1 m")).select("v").plan(), "select(): v is a column of both"),
    (lambda: clicks().group_by("k").join(taps(), on="k"), "join() takes rows, before group_by()"),
    (lambda: interval(), "interval() takes a distance, or before= and after="),
    (lambda: clicks().join_asof(unbound("taps"), on="k"), "join_asof() compares event times, and taps has none"),
    (lambda: clicks().join_asof(taps(), on="k", direction="up"), "join_asof(direction): there is no 'up'"),
    (lambda: clicks().join_asof(taps(), on="k", how="full"), "join_asof(how): there is no 'full'"),
    (
        lambda: clicks().join_asof(taps(), on="k", direction="nearest", allow_exact_matches=False),
        "join_asof(allow_exact_matches): the nearest row may be at the same time",
    ),
    (
        lambda: (
            clicks()
            .join(taps(), on="k", within=tumble("1 m"))
            .select("k")
            .join(unbound("third").event_time("at"), on="k", within=tumble("1 m"))
            .select("k")
            .plan()
        ),
        "a stream over DataFrames is one query of Spark",
    ),
    (lambda: clicks().join(USERS, on="k", within=tumble("1 m")), "join(within): users is a table"),
    (lambda: clicks().join(USERS, on="k", how="full"), "join(how): there is no 'full'"),
    (lambda: table("t", "k STRING", "/t", heading="true"), "unknown option 'heading'"),
    (lambda: table("t", {"k": "STRIN"}, "/t"), "table(columns): "),
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
