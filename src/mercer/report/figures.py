"""Figures of a report as SVG: deterministic bytes, no external references, unique ids."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from mercer.model_selection.scoring import Scoring
from mercer.model_selection.summary import Comparison
from mercer.parallel.tile_size import format_bytes as in_words
from mercer.report.coverage import LEVELS, SHOWN, Coverage
from mercer.report.data import ErrorCurve, HeatMap, evenly_spaced
from mercer.report.importances import Importances
from mercer.report.labels import place_labels, shorten
from mercer.report.predictions import Confusion, Residuals

# inches; with this font size, text is legible on a phone and not too large on a screen
WIDTH = 5.6
BEST, GREY, INK, RED = "#0b5fa5", "#9a9a9a", "#222222", "#b3261e"
MARKERS = {  # kind of an entry -> (name in legends, marker, colour)
    "map": ("map", "o", BEST),
    "linear": ("linear", "s", INK),
    "exact": ("exact kernel", "^", "#b35c00"),
    "outside": ("other library", "D", "#7a3e9d"),
}
_MEMORY_ROWS = 16  # entries in the figure of memory
_NUMBERED_CLASSES = 12  # most classes whose counts are in large type
_LABEL_CHARACTERS = 52  # that fit below a confusion matrix
_TITLE = 24  # characters of a line of the title of a panel
_MARGIN = 0.03  # inches around the texts of a figure
_POINTS = 400  # residuals that are drawn
_STYLE = {
    "font.size": 11,
    "font.family": ["DejaVu Sans"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "image.interpolation": "none",
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.parse_math": False,  # names may have dollar signs
    "svg.fonttype": "path",
    "svg.image_inline": True,
    "svg.hashsalt": "mercer",
    "figure.dpi": 72,
    "savefig.dpi": 72,
}


class Svg(NamedTuple):
    """Content of an svg element, with its end tag, and the viewBox attribute of its start tag."""

    view_box: str
    content: str


Ranked = Sequence[tuple[int, Any]]  # (rank in the leaderboard, entry)


def scores(ranked: Ranked, winner: Any, label: str, scoring: Scoring) -> Svg:
    """Draw score against seconds to fit, with one standard error.

    Finalists are labelled with their rank, the best of each kind also with their name.
    """
    with _style():
        figure, axes = _axes(4.2)
        points = []
        for _, entry in ranked:
            standard_error = float(entry.spread) if math.isfinite(entry.spread) else 0.0
            seconds = max(float(entry.fit_seconds), 1e-4)
            points.append((seconds, scoring.sign * entry.score, standard_error))
        named = _named(ranked, winner)
        # without finalists, all entries are drawn as such
        finalists = {rank for rank, entry in ranked if entry.finalist} or {
            rank for rank, _ in ranked
        }
        handles: dict[str, Any] = {}
        for kind, (legend, marker, colour) in MARKERS.items():
            for final, size, opacity in ((True, 5.5, 1.0), (False, 3.5, 0.45)):
                group = [
                    point
                    for (rank, entry), point in zip(ranked, points, strict=True)
                    if entry.kind == kind and (rank in finalists) == final
                ]
                if group:
                    x, y, bars = zip(*group, strict=True)
                    style = {"fmt": marker, "color": colour, "markersize": size, "alpha": opacity}
                    bar = axes.errorbar(x, y, yerr=bars, ecolor=GREY, elinewidth=0.8, **style)
                    handles.setdefault(legend, bar)
        axes.set_xscale("log")
        axes.margins(x=0.16, y=0.1)
        axes.set_xlabel("seconds to fit")
        axes.set_ylabel(f"{label} on held-out rows")
        if scoring.percent:
            axes.yaxis.set_major_formatter(_formatter(_percent))
        _format_decades(axes.xaxis, lambda value: f"{value:g}")
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside upper left",
            ncols=len(MARKERS),
            handletextpad=0.2,
        )
        labels = [
            [f"{rank} {shorten(entry.name)}"] * (rank in named)
            + [str(rank)] * (rank in named or rank in finalists)
            for rank, entry in ranked
        ]
        colours = [MARKERS[entry.kind][2] for _, entry in ranked]
        order = sorted(range(len(ranked)), key=lambda i: ranked[i][0] not in named)
        place_labels(axes, points, labels, colours, order)
        return _svg(figure, "scores")


def errors(curves: Sequence[ErrorCurve]) -> Svg:
    """Draw Gram error against size, one panel for each map: measured, known rate and theory."""
    with _style():
        columns = min(2, len(curves))
        lines = -(-len(curves) // columns)
        figure, panels = _axes(0.5 + 2.5 * lines, lines, columns)
        panels = np.ravel(panels)
        handles: dict[str, Any] = {}
        for axes, curve in zip(panels, curves, strict=False):
            handles |= _draw_errors(axes, curve)
        for axes in panels[len(curves) :]:
            axes.set_visible(False)
        for axes in panels[::columns]:
            axes.set_ylabel("relative Gram error")
        figure.legend(
            handles.values(), handles.keys(), loc="outside upper left", ncols=2, columnspacing=1
        )
        return _svg(figure, "errors")


def _draw_errors(axes: Any, curve: ErrorCurve) -> dict[str, Any]:
    sizes, errors = np.asarray(curve.sizes, dtype=float), np.maximum(curve.errors, 1e-16)
    low, high = ([max(end(draws), 1e-16) for draws in curve.draws] for end in (min, max))
    lengths = [errors - low, np.asarray(high) - errors]
    style = {"fmt": "o", "color": BEST, "ecolor": BEST, "elinewidth": 1, "markersize": 4.5}
    handles = {
        "measured on held-out pairs": axes.errorbar(
            sizes, errors, yerr=np.maximum(lengths, 0), **style
        )
    }
    axes.set_xscale("log")
    axes.set_yscale("log")
    along = np.unique(np.geomspace(sizes[0], max(sizes[-1], curve.size) * 2, 40).round())
    if curve.law is not None:
        law = [curve.law.error(int(size)) for size in along]
        (handles["known rate"],) = axes.plot(along, law, "--", color=BEST, linewidth=1.1)
    if curve.theory is not None:
        theory = [curve.theory.error(size) for size in along]
        (line,) = axes.plot(along, theory, "-", color=INK, linewidth=1)
        handles["theory, independent draws"] = line
        bounds = [(size, bound) for size in along if (bound := curve.theory.pair_bound(size))]
        if bounds:
            (line,) = axes.plot(*zip(*bounds, strict=True), ":", color=RED, linewidth=1.4)
            handles["bound for one pair, 95%"] = line
    axes.axvline(curve.size, color=GREY, linewidth=0.8, zorder=0)
    axes.set_title("\n".join(wrap(shorten(curve.name, 2 * _TITLE), _TITLE)), fontsize=10)
    axes.set_xlabel(curve.size_parameter.rpartition("__")[2])
    ticks = [size for size in curve.sizes if size in curve.sizes[::2]]
    axes.set_xticks(ticks, [f"{size:,}" for size in ticks])
    _format_decades(axes.yaxis, _percent)
    axes.minorticks_off()
    return handles


def heat_map(values: HeatMap, name: str) -> Svg:
    """Draw exact | approximate | difference; the scale of the difference is symmetric about 0."""
    with _style():
        figure, panels = _axes(2.6, 1, 3)
        low, high = float(values.exact.min()), float(values.exact.max())
        if low == high:  # constant: the middle of the scale
            low, high = low - 1, high + 1
        gap = float(np.abs(values.approximate - values.exact).max()) or 1.0
        end = len(values.exact) if values.grid is None else float(values.grid[-1])
        parts = (
            ("exact", values.exact, "viridis", low, high),
            ("approximate", values.approximate, "viridis", low, high),
            ("difference", values.approximate - values.exact, "RdBu_r", -gap, gap),
        )
        frame = (
            {"origin": "upper", "extent": (0, end, end, 0)}
            if values.grid is None
            else {"origin": "lower", "extent": (0, end, 0, end)}
        )
        for axes, (title, matrix, colours, least, most) in zip(panels, parts, strict=True):
            image = axes.imshow(matrix, cmap=colours, vmin=least, vmax=most, **frame)
            axes.grid(visible=False)
            axes.set_title(title)
            if values.grid is None:
                _class_ticks(axes, values.groups)
            else:
                ticks = ["0", _format_number(end)]
                axes.set_xticks([0, end], ticks)
                axes.set_yticks([0, end], ticks if title == "exact" else ["", ""])
            bar = figure.colorbar(
                image, ax=axes, location="bottom", shrink=0.95, pad=0.04, aspect=14
            )
            bar.set_ticks([least, most] if title != "difference" else [least, 0, most])
            marks = bar.ax.set_xticklabels(map(_format_number, bar.get_ticks()), fontsize=9.5)
            marks[0].set_horizontalalignment("left")  # inside of the panel's width
            marks[-1].set_horizontalalignment("right")
            bar.outline.set_linewidth(0.5)
        return _svg(figure, name)


def coverage(values: Coverage) -> Svg:
    """Draw coverage against its nominal value; beside it intervals, or shares of right labels."""
    with _style():
        figure, (left, right) = _axes(2.9, 1, 2)
        left.plot([0.4, 1], [0.4, 1], "-", color=GREY, linewidth=1)
        bars = 2 * np.sqrt(values.covered * (1 - values.covered) / values.rows)
        style = {"fmt": "o-", "color": BEST, "ecolor": BEST, "elinewidth": 1, "markersize": 4.5}
        left.errorbar(LEVELS, values.covered, yerr=bars, **style)
        left.set_xlabel("nominal coverage")
        left.set_ylabel("share of rows covered")
        if values.intervals is not None:
            _draw_intervals(right, values.intervals)
        else:
            assert values.bins is not None
            _draw_bins(right, values.bins)
        for axis in (left.xaxis, left.yaxis):
            axis.set_major_formatter(_formatter(_percent))
        return _svg(figure, "coverage")


def comparisons(values: Sequence[Comparison], label: str, scoring: Scoring) -> Svg:
    """Draw differences of the winner's score and others with 95% intervals, on the same rows."""
    with _style():
        figure, axes = _axes(0.85 + 0.3 * len(values))
        scale = scoring.sign * (100.0 if scoring.percent else 1.0)
        axes.axvline(0, color=GREY, linewidth=1)
        for at, one in enumerate(values):
            colour = BEST if one.certain else GREY
            axes.plot([scale * one.low, scale * one.high], [at, at], "-", color=colour, linewidth=2)
            axes.plot([scale * one.difference], [at], "o", color=colour, markersize=6)
        axes.set_yticks(range(len(values)), [shorten(one.name) for one in values])
        axes.set_ylim(len(values) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        points = " in points" if scoring.percent else ""
        axes.set_xlabel(f"difference of {label}{points}")
        _format_ticks(axes.xaxis)
        return _svg(figure, "comparisons")


def importances(values: Importances, label: str, scoring: Scoring) -> Svg:
    """Draw the importances of columns as bars, the largest on top."""
    with _style():
        figure, axes = _axes(0.7 + 0.22 * len(values.values))
        scale = 100.0 if values.learned or scoring.percent else 1.0
        lengths = [scale * value for value in values.values]
        bars = None if values.learned else [scale * spread for spread in values.spreads]
        style = {"ecolor": INK, "error_kw": {"elinewidth": 1}}
        axes.barh(range(len(lengths)), lengths, xerr=bars, color=BEST, **style)
        axes.set_yticks(range(len(lengths)), [shorten(name) for name in values.names])
        axes.grid(visible=False, axis="y")
        axes.invert_yaxis()
        points = " in points" if scoring.percent else ""
        change = "loss" if scoring.sign > 0 else "increase"
        axes.set_xlabel("share, %" if values.learned else f"{change} of {label}{points}")
        _format_ticks(axes.xaxis)
        return _svg(figure, "importances")


def confusion(values: Confusion) -> Svg:
    """Draw counts of (class, predicted class): right ones in blue by share of the class.

    Errors are in red, relative to the most frequent one.
    """
    with _style():
        k = len(values.classes)
        figure, axes = _axes(min(2.2 + 0.28 * k, 5.4))
        shares = values.counts / np.maximum(values.counts.sum(axis=1, keepdims=True), 1)
        right = np.eye(k, dtype=bool)
        worst = float(shares[~right].max(initial=0.0)) or 1.0
        layers = (("Blues", ~right, 1.0), ("Reds", right, 1.5 * worst))
        for colours, hidden, most in layers:
            layer = np.ma.masked_array(shares, hidden)
            axes.imshow(layer, cmap=colours, vmin=0, vmax=most, aspect="equal")
        few = k <= _NUMBERED_CLASSES
        for i, j in zip(*np.nonzero(values.counts), strict=True):
            dark = shares[i, j] > (0.5 if i == j else 0.75 * worst)
            axes.text(
                j,
                i,
                f"{values.counts[i, j]:,}",
                ha="center",
                va="center",
                fontsize=9.5 if few else 6.5,
                color="white" if dark else INK,
            )
        labels = [shorten(name, 12) for name in values.classes]
        size = 10 if few else 8.5
        long = max(map(len, labels)) * k > _LABEL_CHARACTERS
        axes.set_xticks(range(k), labels, fontsize=size, rotation=90 if long else 0)
        axes.set_yticks(range(k), labels, fontsize=size)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.set_xlabel("predicted")
        axes.set_ylabel("class")
        return _svg(figure, "confusion")


def residuals(values: Residuals) -> Svg:
    """Draw residuals against predictions, and their histogram."""
    with _style():
        figure, (left, right) = _axes(2.9, 1, 2)
        order = np.argsort(values.predictions, kind="stable")
        drawn = order[evenly_spaced(len(order), _POINTS)]
        left.axhline(0, color=GREY, linewidth=1)
        style = {"color": BEST, "markersize": 3, "alpha": 0.55, "markeredgewidth": 0}
        left.plot(values.predictions[drawn], values.residuals[drawn], "o", **style)
        left.set_xlabel("prediction")
        left.set_ylabel("target - prediction")
        bins = min(30, max(5, round(len(order) ** 0.5)))
        right.hist(values.residuals, bins=bins, color=BEST)
        right.axvline(0, color=GREY, linewidth=1)
        right.set_xlabel("target - prediction")
        right.set_ylabel("rows")
        for axis in (left.xaxis, left.yaxis, right.xaxis):
            _format_ticks(axis)
        return _svg(figure, "residuals")


def _draw_intervals(axes: Any, intervals: Any) -> None:
    """Draw targets and intervals against predictions; targets outside of theirs in red."""
    prediction, target, low, high = intervals.T
    outside = (target < low) | (target > high)
    axes.vlines(prediction, low, high, color=BEST, alpha=0.35, linewidth=2)
    axes.plot(prediction[~outside], target[~outside], "o", color=INK, markersize=3)
    axes.plot(prediction[outside], target[outside], "o", color=RED, markersize=4)
    axes.set_xlabel("prediction")
    axes.set_ylabel(f"target, {_percent(SHOWN)} interval")
    for axis in (axes.xaxis, axes.yaxis):
        _format_ticks(axis)


def _draw_bins(axes: Any, bins: Any) -> None:
    """Draw the share of right labels against their probability; areas are numbers of rows.

    Bars are two standard errors of the share of so many rows with this probability.
    """
    probability, share, count = bins.T
    axes.plot([0, 1], [0, 1], "-", color=GREY, linewidth=1)
    bars = 2 * np.sqrt(probability * (1 - probability) / count)
    axes.errorbar(probability, share, yerr=bars, fmt="none", ecolor=BEST, elinewidth=1)
    axes.scatter(probability, share, s=6 + 60 * count / count.max(), color=BEST, zorder=3)
    axes.set_ylim(-0.05, 1.08)
    axes.set_xlabel("predicted probability")
    axes.set_ylabel("share that is right")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_formatter(_percent))


