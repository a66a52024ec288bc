"""Random streams: rows with disorder, batch borders, a watermark that never goes back."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Row = tuple[Any, ...]
Batch = tuple[list[Row], int | None]

rows = st.tuples(
    st.integers(-40, 80),
    st.sampled_from([None, "a", "b", "ü"]),
    st.one_of(st.none(), st.integers(-5, 5)),
)


@st.composite
def streams(draw: st.DrawFn, most_rows: int = 12, most_batches: int = 6) -> list[Batch]:
    """Batches of rows with the watermark under which each is processed; None until it is first known."""
    batches = draw(st.lists(st.lists(rows, max_size=most_rows), min_size=1, max_size=most_batches))
    known = draw(st.integers(0, len(batches)))
    steps = draw(st.lists(st.integers(0, 40), min_size=len(batches), max_size=len(batches)))
    watermark, marks = -30, []
    for number, step in enumerate(steps):
        watermark += step
        marks.append(watermark if number >= known else None)
    return list(zip(batches, marks, strict=True))
