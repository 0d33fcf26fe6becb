"""Names of kernels: scikit-learn's aliases mean the same kernel wherever a name is accepted."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.metrics.pairwise import cosine_similarity, laplacian_kernel, rbf_kernel

from mercer import (
    AdditiveNystroem,
    Anchors,
    Homogeneous,
    KernelClassifier,
    Nystroem,
    RandomFourier,
    load,
    save,
    select,
)
from mercer.cli._map_syntax import build, parse
from mercer.errors import ParameterError
from mercer.kernels import Chi2, ExpChi2, Gaussian
from mercer.kernels.registry import ALIASES, KernelOption, canonical_name, kernel_class
from mercer.maps import every_map

X = np.random.default_rng(0).random((40, 5))


@pytest.mark.parametrize(("alias", "name"), sorted(ALIASES.items()))
def test_an_alias_gives_the_features_of_the_name_in_every_map(alias, name):
    maps = [
        cls
        for cls in every_map()
        for constraint in cls.parameter_constraints.get("kernel", ())
        if isinstance(constraint, KernelOption) and name in constraint.options
    ]
    assert len(maps) >= 2
    for cls in maps:
        seed = {"random_state": 0} if "random_state" in cls().get_params() else {}
        size = {"n_components": 8} if "n_components" in cls().get_params() else {}
        one, other = (cls(kernel=kernel, **seed, **size).fit(X) for kernel in (alias, name))
        assert one.kernel_ == other.kernel_
        assert np.array_equal(_dense(one.transform(X)), _dense(other.transform(X)))
        assert one.kernel == alias  # as given: scikit-learn's clone compares parameters


def _dense(Z):
    return Z.toarray() if hasattr(Z, "toarray") else Z


def test_names_of_scikit_learn_are_its_kernels():
    np.testing.assert_allclose(kernel_class("rbf")(0.7)(X), rbf_kernel(X, gamma=0.7))
    np.testing.assert_allclose(kernel_class("laplacian")(0.7)(X), laplacian_kernel(X, gamma=0.7))
    np.testing.assert_allclose(kernel_class("cosine")()(X), cosine_similarity(X))
    sampled = AdditiveChi2Sampler(sample_steps=40, sample_interval=0.1).fit_transform(X)
    np.testing.assert_allclose(kernel_class("additive_chi2")()(X), sampled @ sampled.T, rtol=1e-3)
    assert kernel_class("chi2") is Chi2 and kernel_class("exp_chi2") is ExpChi2


def test_underscores_are_hyphens():
    assert canonical_name("jensen_shannon") == "jensen-shannon"
    assert canonical_name("rbf") == "gaussian"
    for cls in (AdditiveNystroem, Anchors, Homogeneous):
        one, other = (cls(kernel=name).fit(X) for name in ("jensen_shannon", "jensen-shannon"))
        assert one.kernel_ == other.kernel_
    shape = RandomFourier(8, kernel="cosine_rbf", random_state=0).fit_transform(3 * X)
    same = RandomFourier(8, kernel="cosine-rbf", random_state=0).fit_transform(3 * X)
    assert np.array_equal(shape, same)


def test_the_command_line_and_model_files_accept_aliases(tmp_path):
    built = build(parse("fourier:n_components=8,kernel=rbf"))
    model = KernelClassifier(built, alpha=1.0, random_state=0).fit(X, X[:, 0] > 0.5)
    assert isinstance(model.feature_map_.maps_[-1].kernel_, Gaussian)
    save(model, tmp_path / "model.mercer")
    assert np.array_equal(load(tmp_path / "model.mercer").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RandomFourier(kernel="rbff").fit(X), r"'rbf', got 'rbff'. Did you mean 'rbf'\?"),
        (lambda: Nystroem(5, kernel="additive_chi").fit(X), r"Did you mean 'additive_chi2'\?"),
        (lambda: Homogeneous(kernel="rbf").fit(X), "must be one of 'chi2', .*, got 'rbf'"),
        (
            lambda: KernelClassifier("rbf").fit(X, X[:, 0] > 0.5),
            "feature_map must be one of .*, got 'rbf'. Maps with the kernel 'rbf': compressive",
        ),
        (lambda: select(X, X[:, 0] > 0.5, kernels=["rbf"]), "Maps with the kernel 'rbf': "),
        (
            lambda: parse("additive_chi2"),
            "no map 'additive_chi2'.* Maps with the kernel 'addi.*chi2-s",
        ),
    ],
)
def test_messages_suggest_near_names_and_maps(make, words):
    with pytest.raises((ParameterError, ValueError), match=words):
        make()