def _class_ticks(axes: Any, groups: Sequence[tuple[str, int]]) -> None:
    """Draw thin lines between classes; their names are in the caption."""
    axes.set_xticks([])
    axes.set_yticks([])
    for end in np.cumsum([count for _, count in groups[:-1]]):
        axes.axhline(end, color="white", linewidth=0.3)
        axes.axvline(end, color="white", linewidth=0.3)


def memory(ranked: Ranked, rows: int) -> Svg:
    """Draw the bytes of one row of features against one row of the n x n Gram matrix.

    Of entries that differ only in the bandwidth, the best is drawn.
    """
    with _style():
        families: dict[str, tuple[int, Any]] = {}
        for rank, entry in ranked:
            if entry.kind in ("linear", "map") and entry.bytes_per_row > 0:
                families.setdefault(_without_bandwidth(entry.name), (rank, entry))
        best = [
            pair
            for i, pair in enumerate(families.values())
            if i < _MEMORY_ROWS or pair[1].kind == "linear"
        ]
        figure, axes = _axes(1.25 + 0.27 * len(best))
        for at, (_, entry) in enumerate(best):
            _, marker, colour = MARKERS[entry.kind]
            axes.plot([entry.bytes_per_row], [at], marker, color=colour, markersize=6)
        exact = 8.0 * rows
        axes.axvline(exact, color=MARKERS["exact"][2], linewidth=1.4)
        axes.set_xscale("log")
        sizes = [exact, *(entry.bytes_per_row for _, entry in best)]
        axes.set_xlim(min(sizes) / 2, max(sizes) * 2)
        axes.set_ylim(len(best) - 0.4, -0.6)
        axes.set_yticks(
            range(len(best)),
            [f"{rank} {shorten(_without_bandwidth(entry.name), 28)}" for rank, entry in best],
        )
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="x", which="minor")
        axes.xaxis.set_major_formatter(_formatter(in_words))
        axes.set_xlabel("memory for one row")
        axes.set_title(
            f"exact kernel, {rows:,} rows: {in_words(exact)}",
            loc="right",
            fontsize=10,
            color=MARKERS["exact"][2],
        )
        return _svg(figure, "memory")


