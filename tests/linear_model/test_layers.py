"""A local fit runs no Dask or device code; one row costs no more than a scikit-learn pipeline."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from mercer import KernelRegressor, RandomFourier

LOCAL_FIT = """
import json, sys, threading
import numpy as np
from mercer import KernelClassifier, RandomFourier

X = np.random.default_rng(0).random((300, 5))
y = (X[:, 0] > 0.5).astype(int)
entered = set()

def record(frame, event, argument):
    if event == "call":
        entered.add((frame.f_globals.get("__name__", ""), frame.f_code.co_name))

threading.setprofile(record)
sys.setprofile(record)
KernelClassifier(RandomFourier(32, random_state=0)).fit(X, y).predict(X)
KernelClassifier("fourier", loss="logistic", alpha=1.0).fit(X, y).predict_proba(X)
sys.setprofile(None)
threading.setprofile(None)
print(json.dumps(sorted(entered)))
"""

# which device is active, and whether X is a tensor: no transfer
SELECTION = {"current_device", "device_of", "is_tensor", "<genexpr>", "device_context"}


def test_a_local_fit_enters_no_dask_or_device_code():
    done = subprocess.run(
        [sys.executable, "-c", LOCAL_FIT], capture_output=True, text=True, check=True
    )
    entered = json.loads(done.stdout)
    assert ["mercer.linear_model.base", "fit"] in entered
    remote = ("mercer.parallel.dask_", "mercer.data.dask", "mercer.ops.torch")
    assert not [
        (module, function)
        for module, function in entered
        if module.startswith(remote)
        or (module.startswith("mercer.parallel.device") and function not in SELECTION)
    ]


@pytest.mark.full
def test_one_row_costs_no_more_than_a_pipeline_of_scikit_learn():
    rng = np.random.default_rng(0)
    X, t = rng.random((500, 20)), rng.random(500)
    models = [
        KernelRegressor(RandomFourier(512, gamma=1.0, random_state=0), alpha=1.0),
        make_pipeline(RBFSampler(gamma=1.0, n_components=512, random_state=0), Ridge(1.0)),
    ]
    seconds = [[], []]
    for model in models:
        model.fit(X, t)
    for _ in range(200):
        for model, times in zip(models, seconds, strict=True):
            start = time.perf_counter()
            model.predict(X[:1])
            times.append(time.perf_counter() - start)
    ours, theirs = map(statistics.median, seconds)
    assert ours <= theirs
