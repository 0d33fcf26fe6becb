"""
How do I use a kernel of my own?
================================

A Python function that returns the Gram matrix of two arrays of rows is enough:
:class:`~mercer.Nystroem` chooses landmarks and makes features of it. Here it is a periodic
kernel, for measurements that repeat every day; a function of two numbers is an additive kernel
for :class:`~mercer.Anchors`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import Anchors, KernelRegressor, Nystroem, certify

rng = np.random.default_rng(0)
hours = np.sort(rng.uniform(0, 7 * 24, size=600))


def temperature(t):
    """Return a day's temperature: warm afternoons, with a shoulder in the evening."""
    day = 2 * np.pi * t / 24
    return 15 - 5 * np.cos(day - 0.8) + 1.5 * np.sin(2 * day)


y = temperature(hours) + 0.5 * rng.normal(size=len(hours))
train = hours < 4 * 24
X = hours[:, None]

# %%
# The kernel is a function of all pairs of rows. Keywords come from ``kernel_params``.


def periodic(X, Z, period, length):
    """k(x, z) = exp(-2 sin(pi (x - z)/period)^2/length^2)."""
    difference = X[:, :1] - Z[:, 0]
    return np.exp(-2 * np.sin(np.pi * difference / period) ** 2 / length**2)


phi = Nystroem(40, kernel=periodic, kernel_params={"period": 24.0, "length": 0.7}, random_state=0)
own = KernelRegressor(phi).fit(X[train], y[train])
gaussian = KernelRegressor(Nystroem(40, gamma=0.05, random_state=0)).fit(X[train], y[train])
for name, model in (("periodic", own), ("gaussian", gaussian)):
    print(
        f"{name}: R2 of four days {model.score(X[train], y[train]):.3f}, of the three days after "
        f"them {model.score(X[~train], y[~train]):.3f}"
    )

# %%
# Features of a kernel of one's own are certified like any others.

certificate = certify(own, X[~train])
print(f"relative error {certificate.relative:.1e} with {phi.n_components} landmarks")

# %%
# A function of two numbers is the kernel of each column; :class:`~mercer.Anchors` tabulates it.
# This one is a Cauchy kernel of the difference.


def cauchy(x, z):
    """k(x, z) = 1/(1 + (x - z)^2), for two arrays of one shape."""
    return 1 / (1 + (x - z) ** 2)


counts = rng.gamma(2.0, size=(400, 12))
anchors = Anchors(64, kernel=cauchy, spacing="uniform", energy=1.0).fit(counts[:200])
certificate = certify(anchors, counts[200:].clip(max=counts[:200].max()))
print(f"relative error {certificate.relative:.2%} with {anchors.n_anchors} anchors")

# %%

grid = np.linspace(0, 7 * 24, 800)
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
axes.axvspan(4 * 24, 7 * 24, color="0.93", label="not in the fit")
axes.plot(hours, y, ".", color="C2", markersize=4, label="measurements")
axes.plot(grid, gaussian.predict(grid[:, None]), "--", color="C1", label="Gaussian kernel")
axes.plot(grid, own.predict(grid[:, None]), color="C0", label="periodic kernel")
axes.set(xlabel="time (h)", ylabel="temperature (°C)", xlim=(0, 7 * 24))
axes.set_xticks(range(0, 7 * 24 + 1, 24))
figure.legend(loc="outside upper center", ncols=4)
plt.show()
