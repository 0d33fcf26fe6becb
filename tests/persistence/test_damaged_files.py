"""What is wrong with a model file is said before anything is made, and what is only older is
taken.
"""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from tests.helpers.forged_models import content
from tests.helpers.model_data import X, Y, fourier

from mercer import KernelClassifier, KernelRegressor, RandomProjection, fold, load, save
from mercer.maps.base import Map
from mercer.persistence import container
from mercer.persistence.codec import Packer, Unpacker
from mercer.persistence.io import known
from mercer.stats.moments import Moments


def test_what_is_no_model_file_is_said_to_be_what_it_is(tmp_path):
    from safetensors.numpy import save_file

    path = tmp_path / "thing"
    with pytest.raises(FileNotFoundError):
        load(path)
    with pytest.raises(ValueError, match="is a folder: name a model file"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is no file: name a model file"):
        load(tmp_path / "pipe")
    save_file({"a": np.ones(3)}, path)
    with pytest.raises(
        ValueError,
        match="thing is damaged, or no model: it is a safetensors file of something else",
    ):
        load(path)
    path.unlink()
    fold(X, Moments(), checkpoint=path)
    with pytest.raises(
        ValueError, match="thing is a checkpoint file of mercer, and a model is needed"
    ):
        load(path)
    save(fourier().fit(X), path)
    with pytest.raises(
        ValueError, match="thing is a model file of mercer, and a checkpoint is needed"
    ):
        fold(X, Moments(), checkpoint=path)
    for text in (b"", b"x", b"a,b,c\n1,2,3\n", b"PK\x03\x04" + bytes(100)):
        path.write_bytes(text)
        with pytest.raises(ValueError, match="it is no safetensors file, or cut short"):
            load(path)


def test_a_newer_format_is_refused_with_a_sentence(tmp_path):
    path = tmp_path / "model.mercer"
    save(fourier().fit(X), path)
    facts, arrays = content(path)
    container.write(path, "model", 2, {**facts, "more": 1}, arrays)
    with pytest.raises(
        ValueError,
        match=r"written by a newer mercer, in format 2; this one reads 1\. Install a newer mercer",
    ):
        load(path)


def test_every_file_that_is_cut_short_is_refused(tmp_path):
    path = tmp_path / "model.mercer"
    save(KernelRegressor(fourier(4)).fit(X, Y), path)
    good = path.read_bytes()
    for size in [*range(0, len(good), 97), len(good) - 1]:
        path.write_bytes(good[:size])
        with pytest.raises(ValueError, match=r"model\.mercer is damaged, or no model: "):
            load(path)


def test_a_parameter_and_a_field_that_came_later_than_the_file_have_their_defaults(tmp_path):
    path = tmp_path / "model.mercer"
    save(RandomProjection(3, random_state=0).fit(X), path)
    facts, arrays = content(path)
    _, params, kept = facts["model"]["model"]
    stages = kept["tile_transform_"]["record"][1]["stages"]
    del params["basis"], stages["tuple"][0]["record"][1]["most"]
    container.write(path, "model", 1, facts, arrays)
    back = load(path)
    assert back.basis is None and back.tile_transform_.stages[0].most == np.inf


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, np.float32(-np.inf), 0.1, -0.0])
def test_every_number_comes_back_from_its_stored_form(number):
    stored = json.loads(json.dumps(Packer(known(), "a model").plain(number, "params.p")))
    back = Unpacker(known(), {}, judge=lambda model: None).value(stored)
    assert type(back) is type(number) and repr(back) == repr(number)


def test_what_may_be_in_a_file_is_a_closed_set():
    models, records = known().models, known().records
    assert {"RandomFourier", "Composed", "Stacked", "KernelRegressor", "KernelClassifier"} <= set(
        models
    )
    assert all(
        issubclass(cls, Map) or cls in (KernelRegressor, KernelClassifier)
        for cls in models.values()
    )
    assert {"Chain", "Waves", "Landmarks", "Gaussian", "Head", "Choice", "Plan", "Hashes"} <= set(
        records
    )
    assert not {"CallableKernel", "Density", "Elementwise", "Signature"} & set(records)
    assert all(cls.__module__.startswith("mercer.") for cls in records.values())
