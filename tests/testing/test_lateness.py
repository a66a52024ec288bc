import pytest

from eventide.errors import OptionError
from eventide.testing.lateness import (
    AllowedLatenessTracker,
    Drop,
    Keep,
    LateDataHandler,
    LatePolicy,
    Reassign,
    SideOutput,
    SideOutputRouter,
)

EVERY_POLICY: list[LatePolicy] = [Drop(), Reassign(5), SideOutput("late")]


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_a_row_ahead_of_the_watermark_is_kept_by_every_policy(policy: LatePolicy) -> None:
    handler = LateDataHandler(policy)
    assert [handler.handle(1, None), handler.handle(11, 10)] == [Keep(1), Keep(11)]


def test_a_row_at_the_watermark_is_behind_it() -> None:
    #  event time  9    10    11
    #  W                ▲          W says: no more on-time rows at 10 or before
    handler = LateDataHandler(Drop())
    assert [handler.handle(at, 10) for at in (9, 10, 11)] == [Drop(), Drop(), Keep(11)]
    assert handler.dropped == 2


def test_reassign_moves_a_row_within_its_budget_to_the_watermark() -> None:
    #  event time  4    5         10
    #              │    ├── 5 ────▲ W     budget 5: 5 becomes 10, 4 is too old
    handler = LateDataHandler(Reassign(5))
    assert [handler.handle(at, 10) for at in (4, 5, 10)] == [Drop(), Keep(10), Keep(10)]
    assert (handler.dropped, handler.reassigned) == (1, 2)


def test_reassign_can_send_what_is_too_old_to_a_side_output() -> None:
    handler = LateDataHandler(Reassign(5, otherwise=SideOutput("late")))
    assert handler.handle(4, 10) == SideOutput("late")
    assert (handler.dropped, handler.side_output) == (0, 1)


def test_a_side_output_names_its_channel() -> None:
    handler = LateDataHandler(SideOutput("too_late"))
    assert handler.handle(3, 10) == SideOutput("too_late")
    assert handler.side_output == 1


def test_a_window_is_open_until_the_watermark_reaches_its_end_plus_the_lateness() -> None:
    #  event time  0 ─────── 10 ──── 15
    #  window      [─────────)
    #                        end     end + lateness: closed from here on
    tracker: AllowedLatenessTracker[str] = AllowedLatenessTracker(5)
    assert [tracker.is_open(10, watermark) for watermark in (None, 9, 10, 14, 15, 99)] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]


def test_windows_close_once_and_in_the_order_of_their_ends() -> None:
    tracker: AllowedLatenessTracker[str] = AllowedLatenessTracker(5)
    for window, end in (("late", 30), ("second", 20), ("first", 10)):
        tracker.track(window, end)
    assert tracker.close(None) == []
    assert tracker.close(25) == ["first", "second"]
    assert tracker.close(25) == []
    assert len(tracker) == 1


def test_a_session_that_grows_closes_later() -> None:
    tracker: AllowedLatenessTracker[str] = AllowedLatenessTracker()
    tracker.track("session", 10)
    tracker.track("session", 18)
    assert [tracker.close(10), tracker.close(18)] == [[], ["session"]]


def test_a_window_that_is_forgotten_does_not_close() -> None:
    tracker: AllowedLatenessTracker[str] = AllowedLatenessTracker()
    tracker.track("merged", 10)
    tracker.forget("merged")
    assert tracker.close(99) == []


def test_a_router_keeps_events_by_channel_until_they_are_drained() -> None:
    router: SideOutputRouter[int] = SideOutputRouter()
    for channel, event in (("late", 1), ("error", 2), ("late", 3)):
        router.route(channel, event)
    assert router.pending == {"late": 2, "error": 1}
    assert router.drain("late") == [1, 3]
    assert [router.drain("late"), router.drain("nobody")] == [[], []]
    assert (router.pending, router.routed) == ({"error": 1}, {"late": 2, "error": 1})


def test_negative_spans_are_refused() -> None:
    for wrong in (lambda: AllowedLatenessTracker[str](-1), lambda: Reassign(-1)):
        with pytest.raises(OptionError):
            wrong()
