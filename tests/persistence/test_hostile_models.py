"""Corrupted and malicious model files: refused in one sentence, or loaded as they are."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.helpers.battery import data
from tests.helpers.forged_models import agrees, altered, content, mutated, named, shapes_of

import mercer
from mercer.maps import every_map
from mercer.persistence import container
from mercer.persistence.allowed_types import allowed_classes
from mercer.persistence.codec import Decoder

KEPT = ("library", "model")


def models() -> list[Any]:
    """Return one case of each map, alone, composed and in estimators."""
    cases = [case for cls in every_map() for case in cls.cases()]
    X = data(mercer.Hellinger())
    words = np.array(["a", "b", "c"])[np.arange(len(X)) % 3]
    fourier = mercer.RandomFourier(8, gamma=0.5, random_state=0)
    chain = mercer.Hellinger() + mercer.Chi2Series(2) >> fourier
    return [
        *(clone(case).fit(data(case)) for case in cases),
        mercer.KernelRegressor(fourier, alpha=0.1).fit(X, X[:, 0]),
        mercer.KernelClassifier(chain, class_weight={"a": 2.0}).fit(X, words),
        mercer.Nystroem(
            4, kernel=mercer.kernels.Gaussian(1.0).over(mercer.kernels.Chi2()), random_state=0
        ).fit(sp.csr_array(X)),
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    paths = []
    for i, model in enumerate(models()):
        paths.append(folder / f"{i}.mercer")
        mercer.save(model, paths[-1])
    return paths


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def loaded(path: Path) -> Any:
    """Return the model, or None if the file was refused in a sentence that names it."""
    try:
        return mercer.load(path)
    except ValueError as error:
        sentence = str(error)
    assert sentence.startswith(path.name) and sentence.endswith("."), sentence
    return None


def damage(files: list[Path], count: int, seed: int, bad: Path) -> int:
    """Return how many damaged files were refused; the others must be equal to the original."""
    rng, refused = np.random.default_rng(seed), 0
    for i in range(count):
        good = files[i % len(files)].read_bytes()
        bad.write_bytes(mutated(good, rng))
        model = loaded(bad)
        refused += model is None
        if model is not None:
            mercer.save(model, bad)
            assert bad.read_bytes() == good
    return refused


def forge(files: list[Path], count: int, seed: int, bad: Path) -> int:
    """Return how many files with changed content and a valid checksum were refused.

    The others must be loaded as they are, and work.
    """
    rng, refused = np.random.default_rng(seed), 0
    for i in range(count):
        facts, arrays = altered(*content(files[i % len(files)]), rng)
        container.write(bad, "model", 1, {key: facts[key] for key in KEPT}, arrays)
        model = loaded(bad)
        refused += model is None
        if model is not None:
            mercer.save(model, bad)
            back, back_arrays = content(bad)
            assert agrees(named(facts["model"], arrays), named(back["model"], back_arrays))
            use(model)
    return refused


def use(model: Any) -> None:
    """Transform or predict a row of zeros; an error must name the row."""
    sentence = "row 0"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* outside the range")
            rows = sp.csr_array((1, model.n_features_in_))
            (model.predict if hasattr(model, "predict") else model.transform)(rows)
    except ValueError as error:
        sentence = str(error)
    assert "row 0" in sentence, sentence


def test_damaged_files_are_refused(files, tmp_path):
    assert damage(files, 500, 0, tmp_path / "bad.mercer") > 460


def test_forged_files_are_refused_or_loaded_as_they_are(files, tmp_path):
    assert forge(files, 500, 1, tmp_path / "bad.mercer") > 400


@pytest.mark.slow
def test_ten_thousand_files_are_refused_or_loaded_as_they_are(files, tmp_path):
    refused = (
        damage(files, 10_000, 2, tmp_path / "bad.mercer"),
        forge(files, 10_000, 3, tmp_path / "bad.mercer"),
    )
    print(f"refused: {refused[0]} of 10,000 damaged files, {refused[1]} of 10,000 forged ones")
    assert refused[0] > 9500 and refused[1] > 8000


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.full)])
def test_arrays_of_other_shapes_and_dtypes_are_refused_or_work(step, files, tmp_path):
    """Replace every array by a dozen of other shapes and dtypes; a map that loads must work.

    The first tier tries every fifth of these files, other shapes for other arrays.
    """
    bad = tmp_path / "bad.mercer"
    tried = accepted = 0
    for path in files:
        facts, arrays = content(path)
        every = [(name, other) for name in arrays for other in shapes_of(arrays[name])]
        for name, other in every[::step]:
            container.write(
                bad, "model", 1, {key: facts[key] for key in KEPT}, {**arrays, name: other}
            )
            model = loaded(bad)
            tried += 1
            accepted += model is not None
            if model is not None:
                use(model)
    assert tried > 1000 / step and accepted < tried / 5


# Malicious files.


def raw(header: Any, rest: bytes = b"", length: int | None = None) -> bytes:
    text = (
        header
        if isinstance(header, bytes)
        else json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    )
    text += b" " * (-len(text) % 8)
    return (len(text) if length is None else length).to_bytes(8, "little") + text + rest


def with_tensors(table: dict[str, Any], rest: bytes = b"") -> bytes:
    facts = {
        "kind": "model",
        "format": 1,
        "sha256": "0" * 64,
        "library": {},
        "model": [{"array": name} for name in table],
    }
    return raw({"__metadata__": {"mercer": container.canonical_json(facts)}, **table}, rest)


def tensor(shape: Any, span: Any, dtype: Any = "F64") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": span}


class Harm:
    def __reduce__(self):
        return (print, ("harm was done",))


def corpus(folder: Path) -> dict[str, bytes]:
    """Return malicious files by description."""
    eight = bytes(8)
    found = {
        **{
            f"a pickle of protocol {i}": pickle.dumps(Harm(), protocol=i) + bytes(64)
            for i in range(6)
        },
        "a shape of 2^62": with_tensors({"a": tensor([2**62], [0, 2**65])}),
        "a shape of 2^62 in 8 bytes": with_tensors({"a": tensor([2**62], [0, 8])}, eight),
        "a shape whose product is 2^64": with_tensors({"a": tensor([2**32, 2**32], [0, 0])}),
        "a shape of 0 times 2^62": with_tensors({"a": tensor([0, 2**62, 2**62], [0, 0])}),
        "a shape of many axes": with_tensors({"a": tensor([1] * 100, [0, 8])}, eight),
        "a negative shape": with_tensors({"a": tensor([-1, -1], [0, 8])}, eight),
        "a shape that is no number": with_tensors({"a": tensor(["1"], [0, 8])}, eight),
        "a shape of flags": with_tensors({"a": tensor([True], [0, 8])}, eight),
        "a shape of fractions": with_tensors({"a": tensor([1.0], [0, 8])}, eight),
        "a header of 2^62 bytes": raw({}, length=2**62),
        "a header longer than the file": raw({}, length=3000),
        "a header of nothing": raw(b""),
        "a length of 2^64 - 1": b"\xff" * 8 + bytes(100),
        "arrays that overlap": with_tensors(
            {"a": tensor([1], [0, 8]), "b": tensor([1], [0, 8])}, eight
        ),
        "arrays that overlap by half": with_tensors(
            {"a": tensor([1], [0, 8]), "b": tensor([1], [4, 12])}, eight + eight
        ),
        "a gap between arrays": with_tensors(
            {"a": tensor([1], [0, 8]), "b": tensor([1], [16, 24])}, bytes(24)
        ),
        "bytes after the arrays": with_tensors({"a": tensor([1], [0, 8])}, bytes(9)),
        "offsets beyond the file": with_tensors({"a": tensor([1], [8, 16])}, eight),
        "offsets the wrong way round": with_tensors({"a": tensor([1], [8, 0])}, eight),
        "negative offsets": with_tensors({"a": tensor([1], [-8, 0])}, eight),
        "a path as a name": with_tensors({"../../etc/passwd": tensor([1], [0, 8])}, eight),
        "a path in the root as a name": with_tensors({"/etc/passwd": tensor([1], [0, 8])}, eight),
        "a name with a zero byte": with_tensors({"a\x00b": tensor([1], [0, 8])}, eight),
        "an array of objects": with_tensors({"a": tensor([1], [0, 8], "O")}, eight),
        "an array of voids": with_tensors({"a": tensor([1], [0, 8], ["V8"])}, eight),
        "a dtype that is a list": with_tensors({"a": tensor([1], [0, 8], {"F64": 1})}, eight),
        "a flag that is 2": with_tensors({"a": tensor([1], [0, 1], "BOOL")}, b"\x02"),
        "a key there twice": raw(
            b'{"__metadata__":{"mercer":"{}"},"__metadata__":{"mercer":"{}"}}'
        ),
        "NaN in the header": raw(b'{"__metadata__":{"mercer":"{\\"kind\\":NaN}"}}'),
        "a number of a million digits": raw(b'{"a":' + b"9" * 10**6 + b"}"),
        "a million brackets": raw(b"[" * 10**6),
        "a million braces": raw(b'{"a":' * 10**6),
        "a million brackets inside": raw({"__metadata__": {"mercer": "[" * 10**6}}),
        "a million empty lists": raw(
            {"__metadata__": {"mercer": container.canonical_json({"a": [[]] * 10**6})}}
        ),
        "no JSON": raw(b"\xff\xfe\x00" * 20),
        "UTF-16": raw('{"__metadata__":{"mercer":"{}"}}'.encode("utf-16")),
        "a lone surrogate": raw(b'{"__metadata__":{"mercer":"\\ud800"}}'),
        "a list for metadata": raw({"__metadata__": ["mercer"]}),
        "another key beside mercer": raw({"__metadata__": {"mercer": "{}", "format": "pt"}}),
    }
    for name, (model, arrays) in forged().items():
        container.write(folder / "one", "model", 1, {"library": {}, "model": model}, arrays)
        found[name] = (folder / "one").read_bytes()
    return found


def forged() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return (encoded model, arrays) of files with a valid checksum."""

    def hellinger(**kept: Any) -> Any:
        drawn = {"record": ["Chain", {"stages": {"tuple": [{"record": ["SquareRoot", {}]}]}}]}
        return {
            "model": [
                "Hellinger",
                {},
                {"tile_transform_": drawn, "n_features_in_": 3, "seed_": 0, **kept},
            ]
        }

    def stage(name: str, **fields: Any) -> Any:
        return hellinger(
            tile_transform_={
                "record": ["Chain", {"stages": {"tuple": [{"record": [name, fields]}]}}]
            }
        )

    deep: Any = 1
    for _ in range(300):
        deep = {"tuple": [deep]}
    hashes = {
        "sparse_output": True,
        "seed": 0,
        "n_hashes": 2**62,
        "bits": 60,
        "keep_t": True,
        "power": 1.0,
    }
    csr = {"csr": ["array", [2**61, 3], {"array": "a"}, {"array": "b"}, {"array": "b"}]}
    landmarks = {
        "kernel": {"record": ["Linear", {}]},
        "landmarks": csr,
        "projection": {"array": "a"},
        "careful": False,
    }
    return {
        "a class of another library": ({"model": ["subprocess.Popen", {"args": "true"}, {}]}, {}),
        "a class by its module": ({"model": ["mercer.maps.hellinger.Hellinger", {}, {}]}, {}),
        "a record of another library": (stage("os.system", command="true"), {}),
        "a record that holds a function": (
            stage("CallableKernel", function="print", params={"dict": []}),
            {},
        ),
        "a stage that is a kernel": (stage("Chi2"), {}),
        "a method that is overwritten": (hellinger(transform="x"), {}),
        "a class that is overwritten": (hellinger(__class__="x"), {}),
        "a reduce that is overwritten": (hellinger(__reduce__="x"), {}),
        "a dictionary that is overwritten": (hellinger(__dict__={"dict": []}), {}),
        "an unknown attribute": (hellinger(more_=1), {}),
        "an unknown parameter": ({"model": ["Hellinger", {"more": 1}, {}]}, {}),
        "a model that is not fitted": ({"model": ["Hellinger", {}, None]}, {}),
        "values nested 300 times": (hellinger(seed_=deep), {}),
        "an array that nobody refers to": (hellinger(), {"a": np.ones(3)}),
        "an array that is not there": (stage("SeriesLift", poles={"array": "a"}, signed=False), {}),
        "hashes without end": (
            hellinger(
                tile_transform_={"record": ["Hashes", {**hashes, "dtype": {"dtype": "float64"}}]}
            ),
            {},
        ),
        "terms without end": (stage("ChebyshevLift", n_terms=2**62, center=1.0, signed=False), {}),
        "a harmonic without end": (
            stage(
                "HomogeneousLift",
                amplitudes={"array": "a"},
                harmonics={"tuple": [2**62]},
                step=1.0,
                degree=1.0,
                signed=False,
            ),
            {"a": np.ones(2)},
        ),
        "words of a thousand million letters": (
            hellinger(feature_names_in_={"words": ["<U1000000000", ["a", "b", "c"]]}),
            {},
        ),
        "a CSR matrix of 2^61 rows": (
            hellinger(tile_transform_={"record": ["Landmarks", landmarks]}),
            {"a": np.ones(2), "b": np.zeros(2, dtype=np.int64)},
        ),
        "rows of a transform that are not there": (
            stage(
                "SampledHadamard", signs={"array": "a"}, lengths={"array": "b"}, rows={"array": "c"}
            ),
            {"a": np.ones((1, 1, 4)), "b": np.ones(4), "c": np.array([0, -1, 2**40])},
        ),
        "a panel of no columns": (stage("Matrix", panel={"array": "a"}), {"a": np.ones((3, 0))}),
        "a composition of itself": (
            {
                "model": [
                    "Composed",
                    {"maps": [{"model": ["Composed", {"maps": []}, None]}]},
                    {"maps_": []},
                ]
            },
            {},
        ),
    }


