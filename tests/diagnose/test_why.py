"""Why is nothing coming out: every case in words, from figures alone.

event time   12:00:00      12:00:10                     12:01:10
window       [─────────────)                            ↑
                           end                          end + 1 minute: the watermark at which it closes
"""

from __future__ import annotations

from eventide.diagnose.why import Seen, why
from eventide.plan.logical import Stream
from eventide.storage.results import Account
from tests.sql.support import catalog, stream

NOON = 1_738_324_800_000_000  # 2025-01-31 12:00:00
SECOND = 1_000_000
SOURCES = """ CREATE SOURCE clicks (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts -
INTERVAL '5' SECOND); CREATE SOURCE views (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS
ts - INTERVAL '5' SECOND); CREATE SOURCE taps (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) WITH
('idle_timeout' = '30 seconds'); CREATE SOURCE timeless (k STRING);
"""
ONE = (
    "CREATE STREAM o AS SELECT k, count(*) AS n FROM clicks GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND) ALLOW "
    "LATENESS INTERVAL '1' MINUTE"
)
TWO = ONE.replace("FROM clicks", "FROM (SELECT * FROM clicks UNION ALL SELECT * FROM views)")


def at(seconds: float) -> int:
    return NOON + round(seconds * SECOND)


def account(
    sources: dict[str, dict[str, float]] | None = None, gauges: dict[str, int] | None = None, **totals: int
) -> Account:
    marks = {name: {mark: at(value) for mark, value in figures.items()} for name, figures in (sources or {}).items()}
    return Account(3, {}, {"rows_in": 10, "used": 10, **totals}, {}, gauges or {}, None, marks)


def told(
    sql: str | Stream,
    kept: Account | None,
    watermark: float | None = None,
    now: float = 600,
    idle: tuple[str, ...] = (),
) -> list[str]:
    plan = stream(sql, SOURCES) if isinstance(sql, str) else sql
    return why(plan, kept, watermark=None if watermark is None else at(watermark), now=at(now), idle=idle).splitlines()


def test_a_stream_that_never_ran() -> None:
    assert told(ONE, None) == [
        "o has not run yet. db.tick() or db.start() runs it, or `eventide run` on the command line."
    ]


def test_no_rows_yet() -> None:
    assert told(TWO, account(rows_in=0)) == ["o: no row has come in from clicks and views."]
    filtered = ONE.replace("GROUP BY", "WHERE k > 'a' GROUP BY")
    assert told(filtered, account(rows_in=0))[1] == "Rows that do not meet k > 'a' do not count."


def test_rows_that_limits_rejected() -> None:
    limits = "'sla.max_events_per_sec' = '20', 'sla.burst' = '50', 'sla.max_lag' = '2 seconds'"
    limited = f"CREATE SOURCE s (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) WITH ({limits});"
    kept = account({"s": {"watermark": 3}}, rejected=1201)
    kept.admission = {"s": {"admitted": 9, "rejected_lag": 1, "rejected_rate": 1200, "tokens_left": 0.5}}
    assert told(stream("CREATE STREAM o AS SELECT k FROM s", limited), kept)[1:] == [
        "Of 10 rows so far, 1,201 are rejected: db.side_output('o') has them.",
        "1 row is rejected: a row of source s may come at most 2s after its time (sla.max_lag).",
        "1,200 rows are rejected: source s has used its 50 tokens; 20 come back per second. A row costs 1, and 0.5 "
        "were left after the last batch (sla.max_events_per_sec).",
    ]


def test_rows_that_were_shed() -> None:
    shedding = "'shed.policy' = 'strict', 'shed.target_latency' = '2 seconds'"
    source = f"CREATE SOURCE s (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) WITH ({shedding});"
    kept = account({"s": {"watermark": 3}}, shed=7)
    kept.admission = {"s": {"admitted": 3, "shed": 7}}
    assert told(stream("CREATE STREAM o AS SELECT k FROM s", source), kept)[1:] == [
        "Of 10 rows so far, 7 are shed: db.side_output('o') has them.",
        "7 rows are shed: more came of source s than batches of 2s can take (shed.target_latency).",
    ]


