"""
Which rows should be the landmarks of Nystroem?
===============================================

Nystroem features are exact on their landmarks, and the better elsewhere the better the landmarks
cover the rows. Where rows come in clusters of unequal size, a uniform sample has few of the small
ones. The default, ``landmarks="rpcholesky"``, prefers rows that the landmarks so far explain
badly.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import Nystroem, certify

rng = np.random.default_rng(0)
angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
centers = 6 * np.column_stack([np.cos(angles), np.sin(angles)])
sizes = np.geomspace(3000, 30, len(centers)).astype(int)
X = np.concatenate(
    [center + 0.5 * rng.normal(size=(n, 2)) for center, n in zip(centers, sizes, strict=True)]
)
rng.shuffle(X)
train, test = X[::2], X[1::2]
print(f"{len(X):,} rows in {len(centers)} clusters of {sizes.max():,} to {sizes.min():,} rows")

# %%
# The trace error is the share of the diagonal of the Gram matrix that the features lack, measured
# by ``certify`` on rows that were not in the fit; here it is the mean of three seeds.


def trace_error(rule, count):
    """Return the mean trace error on test rows of three choices of landmarks."""
    maps = [
        Nystroem(count, gamma=0.5, landmarks=rule, random_state=seed).fit(train)
        for seed in range(3)
    ]
    return np.mean([certify(phi, test, pairs=5000).trace_error for phi in maps])


counts = [10, 20, 40, 80]
rules = ["rpcholesky", "kmeans++", "uniform"]
errors = np.array([[trace_error(rule, count) for count in counts] for rule in rules])
for rule, row in zip(rules, errors, strict=True):
    print(f"{rule:<11}", "  ".join(f"{m}: {e:6.2%}" for m, e in zip(counts, row, strict=True)))

# %%

plt.style.use("tableau-colorblind10")
figure = plt.figure(figsize=(7, 6), layout="constrained")
top, bottom = figure.subfigures(2, 1, height_ratios=[5, 4])
for axes, rule, color in zip(
    top.subplots(1, 2), ("uniform", "rpcholesky"), ("C1", "C0"), strict=True
):
    phi = Nystroem(40, gamma=0.5, landmarks=rule, random_state=0).fit(train)
    axes.plot(*train.T, ".", color="0.8", markersize=2)
    axes.plot(*phi.landmarks_.T, "o", color=color, markersize=5, markeredgecolor="k")
    axes.set(title=f"40 landmarks, {rule}", xlabel="x1", ylabel="x2", aspect="equal")

axes = bottom.subplots()
for row, rule, style in zip(errors, rules, ("C0o-", "C3s--", "C1^:"), strict=True):
    axes.loglog(counts, 100 * row, style, label=rule)
axes.set_xticks(counts, counts)
axes.set_yticks([2, 5, 10, 20, 50], [2, 5, 10, 20, 50])
axes.minorticks_off()
axes.set(xlabel="number of landmarks", ylabel="trace error (%)")
axes.legend(loc="lower left")
plt.show()
