"""
Which of several kernels does the target need?
==============================================

A list of maps is one model with the features of all of them side by side. With
``penalty="group"`` the coefficients of each map are one group: a map that the target does not
need gets coefficients that are all zero. Here the target is the sum of a smooth and a rough
function, and five Gaussian kernels of different bandwidths are offered.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor, RandomFourier

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, size=(1200, 1))


def target(x):
    """Return a slow wave with a fast one of a tenth of its period."""
    return np.sin(0.6 * x) + 0.4 * np.sin(12 * x)


y = target(X[:, 0]) + 0.1 * rng.normal(size=len(X))
train, test = slice(0, 800), slice(800, None)

# %%
# The length scale of ``exp(-gamma |x - z|^2)`` is ``1/sqrt(2 gamma)``.

lengths = [3.0, 1.0, 0.3, 0.1, 0.03]
maps = [
    RandomFourier(128, gamma=1 / (2 * length**2), random_state=i)
    for i, length in enumerate(lengths)
]


def fit(alpha):
    """Fit all maps together with the group penalty."""
    return KernelRegressor(maps, penalty="group", alpha=alpha).fit(X[train], y[train])


alphas = np.logspace(-2, 1.5, 8)
norms, scores = np.empty((len(alphas), len(lengths))), np.empty(len(alphas))
for i, alpha in enumerate(alphas):
    model = fit(alpha)
    coefficients = np.split(model.feature_coef_, len(maps))
    norms[i] = [np.linalg.norm(part) for part in coefficients]
    scores[i] = model.score(X[test], y[test])

# %%
# Without a given alpha it is chosen by five folds.

chosen = KernelRegressor(maps, penalty="group").fit(X[train], y[train])
print(
    f"alpha {chosen.alpha_:.3g} by five folds, R2 on test rows {chosen.score(X[test], y[test]):.3f}"
)
print("maps with all-zero coefficients:", chosen.zero_maps_ or "none")
for alpha, row, score in zip(alphas, norms, scores, strict=True):
    kept = [length for length, norm in zip(lengths, row, strict=True) if norm > 0]
    print(f"alpha {alpha:7.2f}: R2 {score:6.3f}, length scales kept {kept}")

# %%

plt.style.use("tableau-colorblind10")
figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(7, 5), sharex=True, layout="constrained", height_ratios=[3, 2]
)
for length, column, marker in zip(lengths, norms.T, "os^Dv", strict=True):
    top.semilogx(alphas, column, marker=marker, label=f"{length:g}")
top.set_ylabel("norm of the coefficients")
bottom.semilogx(alphas, scores, "o-", color="k")
bottom.axvline(chosen.alpha_, color="C1", linestyle="--", label="alpha of five folds")
bottom.set(xlabel="alpha (strength of the penalty)", ylabel="R² on test rows")
bottom.legend(loc="lower left")
figure.legend(*top.get_legend_handles_labels(), title="length scale", loc="outside right upper")
plt.show()