LOADING = """
import builtins, json, pickle, _pickle, resource, subprocess, sys
from pathlib import Path
import mercer, scipy.sparse
from mercer.persistence.allowed_types import allowed_classes
allowed_classes()
mercer.load(sys.argv[2])

def poisoned(*args, **kwargs):
    print("POISON"); sys.stdout.flush()
    import os; os._exit(3)

for module in (pickle, _pickle):
    for name in ("load", "loads", "Unpickler"):
        setattr(module, name, poisoned)
builtins.eval = builtins.exec = subprocess.Popen = poisoned
before = set(sys.modules)
statm = Path("/proc/self/statm")
pages = int(statm.read_text().split()[0]) if statm.exists() else 0
used = pages * resource.getpagesize() or 2**33
resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, used + 2**29))
words = {}
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        mercer.load(path)
        words[path.name] = "LOADED"
    except ValueError as error:
        words[path.name] = str(error)
    except BaseException as error:
        words[path.name] = f"CRASH {type(error).__name__}: {error}"
words["imported"] = sorted(set(sys.modules) - before)
print(json.dumps(words))
"""


def test_malicious_files_are_refused_before_anything_is_allocated_or_run(files, tmp_path):
    """Load in a process without pickle, eval, exec and Popen, and with 512 MiB left."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    names = {}
    for i, (name, content_) in enumerate(corpus(tmp_path).items()):
        (folder / f"{i}.mercer").write_bytes(content_)
        names[f"{i}.mercer"] = name
    large = folder / "large.mercer"
    with large.open("wb") as file:  # a header of 2 GiB in a sparse file
        file.write((2**31).to_bytes(8, "little") + b"{")
        file.truncate(2**31 + 100)
    names["large.mercer"] = "a header of 2 GiB"
    done = subprocess.run(
        [sys.executable, "-c", LOADING, str(folder), str(files[0])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        done.returncode == 0 and "POISON" not in done.stdout and "harm was done" not in done.stdout
    ), done.stdout + done.stderr
    words = json.loads(done.stdout.splitlines()[-1])
    assert words.pop("imported") == []
    assert len(words) == len(names) > 60
    for file_name, sentence in words.items():
        assert (
            sentence.startswith(f"{file_name} is damaged or not a model file: ")
            and len(sentence) < 300
        ), (names[file_name], sentence)
    said = {names[file_name]: sentence for file_name, sentence in words.items()}
    for name, reason in REASONS.items():
        assert reason in said[name], (name, said[name])


REASONS = {
    "a pickle of protocol 4": "it is a pickle, which is never loaded",
    "a shape of 2^62": "bytes, and the file has 0",
    "a shape of 2^62 in 8 bytes": "offsets that do not match its shape",
    "a header of 2 GiB": "the limit is 16,777,216",
    "a header of 2^62 bytes": "not a safetensors file, or truncated",
    "arrays that overlap": "overlap or leave a gap",
    "arrays that overlap by half": "overlap or leave a gap",
    "a gap between arrays": "overlap or leave a gap",
    "bytes after the arrays": "its arrays need 8 bytes, and the file has 9",
    "a path as a name": "'../../etc/passwd' is not a valid array name",
    "a dtype that is a list": "an unsupported dtype",
    "a flag that is 2": "a boolean that is not 0 or 1",
    "a key there twice": "its header has a duplicate key",
    "NaN in the header": "has NaN, which is not a JSON number",
    "a million brackets": "nested too deeply",
    "a million brackets inside": "nested too deeply",
    "another key beside mercer": "other metadata",
    "a class of another library": "there is no model class 'subprocess.Popen'",
    "a record of another library": "there is no record 'os.system'",
    "a record that holds a function": "there is no record 'CallableKernel'",
    "a method that is overwritten": "no attribute 'transform'",
    "values nested 300 times": "nested too deeply",
    "an array that nobody refers to": "its arrays are not those that the model refers to",
    "words of a thousand million letters": "width of an array of strings is too small or too large",
    "rows of a transform that are not there": "rows that are different numbers from 0 to 3",
    "a harmonic without end": "rising harmonics",
    "a panel of no columns": "a panel of 3 rows",
}


def test_a_header_that_is_not_canonical_is_refused(files, tmp_path):
    """Write the same values with spaces."""
    good = files[0].read_bytes()
    end = 8 + int.from_bytes(good[:8], "little")
    (tmp_path / "bad.mercer").write_bytes(
        raw(json.dumps(json.loads(good[8:end])).encode(), good[end:])
    )
    with pytest.raises(ValueError, match="its header is not in canonical form"):
        mercer.load(tmp_path / "bad.mercer")


def test_the_unchanged_forged_model_is_valid():
    """The unchanged model loads, so that the change is what is refused."""
    good = forged()["an array that nobody refers to"][0]
    assert (
        Decoder(allowed_classes(), {}, lambda model: None)
        .decode_model(good, fitted=True)
        .n_features_in_
        == 3
    )


EXTREMES = [float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e-308, 0.0, -1.0]


def numbers_of(stored: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of numbers in the JSON values of a model."""
    if isinstance(stored, dict | list):
        items = stored.items() if isinstance(stored, dict) else enumerate(stored)
        return [place for key, value in items for place in numbers_of(value, (*at, key))]
    return [at] if isinstance(stored, int | float) and not isinstance(stored, bool) else []


