"""
Does a Dask cluster fit the same model?
=======================================

``fit`` takes Dask arrays, and sums their rows on the workers of the current client. The sums are
merged in the order of the rows, so that the model has the same bits for any number of workers,
and for none. Here the cluster is local, with its workers in threads of this process; that of
several machines differs in the address only.
"""

import os

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster, get_task_stream

from mercer import KernelClassifier, RandomFourier

X = da.random.default_rng(0).normal(size=(400_000, 8), chunks=(50_000, 8)).astype(np.float32)
y = ((X[:, :4] ** 2).sum(axis=1) > 3.36).astype(np.int64)


def fit(X, y):
    """Fit a classifier on 128 random Fourier features."""
    return KernelClassifier(RandomFourier(128, gamma=0.1, random_state=0), alpha=1.0).fit(X, y)


# %%
# Two workers of one thread. The tasks of a fit are shards, up to 131,072 rows each; a shard has
# the sum of its rows as its result.

environment = dict(os.environ)
with (
    LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster,
    Client(cluster) as client,
):
    with get_task_stream(client=client) as stream:
        clustered = fit(X, y)
    predictions = clustered.predict(X)
    print("predictions, not computed yet:", predictions)
    accuracy = float((predictions == y).mean().compute())
os.environ.clear()
os.environ.update(environment)  # LocalCluster may leave OMP_NUM_THREADS=1
print(f"accuracy on training rows {accuracy:.3f}")

# %%
# The same fit without a cluster, on NumPy arrays.

local = fit(X.compute(), y.compute())
print("equal bits:", local.feature_coef_.tobytes() == clustered.feature_coef_.tobytes())

# %%
# What each worker did during the fit.

workers = sorted({task["worker"] for task in stream.data})
kinds = {"making rows": ("C1", 0.5), "summing a shard": ("C0", 0.8)}
begin = min(step["start"] for task in stream.data for step in task["startstops"])
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for task in stream.data:
    kind = "summing a shard" if str(task["key"]).startswith("sum_shard") else "making rows"
    color, height = kinds[kind]
    bars = [
        (1e3 * (step["start"] - begin), 1e3 * (step["stop"] - step["start"]))
        for step in task["startstops"]
        if step["action"] == "compute"
    ]
    row = workers.index(task["worker"])
    axes.broken_barh(bars, (row - height / 2, height), facecolor=color, edgecolor="white")
for kind, (color, _) in kinds.items():
    axes.broken_barh([], (0, 0), facecolor=color, label=kind)
axes.set_yticks(range(len(workers)), [f"worker {i + 1}" for i in range(len(workers))])
axes.set_ylim(-0.7, len(workers) - 0.3)
axes.set_xlabel("time since the first task (ms)")
figure.legend(loc="outside upper right", ncols=2)
plt.show()
