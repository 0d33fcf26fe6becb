"""
Which model should I take, and why?
===================================

:func:`~mercer.select` compares maps and bandwidths with linear models, gradient boosting and
exact kernels, and :func:`~mercer.write_report` writes the result as one HTML page without
scripts. On the command line this is ``mercer compare data.csv --target name --report
report.html``. Three maps are compared here, to be quick; by default one map for each kernel is,
at several bandwidths.
"""

import re
import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from mercer import Chi2Series, Hellinger, RandomFourier, select, write_report

X, y = load_digits(return_X_y=True)
X, y = X[:400], y[:400]
maps = [RandomFourier(256, random_state=0), Hellinger(), Chi2Series(3)]
board = select(X, y, kernels=maps, random_state=0)
print(textwrap.fill(board.summary, 95))

# %%
# A leaderboard is a table in notebooks, and ``print(board)`` prints it.

board

# %%
# The page is one file; ``webbrowser.open(page.as_uri())`` shows it in a browser.

with tempfile.TemporaryDirectory() as folder:
    page = Path(folder) / "report.html"
    write_report(board, page, X=X, y=y, title="Digits, 400 rows")
    html = page.read_text(encoding="utf-8")
sections = [re.sub("<[^>]+>", "", found) for found in re.findall(r"<h2.*?</h2>", html, re.DOTALL)]
print(f"{len(html.encode()) / 1e3:.0f} kB; sections: {', '.join(sections)}")

# %%
# One of its figures, as it stands in the page.


class Svg(str):
    """Show a figure in a notebook or a documentation page."""

    def _repr_html_(self):
        return str(self)


Svg(re.search(r"<svg.*?</svg>", html, re.DOTALL)[0])

# %%
# The numbers behind the page are attributes of the leaderboard. ``comparisons`` has the
# differences of the winner to the others on the same rows, with intervals of 95%.

others = [other for other in board.comparisons if other.name != "guessing"]
for other in others:
    print(
        f"{board.winner.name} minus {other.name}: {100 * other.difference:+.1f} points "
        f"({100 * other.low:+.1f} to {100 * other.high:+.1f})"
    )

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for row, other in enumerate(others):
    axes.plot([100 * other.low, 100 * other.high], [row, row], color="C0", linewidth=3)
    axes.plot(100 * other.difference, row, "o", color="C1", markersize=9)
axes.axvline(0, color="0.4", linestyle="--")
axes.set_yticks(range(len(others)), [other.name for other in others])
axes.margins(y=0.3)
axes.invert_yaxis()
axes.set_xlabel("accuracy of the winner minus that of the other (points, 95% interval)")
figure.suptitle(f"winner: {board.winner.name}", fontsize=10)
plt.show()
