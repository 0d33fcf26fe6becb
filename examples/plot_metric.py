"""
Which columns matter to the target?
===================================

A Gaussian kernel counts all columns alike. ``metric="learned"`` weights them by how much the
target depends on them; ``importances_`` has the shares. Here two of eight columns matter.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.inspection import permutation_importance

from mercer import KernelRegressor, RandomFourier

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 8))
y = np.sin(2 * X[:, 3]) * X[:, 7] + 0.1 * rng.normal(size=len(X))
train, test = slice(0, 400), slice(400, None)

models = {
    "Gaussian kernel": KernelRegressor(RandomFourier(256), random_state=0),
    "with a learned metric": KernelRegressor(RandomFourier(256), metric="learned", random_state=0),
    "gradient boosting": HistGradientBoostingRegressor(random_state=0),
}
for name, model in models.items():
    model.fit(X[train], y[train])
    print(f"{name}: R2 on test rows {model.score(X[test], y[test]):.3f}")

# %%
# The shares of the columns, beside the permutation importance of the same model, which needs test
# rows and a prediction of all of them for each column and repetition.

learned = models["with a learned metric"]
shares = learned.importances_
permuted = permutation_importance(
    learned, X[test], y[test], n_repeats=5, random_state=0
).importances_mean
permuted = permuted.clip(0) / permuted.clip(0).sum()
print("the two largest shares: columns", *sorted(np.argsort(shares)[-2:].tolist()))
print("importances", shares.round(3))

# %%

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
columns = np.arange(X.shape[1])
axes.bar(columns - 0.2, 100 * shares, 0.4, color="C0", label="share in the learned metric")
axes.bar(columns + 0.2, 100 * permuted, 0.4, color="C1", label="permutation importance")
axes.set_xticks(columns)
axes.set(xlabel="column", ylabel="importance (% of the sum)")
figure.legend(loc="outside upper center", ncols=2)
plt.show()
