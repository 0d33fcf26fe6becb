"""Draw experiments as SVG, byte for byte reproducible with a version of matplotlib."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import BytesIO
from textwrap import fill
from typing import Any

from experiments.records import Experiment, Measured

_MARKS = "osvDP^X"  # seven, with ten colours: seventy distinct rows
_DASHES = ("--", ":", "-.")  # of rows without a position on the x axis
_MOST_TICKS = 9  # on a logarithmic x axis
_TITLE = 60  # characters of a line of the title
_SETTINGS: Any = {
    "svg.hashsalt": "mercer",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
}

Figures = Mapping[str, Mapping[str, Measured]]  # {row: {column: number}}


def svg(experiment: Experiment, figures: Figures) -> bytes:
    """Return the SVG of an experiment that has a picture."""
    import matplotlib
    from matplotlib.figure import Figure

    if experiment.picture is None:
        raise ValueError(f"{experiment.key} has no picture.")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.subplots()
        (_heat if experiment.picture.kind == "heat" else _lines)(axes, experiment, figures)
        axes.set_title(fill(f"{experiment.source}: {experiment.title}", _TITLE), fontsize=10)
        written = BytesIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return re.sub(rb"[ \t]+\n", b"\n", written.getvalue())


def _lines(axes: Any, experiment: Experiment, figures: Figures) -> None:
    picture = experiment.picture
    assert picture is not None
    places: set[float] = set()
    for number, (label, by_column) in enumerate(figures.items()):
        if picture.x != "column" and all(
            getattr(one, picture.x) is None for one in by_column.values()
        ):
            axes.axhline(
                next(iter(by_column.values())).mean,
                color="black",
                linestyle=_DASHES[number % 3],
                linewidth=1,
                label=label,
            )
            continue
        points = sorted(
            ((_x(picture.x, column, one), one) for column, one in by_column.items()),
            key=lambda point: point[0],
        )
        xs, ys = [x for x, _ in points], [one.mean for _, one in points]
        places.update(xs)
        bars = [one.spread or 0.0 for _, one in points]
        style: Any = {
            "marker": _MARKS[number % len(_MARKS)],
            "markersize": 4,
            "linewidth": 1.2,
            "label": label,
        }
        if len(points) == 1:
            style |= {"linestyle": "none"}
        axes.errorbar(xs, ys, yerr=bars if any(bars) else None, capsize=2, **style)
    if "x" in picture.log:
        axes.set_xscale("log")
        if len(places) <= _MOST_TICKS:
            axes.set_xticks(sorted(places), [f"{x:g}" for x in sorted(places)])
            axes.minorticks_off()
    if "y" in picture.log:
        axes.set_yscale("log")
    axes.set_xlabel(picture.x_label)
    axes.set_ylabel(picture.y_label)
    axes.grid(which="both", alpha=0.25)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))


def _heat(axes: Any, experiment: Experiment, figures: Figures) -> None:
    picture = experiment.picture
    assert picture is not None
    columns = [
        column for column in experiment.columns if any(column in row for row in figures.values())
    ]
    nan = float("nan")
    values = [
        [row[column].mean if column in row else nan for column in columns]
        for row in figures.values()
    ]
    image = axes.imshow(values, aspect="auto", origin="lower", cmap="viridis")
    axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=6)
    axes.set_yticks(range(len(figures)), list(figures), fontsize=6)
    axes.set_xlabel(picture.x_label)
    axes.figure.colorbar(image, label=picture.y_label)


def _x(kind: str, column: str, one: Measured) -> float:
    """Return the x position of a number: the number in its column's name, or its cost."""
    if kind != "column":
        value = getattr(one, kind)
        if value is None:
            raise ValueError(f"The picture is over {kind}, which column {column!r} does not have.")
        return float(value)
    found = re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", column)
    if not found:
        raise ValueError(
            f"The picture is over the numbers of columns, and there is none in {column!r}."
        )
    return float(found[-1])
