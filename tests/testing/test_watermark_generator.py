import pytest

from eventide.errors import OptionError
from eventide.testing.watermark import WatermarkGenerator


def watermarks(generator: WatermarkGenerator, *event_times: int) -> list[int | None]:
    """The watermark after each event."""
    seen = []
    for event_time in event_times:
        generator.observe(event_time)
        seen.append(generator.current)
    return seen


def test_there_is_no_watermark_before_the_first_event() -> None:
    assert WatermarkGenerator(5).current is None


def test_the_watermark_follows_the_newest_event_at_a_distance() -> None:
    #  events      10    12         20
    #  newest      10    12         20
    #  W = − 5      5     7         15
    assert watermarks(WatermarkGenerator(5), 10, 12, 20) == [5, 7, 15]


def test_an_event_out_of_order_does_not_take_the_watermark_back() -> None:
    #  event time   |---8---10-----------20--->
    #  arrival          3rd 1st          2nd
    #  W            5, then 15, then still 15
    assert watermarks(WatermarkGenerator(5), 10, 20, 8) == [5, 15, 15]


def test_the_watermark_moves_only_with_every_nth_event() -> None:
    #  events   1    2    3    4    5    6        advance_threshold 3
    #  W        –    –    3    3    3    6
    assert watermarks(WatermarkGenerator(0, advance_threshold=3), 1, 2, 3, 4, 5, 6) == [None, None, 3, 3, 3, 6]


def test_the_nth_event_brings_the_newest_of_all_events_even_if_it_is_old_itself() -> None:
    assert watermarks(WatermarkGenerator(2, advance_threshold=2), 100, 1) == [None, 98]


def test_observe_tells_when_the_watermark_has_moved() -> None:
    generator = WatermarkGenerator(0, advance_threshold=2)
    assert [generator.observe(at) for at in (1, 5, 2, 3, 9, 9)] == [None, 5, None, None, None, 9]


def test_a_batch_can_end_before_the_nth_event_does() -> None:
    generator = WatermarkGenerator(1, advance_threshold=100)
    generator.observe(10)
    assert (generator.advance(), generator.current, generator.advance()) == (9, 9, None)


def test_an_external_watermark_is_taken_as_it_is_and_holds() -> None:
    #  rows          10                12
    #  external            30
    #  W (lag 5)      5    30          30
    generator = WatermarkGenerator(5)
    generator.observe(10)
    assert generator.advance_to(30) == 30
    generator.observe(12)
    assert generator.advance_to(20) is None
    assert generator.current == 30


def test_times_before_1970_work_like_any_others() -> None:
    assert watermarks(WatermarkGenerator(3), -100, -50, 0) == [-103, -53, -3]


@pytest.mark.parametrize("arguments", [(-1, 1), (0, 0)])
def test_a_negative_lag_and_a_threshold_below_one_are_refused(arguments: tuple[int, int]) -> None:
    with pytest.raises(OptionError):
        WatermarkGenerator(*arguments)
