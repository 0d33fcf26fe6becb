"""
Which kernel suits counts of words?
===================================

Word counts divided by their sum are histograms. The chi2 kernel :math:`\\sum 2xz/(x+z)` grows
with the entries of two histograms where an inner product grows with their products, so that it is
dominated less by frequent words. :class:`~mercer.Chi2Series` and :class:`~mercer.Hellinger` are
explicit maps of such kernels, and keep sparse rows sparse.

The texts are the first 60 words of the docstrings of the installed SciPy; the class is the
subpackage that a docstring comes from. This is a small task, chosen since it needs no download.
Names of subpackages are removed from the texts, or they would give the answer away.
"""

import importlib
import inspect
import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC

from mercer import Chi2Series, Hellinger, Identity, RandomFourier, certify

packages = [
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "stats",
]
names = re.compile(r"\b(scipy|" + "|".join(packages) + r")\b(\.\w+)*")

documents = {}
for package in packages:
    module = importlib.import_module(f"scipy.{package}")
    for name in module.__all__:
        member = getattr(module, name)
        text = inspect.getdoc(member) if callable(member) else None
        if text and len(text) > 200:
            first = " ".join(names.sub(" ", text).split()[:60])
            documents.setdefault(first, package)  # equal texts once

texts, labels = list(documents), np.array(list(documents.values()))
print(f"{len(texts)} docstrings of {len(packages)} subpackages")

# %%
# Rows are shares of words: the entries of a row have the sum 1.

words = CountVectorizer(min_df=2, token_pattern=r"[a-z]{3,}")
shares = Normalizer("l1").fit_transform(words.fit_transform(texts))
print(f"{shares.shape[1]} words, {shares.nnz / shares.shape[0]:.0f} in a text on average")

# %%
# The same linear classifier on the features of each map, which are divided by their length: chi2
# and Hellinger features have length 1 already.

maps = {
    "linear": Identity(),
    "Gaussian (512 features)": RandomFourier(512, random_state=0),
    "Hellinger": Hellinger(),
    "chi2 (3 terms)": Chi2Series(3),
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
scores = {}
for name, phi in maps.items():
    features = Normalizer("l2").fit_transform(phi.fit_transform(shares))
    scores[name] = cross_val_score(LinearSVC(random_state=0), features, labels, cv=folds)
    print(
        f"{name:<24} accuracy {scores[name].mean():.3f}, folds {scores[name].min():.3f} to "
        f"{scores[name].max():.3f}"
    )

# %%
# How exact is a series of three terms? ``certify`` measures it on these rows.

print(certify(maps["chi2 (3 terms)"], shares))

# %%
# Compare the differences of the means with the spread of the folds before you trust them.

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for row, values in enumerate(scores.values()):
    axes.plot(values, np.full(len(values), row), "o", color="C0", alpha=0.5)
    axes.plot(values.mean(), row, "D", color="C1", markersize=9)
axes.plot([], [], "o", color="C0", alpha=0.5, label="one fold")
axes.plot([], [], "D", color="C1", label="mean of five folds")
axes.set_yticks(range(len(scores)), scores)
axes.margins(y=0.2)
axes.set(xlabel="accuracy (share of docstrings in the right subpackage)")
axes.grid(axis="x", alpha=0.3)
figure.legend(loc="outside upper right", ncols=2)
plt.show()
