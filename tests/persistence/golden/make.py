"""Write golden model files, and their features and predictions to expected.npz.

Every map of the registry has one; extend models() for other models. In the root of the repository:
.venv/bin/python -m tests.persistence.golden.make. Existing files are never written again: each
stays as the version named in it has written it. To write a new one again, delete it and
`git checkout` expected.npz.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mercer
from mercer import (
    Chi2Series,
    FeaturePCA,
    Hellinger,
    KernelClassifier,
    KernelRegressor,
    Nystroem,
    RandomFourier,
    Tabular,
    UnaryIntersection,
    kernels,
    open_stream,
)
from mercer.data.table_schema import KINDS, TableColumn, TableSchema
from mercer.maps import registry

HERE = Path(__file__).parent


def rows() -> np.ndarray:
    """Return non-negative multiples of 1/8, exact in every float, some of them 0."""
    places = np.arange(1, 24 * 5 + 1)
    return ((places * places * 37 % 61) % 23 / 8.0).reshape(24, 5) * (places % 7 > 0).reshape(24, 5)


def models() -> dict[str, Any]:
    """Return fitted models by the name of their file."""
    X = rows()
    words = np.array(["blue", "green", "red"])[np.arange(len(X)) % 3]
    fourier = RandomFourier(12, gamma=0.25, random_state=1)
    small = {
        "n_components": 8,
        "n_hashes": 16,
        "n_anchors": 8,
        "n_levels": 8,
        "n_terms": 3,
        "n_measurements": 3,
    }
    made: dict[str, Any] = {}
    for name, cls in sorted(registry().items()):
        known = cls().get_params()
        given = {key: value for key, value in small.items() if key in known}
        if "random_state" in known:
            given["random_state"] = 1
        if name in ("projection", "pca"):
            given["n_components"] = 3
        made[name] = cls(**given).fit(X)
    table = open_stream(X)
    table.schema = TableSchema(tuple(map(TableColumn, "abcde", [*KINDS[:3], KINDS[2], KINDS[3]])))
    made["tabular-mixed"] = Tabular(min_frequency=3)._fit_stream(table)
    made["nystroem-exp-chi2"] = Nystroem(
        6, kernel=kernels.Gaussian(0.5).over(kernels.Chi2()), random_state=1
    ).fit(X)
    made["fourier-hadamard"] = RandomFourier(
        9, kernel="cauchy", gamma=0.5, design="hadamard", form="offset", random_state=1
    ).fit(X)
    made["composed"] = (Chi2Series(2) >> FeaturePCA(4, center=False) >> fourier).fit(X)
    made["stacked"] = (Hellinger() + (UnaryIntersection(4) >> fourier)).fit(X)
    made["regressor"] = KernelRegressor(Hellinger() >> fourier, random_state=1).fit(
        X, X[:, 0] - X[:, 1] * X[:, 2]
    )
    made["regressor-two"] = KernelRegressor(
        fourier, alpha=0.5, fit_intercept=False, random_state=1
    ).fit(X, X[:, :2])
    made["classifier"] = KernelClassifier(fourier, class_weight={"red": 2.0}, random_state=1).fit(
        X, words
    )
    made["classifier-numbers"] = KernelClassifier(
        "chi2-series", alpha=[0.1, 1.0], random_state=1
    ).fit(X, np.arange(len(X)) % 2)
    made["regressor-group"] = KernelRegressor(
        [fourier, "chi2-series"], penalty="group", alpha=0.5, random_state=1
    ).fit(X, X[:, 0] - X[:, 1])
    made["classifier-components"] = KernelClassifier(
        [fourier, Hellinger()], pca=3, alpha="kfold", random_state=1
    ).fit(X, words)
    made["classifier-logistic"] = KernelClassifier(
        fourier, loss="logistic", alpha=0.5, random_state=1
    ).fit(X, words)
    return made


def given_by(model: Any) -> dict[str, np.ndarray]:
    """Return features and codes of a map, or predictions and scores of an estimator."""
    X = rows()
    names = (
        ("predict", "decision_function", "predict_proba")
        if hasattr(model, "predict")
        else ("transform", "codes")
    )
    found = {name: getattr(model, name)(X) for name in names if hasattr(model, name)}
    return {name: Z.toarray() if hasattr(Z, "toarray") else Z for name, Z in found.items()}


def main() -> None:
    known = dict(np.load(HERE / "expected.npz")) if (HERE / "expected.npz").exists() else {}
    for name, model in models().items():
        if not (HERE / f"{name}.mercer").exists():
            mercer.save(model, HERE / f"{name}.mercer")
            known |= {f"{name}.{what}": array for what, array in given_by(model).items()}
    np.savez_compressed(HERE / "expected.npz", **known)


if __name__ == "__main__":
    main()
