"""Predicting one row builds no map, and is validated as many rows are."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from mercer import (
    Chi2Series,
    Hellinger,
    KernelClassifier,
    KernelRegressor,
    RandomFourier,
    load,
    save,
)

rng = np.random.default_rng(0)
X, t = rng.random((60, 4)), rng.random(60)
MODELS = {
    "regressor": (KernelRegressor, t),
    "classifier": (KernelClassifier, np.round(2 * t).astype(int)),
}


class Counted(Hellinger):
    """A map that counts how often it is made."""

    made = 0

    def __init__(self, n_jobs=None):
        type(self).made += 1
        super().__init__(n_jobs=n_jobs)


@pytest.mark.parametrize("kind", MODELS)
def test_neither_tags_nor_predictions_build_a_map(kind):
    cls, y = MODELS[kind]
    model = cls([Counted(), Counted() >> Counted()], alpha=1.0).fit(X, y)
    before = Counted.made
    assert before > 3  # fit makes its own
    assert get_tags(model).input_tags.positive_only
    model.predict(X[:1])
    assert Counted.made == before


@pytest.mark.parametrize(
    ("feature_map", "positive"),
    [
        ("fourier", False),
        ("hellinger", True),
        (Hellinger(), True),
        (Chi2Series(signed=True), False),
        (RandomFourier() >> Hellinger(), False),
        ([RandomFourier(), Hellinger()], True),
        (["fourier", "hellinger"], True),
        (RandomFourier() + Hellinger(), True),
        ("no such map", False),
        ([1, None], False),
        (None, False),
    ],
    ids=str,
)
def test_tags_say_whether_the_map_takes_negative_numbers(feature_map, positive):
    assert get_tags(KernelRegressor(feature_map)).input_tags.positive_only is positive


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_is_predicted_alike_in_every_form(kind, dtype, tmp_path):
    cls, y = MODELS[kind]
    rows = X.astype(dtype)
    model = cls(RandomFourier(64, gamma=1.0, random_state=0), alpha=1.0).fit(X, y)
    expected = model.predict(rows[:1])
    assert expected.shape == (1,)
    for form in (
        np.asfortranarray(rows)[:1],
        rows[:2][::2],
        np.ma.masked_array(rows[:1]),
        np.broadcast_to(rows[0], (1, 4)),
    ):
        np.testing.assert_array_equal(model.predict(form), expected)
    save(model, tmp_path / "m.mercer")
    np.testing.assert_array_equal(load(tmp_path / "m.mercer").predict(rows[:1]), expected)


@pytest.mark.parametrize("kind", MODELS)
def test_invalid_rows_are_refused(kind):
    cls, y = MODELS[kind]
    model = cls(Hellinger(), alpha=1.0)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        model.predict(X[:1])
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"X has 3 features, but Kernel.* is expecting 4 features"):
        model.predict(X[:1, :3])
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        model.predict(X[0])
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        model.predict(X[:0])
    with pytest.raises(ValueError, match="needs finite numbers, got nan at row 0, column 2"):
        model.predict(np.array([[0.0, 1.0, np.nan, 1.0]]))
    with pytest.raises(ValueError, match="got -1 at row 0, column 1"):
        model.predict(np.array([[0.0, -1.0, 0.0, 1.0]]))


def test_rows_without_names_are_warned_of_where_a_model_has_names(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = KernelRegressor(Hellinger(), alpha=1.0).fit(frame, t)
    save(model, tmp_path / "m.mercer")
    for one in (model, load(tmp_path / "m.mercer")):
        with pytest.warns(
            UserWarning, match="X does not have valid feature names, but KernelRegressor"
        ):
            one.predict(X[:1])
        with pytest.raises(ValueError, match=r"row 0, column 1 \('b'\)"):
            one.predict(pd.DataFrame([[0.0, -1.0, 0.0, 1.0]], columns=list("abcd")))
