"""Model files: save(model, path) and load(path) for fitted maps, compositions and estimators. No
pickle, nothing imported by name.

A file is one of ``mercer.persistence.container``; what it says of a model is written as ``codec``
has it. Loading makes the model by its constructor, sets what fit had found, and judges both:
parameters as fit would, drawn arrays by ``check``, and one row goes through.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import platform
import typing
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import __version__, kernels, maps
from mercer.errors import RowError
from mercer.linear_model.classifier import KernelClassifier
from mercer.linear_model.heads import Head
from mercer.linear_model.regressor import KernelRegressor
from mercer.linear_model.solvers.ridge import Choice
from mercer.maps import every_map, stages
from mercer.maps._transform import TileTransform
from mercer.maps.base import Map
from mercer.parallel.tile_size import Plan
from mercer.persistence import container
from mercer.persistence.allowed_types import Known
from mercer.persistence.codec import Packer, Unpacker, names_in
from mercer.persistence.renamed import with_current_names
from mercer.rng import seed_from
from mercer.validation.parameters import validate_integer, validate_parameters

_FORMAT = 1
_ROW = 2.0**28  # bytes that the features of a single row may take, to be looked at


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted map, composition or estimator to one file, whole or not at all; what was there
    before is replaced.

    The same model gives the same bytes. What says how a fit ran, not what the model is, is left
    out: n_jobs, verbose, checkpoint, and generators given as random_state (``seed_`` and what was
    drawn are kept). Moments are left out too: ``partial_fit`` does not go on.

    Parameters
    ----------
    model : fitted map, composition, KernelRegressor or KernelClassifier
        Refused where it holds a Python function (a kernel of Nystroem or Anchors): a model file
        never runs code.
    path : path
        ".mercer" is the custom.

    Examples
    --------
    >>> import tempfile, os, mercer
    >>> phi = mercer.RandomFourier(64, random_state=0).fit([[0.0, 1.0], [1.0, 0.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mercer.save(phi, os.path.join(folder, "phi.mercer"))
    ...     again = mercer.load(os.path.join(folder, "phi.mercer"))
    >>> bool((again.transform([[0.5, 0.5]]) == phi.transform([[0.5, 0.5]])).all())
    True
    """
    path, who = Path(path), type(model).__name__
    if type(model) not in known().models.values():
        raise ValueError(
            f"save is for fitted maps, compositions and estimators of mercer, got a {who}. "
            "A pipeline of scikit-learn has its parts one by one; a map of your own is no map of "
            "mercer."
        )
    check_is_fitted(model)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(
            f"{path} is a folder."
            if path.is_dir()
            else f"There is no folder {path.parent} to write to."
        )
    packer = Packer(known(), who)
    stored = packer.model(model, "", fitted=True)
    try:
        container.write(
            path, "model", _FORMAT, {"library": _library(), "model": stored}, packer.arrays
        )
    except PermissionError as error:
        raise PermissionError(
            error.errno, f"There is no permission to write to {path.parent}"
        ) from None


def load(path: str | os.PathLike[str]) -> Any:
    """The model in a file, as it was saved: same parameters, same features, same predictions.

    Parameters
    ----------
    path : path

    Raises
    ------
    ValueError
        Where the file is damaged, is no model, is newer than this mercer, or has parts that do not
        go together.
    """
    with (
        container.opened(Path(path), "model", _FORMAT) as file,
        _in_words(),
        np.errstate(all="ignore"),
    ):
        stored = _stored(file)
        return Unpacker(known(), file.arrays(), _judge).model(stored, fitted=True)


def describe(path: str | os.PathLike[str], *, verify: bool = False) -> dict[str, Any]:
    """What a model file says of its model, without reading an array; with verify, its digest is
    checked, which reads all of it.

    Returns
    -------
    dict
        format, class, parameters, columns, feature_names, classes, seed, rows (of estimators),
        dtypes, arrays (name -> dtype and shape), bytes, library (versions) and sha256; what the
        model does not have is None. Plain values throughout.
    """
    path = Path(path)
    with container.opened(path, "model", _FORMAT) as file, _in_words():
        name, params, kept = _body(_stored(file))
        if verify:
            file.arrays()
        found = {key: _shown(value) for key, value in kept.items()}
        arrays = {
            key: {"dtype": str(one.dtype), "shape": list(one.shape)}
            for key, one in sorted(file.tensors.items())
        }
        return {
            "format": file.facts["format"],
            "class": name,
            "parameters": {key: _shown(value) for key, value in params.items()},
            "columns": found.get("n_features_in_"),
            "feature_names": found.get("feature_names_in_"),
            "classes": found.get("classes_"),
            "seed": found.get("seed_"),
            "rows": found.get("_taken"),
            "dtypes": sorted({one["dtype"] for one in arrays.values()}),
            "arrays": arrays,
            "bytes": path.stat().st_size,
            "library": file.facts["library"],
            "sha256": file.facts["sha256"],
        }


@functools.cache
def known() -> Known:
    """What may be in a file: our maps and estimators, and the frozen dataclasses that they are made
    of, less those that hold functions.
    """
    models = {cls.__name__: cls for cls in (*every_map(), KernelRegressor, KernelClassifier)}
    records: dict[str, type] = {cls.__name__: cls for cls in (Head, Choice, Plan)}
    for package in (kernels, stages, maps):
        for module in _modules(package):
            for value in list(vars(module).values()):
                ours = (
                    isinstance(value, type)
                    and value.__module__ == module.__name__
                    and is_dataclass(value)
                )
                if ours and not any(map(_is_code, typing.get_type_hints(value).values())):
                    assert records.setdefault(value.__name__.lstrip("_"), value) is value, value
    return Known(models, records)


