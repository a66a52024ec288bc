"""Plots speed and CPU of every workload: a bar per engine at its median, with a whisker from the lowest to the
highest run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.bars import MEMORY_STATE, ROCKSDB_STATE
from benchmarks.figures import CPU, OURS, SPEED, Figure, Results, spread

COLORS = {OURS: "#0b7285", ROCKSDB_STATE: "#e8590c", MEMORY_STATE: "#fab005"}
BAR_HEIGHT = 0.26


def draw(results: Results, path: Path, colors: Mapping[str, str] = COLORS) -> None:
    """Needs matplotlib, which is in the extra `bench`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = {workload: engines for workload, engines in results.items() if spread(engines.get(OURS, []), SPEED)}
    height = 1.5 + 0.55 * len(shown)
    picture, axes = pyplot.subplots(1, 2, figsize=(13, height), sharey=True, layout="constrained")
    for axis, figure in zip(axes, (SPEED, CPU), strict=True):
        panel(axis, shown, figure, colors)
    axes[0].set_yticks(range(len(shown)), list(shown))
    axes[0].invert_yaxis()
    picture.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(colors), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=120)
    pyplot.close(picture)


def panel(axis: Any, results: Results, figure: Figure, colors: Mapping[str, str]) -> None:
    for at, (engine, color) in enumerate(colors.items()):
        found = {place: spread(engines.get(engine, []), figure) for place, engines in enumerate(results.values())}
        there = {place: one for place, one in found.items() if one is not None}
        medians = [one.median for one in there.values()]
        whiskers = [
            [one.median - one.lowest for one in there.values()],
            [one.highest - one.median for one in there.values()],
        ]
        places = [place + (at - 1) * BAR_HEIGHT for place in there]
        axis.barh(
            places,
            medians,
            BAR_HEIGHT,
            xerr=whiskers,
            color=color,
            label=engine,
            error_kw={"lw": 1, "ecolor": "#495057"},
        )
    direction = "higher is better" if figure.higher_is_better else "lower is better"
    axis.set_xlabel(f"{figure.title}: {figure.unit} ({direction})")
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
