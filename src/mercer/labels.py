"""Words beside points of a figure that lie on no other word and no point."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

_LONGEST = 22
_MISSING = "\N{WHITE SQUARE}"
_RINGS = (6.0, 12.0, 20.0, 30.0, 42.0)  # distances that are tried, in points
_SIDES = ((1, 0), (-1, 0), (0.7, 0.8), (-0.7, 0.8), (0.7, -0.8), (-0.7, -0.8), (0, 1), (0, -1))
_POINT = 3.5  # half the width of a point


def short(name: str, longest: int = _LONGEST) -> str:
    """A name for a figure: at most so many characters, those that the font does not have as a box."""
    shown = "".join(sign if sign == " " or ord(sign) in _font() else _MISSING for sign in name)
    return shown if len(shown) <= longest else f"{shown[: longest - 1].rstrip()}…"


def place(axes: Any, points: Sequence[tuple[float, float]], words: Sequence[str], first: Sequence[int]) -> None:
    """Write the words of each point at the nearest of some places that is free; those of `first` are placed first, and always.

    Words that find no place are left out.
    """
    figure = axes.figure
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # places are of this layout
    inside = axes.get_window_extent()
    spots = [tuple(axes.transData.transform(point)) for point in points]
    taken = [(x - _POINT, y - _POINT, x + _POINT, y + _POINT) for x, y in spots]
    for i in [*first, *(i for i in range(len(points)) if i not in set(first))]:
        text = axes.annotate(words[i], points[i], (0, 0), textcoords="offset points", fontsize=9, annotation_clip=False)
        box = text.get_window_extent()
        width, height = box.width, box.height
        found = _free(spots[i], width, height, taken, inside)
        if found is None and i not in first:
            text.remove()
            continue
        left, bottom, ring = found or (spots[i][0] + _RINGS[0], spots[i][1], 0.0)
        text.set_position((left - spots[i][0], bottom - spots[i][1]))
        text.set_verticalalignment("bottom")
        taken.append((left, bottom, left + width, bottom + height))
        if ring > _RINGS[1]:
            _leader(axes, spots[i], taken[-1])


def _free(
    spot: tuple[float, float], width: float, height: float, taken: list[tuple[float, ...]], inside: Any
) -> tuple[float, float, float] | None:
    """(left, bottom, distance) of the nearest free place."""
    for ring in _RINGS:
        for across, up in _SIDES:
            x, y = spot[0] + ring * across, spot[1] + ring * up
            left = x if across > 0 else x - width if across < 0 else x - width / 2
            bottom = y if up > 0 else y - height if up < 0 else y - height / 2
            box = (left, bottom, left + width, bottom + height)
            fits = inside.x0 <= box[0] and box[2] <= inside.x1 + 6 and inside.y0 <= box[1] and box[3] <= inside.y1
            if fits and not any(_meet(box, other) for other in taken):
                return left, bottom, ring
    return None


def _meet(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _leader(axes: Any, spot: tuple[float, float], box: tuple[float, ...]) -> None:
    """A thin line from a point to words that are not beside it."""
    end = (min(max(spot[0], box[0]), box[2]), min(max(spot[1], box[1]), box[3]))
    back = axes.transData.inverted()
    (x0, y0), (x1, y1) = back.transform(spot), back.transform(end)
    axes.plot([x0, x1], [y0, y1], color="#9a9a9a", linewidth=0.6, zorder=1, scalex=False, scaley=False)


@cache
def _font() -> frozenset[int]:
    """The characters of the figures' font."""
    from matplotlib import font_manager, ft2font

    return frozenset(ft2font.FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap())