def test_one_source_that_has_not_got_that_far() -> None:
    open_window = {"open_windows#0": 1, "next_close#0": at(70), "open_windows#1": 0, "next_close#1": at(10)}
    kept = account({"clicks": {"watermark": 3, "max_timestamp_seen": 8}}, open_window)
    assert told(ONE, kept, watermark=3) == [
        "o: the oldest open window is [2025-01-31 12:00:00, 2025-01-31 12:00:10).",
        "It closes when the watermark reaches 2025-01-31 12:01:10 (its end + 1m allowed lateness).",
        "The watermark is 2025-01-31 12:00:03: the newest time in clicks, 2025-01-31 12:00:08, less the lag of 5s.",
        "clicks has not got that far: its newest row has the time 2025-01-31 12:00:08 and its lag is 5s.",
        "A row of clicks with a time of 2025-01-31 12:01:15 or later would close it.",
        "Or, if no earlier row follows: db.advance_watermark('clicks', 1738324870000).",
        "Or db.stop(): a graceful stop emits everything that is open.",
    ]


def test_one_slow_source_of_two() -> None:
    sources = {
        "clicks": {"watermark": 300, "max_timestamp_seen": 305},
        "views": {"watermark": 3, "max_timestamp_seen": 8},
    }
    assert told(TWO, account(sources, {"open_windows#0": 2, "next_close#0": at(70)}), watermark=3)[2:] == [
        "The watermark is 2025-01-31 12:00:03: the smallest of clicks (2025-01-31 12:05:00) and views "
        "(2025-01-31 12:00:03).",
        "views holds it back: its newest row has the time 2025-01-31 12:00:08 and its lag is 5s.",
        "A row of views with a time of 2025-01-31 12:01:15 or later would close it.",
        "Or, if no earlier row follows: db.advance_watermark('views', 1738324870000).",
        "Or give views an idle_timeout: WITH ('idle_timeout' = '30 seconds'); then it holds nobody back while it "
        "is silent.",
    ]


def test_a_source_that_was_never_seen() -> None:
    sources = {"clicks": {"watermark": 300, "max_timestamp_seen": 305}}
    lines = told(TWO, account(sources, {"open_windows#0": 2, "next_close#0": at(70)}))
    assert (
        lines[2]
        == "There is no watermark yet: views has had no usable row, and the watermark is the smallest of all sources."
    )
    assert lines[3] == "views holds it back: it has had no usable row."


def test_both_sources_are_behind() -> None:
    sources = {"clicks": {"watermark": 5, "max_timestamp_seen": 10}, "views": {"watermark": 3, "max_timestamp_seen": 8}}
    lines = told(TWO, account(sources, {"open_windows#0": 2, "next_close#0": at(70)}), watermark=3)
    assert [line for line in lines if "is needed" in line] == [
        f"A row of {name} with a time of 2025-01-31 12:01:15 or later is needed." for name in ("clicks", "views")
    ]
    assert not any("would close it" in line or "idle" in line for line in lines)


def test_an_idle_timeout_is_waited_for_or_has_passed() -> None:
    sources = {
        "clicks": {"watermark": 300, "max_timestamp_seen": 305},
        "taps": {"watermark": 8, "max_timestamp_seen": 8},
    }
    kept = account(sources, {"open_windows#0": 2, "next_close#0": at(70)})
    both = TWO.replace("views", "taps")
    assert told(both, kept, watermark=8)[-1] == "Or wait: after 30s without rows taps no longer holds clicks back."
    idle = told(both, kept, watermark=8, idle=("taps",))[-1]
    assert idle == "taps is idle (no row for 30s): it will no longer hold the others back."


