"""Files that are damaged, of another kind or of another version."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from tests.helpers.forged_models import content
from tests.helpers.model_data import X, Y, fourier

from mercer import KernelClassifier, KernelRegressor, RandomProjection, accumulate, load, save
from mercer.maps.base import Map
from mercer.persistence import container
from mercer.persistence.allowed_types import allowed_classes
from mercer.persistence.codec import Decoder, Encoder
from mercer.stats.moments import Moments


def test_the_message_says_what_another_file_is(tmp_path):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    path = tmp_path / "thing"
    with pytest.raises(FileNotFoundError):
        load(path)
    with pytest.raises(ValueError, match="is a folder; a model file is needed"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a regular file; a model file is needed"):
        load(tmp_path / "pipe")
    save_file({"a": np.ones(3)}, path)
    with pytest.raises(
        ValueError,
        match="thing is damaged or not a model file: it is a safetensors file of another program",
    ):
        load(path)
    path.unlink()
    accumulate(X, Moments(), checkpoint=path)
    with pytest.raises(
        ValueError, match="thing is a checkpoint file of mercer; a model file is needed"
    ):
        load(path)
    save(fourier().fit(X), path)
    with pytest.raises(
        ValueError, match="thing is a model file of mercer; a checkpoint file is needed"
    ):
        accumulate(X, Moments(), checkpoint=path)
    for text in (b"", b"x", b"a,b,c\n1,2,3\n", b"PK\x03\x04" + bytes(100)):
        path.write_bytes(text)
        with pytest.raises(ValueError, match="it is not a safetensors file, or truncated"):
            load(path)


def test_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "model.mercer"
    save(fourier().fit(X), path)
    facts, arrays = content(path)
    container.write(path, "model", 2, {**facts, "more": 1}, arrays)
    with pytest.raises(
        ValueError,
        match=r"written by a newer mercer, in format 2; this one reads 1\. Install a newer mercer",
    ):
        load(path)


def test_every_truncated_file_is_refused(tmp_path):
    path = tmp_path / "model.mercer"
    save(KernelRegressor(fourier(4)).fit(X, Y), path)
    good = path.read_bytes()
    for size in [*range(0, len(good), 97), len(good) - 1]:
        path.write_bytes(good[:size])
        with pytest.raises(ValueError, match=r"model\.mercer is damaged or not a model file: "):
            load(path)


def test_parameters_and_fields_added_after_a_file_was_written_have_their_defaults(tmp_path):
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
def test_every_number_is_decoded_exactly(number):
    stored = json.loads(
        json.dumps(Encoder(allowed_classes(), "a model").encode(number, "params.p"))
    )
    back = Decoder(allowed_classes(), {}, validate=lambda model: None).decode(stored)
    assert type(back) is type(number) and repr(back) == repr(number)


def test_the_allowed_classes_are_a_closed_set():
    models, records = allowed_classes().models, allowed_classes().records
    assert {"RandomFourier", "Composed", "Stacked", "KernelRegressor", "KernelClassifier"} <= set(
        models
    )
    assert all(
        issubclass(cls, Map) or cls in (KernelRegressor, KernelClassifier)
        for cls in models.values()
    )
    assert {
        "Chain",
        "FourierFeatures",
        "Landmarks",
        "Gaussian",
        "LinearPredictor",
        "AlphaSearch",
        "Plan",
        "Hashes",
    } <= set(records)
    assert not {"CallableKernel", "Density", "CustomAdditive", "Signature"} & set(records)
    assert all(cls.__module__.startswith("mercer.") for cls in records.values())
