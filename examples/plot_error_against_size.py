"""
How many features does an error of one percent need?
====================================================

Each map has its exact kernel as ``kernel_``, so that the error of its features can be measured.
:func:`~mercer.certify` does this on pairs of rows that the map was not fitted to, and returns an
interval. Here it is measured for random Fourier features of three designs, for Nystroem features
and for scikit-learn's ``RBFSampler``, all of the same Gaussian kernel.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler

from mercer import Nystroem, RandomFourier, Scaled, certify, gram
from mercer.kernels import Gaussian

X, y = load_digits(return_X_y=True)
X = Scaled().fit_transform(X)
train, test = X[:1200], X[1200:]
gamma = RandomFourier(random_state=0).fit(train).gamma_
print(f"gamma {gamma:.4f}, from the median distance of {len(train)} rows")

# %%
# One certificate: the relative error, and which part of it more features would remove.

certificate = certify(RandomFourier(256, gamma=gamma, random_state=0).fit(train), test, error=0.01)
print(certificate)

# %%
# The error against the size. ``RBFSampler`` has no exact kernel of its own; its error is measured
# in the same way, over all pairs of test rows.

sizes = [32, 64, 128, 256, 512, 1024]
maps = {
    "fourier, iid": lambda size: RandomFourier(size, gamma=gamma, design="iid", random_state=1),
    "fourier, orthogonal": lambda size: RandomFourier(
        size, gamma=gamma, design="orthogonal", random_state=1
    ),
    "fourier, sobol": lambda size: RandomFourier(size, gamma=gamma, design="sobol", random_state=1),
    "nystroem": lambda size: Nystroem(size, gamma=gamma, random_state=1),
}
errors = {
    name: [certify(make(size).fit(train), test).relative for size in sizes]
    for name, make in maps.items()
}

K = gram(Gaussian(gamma), test)
pairs = ~np.eye(len(test), dtype=bool)
errors["RBFSampler"] = []
for size in sizes:
    Z = RBFSampler(gamma=gamma, n_components=size, random_state=1).fit(train).transform(test)
    difference = (Z @ Z.T - K)[pairs]
    errors["RBFSampler"].append(np.sqrt(np.sum(difference**2) / np.sum(K[pairs] ** 2)))
for name, values in errors.items():
    print(
        f"{name:<20}", "  ".join(f"{size}: {e:6.2%}" for size, e in zip(sizes, values, strict=True))
    )

# %%
# The exact Gram matrix of test rows beside two approximate ones, and the errors.

order = np.argsort(y[1200:], kind="stable")[::6]
plt.style.use("tableau-colorblind10")
figure = plt.figure(figsize=(7, 6), layout="constrained")
top, bottom = figure.subfigures(2, 1, height_ratios=[2, 3])
panels = top.subplots(1, 3)
approximate = {
    f"{size} features": RandomFourier(size, gamma=gamma, random_state=1).fit(train).transform(test)
    for size in (32, 512)
}
grams = {"exact kernel": K, **{name: Z @ Z.T for name, Z in approximate.items()}}
for axes, (name, matrix) in zip(panels, grams.items(), strict=True):
    image = axes.imshow(matrix[np.ix_(order, order)], vmin=0, vmax=1, cmap="cividis")
    axes.set(title=name, xticks=[], yticks=[])
panels[0].set_ylabel("test rows, sorted by digit")
top.colorbar(image, ax=panels, label="kernel value", shrink=0.8)

axes = bottom.subplots()
for (name, values), marker in zip(errors.items(), "os^Dv", strict=True):
    axes.loglog(sizes, np.multiply(values, 100), marker=marker, label=name)
axes.axhline(1, color="0.5", linewidth=0.8)
axes.set_yticks([0.1, 0.3, 1, 3, 10, 30], [0.1, 0.3, 1, 3, 10, 30])
axes.set_xticks(sizes, sizes)
axes.minorticks_off()
axes.set(xlabel="number of features", ylabel="relative error of kernel values (%)")
bottom.legend(loc="outside right upper")
plt.show()
