"""Words beside points of a figure that lie on no other word and no point."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

Box = tuple[float, float, float, float]  # left, bottom, right, top

_LONGEST = 26
_MISSING = "\N{WHITE SQUARE}"
_RINGS = (6.0, 12.0, 20.0, 30.0, 42.0)  # distances that are tried, in points
_SIDES = ((1, 0), (-1, 0), (0.7, 0.8), (-0.7, 0.8), (0.7, -0.8), (-0.7, -0.8), (0, 1), (0, -1))
_POINT = 3.5  # half the width of a point


def short(name: str, longest: int = _LONGEST) -> str:
    """A name for a figure: at most so many characters, those that the font does not have as a
    box.
    """
    shown = "".join(sign if sign == " " or ord(sign) in _font() else _MISSING for sign in name)
    return shown if len(shown) <= longest else f"{shown[: longest - 1].rstrip()}…"


def place(
    axes: Any,
    points: Sequence[tuple[float, float, float]],
    words: Sequence[Sequence[str]],
    colours: Sequence[str],
    order: Sequence[int],
) -> None:
    """Write words beside each point (x, y, half the height of its bar), in this order of points, at
    the nearest free place.

    Each point has several words: the first that find a place are written, and none where none do.
    """
    figure = axes.figure
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # places are of this layout
    inside = axes.get_window_extent()
    to_page = axes.transData.transform
    spots = [tuple(to_page((x, y))) for x, y, _ in points]
    taken: list[Box] = [(x - _POINT, y - _POINT, x + _POINT, y + _POINT) for x, y in spots]
    for (x, y), (of, middle, bar) in zip(spots, points, strict=True):
        half = float(to_page((of, middle + bar))[1]) - y
        taken.append((x - 1, y - half, x + 1, y + half))
    for i in order:
        for one in words[i]:
            text = axes.annotate(
                one,
                points[i][:2],
                (0, 0),
                textcoords="offset points",
                fontsize=10,
                color=colours[i],
            )
            box = text.get_window_extent()
            found = _free(spots[i], box.width, box.height, taken, inside)
            if found is None:
                text.remove()
                continue
            left, bottom, ring = found
            text.set_position((left - spots[i][0], bottom - spots[i][1]))
            text.set_verticalalignment("bottom")
            taken.append((left, bottom, left + box.width, bottom + box.height))
            if ring > _RINGS[1]:
                _leader(axes, spots[i], taken[-1])
            break


def _free(
    spot: tuple[float, float], width: float, height: float, taken: list[Box], inside: Any
) -> tuple[float, float, float] | None:
    """(left, bottom, distance) of the nearest free place."""
    for ring in _RINGS:
        for across, up in _SIDES:
            x, y = spot[0] + ring * across, spot[1] + ring * up
            left = x if across > 0 else x - width if across < 0 else x - width / 2
            bottom = y if up > 0 else y - height if up < 0 else y - height / 2
            box = (left, bottom, left + width, bottom + height)
            fits = (
                inside.x0 <= box[0]
                and box[2] <= inside.x1 + 6
                and inside.y0 <= box[1]
                and box[3] <= inside.y1
            )
            if fits and not any(_meet(box, other) for other in taken):
                return left, bottom, ring
    return None


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _leader(axes: Any, spot: tuple[float, float], box: Box) -> None:
    """A thin line from a point to words that are not beside it."""
    end = (min(max(spot[0], box[0]), box[2]), min(max(spot[1], box[1]), box[3]))
    back = axes.transData.inverted()
    (x0, y0), (x1, y1) = back.transform(spot), back.transform(end)
    axes.plot(
        [x0, x1], [y0, y1], color="#9a9a9a", linewidth=0.6, zorder=1, scalex=False, scaley=False
    )


@cache
def _font() -> frozenset[int]:
    """The characters of the figures' font."""
    from matplotlib import font_manager, ft2font

    return frozenset(ft2font.FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap())
