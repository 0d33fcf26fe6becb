"""Placement of text labels beside the points of a figure, without overlaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

Box = tuple[float, float, float, float]  # left, bottom, right, top
Spot = tuple[float, float]

_LENGTH = 26
_MISSING_GLYPH = "\N{WHITE SQUARE}"
_DISTANCES = (7.0, 12.0, 20.0, 30.0, 42.0)  # from the point, in typographic points
_DIRECTIONS = (
    (1, 0), (-1, 0), (0.7, 0.8), (-0.7, 0.8), (0.7, -0.8), (-0.7, -0.8), (0, 1), (0, -1)
)  # fmt: skip
_RADIUS = 3.5  # of a point
_GAP = 2.0  # between two labels side by side
_CLEARER = 1.5  # times as far as its own point are all others from a label without a line


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
    spots: list[Spot] = [tuple(to_display((x, y))) for x, y, _ in points]
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
            position = _find_position(i, spots, box.width, box.height, taken, inside)
            if position is None:
                text.remove()
                continue
            left, bottom, leader = position
            text.set_position((left - spots[i][0], bottom - spots[i][1]))
            text.set_verticalalignment("bottom")
            taken.append((left - _GAP, bottom, left + box.width + _GAP, bottom + box.height))
            if leader:
                _draw_leader(axes, spots[i], taken[-1])
            break


def _find_position(
    i: int,
    spots: Sequence[Spot],
    width: float,
    height: float,
    taken: Sequence[Box],
    inside: Any,
) -> tuple[float, float, bool] | None:
    """Return (left, bottom, whether a line leads to it) of the nearest free position of point i.

    Without a line it is nearest to its own point; with one no other point is beside it or on it.
    """
    own = spots[i]
    others = [spot for spot in spots if math.dist(spot, own) > _RADIUS]
    for distance in _DISTANCES:
        for across, up in _DIRECTIONS:
            x, y = own[0] + distance * across, own[1] + distance * up
            left = x if across > 0 else x - width if across < 0 else x - width / 2
            bottom = y if up > 0 else y - height if up < 0 else y - height / 2
            box = (left, bottom, left + width, bottom + height)
            fits = (
                inside.x0 <= box[0]
                and box[2] <= inside.x1 + 6
                and inside.y0 <= box[1]
                and box[3] <= inside.y1
            )
            if not fits or any(_overlap(box, other) for other in taken):
                continue
            nearest = min((math.dist(spot, _nearest(spot, box)) for spot in others), default=1e9)
            end = _nearest(own, box)
            if nearest > _CLEARER * math.dist(own, end) and distance <= _DISTANCES[1]:
                return left, bottom, False
            passes = (_segment_distance(spot, own, end) for spot in others)
            if nearest > _DISTANCES[1] and all(gap > _RADIUS for gap in passes):
                return left, bottom, True
    return None


def _nearest(spot: Spot, box: Box) -> Spot:
    """Return the point of a box that is nearest to a spot."""
    return min(max(spot[0], box[0]), box[2]), min(max(spot[1], box[1]), box[3])


def _segment_distance(spot: Spot, start: Spot, end: Spot) -> float:
    """Return the distance of a spot from the segment between two others."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = dx * dx + dy * dy
    along = 0.0 if length == 0 else ((spot[0] - start[0]) * dx + (spot[1] - start[1]) * dy) / length
    along = min(max(along, 0.0), 1.0)
    return math.dist(spot, (start[0] + along * dx, start[1] + along * dy))


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _draw_leader(axes: Any, spot: Spot, box: Box) -> None:
    """Draw a thin line from a point to its label."""
    end = _nearest(spot, box)
    (x0, y0), (x1, y1) = axes.transData.inverted().transform([spot, end])
    axes.plot(
        [x0, x1], [y0, y1], color="#9a9a9a", linewidth=0.6, zorder=1, scalex=False, scaley=False
    )


@cache
def _font_characters() -> frozenset[int]:
    """Return the characters of the figures' font."""
    from matplotlib import font_manager, ft2font

    return frozenset(ft2font.FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap())
