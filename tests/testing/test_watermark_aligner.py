from eventide.testing.watermark import WatermarkAligner


def aligned(**marks: int) -> WatermarkAligner[str]:
    aligner: WatermarkAligner[str] = WatermarkAligner()
    for source in marks:
        aligner.add(source)
    for source, mark in marks.items():
        aligner.update(source, mark)
    return aligner


def test_no_sources_have_no_watermark() -> None:
    assert WatermarkAligner[str]().watermark is None


def test_the_slowest_source_sets_the_watermark() -> None:
    #  a  ───────────────● 90
    #  b  ─────● 40              minimum: 40
    #  c  ──────────● 70
    assert aligned(a=90, b=40, c=70).watermark == 40


def test_a_source_that_has_said_nothing_yet_holds_everything_back() -> None:
    aligner: WatermarkAligner[str] = WatermarkAligner()
    aligner.add("quiet")
    assert aligner.update("busy", 100) is None
    assert aligner.update("quiet", 1) == 1


def test_a_lower_watermark_of_a_source_is_ignored() -> None:
    aligner = aligned(a=50, b=60)
    assert aligner.update("a", 10) == 50


def test_an_idle_source_does_not_hold_the_others_back() -> None:
    #  a  ─────● 40  idle
    #  b  ───────────────● 90    minimum over b alone: 90
    assert aligned(a=40, b=90).mark_idle("a") == 90


def test_a_source_that_wakes_up_does_not_take_the_watermark_back() -> None:
    #  a  ─────● 40  idle ········● 50      W stays at 90 …
    #  b  ───────────────● 90 ───────● 99   … until a has passed it
    aligner = aligned(a=40, b=90)
    aligner.mark_idle("a")
    assert aligner.update("a", 50) == 90
    assert aligner.update("b", 99) == 90
    assert aligner.update("a", 95) == 95


def test_if_all_sources_are_idle_the_watermark_stays() -> None:
    aligner = aligned(a=40, b=90)
    aligner.mark_idle("a")
    assert aligner.mark_idle("b") == 90


def test_a_source_that_joins_late_does_not_take_the_watermark_back() -> None:
    aligner = aligned(a=40)
    assert aligner.watermark == 40
    aligner.add("b")
    assert aligner.watermark == 40
    assert aligner.update("b", 10) == 40


def test_a_source_that_has_ended_is_not_waited_for() -> None:
    aligner = aligned(a=40, b=90)
    aligner.remove("a")
    assert aligner.watermark == 90