@contextmanager
def _in_words() -> Iterator[None]:
    """What a value of the wrong kind leads to is a ValueError too."""
    try:
        yield
    except (TypeError, AttributeError, LookupError, ArithmeticError, NotImplementedError) as error:
        raise ValueError(
            f"its parts do not go together ({type(error).__name__}: {error})"
        ) from None


def _modules(package: ModuleType) -> list[ModuleType]:
    return [
        importlib.import_module(f"{package.__name__}.{one.name}")
        for one in pkgutil.iter_modules(package.__path__)
    ]


def _is_code(hint: Any) -> bool:
    return typing.get_origin(hint) is Callable or any(map(_is_code, typing.get_args(hint)))


def _library() -> dict[str, str]:
    import scipy
    import sklearn

    versions = {"mercer": __version__, "numpy": np.__version__, "scipy": scipy.__version__}
    return {**versions, "scikit-learn": sklearn.__version__, "python": platform.python_version()}


def _stored(file: container.Opened) -> Any:
    """The model as it is stored, when the file has what it refers to and nothing else."""
    if set(file.facts) != {"kind", "format", "sha256", "library", "model"}:
        raise ValueError("its opening needs 'library' and 'model', and nothing else")
    library = file.facts["library"]
    if not isinstance(library, dict) or not all(isinstance(one, str) for one in library.values()):
        raise ValueError("its library versions are not words")
    stored = with_current_names(file.facts["model"])
    if set(names_in(stored)) != set(file.tensors):
        raise ValueError("its arrays are not those that the model refers to")
    return stored


def _body(stored: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    body = stored.get("model") if isinstance(stored, dict) else None
    if not isinstance(body, list) or list(map(type, body)) != [str, dict, dict]:
        raise ValueError("a model has a class, parameters and attributes")
    return body[0], body[1], body[2]


def _shown(stored: Any) -> Any:
    """A stored value for the eye: arrays by name, classes beside their parameters or fields."""
    if isinstance(stored, list):
        return [_shown(one) for one in stored]
    if not isinstance(stored, dict) or len(stored) != 1:
        return stored
    tag, body = next(iter(stored.items()))
    if (
        tag in ("model", "record")
        and isinstance(body, list)
        and len(body) > 1
        and isinstance(body[1], dict)
    ):
        return {"class": body[0], **{key: _shown(value) for key, value in body[1].items()}}
    if tag in ("words", "number") and isinstance(body, list) and len(body) == 2:
        return _shown(body[1])
    return _shown(body) if tag in ("tuple", "dict", "float", "dtype") else {tag: body}


def _judge(model: Any) -> None:
    """Refuse a fitted map or estimator that no fit could have made."""
    who = type(model).__name__
    d = validate_integer(who, "n_features_in_", model.n_features_in_)
    names = getattr(model, "feature_names_in_", None)
    if names is not None and (
        names.shape != (d,)
        or names.dtype != object
        or not all(isinstance(one, str) for one in names)
    ):
        raise ValueError(f"{who} needs a name for each of {d} columns")
    if not isinstance(model, Map):
        _judge_properties(model)
        return
    validate_parameters(model)
    model.check(d)
    if not isinstance(model.tile_transform_, TileTransform):
        raise ValueError(f"{who} has drawn nothing")
    if not hasattr(model, "maps_"):  # whose parts were judged one by one
        seed_from(who, model.seed_)
        model.tile_transform_.check(d)
    _judge_properties(model)
    _judge_bounds(model, d)
    _judge_row(model, d)


def _judge_properties(model: Any) -> None:
    """Each of them has a value, or says in its own words why not; an attribute that is missing has
    another name.
    """
    cls = type(model)
    for name in dir(cls):
        if name.endswith("_") and isinstance(getattr(cls, name), property):
            try:
                getattr(model, name)
            except AttributeError as error:
                if error.name not in (None, name):
                    raise


def _judge_bounds(model: Map, d: int) -> None:
    if model.bounds_ is not None:
        low, high = (np.asarray(end) for end in (model.bounds_.low, model.bounds_.high))
        fitting = all(end.shape in ((), (d,)) and end.dtype.kind == "f" for end in (low, high))
        if not fitting or not np.all(low <= high):
            raise ValueError(
                f"{type(model).__name__} has a range that is not one of numbers, or of {d} numbers"
            )


def _judge_row(model: Map, d: int) -> None:
    """A row of zeros has as many features as the map says; it is not tried where that would take
    much memory.
    """
    drawn = model.tile_transform_
    columns = drawn.columns(d)
    if columns < 1 or max(d, columns) >= 2**63:
        raise ValueError(f"{type(model).__name__} has no features, or more than can be counted")
    if drawn.cost(d).bytes > _ROW:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            block = drawn(np.zeros((1, d)))
    except RowError:  # a map may refuse rows, not fail on them
        return
    if block.shape != (1, columns) or block.dtype != np.float64:
        raise ValueError(
            f"{type(model).__name__} gives {block.shape[1]} features of {block.dtype}, not "
            f"{columns} of float64"
        )
