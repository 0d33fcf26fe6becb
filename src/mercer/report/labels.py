"""Placement of text labels beside the points of a figure, without overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

Box = tuple[float, float, float, float]  # left, bottom, right, top

_LENGTH = 26
_MISSING_GLYPH = "\N{WHITE SQUARE}"
_DISTANCES = (6.0, 12.0, 20.0, 30.0, 42.0)  # from the point, in typographic points
_DIRECTIONS = (
    (1, 0), (-1, 0), (0.7, 0.8), (-0.7, 0.8), (0.7, -0.8), (-0.7, -0.8), (0, 1), (0, -1)
)  # fmt: skip
_RADIUS = 3.5  # of a point


def shorten(name: str, length: int = _LENGTH) -> str:
    """Return a name of at most so many characters; those not in the font become boxes."""
    glyphs = _font_characters()
    text = "".join(c if c == " " or ord(c) in glyphs else _MISSING_GLYPH for c in name)
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"


def place_labels(
    axes: Any,
    points: Sequence[tuple[float, float, float]],
    labels: Sequence[Sequence[str]],
    colours: Sequence[str],
    order: Sequence[int],
) -> None:
    """Write a label beside each point at the nearest free position.

    Parameters
    ----------
    axes : matplotlib Axes
    points : sequence of (x, y, half the length of the error bar)
    labels : sequence of sequences of str
        Alternatives for each point: the first that fits is written, and none if none fits.
    colours : sequence of str
    order : sequence of int
        Indices of points; the first have the most free space.
    """
    figure = axes.figure
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # positions depend on the layout
    inside = axes.get_window_extent()
    to_display = axes.transData.transform
    spots = [tuple(to_display((x, y))) for x, y, _ in points]
    taken: list[Box] = [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in spots]
    for (x, y), (data_x, data_y, bar) in zip(spots, points, strict=True):
        half = float(to_display((data_x, data_y + bar))[1]) - y
        taken.append((x - 1, y - half, x + 1, y + half))
    for i in order:
        for label in labels[i]:
            text = axes.annotate(
                label,
                points[i][:2],
                (0, 0),
                textcoords="offset points",
                fontsize=10,
                color=colours[i],
            )
            box = text.get_window_extent()
            position = _find_position(spots[i], box.width, box.height, taken, inside)
            if position is None:
                text.remove()
                continue
            left, bottom, distance = position
            text.set_position((left - spots[i][0], bottom - spots[i][1]))
            text.set_verticalalignment("bottom")
            taken.append((left, bottom, left + box.width, bottom + box.height))
            if distance > _DISTANCES[1]:
                _draw_leader(axes, spots[i], taken[-1])
            break


def _find_position(
    spot: tuple[float, float], width: float, height: float, taken: list[Box], inside: Any
) -> tuple[float, float, float] | None:
    """Return (left, bottom, distance) of the nearest free position."""
    for distance in _DISTANCES:
        for across, up in _DIRECTIONS:
            x, y = spot[0] + distance * across, spot[1] + distance * up
            left = x if across > 0 else x - width if across < 0 else x - width / 2
            bottom = y if up > 0 else y - height if up < 0 else y - height / 2
            box = (left, bottom, left + width, bottom + height)
            fits = (
                inside.x0 <= box[0]
                and box[2] <= inside.x1 + 6
                and inside.y0 <= box[1]
                and box[3] <= inside.y1
            )
            if fits and not any(_overlap(box, other) for other in taken):
                return left, bottom, distance
    return None


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _draw_leader(axes: Any, spot: tuple[float, float], box: Box) -> None:
    """Draw a thin line from a point to its label."""
    end = (min(max(spot[0], box[0]), box[2]), min(max(spot[1], box[1]), box[3]))
    (x0, y0), (x1, y1) = axes.transData.inverted().transform([spot, end])
    axes.plot(
        [x0, x1], [y0, y1], color="#9a9a9a", linewidth=0.6, zorder=1, scalex=False, scaley=False
    )


@cache
def _font_characters() -> frozenset[int]:
    """Return the characters of the figures' font."""
    from matplotlib import font_manager, ft2font

    return frozenset(ft2font.FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap())