def test_a_watermark_that_was_set_from_outside() -> None:
    kept = account(
        {"clicks": {"watermark": 20, "max_timestamp_seen": 8}}, {"open_windows#0": 1, "next_close#0": at(70)}
    )
    lines = told(ONE, kept, watermark=20)
    assert lines[2] == "The watermark is 2025-01-31 12:00:20: that of clicks."
    assert lines[3] == "clicks has not got that far: its watermark was set to 2025-01-31 12:00:20."


def test_a_window_that_is_due() -> None:
    gauges = {"open_windows#0": 1, "next_close#0": at(70)}
    assert told(ONE, account({"clicks": {"watermark": 80}}, gauges), watermark=75)[-1].startswith(
        "That is enough: it closes with the next batch."
    )
    assert told(ONE, account({"clicks": {"watermark": 80}}, gauges), watermark=30)[-1].startswith(
        "Its sources are already past that"
    )


def test_all_closed() -> None:
    lines = told(
        ONE,
        account(gauges={"open_windows#0": 0, "next_close#0": at(70)}, windows_closed=1_200, late=3, error=1),
        watermark=100,
    )
    assert lines == [
        "o: nothing is open. 1,200 windows have closed and emitted their results.",
        "Of 10 rows so far, 3 are late and 1 is an error: db.side_output('o') has them.",
    ]


def test_only_errors_such_as_times_in_the_future() -> None:
    lines = told(ONE, account(error=10, used=0))
    assert lines[0] == "o: all 10 rows that came in are errors, so nothing is open."
    assert "more than 5m ahead of the clock" in lines[1] and "db.side_output('o', 'error')" in lines[2]


def test_figures_without_the_next_close() -> None:
    kept = account({"clicks": {"watermark": 3, "max_timestamp_seen": 8}}, {"open_windows#0": 1, "open_windows#1": 1})
    lines = told(ONE, kept, watermark=3)
    assert lines[:2] == [
        "o: 2 windows are open.",
        "A window closes when the watermark reaches its end + 1m allowed lateness.",
    ]
    assert "db.advance_watermark('clicks', ts)" in lines[-2]


def test_processing_time_goes_by_the_clock() -> None:
    sql = "CREATE STREAM o AS SELECT k, count(*) AS n FROM timeless GROUP BY k, tumblingwindow('mi', 1)"
    kept = account(gauges={"open_windows#0": 1, "next_close#0": at(60)})
    assert "the clock is the watermark: that is in 18s." in told(sql, kept, now=42)[2]
    assert "it is due" in told(sql, kept, now=61)[2]


def test_other_windows_and_orders() -> None:
    session = "CREATE STREAM o AS SELECT k, count(*) AS n FROM clicks GROUP BY k, SESSION(ts, '30 s')"
    slide = "CREATE STREAM o AS SELECT k, count(*) AS n FROM clicks GROUP BY k, slidingwindow('ss', 10, 5)"
    gauges = {"open_windows#0": 1, "next_close#0": at(45)}
    assert (
        told(session, account(gauges=gauges))[0]
        == "o: the oldest open session ends at 2025-01-31 12:00:45, unless more of its rows come."
    )
    assert told(slide, account(gauges={"buffer_size#0": 1, "next_close#0": at(45)}))[:2] == [
        "o: the oldest row waiting for the rows after it has the time 2025-01-31 12:00:40.",
        "It is emitted when the watermark reaches 2025-01-31 12:00:45 (its time + 5s lookahead).",
    ]
    ordered = "CREATE STREAM o AS SELECT * FROM clicks ORDER BY ts"
    waiting = told(ordered, account(gauges={"buffer_size#0": 4, "next_close#0": at(2.5)}))
    assert waiting[0] == "o: the oldest row waiting for its turn has the time 2025-01-31 12:00:02.5."
    assert "rows are emitted as they come" in told("CREATE STREAM o AS SELECT * FROM clicks", account())[0]
    assert "only look back" in told(slide.replace(", 5)", ")"), account())[0]


