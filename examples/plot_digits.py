"""
How close is a linear model on random features to an exact SVC?
===============================================================

A support vector classifier with a Gaussian kernel compares each new row with its support vectors.
:class:`~mercer.RandomFourier` maps the rows to :math:`D` columns instead, whose inner products
approximate the same kernel, and a linear model on these columns is all that remains to be fitted.
This example compares both on scikit-learn's digits, 1,797 images of 8 x 8 pixels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mercer import RandomFourier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
print(f"{len(X_train)} training rows, {len(X_test)} test rows, {X.shape[1]} columns")

# %%
# The references are the exact kernel and a linear model on the pixels.

svc = SVC().fit(X_train, y_train)
linear = RidgeClassifier().fit(X_train, y_train)
references = {
    "SVC, exact kernel": svc.score(X_test, y_test),
    "linear on pixels": linear.score(X_test, y_test),
}
for name, accuracy in references.items():
    print(f"{name}: accuracy {accuracy:.3f}")
print(f"SVC has {svc.n_support_.sum()} support vectors")

# %%
# A linear model on random features, with three seeds for each number of features.
# ``gamma="scale"`` is the bandwidth of ``SVC``.

sizes = [16, 32, 64, 128, 256, 512, 1024]
accuracies = np.empty((len(sizes), 3))
for i, size in enumerate(sizes):
    for seed in range(3):
        model = make_pipeline(
            RandomFourier(size, gamma="scale", random_state=seed), RidgeClassifier(alpha=0.01)
        )
        accuracies[i, seed] = model.fit(X_train, y_train).score(X_test, y_test)
    print(
        f"{size:>5} features: accuracy {accuracies[i].mean():.3f} "
        f"({accuracies[i].min():.3f} to {accuracies[i].max():.3f})"
    )

# %%
# With few features the approximate kernel is too coarse, and the pixels themselves are better.
# The test rows that the last model gets wrong are below the curve.

wrong = np.flatnonzero(model.predict(X_test) != y_test)[:10]

plt.style.use("tableau-colorblind10")
figure = plt.figure(figsize=(7, 5.4), layout="constrained")
top, bottom = figure.subfigures(2, 1, height_ratios=[3.6, 1])
axes = top.subplots()
axes.fill_between(sizes, accuracies.min(axis=1), accuracies.max(axis=1), color="C0", alpha=0.25)
axes.plot(sizes, accuracies.mean(axis=1), "o-", color="C0", label="random features (three seeds)")
for (name, accuracy), style in zip(references.items(), ("C1--", "C3:"), strict=True):
    axes.plot(sizes, np.full(len(sizes), accuracy), style, label=name)
axes.set_xscale("log", base=2)
axes.set_xticks(sizes, sizes)
axes.set(xlabel="number of features", ylabel="accuracy on test rows")
axes.legend(loc="lower right")
for panel, i in zip(bottom.subplots(1, max(1, len(wrong)), squeeze=False)[0], wrong, strict=False):
    panel.imshow(X_test[i].reshape(8, 8), cmap="gray_r")
    panel.set_title(f"{y_test[i]} read as {model.predict(X_test[i : i + 1])[0]}", fontsize=8)
    panel.set_axis_off()
plt.show()
