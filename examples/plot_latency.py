"""
How long does the prediction of one row take?
=============================================

``predict`` checks its input, opens it as a stream and cuts it into tiles, which takes time beside
the arithmetic of one row. ``model.compiled()`` returns a predictor without these layers, for rows
that arrive one by one.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline

from mercer import KernelClassifier, RandomFourier

X, y = load_digits(return_X_y=True)
model = KernelClassifier(RandomFourier(1024, gamma=0.001, random_state=0), alpha=0.1).fit(X, y)
pipeline = make_pipeline(
    RBFSampler(gamma=0.001, n_components=1024, random_state=0), RidgeClassifier(alpha=0.1)
).fit(X, y)
predictor = model.compiled()
print("equal predictions:", np.array_equal(predictor.predict(X), model.predict(X)))

# %%
# Two hundred rows, one by one.

calls = {
    "scikit-learn: RBFSampler, ridge": lambda row: pipeline.predict(row[None]),
    "model.predict": lambda row: model.predict(row[None]),
    "model.compiled()": predictor.predict,
}
seconds = {name: np.empty(200) for name in calls}
for i, row in enumerate(X[:200]):
    for name, call in calls.items():
        start = time.perf_counter()
        call(row)
        seconds[name][i] = time.perf_counter() - start
for name, values in seconds.items():
    low, median, high = np.percentile(1e3 * values, [25, 50, 75])
    print(f"{name:<32} median {median:.3f} ms (quartiles {low:.3f} and {high:.3f})")

# %%

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.boxplot(
    [1e3 * values for values in seconds.values()],
    orientation="horizontal",
    tick_labels=list(seconds),
    showfliers=False,
    widths=0.5,
    medianprops={"color": "C1", "linewidth": 2},
)
axes.set_xlim(left=0)
axes.set(xlabel="time of one prediction (ms)")
axes.grid(axis="x", alpha=0.3)
plt.show()