def with_extremes(facts: Any, arrays: Any) -> Any:
    """Yield the content of a model with one number, or one array, of an extreme value."""
    for *parents, last in numbers_of(facts["model"]):
        for value in EXTREMES:
            other = json.loads(json.dumps(facts))
            holder = other["model"]
            for key in parents:
                holder = holder[key]
            holder[last] = value if np.isfinite(value) else {"float": str(value)}
            yield other, arrays
    for name, array in arrays.items():
        for value in EXTREMES if array.dtype == np.float64 and array.size else []:
            for chosen in (0, array.size - 1, slice(None)):
                changed = array.copy()
                changed.flat[chosen] = value
                yield facts, {**arrays, name: changed}


def results_of(model: Any) -> list[Any]:
    rows = data(model) if not hasattr(model, "predict") else data(mercer.Hellinger())
    names = ("predict", "predict_proba", "predict_interval")
    methods = [name for name in names if hasattr(model, name)] or ["transform"]
    return [part for name in methods for part in np.atleast_1d(getattr(model, name)(rows))]


def require_finite_results(model: Any, folder: Path) -> tuple[int, int]:
    """Return how many of the extreme models were tried and refused; others have finite results."""
    mercer.save(model, folder / "good.mercer")
    tried = refused = 0
    for facts, arrays in with_extremes(*content(folder / "good.mercer")):
        tried += 1
        bad = folder / "bad.mercer"
        container.write(bad, "model", 1, {key: facts[key] for key in KEPT}, arrays)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = loaded(bad)
            refused += other is None
            try:
                results = [] if other is None else results_of(other)
            except ValueError:  # that names a row
                continue
        for part in results:
            part = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
            assert part.dtype.kind != "f" or np.isfinite(part).all()
    return tried, refused


