"""
Does a fit that was killed resume to the same model?
====================================================

With ``checkpoint=`` a fit writes its partial sums to a file. A fit that is started again with the
same file goes on from there, and the model has the bits of one that was never interrupted. Here a
fit runs in a process of its own, which is killed without warning while it reads the rows.
"""

import io
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor, RandomFourier, open_stream

folder = tempfile.TemporaryDirectory()
root = Path(folder.name)
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(1_000_000, 4)).astype(np.float32)
y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=len(X))
np.savez(root / "rows.npz", X=X, y=y.astype(np.float32))

# %%
# The fit, as a script. ``verbose=2`` prints the rows that are done.

script = """
from mercer import KernelRegressor, RandomFourier, open_stream

KernelRegressor(
    RandomFourier(96, gamma=0.5, random_state=0), alpha=1e-3, checkpoint="rows.sum", verbose=2
).fit(open_stream("rows.npz"))
"""


def rows_done(line):
    """Return the number of a line of progress: 'KernelRegressor: 8,192 rows of 1,000,000'."""
    return int(line.split()[1].replace(",", ""))


killed = []
child = subprocess.Popen(
    [sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True
)
for line in child.stdout:
    if " rows of " in line:
        killed.append(rows_done(line))
        if killed[-1] > 450_000:
            child.kill()
            break
child.stdout.close()
print(f"killed after {killed[-1]:,} rows, exit status {child.wait()}")
print("files:", ", ".join(sorted(path.name for path in root.iterdir())))

# %%
# The same fit again, in this process. It goes on from the rows whose sum was written last: a sum
# is written when that takes little time in comparison with the work since the one before.

model = KernelRegressor(
    RandomFourier(96, gamma=0.5, random_state=0),
    alpha=1e-3,
    checkpoint=root / "rows.sum",
    verbose=2,
)
with redirect_stdout(io.StringIO()) as progress:
    model.fit(open_stream(root / "rows.npz"))
resumed = [rows_done(line) for line in progress.getvalue().splitlines() if " rows of " in line]
first = resumed[0] - (resumed[1] - resumed[0])
print(f"resumed from row {first:,}")

# %%
# A fit without interruption has the same coefficients, bit for bit.

whole = KernelRegressor(RandomFourier(96, gamma=0.5, random_state=0), alpha=1e-3)
whole.fit(open_stream(root / "rows.npz"))
print("equal bits:", whole.feature_coef_.tobytes() == model.feature_coef_.tobytes())
folder.cleanup()

# %%

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(range(1, len(killed) + 1), np.array(killed) / 1000, ".-", color="C1", label="first fit")
steps = np.arange(len(killed) + 1, len(killed) + 1 + len(resumed))
axes.plot(steps, np.array(resumed) / 1000, ".-", color="C0", label="second fit")
axes.plot(len(killed), killed[-1] / 1000, "x", color="k", markersize=11, label="killed")
axes.axhline(first / 1000, color="0.5", linestyle="--", label="rows in the checkpoint")
axes.set(xlabel="blocks of rows read", ylabel="rows done (thousands)")
axes.legend(loc="upper left")
plt.show()
