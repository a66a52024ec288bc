import pytest

from eventide.errors import WatermarkViolationError
from eventide.testing.watermark import WatermarkPropagator


def graph(*edges: str) -> WatermarkPropagator:
    """Edges as 'a>b', operators named by them."""
    propagator = WatermarkPropagator()
    pairs = [edge.split(">") for edge in edges]
    for operator in dict.fromkeys(name for pair in pairs for name in pair):
        propagator.add_operator(operator)
    for upstream, downstream in pairs:
        propagator.add_edge(upstream, downstream)
    return propagator


def join() -> WatermarkPropagator:
    #  src ─→ map ─→ filter ─→ join ─→ sink
    #                           ↑
    #                      other src
    return graph("src>map", "map>filter", "filter>join", "other>join", "join>sink")


def test_a_watermark_passes_through_a_chain() -> None:
    propagator = graph("src>map", "map>sink")
    assert propagator.emit("src", 7) == 7
    assert [propagator.watermark(name) for name in ("src", "map", "sink")] == [7, 7, 7]


def test_an_operator_emits_the_minimum_of_its_upstreams() -> None:
    propagator = join()
    assert propagator.emit("src", 10) is None
    assert propagator.watermark("filter") == 10
    assert propagator.watermark("join") is None
    assert propagator.emit("other", 4) == 4
    assert propagator.emit("other", 25) == 10


def test_the_global_watermark_is_the_minimum_over_the_sinks() -> None:
    #  a ─→ one        a at 10, b at 3: one 10, two 3
    #  b ─→ two
    propagator = graph("a>one", "b>two")
    propagator.emit("a", 10)
    assert propagator.global_watermark is None
    assert propagator.emit("b", 3) == 3


def test_a_diamond_waits_for_both_of_its_paths() -> None:
    propagator = graph("src>left", "src>right", "left>sink", "right>sink")
    assert propagator.emit("src", 5) == 5


def test_an_operator_that_goes_back_is_a_violation_that_names_it() -> None:
    propagator = join()
    propagator.emit("src", 10)
    with pytest.raises(WatermarkViolationError, match="src: it emitted 10 and cannot go back to 9") as caught:
        propagator.emit("src", 9)
    assert (caught.value.operator_id, caught.value.reason) == ("src", "it emitted 10 and cannot go back to 9")
    assert propagator.watermark("src") == 10


def test_the_same_watermark_again_is_not_a_violation() -> None:
    propagator = graph("src>sink")
    assert [propagator.emit("src", 5), propagator.emit("src", 5)] == [5, 5]


@pytest.mark.parametrize("edge", [("sink", "src"), ("join", "map"), ("map", "map")])
def test_an_edge_that_closes_a_cycle_is_a_violation(edge: tuple[str, str]) -> None:
    propagator = join()
    with pytest.raises(WatermarkViolationError, match="cycle"):
        propagator.add_edge(*edge)


def test_only_sources_can_emit_themselves() -> None:
    with pytest.raises(WatermarkViolationError, match="that of its upstreams filter, other"):
        join().emit("join", 5)


def test_unknown_and_repeated_operators_and_edges_are_violations() -> None:
    propagator = graph("a>b")
    for wrong in (
        lambda: propagator.emit("c", 1),
        lambda: propagator.add_operator("a"),
        lambda: propagator.add_edge("a", "b"),
    ):
        with pytest.raises(WatermarkViolationError):
            wrong()


def test_an_edge_that_comes_late_does_not_take_the_operator_back() -> None:
    #  a ─→ sink     emits 10
    #  b ─→ sink     is added at 3: the sink stays at 10 until b has passed it
    propagator = graph("a>sink")
    propagator.emit("a", 10)
    propagator.add_operator("b")
    propagator.emit("b", 3)
    propagator.add_edge("b", "sink")
    assert propagator.global_watermark == 10
    propagator.emit("a", 20)
    assert propagator.emit("b", 15) == 15


def test_an_idle_source_holds_nobody_back_until_it_emits_again() -> None:
    propagator = join()
    propagator.emit("src", 10)
    propagator.emit("other", 4)
    assert propagator.mark_idle("other") == 10
    assert propagator.emit("src", 30) == 30
    assert propagator.emit("other", 12) == 30
    assert propagator.emit("src", 40) == 30
