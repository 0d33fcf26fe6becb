"""
How do maps work in a pipeline with columns of several kinds?
=============================================================

Maps are scikit-learn transformers, so that a ``ColumnTransformer`` may give each kind of columns
the kernel that suits it: shares of a histogram a chi2 kernel, measurements a Gaussian kernel,
categories a one-hot encoding. Parameters of the maps are searched like any others.

The rows are generated: samples of soil with the shares of eight grain sizes, a depth, a
temperature and a region. The class depends on all of them.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mercer import Chi2Series, RandomFourier, Scaled

rng = np.random.default_rng(0)
n = 1000
grains = [f"grain_{i}" for i in range(8)]
measures = ["depth_m", "temperature_C"]
shares = rng.dirichlet(np.full(8, 0.4), size=n)
table = pd.DataFrame(shares, columns=grains)
table["depth_m"] = rng.uniform(0, 10, size=n)
table["temperature_C"] = 15 + 4 * rng.normal(size=n)
table["region"] = rng.choice(["north", "east", "south"], size=n)
score = (
    2.0 * (np.sqrt(shares[:, 0]) - np.sqrt(shares[:, 3]))
    + np.cos(table["depth_m"]) * (table["temperature_C"] - 15) / 4
    + 0.7 * (table["region"] == "north")
)
y = (score + 0.3 * rng.normal(size=n) > score.median()).astype(int)

# %%
# One transformer for each kind of columns. ``Scaled() >> RandomFourier()`` is one map: columns
# divided by their spread, then Fourier features.

kernels = ColumnTransformer(
    [
        ("grains", Chi2Series(3), grains),
        ("measures", Scaled() >> RandomFourier(128, random_state=0), measures),
        ("region", OneHotEncoder(), ["region"]),
    ]
)
model = make_pipeline(kernels, RidgeClassifier(alpha=0.1))
print(f"{model.fit(table, y)[0].transform(table).shape[1]} features")

# %%
# Parameters of the maps are searched by their names.

search = GridSearchCV(
    model,
    {
        "columntransformer__grains__n_terms": [1, 3],
        "columntransformer__measures__randomfourier__gamma": [1.0, 3.0],
    },
    cv=4,
).fit(table, y)
print(f"accuracy {search.best_score_:.3f} in cross-validation, with")
for name, value in search.best_params_.items():
    print(f"  {name.partition('__')[2] or name}: {value}")

# %%
# What each part adds: the columns as they are, in place of one of the maps.

standard = StandardScaler()
parts = {
    "all maps": {},
    "linear in grain sizes": {"grains": standard},
    "linear in measurements": {"measures": standard},
    "without the region": {"region": "drop"},
    "linear in all columns": {"grains": standard, "measures": standard},
}
scores = {}
for name, changes in parts.items():
    changed = clone(search.best_estimator_)
    changed[0].set_params(**changes)
    scores[name] = cross_val_score(changed, table, y, cv=4)
    print(f"{name:<23} accuracy {scores[name].mean():.3f}")

# %%

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for row, values in enumerate(scores.values()):
    axes.plot(values, np.full(len(values), row), "o", color="C0", alpha=0.5)
    axes.plot(values.mean(), row, "D", color="C1", markersize=9)
axes.plot([], [], "o", color="C0", alpha=0.5, label="one fold")
axes.plot([], [], "D", color="C1", label="mean of four folds")
axes.set_yticks(range(len(scores)), scores)
axes.invert_yaxis()
axes.margins(y=0.15)
axes.grid(axis="x", alpha=0.3)
axes.set_xlabel("accuracy (share of samples in the right class)")
figure.legend(loc="outside upper right", ncols=2)
plt.show()