def _named(ranked: Ranked, winner: Any) -> set[int]:
    """Return the ranks of entries labelled by name: the winner and the best two of each kind."""
    by_kind: dict[str, list[int]] = {}
    for rank, entry in ranked:
        by_kind.setdefault(entry.kind, []).append(rank)
    won = {rank for rank, entry in ranked if entry is winner}
    return won.union(*(ranks[:2] for ranks in by_kind.values()))


def _without_bandwidth(name: str) -> str:
    return re.sub(r" \S+=\S+", "", name)


def _style() -> AbstractContextManager[Any]:
    """Set matplotlib's defaults and _STYLE, independently of the user's settings."""
    from matplotlib import style

    return style.context(["default", _STYLE])


def _axes(height: float, rows: int = 1, columns: int = 1, **more: Any) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **more)


def _format_number(value: float) -> str:
    """Return two significant digits; integers up to a million without an exponent."""
    return f"{value:,.0f}" if 99.5 <= abs(value) < 1e6 else f"{value:.2g}"


def _percent(value: float) -> str:
    """Return three significant digits; all of an integer above 100."""
    percent = 100 * value
    return f"{percent:,.0f}%" if 99.95 <= abs(percent) < 1e6 else f"{percent:.3g}%"


def _format_ticks(axis: Any) -> None:
    """Label at most six ticks with plain numbers: 250,000 and not 2.5 under 1e5."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(_formatter(lambda value: f"{value:,.10g}"))


def _formatter(function: Callable[[float], str]) -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, position: function(value))


def _format_decades(axis: Any, function: Callable[[float], str]) -> None:
    """Label a logarithmic axis with 0.01, 0.1, 1, and with values between if decades are few."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    within = (1.0, 2.0, 5.0) if high / low > 4 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 30 else within))
    axis.set_major_formatter(_formatter(function))
    axis.set_minor_formatter(NullFormatter())


def _svg(figure: Any, name: str) -> Svg:
    """Return the figure without prologue, metadata, width and height; ids get a prefix.

    A figure whose texts are wider or higher than it was planned is enlarged by them.
    """
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()
    frame = Bbox.union([figure.bbox_inches, figure.get_tightbbox().padded(_MARGIN)])
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches=frame)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    for unwanted in (
        r"<metadata>.*?</metadata>\s*",
        r"<style type=\"text/css\">.*?</style>",
        r"<!--.*?-->\s*",
    ):
        text = re.sub(unwanted, "", text, flags=re.DOTALL)
    opening, content = text.split(">", 1)
    view_box = re.search(r'viewBox="([^"]*)"', opening)
    assert view_box is not None
    content = content.replace("xlink:href=", "href=")
    content = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", content)
    return Svg(view_box[1], content)
