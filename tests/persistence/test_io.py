"""save, load and describe: what is loaded equals what was saved, and what cannot be saved."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from tests.helpers.model_data import WORDS, X, Y, fourier

import mercer
from mercer import (
    GCWS,
    Anchors,
    Chi2Series,
    ExpChi2,
    FeaturePCA,
    Hellinger,
    KernelClassifier,
    KernelRegressor,
    Nystroem,
    RandomFourier,
    RandomProjection,
    kernels,
    load,
    save,
)
from mercer.persistence.codec import RUN_PARAMETERS
from mercer.persistence.container import canonical_json
from mercer.persistence.io import describe


def save_and_load(model, folder: Path):
    """Return the model after save and load; saved once more, it has the same bytes."""
    first, second = folder / "first.mercer", folder / "second.mercer"
    save(model, first)
    back = load(first)
    save(back, second)
    assert first.read_bytes() == second.read_bytes()
    return back


REGRESSORS = [
    KernelRegressor(fourier()),
    KernelRegressor(fourier(), alpha=0.1, fit_intercept=False),
    KernelRegressor(fourier(), alpha="kfold", pca=4),
    KernelRegressor(fourier(), alpha="loo"),
    KernelRegressor(fourier(), alpha=[0.1, np.float32(1.0)], max_memory=1000),
    pytest.param(
        KernelRegressor("exp-chi2", random_state=3, n_jobs=1, verbose=0), marks=pytest.mark.full
    ),
    KernelRegressor(Chi2Series(2) >> fourier(), random_state=np.random.default_rng(0)),
    KernelRegressor(Hellinger() + (Chi2Series(2) >> FeaturePCA(3) >> fourier())),
]


@pytest.mark.parametrize("model", REGRESSORS)
@pytest.mark.parametrize(
    "targets", [Y, np.stack([Y, X[:, 1]], axis=1), Y[:, None]], ids=["one", "two", "column"]
)
def test_a_loaded_regressor_equals_the_saved_one(model, targets, tmp_path):
    model = clone(model).fit(X, targets)
    back = save_and_load(model, tmp_path)
    for rows in (X, X.astype(np.float32), sp.csr_array(X)):
        np.testing.assert_array_equal(back.predict(rows), model.predict(rows))
    for name in ("feature_coef_", "intercept_", "alpha_", "seed_", "n_features_in_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    assert str(back.plan_) == str(model.plan_)
    assert back.score(X, targets) == model.score(X, targets)


LABELS = {
    "words": WORDS,
    "objects": WORDS.astype(object),
    "whole numbers": np.arange(60) % 3 - 1,
    "small numbers": (np.arange(60) % 3).astype(np.uint8),
    "floats": np.arange(60) % 3 * 2.0,
    "flags": np.arange(60) % 2 == 0,
    "two words": WORDS[np.arange(60) % 2],
    "words with room": WORDS.astype("U300"),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_a_loaded_classifier_has_its_labels(labels, tmp_path):
    one = labels.tolist()[0]
    for weight in (None, "balanced", {one: 2, labels.tolist()[1]: np.float64(0.5)}):
        model = KernelClassifier(fourier(), class_weight=weight).fit(X, labels)
        back = save_and_load(model, tmp_path)
        assert back.classes_.dtype == model.classes_.dtype and type(back.classes_[0]) is type(
            model.classes_[0]
        )
        np.testing.assert_array_equal(back.predict(X), model.predict(X))
        np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
        assert back.class_weight == model.class_weight


def test_column_names_are_stored(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "ü", "d/../e", ""])
    for model in (KernelRegressor(fourier()).fit(frame, Y), (Hellinger() >> fourier()).fit(frame)):
        back = save_and_load(model, tmp_path)
        assert (
            list(back.feature_names_in_) == list(frame.columns)
            and back.feature_names_in_.dtype == object
        )
        use = "predict" if hasattr(back, "predict") else "transform"
        np.testing.assert_array_equal(getattr(back, use)(frame), getattr(model, use)(frame))
        with pytest.raises(ValueError, match="feature names should match"):
            getattr(back, use)(frame.rename(columns={"a": "x"}))


def test_set_output_is_stored(tmp_path):
    back = save_and_load(fourier().set_output(transform="pandas").fit(X), tmp_path)
    assert list(back.transform(X).columns) == [f"randomfourier{i}" for i in range(16)]


PARAMETERS = [
    Nystroem(6, kernel=kernels.Gaussian(0.4).over(kernels.Chi2()), random_state=0),
    Nystroem(6, kernel=kernels.Chi2() + kernels.MinMax(), random_state=0),
    Nystroem(6, kernel=kernels.Centered(np.ones(5)), random_state=0),
    Nystroem(6, kernel=ExpChi2(8, random_state=0).fit(X).limit_, random_state=0),
    Nystroem(
        6,
        kernel="matern",
        kernel_params={"nu": 2.5},
        gamma=np.float32(0.25),
        random_state=np.int64(4),
    ),
    Nystroem(landmarks=X[:7].astype(np.float32)),
    Nystroem(landmarks=sp.csc_array(X[:7])),
    Nystroem(landmarks=sp.csr_matrix(X[:7])),
    Nystroem(6, random_state=np.random.RandomState(0)),
    Anchors(8, kernel=kernels.Intersection(), spacing="uniform", feature_range=(0, 20.0)),
    Chi2Series(2, poles=[0.1, 1.0]),
    Chi2Series(2, poles=np.array([0.1, 1.0])),
    RandomProjection(3, basis=np.eye(5)[::-1]),
    RandomFourier(8, gamma=np.float64(0.3), n_jobs=2),
]


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters_of_every_kind_are_stored(case, tmp_path):
    for rows in (X, sp.csr_array(X)):
        model = clone(case).fit(rows)
        back = save_and_load(model, tmp_path)
        np.testing.assert_array_equal(_dense(back.transform(rows)), _dense(model.transform(rows)))
        for name, value in model.get_params().items():
            mine = getattr(back, name)
            if name in RUN_PARAMETERS or isinstance(value, np.random.RandomState):
                assert mine is None
            elif hasattr(value, "toarray"):
                np.testing.assert_array_equal(mine.toarray(), value.toarray())
            elif not isinstance(value, kernels.Kernel):
                np.testing.assert_array_equal(mine, value)
                assert type(mine) is type(value)
        np.testing.assert_array_equal(back.kernel_(X), model.kernel_(X))


def _dense(Z):
    return Z.toarray() if hasattr(Z, "toarray") else Z


def test_a_shared_array_is_stored_once_and_loaded_shared(tmp_path):
    model = (FeaturePCA() >> fourier()).fit(X)
    path = tmp_path / "model.mercer"
    save(model, path)
    arrays = describe(path)["arrays"]
    assert [name for name in arrays if "mean" in name] == ["maps_.0.mean_"]
    back = load(path)
    assert back.maps_[0].mean_ is back.maps_[0].tile_transform_.stages[0].mean
    assert back.tile_transform_.parts[1] is back.maps_[1].tile_transform_


def test_a_loaded_model_supports_fit_and_clone_but_not_partial_fit(tmp_path):
    for model in (KernelRegressor(fourier()).fit(X, Y), KernelClassifier(fourier()).fit(X, WORDS)):
        y = Y if isinstance(model, KernelRegressor) else WORDS
        back = save_and_load(model, tmp_path)
        with pytest.raises(
            ValueError,
            match=r"partial_fit adds to normal equations, which a model that was loaded.* Call fit "
            r"with all rows",
        ):
            back.partial_fit(X, y)
        np.testing.assert_array_equal(clone(back).fit(X, y).predict(X), model.predict(X))
        assert back.fit(X, y).partial_fit(X, y)


def test_a_model_of_partial_fit_is_solved_when_it_is_saved(tmp_path):
    model = KernelRegressor(fourier()).partial_fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:])
    back = save_and_load(model, tmp_path)
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert describe(tmp_path / "first.mercer")["rows"] == 60


def test_fits_of_one_seed_have_the_same_bytes(tmp_path):
    for name in "ab":
        save(
            KernelRegressor(fourier(), random_state=0, n_jobs={"a": 1, "b": 2}[name]).fit(X, Y),
            tmp_path / name,
        )
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_other_readers_of_safetensors_read_the_arrays(tmp_path):
    load_file = pytest.importorskip("safetensors.numpy").load_file

    model = fourier().fit(X)
    save(model, tmp_path / "model.mercer")
    panel = load_file(tmp_path / "model.mercer")["tile_transform_.stages.0.linear.panel"]
    np.testing.assert_array_equal(panel, model.tile_transform_.stages[0].linear.panel)


def test_describe_returns_the_content_of_a_file(tmp_path):
    path = tmp_path / "model.mercer"
    model = KernelClassifier(Chi2Series(2) >> fourier(), class_weight={"red": 2.0}).fit(
        pd.DataFrame(X, columns=list("abcde")), WORDS
    )
    save(model, path)
    seen = describe(path)
    assert (
        seen["class"] == "KernelClassifier"
        and seen["format"] == 1
        and seen["columns"] == 5
        and seen["rows"] == 60
    )
    assert seen["classes"] == ["blue", "green", "red"] and seen["feature_names"] == list("abcde")
    assert (
        seen["seed"] == model.seed_
        and seen["bytes"] == path.stat().st_size
        and len(seen["sha256"]) == 64
    )
    assert seen["parameters"]["feature_map"]["maps"][1]["class"] == "RandomFourier"
    assert seen["arrays"]["_predictor.coef"] == {"dtype": "float64", "shape": [16, 3]}
    assert set(seen["library"]) == {"mercer", "numpy", "scipy", "scikit-learn", "python"}
    json.dumps(seen, allow_nan=False)
    assert describe(path, verify=True) == seen
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    describe(path)
    with pytest.raises(ValueError, match="its checksum does not match"):
        describe(path, verify=True)


def test_describe_reads_no_array(tmp_path):
    """The array has 1 TiB, in a sparse file."""
    size = 2**40
    stored = {"model": ["Hellinger", {}, {"scale_": {"array": "scale_"}}]}
    facts = {"kind": "model", "format": 1, "sha256": "0", "library": {}, "model": stored}
    entry = {"dtype": "F64", "shape": [size // 8], "data_offsets": [0, size]}
    table = {"__metadata__": {"mercer": canonical_json(facts)}, "scale_": entry}
    header = canonical_json(table).encode()
    header += b" " * (-len(header) % 8)
    with (tmp_path / "model.mercer").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    seen = describe(tmp_path / "model.mercer")
    assert seen["arrays"] == {"scale_": {"dtype": "float64", "shape": [size // 8]}}


# Models that cannot be saved.


def test_a_map_that_holds_a_function_is_refused(tmp_path):
    for model, words in (
        (Nystroem(5, kernel=lambda A, B: A @ B.T), "kernel is the Python function '<lambda>'"),
        (Anchors(8, kernel=np.minimum), "kernel is the Python function 'minimum'"),
        (Nystroem(5, kernel=kernels.CallableKernel(_linear)), "kernel is the Python function"),
        (
            KernelRegressor(Hellinger() >> Nystroem(5, kernel=_linear)),
            r"feature_map.params.maps.1.params.kernel is the Python function",
        ),
    ):
        fitted = model.fit(X, Y) if isinstance(model, KernelRegressor) else model.fit(X)
        with pytest.raises(
            ValueError, match=rf"cannot be saved: {words}.*\. A model file never runs code"
        ):
            save(fitted, tmp_path / "model.mercer")
    assert not list(tmp_path.iterdir())


def _linear(A, B):
    return A @ B.T


class Mine(RandomFourier):
    pass


def test_other_classes_and_unfitted_models_are_refused(tmp_path):
    path = tmp_path / "model.mercer"
    for model in (
        Mine().fit(X),
        make_pipeline(fourier()).fit(X),
        3,
        None,
        kernels.Chi2(),
        RandomFourier,
    ):
        with pytest.raises(
            ValueError, match="save needs a fitted map, composition or estimator of mercer, got a"
        ):
            save(model, path)
    for model in (fourier(), Hellinger() >> fourier(), KernelRegressor()):
        with pytest.raises(NotFittedError):
            save(model, path)
    with pytest.raises(ValueError, match=r"cannot be saved: maps\.0 is a tests Mine"):
        save((Mine(8) >> fourier()).fit(X), path)
    odd = KernelClassifier(fourier()).fit(X, WORDS)
    odd.classes_ = np.array([("a", 1), ("b", 2), ("c", 3)], dtype="U1,i8")
    with pytest.raises(ValueError, match=r"cannot be saved: classes_ is a numpy ndarray"):
        save(odd, path)
    strange = fourier().fit(X)
    strange.note_ = "mine"
    with pytest.raises(
        ValueError, match="its class has no type annotation for the attribute note_"
    ):
        save(strange, path)
    nested = fourier().fit(X)
    nested.nu = []
    nested.nu.append(nested.nu)
    with pytest.raises(ValueError, match="nested too deeply"):
        save(nested, path)
    assert not path.exists()


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    model = fourier().fit(X)
    with pytest.raises(ValueError, match=r"is a folder"):
        save(model, tmp_path)
    with pytest.raises(ValueError, match=r"There is no folder .*gone to write to"):
        save(model, tmp_path / "gone" / "model.mercer")
    monkeypatch.setattr("mercer.persistence.atomic_write.os.open", _denied)
    with pytest.raises(PermissionError, match=r"There is no permission to write to .*"):
        save(model, tmp_path / "model.mercer")
    assert not list(tmp_path.iterdir())


def _denied(*args, **kwargs):
    raise PermissionError(errno.EACCES, "Permission denied")


FULL = """
import resource, signal, sys
import mercer
model = mercer.load(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
try:
    mercer.save(model, sys.argv[2])
except OSError as error:
    print("refused", error)
"""


@pytest.mark.full
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    save(fourier(512).fit(X), tmp_path / "large.mercer")
    save(fourier(8).fit(X), tmp_path / "model.mercer")
    before = (tmp_path / "model.mercer").read_bytes()
    command = [
        sys.executable,
        "-c",
        FULL,
        str(tmp_path / "large.mercer"),
        str(tmp_path / "model.mercer"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused"), done.stderr
    assert (tmp_path / "model.mercer").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large.mercer", "model.mercer"]


def test_a_hash_map_of_many_columns_has_a_small_file(tmp_path):
    wide = sp.csr_array(([1.0, 2.0], ([0, 1], [5, 2**40])), shape=(2, 2**41))
    model = GCWS(64, random_state=0).fit(wide)
    back = save_and_load(model, tmp_path)
    np.testing.assert_array_equal(back.codes(wide), model.codes(wide))
    assert (tmp_path / "first.mercer").stat().st_size < 2000
    assert mercer.load(tmp_path / "first.mercer").n_features_in_ == 2**41
