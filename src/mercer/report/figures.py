"""Figures of a report as SVG text: the same bytes for the same numbers, nothing outside them, ids
that no other figure has.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from mercer.parallel.tile_size import size as in_words
from mercer.report.data import Curve, Heat
from mercer.report.labels import place, short

# inches; with this size of type, words can be read on a phone and are not too large on a screen
WIDTH = 5.6
BEST, GREY, INK, RED = "#0b5fa5", "#9a9a9a", "#222222", "#b3261e"
KINDS = {  # kind of an entry: (name in legends, marker, colour)
    "map": ("map", "o", BEST),
    "linear": ("linear", "s", INK),
    "exact": ("exact kernel", "^", "#b35c00"),
    "outside": ("outside reference", "D", "#7a3e9d"),
}
_BARS = 16  # entries in the figure of memory
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
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
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


Ranked = Sequence[tuple[int, Any]]  # rank in the leaderboard, and the entry


def scores(ranked: Ranked, winner: Any, numeric: bool) -> Svg:
    """Score against seconds to fit, with one standard error; finalists have their rank as a number,
    a few have their name.
    """
    with _style():
        figure, axes = _axes(4.2)
        named = _named(ranked, winner)
        last = not any(entry.finalist for _, entry in ranked)  # then the last round is all there is
        for kind, (legend, marker, colour) in KINDS.items():
            for final, size, opacity in ((True, 5.5, 1.0), (False, 3.5, 0.45)):
                some = [
                    one
                    for rank, one in ranked
                    if one.kind == kind and (one.finalist or last) == final
                ]
                if some:
                    axes.errorbar(
                        [_seconds(one) for one in some],
                        [one.score for one in some],
                        yerr=[_spread(one) for one in some],
                        fmt=marker,
                        color=colour,
                        ecolor=GREY,
                        elinewidth=0.8,
                        markersize=size,
                        alpha=opacity,
                        label=legend,
                    )
        axes.set_xscale("log")
        axes.margins(x=0.16, y=0.1)
        axes.set_xlabel("seconds to fit")
        axes.set_ylabel("R² on held-out rows" if numeric else "accuracy on held-out rows")
        if not numeric:
            axes.yaxis.set_major_formatter(_percent())
        _plain_decades(axes.xaxis, lambda value: f"{value:g}")
        handles, words = axes.get_legend_handles_labels()
        once = dict(reversed(list(zip(words, handles, strict=True))))  # finalists come first
        figure.legend(
            list(once.values())[::-1],
            list(once)[::-1],
            loc="outside upper left",
            ncols=len(KINDS),
            frameon=False,
            fontsize=10,
            handletextpad=0.2,
        )
        points = [(_seconds(entry), entry.score, _spread(entry)) for _, entry in ranked]
        labels = [[str(rank)] if entry.finalist or last else [] for rank, entry in ranked]
        for (rank, entry), some in zip(ranked, labels, strict=True):
            if rank in named:
                some[:] = [f"{rank} {short(entry.name)}", str(rank)]
        colours = [KINDS[entry.kind][2] for _, entry in ranked]
        place(
            axes,
            points,
            labels,
            colours,
            sorted(range(len(ranked)), key=lambda i: ranked[i][0] not in named),
        )
        return _svg(figure, "scores")


def errors(curves: Sequence[Curve]) -> Svg:
    """Gram error against size, a panel for each map: what was measured, the line of its known rate,
    and what theory says.
    """
    with _style():
        columns = min(2, len(curves))
        lines = -(-len(curves) // columns)
        figure, panels = _axes(0.5 + 2.5 * lines, lines, columns)
        panels = np.ravel(panels)
        handles: dict[str, Any] = {}
        for axes, one in zip(panels, curves, strict=False):
            handles |= _error_panel(axes, one)
        for axes in panels[len(curves) :]:
            axes.set_visible(False)
        for axes in panels[::columns]:
            axes.set_ylabel("relative Gram error")
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside upper left",
            ncols=2,
            frameon=False,
            fontsize=10,
            columnspacing=1,
        )
        return _svg(figure, "errors")


def _error_panel(axes: Any, one: Curve) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    sizes, errors = np.asarray(one.sizes, dtype=float), np.maximum(one.errors, 1e-16)
    low, high = ([max(end(draws), 1e-16) for draws in one.draws] for end in (min, max))
    apart = [errors - low, np.asarray(high) - errors]
    handles["measured on held-out pairs"] = axes.errorbar(
        sizes,
        errors,
        yerr=np.maximum(apart, 0),
        fmt="o",
        color=BEST,
        ecolor=BEST,
        elinewidth=1,
        markersize=4.5,
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    along = np.unique(np.geomspace(sizes[0], max(sizes[-1], one.size) * 2, 40).round())
    if one.law is not None:
        (line,) = axes.plot(
            along, [one.law.error(int(at)) for at in along], "--", color=BEST, linewidth=1.1
        )
        handles["known rate, from pilots"] = line
    if one.theory is not None:
        (line,) = axes.plot(
            along, [one.theory.error(at) for at in along], "-", color=INK, linewidth=1
        )
        handles["theory, independent draws"] = line
        most = [(at, bound) for at in along if (bound := one.theory.at_most(at)) is not None]
        if most:
            (line,) = axes.plot(*zip(*most, strict=True), ":", color=RED, linewidth=1.4)
            handles["bound for a pair, 95%"] = line
    axes.axvline(one.size, color=GREY, linewidth=0.8, zorder=0)
    axes.set_title(short(one.name, 26), fontsize=10)
    axes.set_xlabel(one.size_parameter.rpartition("__")[2])
    ticks = [size for size in one.sizes if size in one.sizes[::2]]
    axes.set_xticks(ticks, [f"{size:,}" for size in ticks])
    _plain_decades(axes.yaxis, lambda value: f"{100 * value:.3g}%")
    axes.minorticks_off()
    return handles


def heats(shown: Heat, name: str) -> Svg:
    """Exact | approximate | difference, as heat maps of one scale; the difference has its own,
    symmetric about 0.
    """
    with _style():
        figure, panels = _axes(2.35, 1, 3)
        low, high = float(shown.exact.min()), float(shown.exact.max())
        if low == high:  # one colour, in the middle of the scale
            low, high = low - 1, high + 1
        gap = float(np.abs(shown.approximate - shown.exact).max()) or 1.0
        end = len(shown.exact) if shown.grid is None else float(shown.grid[-1])
        parts = (
            ("exact", shown.exact, "viridis", low, high),
            ("approximate", shown.approximate, "viridis", low, high),
            ("difference", shown.approximate - shown.exact, "RdBu_r", -gap, gap),
        )
        for axes, (title, values, colours, least, most) in zip(panels, parts, strict=True):
            origin = "upper" if shown.grid is None else "lower"
            extent = (0, end, end, 0) if shown.grid is None else (0, end, 0, end)
            image = axes.imshow(
                values,
                cmap=colours,
                vmin=least,
                vmax=most,
                interpolation="none",
                origin=origin,
                extent=extent,
            )
            axes.grid(visible=False)
            axes.set_title(title)
            if shown.grid is None:
                _class_ticks(axes, shown.groups)
            else:
                axes.set_xticks([0, end], ["0", _plain(end)])
                axes.set_yticks([0, end], ["0", _plain(end)] if title == "exact" else ["", ""])
            bar = figure.colorbar(
                image, ax=axes, location="bottom", shrink=0.95, pad=0.04, aspect=14
            )
            bar.set_ticks([least, most] if title != "difference" else [least, 0, most])
            bar.ax.set_xticklabels([_plain(value) for value in bar.get_ticks()], fontsize=9.5)
            bar.outline.set_linewidth(0.5)
        return _svg(figure, name)


def _class_ticks(axes: Any, groups: Sequence[tuple[str, int]]) -> None:
    """Thin lines between classes; their names are in the caption."""
    axes.set_xticks([])
    axes.set_yticks([])
    at = 0
    for _, count in groups[:-1]:
        at += count
        axes.axhline(at, color="white", linewidth=0.3)
        axes.axvline(at, color="white", linewidth=0.3)


def memory(ranked: Ranked, rows: int) -> Svg:
    """Bytes of features that a row has, against a row of the n x n Gram matrix of an exact kernel;
    the best of each bandwidth.
    """
    with _style():
        kept: dict[str, tuple[int, Any]] = {}
        for rank, one in ranked:
            if one.kind in ("linear", "map") and one.bytes_per_row > 0:
                kept.setdefault(_without_bandwidth(one.name), (rank, one))
        best = list(kept.values())[:_BARS]
        best += [pair for pair in list(kept.values())[_BARS:] if pair[1].kind == "linear"]
        figure, axes = _axes(1.25 + 0.27 * len(best))
        for at, (_, one) in enumerate(best):
            axes.plot(
                [one.bytes_per_row],
                [at],
                KINDS[one.kind][1],
                color=KINDS[one.kind][2],
                markersize=6,
            )
        exact = 8.0 * rows
        axes.axvline(exact, color=KINDS["exact"][2], linewidth=1.4)
        axes.set_xscale("log")
        low = min([one.bytes_per_row for _, one in best] + [exact])
        high = max([one.bytes_per_row for _, one in best] + [exact])
        axes.set_xlim(low / 2, high * 2)
        axes.set_ylim(len(best) - 0.4, -0.6)
        axes.set_yticks(
            range(len(best)),
            [f"{rank} {short(_without_bandwidth(one.name), 28)}" for rank, one in best],
        )
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="x", which="minor")
        axes.xaxis.set_major_formatter(_formatter(in_words))
        axes.set_xlabel("memory for one row")
        axes.set_title(
            f"exact kernel, {rows:,} rows: {in_words(exact)}",
            loc="right",
            fontsize=10,
            color=KINDS["exact"][2],
        )
        return _svg(figure, "memory")


def _named(ranked: Ranked, winner: Any) -> set[int]:
    """Ranks of entries that have their name in the figure: the winner, and the best two of each
    kind.
    """
    by_kind: dict[str, list[int]] = {}
    for rank, entry in ranked:
        by_kind.setdefault(entry.kind, []).append(rank)
    won = {rank for rank, entry in ranked if entry is winner}
    return won.union(*(ranks[:2] for ranks in by_kind.values()))


def _without_bandwidth(name: str) -> str:
    return re.sub(r" \S+=\S+", "", name)


def _spread(entry: Any) -> float:
    return float(entry.spread) if math.isfinite(entry.spread) else 0.0


def _seconds(entry: Any) -> float:
    return max(float(entry.fit_seconds), 1e-4)


def _style() -> AbstractContextManager[Any]:
    """matplotlib's own defaults and ours, whatever the user's settings are."""
    from matplotlib import style

    return style.context(["default", _STYLE])


def _axes(height: float, rows: int = 1, columns: int = 1, **more: Any) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **more)


def _plain(value: float) -> str:
    """Two digits, and no power of ten for a whole number."""
    return f"{value:,.0f}" if 100 <= abs(value) < 1e6 else f"{value:.2g}"


def _percent() -> Any:
    return _formatter(lambda share: f"{100 * share:.3g}%")


def _formatter(words: Callable[[float], str]) -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, place: words(value))


def _plain_decades(axis: Any, words: Callable[[float], str]) -> None:
    """0.01, 0.1, 1 in words instead of powers of ten; numbers between them where there are few
    decades.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 30 else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(_formatter(words))
    axis.set_minor_formatter(NullFormatter())


def _svg(figure: Any, name: str) -> Svg:
    """The figure as an svg element: no prologue, no metadata, no width and height, all ids with the
    figure's name before them.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
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
