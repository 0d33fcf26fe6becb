"""On real data: what the designs gain, and sparse text. Needs the data sets, whose folder is in $MERCER_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import RandomFourier
from mercer.kernels import Chi2, CosineRBF, Gaussian, Intersection, JensenShannon, MinMax
from mercer.leaderboard import gram_error

pytestmark = pytest.mark.slow


def load(name: str):
    path = Path(os.environ.get("MERCER_DATA", "")) / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{name}.npz is not in $MERCER_DATA")
    return np.load(path, allow_pickle=False)


def text(name: str) -> sp.csr_array:
    parts = load(name)
    return sp.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"]))


def test_structured_designs_gain_on_mnist_what_they_should():
    """Mean squared error of independent offset features over that of each design, D = 4096, sigma = 10, four draws.

    Published beside the formulas: paired 2.5, orthogonal 12.8, Hadamard 24.5. Heavy-tailed over draws, hence the wide margins.
    """
    X = load("mnist")["X"][:1000] / 255
    kernel = Gaussian(1 / 200)

    def mean_square(form: str, design: str) -> float:
        draws = [RandomFourier(4096, gamma=1 / 200, form=form, design=design, random_state=seed) for seed in range(4)]
        return float(np.mean([gram_error(kernel, X, draw.fit_transform(X)) ** 2 for draw in draws]))

    plain = mean_square("offset", "iid")
    assert plain / mean_square("paired", "iid") > 1.5
    assert plain / mean_square("paired", "orthogonal") > 6
    assert plain / mean_square("paired", "hadamard") > 10


def test_sparse_text_is_mapped_without_being_made_dense():
    X = text("newsgroups20")[:2000].astype(np.float64)
    phi = RandomFourier(2048, kernel="cosine-rbf", gamma=2.0, random_state=0).fit(X)
    assert phi.design_ == "iid"
    assert gram_error(CosineRBF(2.0), X[:200].toarray(), phi.transform(X[:200])) < 0.06
    np.testing.assert_allclose(phi.transform(X[:50]), phi.transform(X[:50].toarray()), atol=1e-12)


@pytest.mark.parametrize("kernel", [Chi2(), Intersection(), MinMax(), JensenShannon()], ids=repr)
def test_gram_of_sparse_text_is_the_literal_kernel(kernel):
    X = text("reuters_r8")[:150].astype(np.float32)
    exact = kernel(X)
    np.testing.assert_allclose(mercer.gram(kernel, X), exact, rtol=16 * np.finfo(np.float32).eps, atol=0)
    np.testing.assert_allclose(mercer.gram(kernel, X.toarray()), exact, rtol=16 * np.finfo(np.float32).eps, atol=0)
