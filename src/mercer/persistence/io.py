"""Model files: save, load and describe fitted maps, compositions and estimators.

A file is a ``mercer.persistence.container``; ``codec`` defines how a model is encoded in it. No
pickle is read and no class is imported by name. Loading calls the constructor, sets the fitted
attributes and validates both: parameters as in fit, drawn arrays by ``check``, and the map by
transforming a row of zeros.
"""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import __version__
from mercer._typing import is_csr
from mercer.errors import RowError
from mercer.maps._transform import TileTransform
from mercer.maps.base import Map
from mercer.maps.block import is_block, matrix
from mercer.persistence import container
from mercer.persistence.allowed_types import allowed_classes
from mercer.persistence.codec import Decoder, Encoder, array_names
from mercer.persistence.container import require
from mercer.persistence.renamed import with_current_names
from mercer.rng import seed_from
from mercer.validation.parameters import validate_integer, validate_parameters

_FORMAT = 1
_ROW_BYTES = 2.0**28  # most memory for the features of one row that is transformed as a check


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted map, composition or estimator to one file, atomically.

    The same model gives the same bytes. Parameters of how a fit ran (n_jobs, verbose, checkpoint)
    are not stored, nor are generators given as random_state (``seed_`` and the drawn arrays are).
    Moments are not stored either: ``partial_fit`` cannot continue after ``load``.

    Parameters
    ----------
    model : fitted map, composition, KernelRegressor or KernelClassifier
    path : path-like
        File to write or replace, of which mode and owner are kept; the usual suffix is ".mercer".

    Raises
    ------
    ValueError
        If the model is not a class of mercer or holds a Python function (a callable kernel of
        Nystroem or Anchors), or path is a folder, a device or in no folder.
    NotFittedError
        If the model is not fitted.
    PermissionError
        If the folder cannot be written to.
    FileExistsError
        If another process or thread is writing the file, or has written it meanwhile.

    Examples
    --------
    >>> import tempfile, os, mercer
    >>> phi = mercer.RandomFourier(64, random_state=0).fit([[0.0, 1.0], [1.0, 0.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mercer.save(phi, os.path.join(folder, "phi.mercer"))
    ...     loaded = mercer.load(os.path.join(folder, "phi.mercer"))
    >>> bool((loaded.transform([[0.5, 0.5]]) == phi.transform([[0.5, 0.5]])).all())
    True
    """
    path, owner = Path(path), type(model).__name__
    if type(model) not in allowed_classes().models.values():
        raise ValueError(
            f"save needs a fitted map, composition or estimator of mercer, got a {owner}. Save the "
            "steps of a scikit-learn pipeline one by one; subclasses of maps cannot be saved."
        )
    if not hasattr(model, "n_features_in_"):
        check_is_fitted(model)
    if path.is_dir():
        raise ValueError(f"{path} is a folder.")
    if not path.parent.is_dir():
        raise ValueError(f"There is no folder {path.parent} to write to.")
    encoder = Encoder(allowed_classes(), owner)
    stored = encoder.encode_model(model, "", fitted=True)
    import scipy
    import sklearn

    versions = {
        "mercer": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }
    metadata = {"library": versions, "model": stored}
    try:
        container.write(path, "model", _FORMAT, metadata, encoder.arrays)
    except PermissionError as error:
        raise PermissionError(
            error.errno, f"There is no permission to write to {path.parent}"
        ) from None


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model in a file: same parameters, same features, same predictions.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    fitted map, composition, KernelRegressor or KernelClassifier

    Raises
    ------
    ValueError
        If the file is damaged, is not a model, has a newer format or inconsistent parts.
    FileNotFoundError
        If there is no such file.
    """
    with (
        container.open_container(Path(path), "model", _FORMAT) as file,
        _as_value_errors(),
        np.errstate(all="ignore"),
    ):
        stored = _stored_model(file)
        decoder = Decoder(allowed_classes(), file.read_arrays(), _validate_fitted)
        return decoder.decode_model(stored, fitted=True)


def describe(path: str | os.PathLike[str], *, verify: bool = False) -> dict[str, Any]:
    """Return a description of the model in a file without reading its arrays.

    Parameters
    ----------
    path : path-like
    verify : bool
        Whether to verify the checksum, which reads the whole file.

    Returns
    -------
    dict
        format, class, parameters, columns, feature_names, classes, seed, rows (of estimators),
        dtypes, arrays (name -> dtype and shape), bytes, library (versions) and sha256, as JSON
        values; None for what the model does not have.

    Raises
    ------
    ValueError
        If the file is damaged, is not a model or has a newer format.
    """
    path = Path(path)
    with container.open_container(path, "model", _FORMAT) as file, _as_value_errors():
        match _stored_model(file):
            case {"model": [str(name), dict(parameters), dict(state)]}:
                pass
            case _:
                raise ValueError("a model needs a class, parameters and attributes")
        if verify:
            file.read_arrays()
        attributes = {key: _simplify(value) for key, value in state.items()}
        arrays = {
            key: {"dtype": str(entry.dtype), "shape": list(entry.shape)}
            for key, entry in sorted(file.entries.items())
        }
        return {
            "format": file.metadata["format"],
            "class": name,
            "parameters": {key: _simplify(value) for key, value in parameters.items()},
            "columns": attributes.get("n_features_in_"),
            "feature_names": attributes.get("feature_names_in_"),
            "classes": attributes.get("classes_"),
            "seed": attributes.get("seed_"),
            "rows": attributes.get("n_samples_seen_"),
            "dtypes": sorted({array["dtype"] for array in arrays.values()}),
            "arrays": arrays,
            "bytes": path.stat().st_size,
            "library": file.metadata["library"],
            "sha256": file.metadata["sha256"],
        }


@contextmanager
def _as_value_errors() -> Iterator[None]:
    """Convert the errors that values of a wrong type cause to ValueError."""
    try:
        yield
    except (TypeError, AttributeError, LookupError, ArithmeticError, NotImplementedError) as error:
        raise ValueError(f"its parts are inconsistent ({type(error).__name__}: {error})") from None


def _stored_model(file: container.Container) -> Any:
    """Return the encoded model; its metadata and references to arrays must be complete."""
    metadata = file.metadata
    require(
        set(metadata) == {"kind", "format", "sha256", "library", "model"},
        "its metadata needs exactly 'library' and 'model'",
    )
    library = metadata["library"]
    require(
        isinstance(library, dict) and all(isinstance(value, str) for value in library.values()),
        "its library versions are not strings",
    )
    stored = with_current_names(metadata["model"])
    require(
        set(array_names(stored)) == set(file.entries),
        "its arrays are not those that the model refers to",
    )
    return stored


def _simplify(stored: Any) -> Any:
    """Return an encoded value without tags: arrays by name, classes beside their parameters."""
    if isinstance(stored, list):
        return [_simplify(value) for value in stored]
    if not isinstance(stored, dict) or len(stored) != 1:
        return stored
    tag, body = next(iter(stored.items()))
    several = isinstance(body, list) and len(body) > 1
    if tag in ("model", "record") and several and isinstance(body[1], dict):
        return {"class": body[0], **{key: _simplify(value) for key, value in body[1].items()}}
    if tag in ("words", "number") and several and len(body) == 2:
        return _simplify(body[1])
    return _simplify(body) if tag in ("tuple", "dict", "float", "dtype") else {tag: body}


def _validate_fitted(model: Any) -> None:
    """Raise ValueError for a map or estimator that fit cannot produce."""
    owner = type(model).__name__
    d = validate_integer(owner, "n_features_in_", model.n_features_in_)
    names = getattr(model, "feature_names_in_", None)
    require(
        names is None
        or (
            names.shape == (d,)
            and names.dtype == object
            and all(isinstance(name, str) for name in names)
        ),
        f"{owner} needs a name for each of {d} columns",
    )
    if not isinstance(model, Map):
        _validate_properties(model)
        return
    validate_parameters(model)
    model.check(d)
    require(isinstance(model.tile_transform_, TileTransform), f"{owner} has no fitted transform")
    if model.size_follows_rows:
        validate_integer(
            owner, f"{model.size_parameter}_", getattr(model, f"{model.size_parameter}_")
        )
    if not hasattr(model, "maps_"):  # the parts of a composition are validated one by one
        seed_from(owner, model.seed_)
        model.tile_transform_.check(d)
    _validate_properties(model)
    _validate_bounds(model, d)
    _validate_features(model, d)


def _validate_properties(model: Any) -> None:
    """Evaluate the fitted properties; one may be unavailable, but not miss another attribute."""
    cls = type(model)
    for name in dir(cls):
        if name.endswith("_") and isinstance(getattr(cls, name), property):
            try:
                getattr(model, name)
            except AttributeError as error:
                if error.name not in (None, name):
                    raise


def _validate_bounds(model: Map, d: int) -> None:
    if model.bounds_ is not None:
        low, high = (np.asarray(end) for end in (model.bounds_.low, model.bounds_.high))
        valid = all(end.shape in ((), (d,)) and end.dtype.kind == "f" for end in (low, high))
        require(
            valid and bool(np.all(low <= high)),
            f"{type(model).__name__} needs bounds of one or {d} numbers",
        )


def _validate_features(model: Map, d: int) -> None:
    """Transform rows of 0, 1/2 and 1, unless features of one would take more than _ROW_BYTES.

    Features that are not finite are not those of a fit.
    """
    owner, transform = type(model).__name__, model.tile_transform_
    columns = transform.columns(d)
    require(columns >= 1 and max(d, columns) < 2**63, f"{owner} has an invalid number of features")
    if transform.cost(d).bytes > _ROW_BYTES:
        return
    for value in (0.0, 0.5, 1.0):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                block = transform(np.full((1, d), value))
        except RowError:  # a map may refuse a row, but not fail otherwise
            continue
        require(
            block.shape == (1, columns) and block.dtype == np.float64,
            f"{owner} gives {block.shape[1]} features of {block.dtype}, not {columns} of float64",
        )
        features: Any = matrix(block) if is_block(block) else block
        features = features.data if is_csr(features) else features
        require(bool(np.isfinite(features).all()), f"{owner} gives features that are not finite")
