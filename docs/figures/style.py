"""Style of the figures of the documentation: 7 inches wide, colour-blind safe."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito; lines differ in dashes or markers too.
BLACK, BLUE, RED, GREEN, ORANGE, PURPLE = (
    "#000000",
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#CC79A7",
)
COLORS = (BLUE, RED, GREEN, PURPLE, ORANGE)
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), ":")
MARKERS = ("o", "s", "^", "D", "v")

_WIDTH, _HEIGHT = 7.0, 2.6  # inches, of one row of panels
_STYLE = {
    "figure.dpi": 100,
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
}


def panels(columns: int, rows: int = 1, height: float = _HEIGHT) -> tuple[Figure, list[Axes]]:
    """Return a figure of rows x columns panels, and the panels one after the other."""
    plt.rcParams.update(_STYLE)
    figure, axes = plt.subplots(
        rows, columns, figsize=(_WIDTH, height * rows), layout="constrained", squeeze=False
    )
    return figure, list(axes.flat)


def exact(ax: Axes, x: Any, values: Any, label: str = "exact") -> None:
    """Draw the exact values: a broad grey line below the others."""
    ax.plot(x, values, color="#b0b0b0", linewidth=4.5, solid_capstyle="round", label=label)


def approximate(ax: Axes, x: Any, values: Any, label: str, index: int) -> None:
    """Draw approximate values; index chooses colour and dashes."""
    ax.plot(x, values, color=COLORS[index], linestyle=DASHES[index], label=label)


def measured(ax: Axes, x: Any, values: Any, label: str | None, index: int, **given: Any) -> None:
    """Draw measured values as markers without a line."""
    line = {"linestyle": "", "marker": MARKERS[index], "color": COLORS[index], "label": label}
    ax.plot(x, values, **(line | given))


def root_mean_square(errors: Any, axis: Any = None) -> Any:
    """Return sqrt(mean(errors^2))."""
    return np.sqrt(np.mean(np.square(errors), axis=axis))


def legend_above(figure: Figure, ax: Axes, columns: int) -> None:
    """Draw one legend for all panels above them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)
