"""
Does the memory of a fit grow with the number of rows?
======================================================

:func:`~mercer.open_stream` opens a folder of Parquet files as a stream, and
:class:`~mercer.KernelClassifier` reads it block by block: the normal equations of the features
are all that it keeps. Predictions are written to a file in the same way. This example measures
the peak memory of fits to folders of 2 to 16 files.
"""

import tempfile
import textwrap
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mercer import KernelClassifier, RandomFourier, open_stream

ROWS, COLUMNS = 20_000, 10  # of a file
folder = tempfile.TemporaryDirectory()
root = Path(folder.name)


def write_file(path, seed):
    """Write rows whose label depends on the distance from the origin in five columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    label = np.sum(X[:, :5] ** 2, axis=1) > 4.35
    columns = {f"x{i}": column for i, column in enumerate(X.T)}
    pq.write_table(pa.table({**columns, "label": label.astype(np.int8)}), path)


counts = [2, 4, 8, 16]
for count in counts:
    (root / f"{count}-files").mkdir()
    for part in range(count):
        write_file(root / f"{count}-files" / f"part-{part:02}.parquet", part)
write_file(root / "test.parquet", 1000)

# %%
# Allocations of NumPy are traced; Arrow counts its own, of which the peak since the start is
# added.

pool = pa.default_memory_pool()


def fit(path):
    """Return a model and the peak memory of its fit, in bytes."""
    model = KernelClassifier(RandomFourier(256, gamma=0.1), alpha=0.1, random_state=0)
    tracemalloc.start()
    model.fit(open_stream(path, target="label"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return model, peak + pool.max_memory()


peaks, accuracies = [], []
for count in counts:
    model, peak = fit(root / f"{count}-files")
    peaks.append(peak / 1e6)
    accuracies.append(model.score(open_stream(root / "test.parquet", target="label")))
    print(
        f"{count:>2} files, {model.n_samples_seen_:>7,} rows: peak {peaks[-1]:.0f} MB, "
        f"accuracy on test rows {accuracies[-1]:.3f}"
    )
print(textwrap.fill(str(model.plan_), 95))

# %%
# Predictions go from file to file, too.

model.predict(open_stream(root / "test.parquet", target="label"), out=root / "predictions.parquet")
written = pq.read_table(root / "predictions.parquet")
print(written.schema)
print(f"{written.num_rows:,} predictions")
folder.cleanup()

# %%
# The features of all rows would be an array of the size of the dashed line.

rows = ROWS * np.array(counts)
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
axes.plot(rows / 1000, peaks, "o-", color="C0", label="peak memory of the fit")
axes.plot(rows / 1000, rows * 256 * 4 / 1e6, "--", color="C1", label="features of all rows")
axes.plot(rows / 1000, rows * COLUMNS * 4 / 1e6, ":", color="C3", label="all rows")
axes.set(xlabel="rows (thousands)", ylabel="memory (MB)")
axes.set_ylim(bottom=0)
axes.legend(loc="upper left")
plt.show()