ROWS = data(mercer.Hellinger())
CLASSES = np.array(["a", "b", "c"])[np.arange(len(ROWS)) % 3]
FOURIER = mercer.RandomFourier(8, gamma=0.5, random_state=0)


@pytest.mark.full
@pytest.mark.parametrize(
    "model",
    [
        mercer.KernelRegressor(FOURIER, alpha=0.1, uncertainty=True),
        mercer.KernelClassifier(FOURIER, alpha=1.0, loss="logistic", uncertainty=True),
    ],
    ids=["regressor", "classifier"],
)
def test_no_number_of_a_forged_estimator_gives_predictions_that_are_not_finite(model, tmp_path):
    fitted = clone(model).fit(ROWS, ROWS[:, 0] if "Regressor" in repr(model) else CLASSES)
    tried, refused = require_finite_results(fitted, tmp_path)
    assert tried > 300 and refused > tried / 4


@pytest.mark.full
@pytest.mark.parametrize("cls", every_map(), ids=lambda cls: cls.__name__)
def test_no_number_of_a_forged_map_gives_features_that_are_not_finite(cls, tmp_path):
    case = cls.cases()[0]
    tried, refused = require_finite_results(clone(case).fit(data(case)), tmp_path)
    assert refused > 0 or tried <= 8
