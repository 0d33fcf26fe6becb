"""
How sure is a prediction?
=========================

``predict(X, return_std=True)`` returns a standard deviation for each row, which grows where there
are no training rows. ``predict_interval`` needs no model of the noise: its intervals are those of
residuals of rows that the model was fitted without. Both are compared with an exact Gaussian
process on a function with a gap in its rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from mercer import KernelRegressor, RandomFourier

rng = np.random.default_rng(0)


def draw(n):
    """Draw rows outside of (4, 6), with noise of standard deviation 0.2."""
    x = rng.uniform(0, 8, size=n)
    x[x > 4] += 2
    return x[:, None], np.sin(1.5 * x) + 0.1 * x + 0.2 * rng.normal(size=n)


X, y = draw(300)
X_test, y_test = draw(2000)

# %%
# ``alpha="evidence"`` takes the regularization of the largest marginal likelihood, which also
# gives the variance of the noise.

length = 0.8
model = KernelRegressor(
    RandomFourier(512, gamma=1 / (2 * length**2), random_state=0), alpha="evidence"
)
model.fit(X, y)
print(
    f"noise: standard deviation {np.sqrt(model.noise_variance_):.3f} (the rows were made with 0.2)"
)

# %%
# The shares of test rows inside their intervals.

for coverage in (0.5, 0.8, 0.9, 0.95):
    low, high = model.predict_interval(X_test, coverage=coverage).T
    inside = np.mean((low <= y_test) & (y_test <= high))
    print(f"intervals of coverage {coverage:.0%}: {inside:.1%} of the test rows are inside")

# %%
# The exact Gaussian process with the same kernel, noise and variance of the prior.

noise = model.noise_variance_
prior = ConstantKernel(noise / model.alpha_, "fixed") * RBF(length, "fixed")
process = GaussianProcessRegressor(prior, alpha=noise, optimizer=None).fit(X, y - y.mean())

grid = np.linspace(-1, 11, 400)[:, None]
mean, std = model.predict(grid, return_std=True)
low, high = model.predict_interval(grid, coverage=0.9, scaled=True).T
exact_mean, exact_std = process.predict(grid, return_std=True)
exact_std = np.sqrt(exact_std**2 + noise)
for at in (2.0, 5.0, 10.9):
    i = np.abs(grid[:, 0] - at).argmin()
    print(
        f"x = {at:4.1f}: standard deviation {std[i]:.2f}, of the exact process {exact_std[i]:.2f}"
    )

# %%

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
axes.fill_between(
    grid[:, 0], mean - 2 * std, mean + 2 * std, color="C0", alpha=0.25, label="mean ± 2 std"
)
axes.plot(grid[:, 0], mean, color="C0", label="mean")
for sign in (-1, 1):
    axes.plot(
        grid[:, 0],
        y.mean() + exact_mean + 2 * sign * exact_std,
        color="k",
        linestyle="--",
        linewidth=1,
        label="exact process ± 2 std" if sign > 0 else None,
    )
axes.plot(grid[:, 0], low, color="C1", linewidth=1.2, label="90% intervals")
axes.plot(grid[:, 0], high, color="C1", linewidth=1.2)
axes.plot(X[:, 0], y, ".", color="C3", markersize=3, label="training rows")
axes.set(xlabel="x", ylabel="y")
figure.legend(loc="outside upper center", ncols=5, fontsize=8)
plt.show()