def test_what_else_may_be_the_reason() -> None:
    base = "CREATE STREAM o AS SELECT k, count(*) AS n FROM clicks GROUP BY k, TUMBLE(ts, '10 s')"
    kept = account({"clicks": {"watermark": 3}}, {"open_windows#0": 1, "next_close#0": at(70)})
    assert "HAVING filters out groups that do not meet it." in told(f"{base} HAVING n > 3", kept, watermark=3)
    assert told(f"{base} EMIT ON UPDATE", kept, watermark=3)[-1].startswith(
        "EMIT ON UPDATE emits rows after each batch"
    )
    twice = told(f"{base} EMIT ON WATERMARK ALLOW LATENESS '1 m'", kept, watermark=3)
    assert twice[:2] == [
        "o: 1 window is open.",
        "The first of them emits when the watermark reaches 2025-01-31 12:01:10.",
    ]


GRAPH = (
    "CREATE STREAM o AS SELECT max(n) AS n FROM (SELECT k, count(*) AS n FROM clicks GROUP BY k, TUMBLE(ts, '10s')) "
    "GROUP BY TUMBLE(window_time, '60s') ALLOW LATENESS INTERVAL '1' MINUTE"
)


def of_graph(outer: Account | None, inner: Account | None) -> list[str]:
    made = catalog(f"{SOURCES}; {GRAPH}")
    seen = {"o": Seen(made.stream("o"), outer, at(-60)), "o$1": Seen(made.stream("o$1"), inner, at(8))}
    first = seen["o"]
    return why(first.stream, outer, watermark=first.watermark, now=at(600), read=seen.__getitem__).splitlines()


def test_a_stream_that_waits_for_its_inner_stream_and_that_for_a_source() -> None:
    outer = account({"o$1": {"watermark": -60}}, {"open_windows#0": 1, "next_close#0": at(60)})
    inner = account(
        {"clicks": {"watermark": 8, "max_timestamp_seen": 13}}, {"open_windows#0": 1, "next_close#0": at(80)}
    )
    assert of_graph(outer, inner) == [
        "o waits for o$1, and that for the source clicks.",
        "o: the oldest open window is [2025-01-31 12:00:00, 2025-01-31 12:01:00).",
        "It closes when the watermark reaches 2025-01-31 12:01:00 (its end).",
        "The watermark is 2025-01-31 11:59:00: that of o$1.",
        "It reads o$1, whose input must get to 2025-01-31 12:02:00.",
        "The watermark is 2025-01-31 12:00:08: the newest time in clicks, 2025-01-31 12:00:13, less the lag of 5s.",
        "clicks has not got that far: its newest row has the time 2025-01-31 12:00:13 and its lag is 5s.",
        "A row of clicks with a time of 2025-01-31 12:02:05 or later would close it.",
        "Or, if no earlier row follows: db.advance_watermark('clicks', 1738324920000).",
        "Or db.stop(): a graceful stop emits everything that is open.",
    ]


def test_a_stream_whose_inner_stream_has_given_nothing_yet() -> None:
    inner = account(
        {"clicks": {"watermark": 8, "max_timestamp_seen": 13}}, {"open_windows#0": 2, "next_close#0": at(70)}
    )
    told = of_graph(account(rows_in=0), inner)
    assert told[:3] == [
        "o waits for o$1, and that for the source clicks.",
        "o: no row has come in from o$1.",
        "o$1: the oldest open window is [2025-01-31 12:00:00, 2025-01-31 12:00:10).",
    ]
    assert of_graph(account(rows_in=0), account(rows_in=0)) == [
        "o waits for o$1, and that for the source clicks.",
        "o: no row has come in from o$1.",
        "o$1: no row has come in from clicks.",
    ]


JOIN = (
    "CREATE STREAM o AS SELECT clicks.k FROM clicks LEFT JOIN views WITHIN INTERVAL '10' SECOND ON clicks.k = views.k"
)
KEPT = {"left_buffered#0": 2, "left_buffered#1": 1, "right_buffered#0": 1, "buffer_size#0": 3, "buffer_size#1": 1}


def test_a_join_says_what_it_keeps_and_which_side_holds_it_back() -> None:
    sources = {
        "clicks": {"watermark": 300, "max_timestamp_seen": 305},
        "views": {"watermark": 3, "max_timestamp_seen": 8},
    }
    kept = account(sources, {**KEPT, "next_close#0": at(20), "next_close#1": at(30)}, pairs=7)
    assert told(JOIN, kept, watermark=3) == [
        "o: 3 rows of clicks and 1 of views are kept; 7 pairs have been found.",
        "A pair is given when its second row comes; a row of clicks without a partner, when none can come any more.",
        "The next is due when the watermark reaches 2025-01-31 12:00:20.",
        "The watermark is 2025-01-31 12:00:03: the smallest of clicks (2025-01-31 12:05:00) and views "
        "(2025-01-31 12:00:03).",
        "views holds the join back: its newest row has the time 2025-01-31 12:00:08 and its lag is 5s, so its "
        "watermark holds the join at 2025-01-31 12:00:03.",
        "A row of views with a time of 2025-01-31 12:00:25 or later would close it.",
        "Or, if no earlier row follows: db.advance_watermark('views', 1738324820000).",
        "Or give views an idle_timeout: WITH ('idle_timeout' = '30 seconds'); then it holds nobody back while it is "
        "silent.",
    ]


def test_an_inner_join_waits_for_rows_and_not_for_time() -> None:
    kept = account(gauges={**KEPT, "open_windows#0": 1, "next_close#0": at(20)})
    assert told(JOIN.replace("LEFT JOIN", "JOIN"), kept, watermark=3) == [
        "o: 3 rows of clicks and 1 of views are kept; 0 pairs have been found.",
        "A pair is given when its second row comes. The watermark only decides how long rows are kept.",
    ]


def test_what_other_joins_wait_for() -> None:
    kept = account({"clicks": {"watermark": 3}}, {**KEPT, "next_close#0": at(20)})
    rules = {
        "LEFT SEMI JOIN views WITHIN TUMBLE('1s')": "A row of clicks is given when its first partner in views comes. "
        "The watermark only decides how long rows are kept.",
        "LEFT ANTI JOIN views WITHIN TUMBLE('1s')": "A row of clicks is given when no partner in views can come any "
        "more.",
        "FULL JOIN views WITHIN SESSION('1s')": "A pair is given when both of its sessions have closed; a row without "
        "a partner, when none can come any more.",
        "ASOF JOIN views MATCH_CONDITION (clicks.ts >= views.ts)": "A row of clicks is given when no closer row of "
        "views can come on time.",
        "ASOF JOIN views MATCH_CONDITION (clicks.ts <= views.ts)": "A row of clicks is given when no earlier row of "
        "views can come on time.",
    }
    for join, rule in rules.items():
        sql = f"CREATE STREAM o AS SELECT clicks.k FROM clicks {join} ON clicks.k = views.k"
        assert told(sql, kept, watermark=3)[1] == rule
    at_close = "CREATE STREAM o AS SELECT clicks.k FROM clicks JOIN views WITHIN TUMBLE('1s') USING (k) EMIT FINAL"
    assert told(at_close, kept, watermark=3)[1] == "A pair is given when its window closes."
    both = "CREATE STREAM o AS SELECT a.k FROM clicks a JOIN clicks b WITHIN TUMBLE('1s') ON a.k = b.k"
    assert told(both, kept, watermark=3)[0].startswith("o: 3 rows of clicks (left) and 1 of clicks (right) are kept")
