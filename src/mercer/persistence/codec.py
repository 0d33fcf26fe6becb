"""Encoding of fitted models as JSON values with tags and references to arrays.

No class is imported by name.

value                                   stored as
None, True, 3, 0.25, "text", [...]      itself
(...)                                   {"tuple": [...]}
{...: ...}                              {"dict": [[key, value], ...]}
inf                                     {"float": "inf"}
NumPy scalar                            {"number": ["float32", 0.5]}
dtype                                   {"dtype": "float64"}
array                                   {"array": name}
array of strings                        {"words": ["<U3", [...]]}
CSR matrix                              {"csr": [form, shape, data, indices, indptr]}
dataclass of mercer                     {"record": [class, {field: value}]}
map or estimator of mercer              {"model": [class, {parameter: value},
                                                   {attribute: value} or None]}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.persistence.allowed_types import (
    AllowedClasses,
    has_type,
    is_integer,
    required_fields,
)
from mercer.persistence.container import require
from mercer.validation.sparse import validate_sparse

# parameters of how a fit runs, not of the model: not stored
RUN_PARAMETERS = frozenset({"n_jobs", "verbose", "checkpoint", "cluster", "device", "precision"})
_DEPTH = 100
_DTYPES = {
    np.dtype(code).name: np.dtype(code)
    for code in ("?", "f4", "f8", *(f"{s}{n}" for s in "iu" for n in (1, 2, 4, 8)))
}
_CHARACTERS = 2**22  # most characters of a fixed-width array of strings, padding included


@dataclass(eq=False)
class Encoder:
    """Encoder of models; arrays are collected under the path of their first occurrence.

    Attributes
    ----------
    allowed : AllowedClasses
    owner : str
        Class of the model, for messages.
    arrays : dict of str to array
    """

    allowed: AllowedClasses
    owner: str
    arrays: dict[str, Array] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)

    def encode_model(self, model: Any, path: str, *, fitted: bool) -> dict[str, Any]:
        """Encode a map or an estimator: its parameters and, if fitted, its fitted attributes."""
        name = self.allowed.names[type(model)]
        params = {
            key: value
            for key, value in model.get_params(deep=False).items()
            if key not in RUN_PARAMETERS
        }
        if not isinstance(params.get("random_state", 0), int | np.integer):
            params["random_state"] = None  # a generator: seed_ and the drawn arrays are stored
        stored = self._encode_each(params, f"{path}params.")
        state = model._fitted_state() if fitted else {}
        unknown = min(set(state) - set(self.allowed.attributes[name]), default=None)
        if unknown is not None:
            raise ValueError(
                f"{name} cannot be saved: its class has no type annotation for the attribute "
                f"{unknown}."
            )
        return {"model": [name, stored, self._encode_each(state, path) if fitted else None]}

    def encode(self, value: Any, path: str) -> Any:
        """Encode any other value."""
        if path.count(".") > _DEPTH:
            raise ValueError(f"{self.owner}: {path[:60]}... is nested too deeply for a model file.")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if np.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.str_):
            return str(value)
        if isinstance(value, np.generic):
            if value.dtype.name not in _DTYPES:
                raise self._unsupported(path, value)
            return {"number": [value.dtype.name, self.encode(value.item(), path)]}
        if isinstance(value, np.ndarray):
            return self._encode_array(value, path)
        if type(value) in (list, tuple):
            items = [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]
            return items if type(value) is list else {"tuple": items}
        if isinstance(value, dict):
            return {
                "dict": [
                    [self.encode(key, f"{path}.key"), self.encode(item, f"{path}.{i}")]
                    for i, (key, item) in enumerate(value.items())
                ]
            }
        scalar_type = isinstance(value, type) and issubclass(value, np.generic)
        if scalar_type or isinstance(value, np.dtype):
            if np.dtype(value).name not in _DTYPES:
                raise self._unsupported(path, value)
            return {"dtype": np.dtype(value).name}
        if hasattr(value, "tocsr"):
            return self._encode_csr(value, path)
        name = self.allowed.names.get(type(value))
        if name is None:
            raise self._unsupported(path, value)
        if self.allowed.models.get(name) is type(value):  # kernels may share a name with a map
            return self.encode_model(value, f"{path}.", fitted=".params." not in f".{path}.")
        values = {key: getattr(value, key) for key in self.allowed.fields[name]}
        return {"record": [name, self._encode_each(values, f"{path}.")]}

    def _encode_each(self, values: dict[str, Any], path: str) -> dict[str, Any]:
        return {key: self.encode(value, f"{path}{key}") for key, value in sorted(values.items())}

    def _encode_array(self, value: Array, path: str) -> Any:
        if value.dtype.kind in "OU":
            fits = value.dtype == object or value.nbytes <= 4 * _CHARACTERS
            items = value.tolist() if value.ndim == 1 and fits else [value]
            items = [str(item) if isinstance(item, np.str_) else item for item in items]
            for item in items:
                if type(item) not in (str, int, bool):
                    raise self._unsupported(path, item)
            return {"words": [value.dtype.str if value.dtype.kind == "U" else "object", items]}
        if value.dtype.name not in _DTYPES or isinstance(value, np.ma.MaskedArray):
            raise self._unsupported(path, value)
        if id(value) not in self._names:
            self._names[id(value)] = path
            self.arrays[path] = value
        return {"array": self._names[id(value)]}

    def _encode_csr(self, value: Any, path: str) -> Any:
        validate_sparse(self.owner, value)
        value = value.tocsr()
        parts = [
            self._encode_array(getattr(value, part), f"{path}.{part}")
            for part in ("data", "indices", "indptr")
        ]
        form = "array" if type(value).__name__ == "csr_array" else "matrix"
        return {"csr": [form, [int(size) for size in value.shape], *parts]}

    def _unsupported(self, path: str, value: Any) -> ValueError:
        if callable(value):
            what = f"the Python function {getattr(value, '__name__', repr(value))!r}"
            remedy = "Use the name of a kernel, or one of mercer.kernels, and fit again."
        else:
            package = type(value).__module__.split(".")[0]
            prefix = "" if package == "builtins" else f"{package} "
            what = f"a {prefix}{type(value).__name__}"
            remedy = "Use numbers, strings, lists or arrays, and fit again."
        where = path.removeprefix("params.").strip(".") or "it"
        return ValueError(
            f"{self.owner} cannot be saved: {where} is {what}. A model file never runs code and "
            f"cannot store it. {remedy}"
        )


@dataclass(eq=False)
class Decoder:
    """Decoder that validates every value; the content of a file is not trusted.

    Attributes
    ----------
    allowed : AllowedClasses
    arrays : mapping of str to array
    validate : callable
        Raises for a fitted map or estimator whose parts are inconsistent.
    """

    allowed: AllowedClasses
    arrays: Mapping[str, Array]
    validate: Callable[[Any], None]

    def decode_model(self, stored: Any, *, fitted: bool, depth: int = 0) -> Any:
        """Construct a map or an estimator and set its fitted attributes."""
        match stored:
            case {"model": [name, dict(params), dict() | None as state]} if len(stored) == 1:
                pass
            case _:
                raise ValueError("a model needs a class, parameters and attributes")
        require(
            isinstance(name, str) and name in self.allowed.models,
            f"there is no model class {_short(name)}",
        )
        require(
            (state is not None) == fitted,
            f"{name} is {'not fitted' if fitted else 'fitted, but a parameter'}",
        )
        cls = self.allowed.models[name]
        unknown = set(params) - (set(inspect.signature(cls).parameters) - RUN_PARAMETERS)
        require(not unknown, f"{name} has no parameter {_short(min(unknown, default=''))}")
        values = {key: self.decode(value, depth + 1, fitted=False) for key, value in params.items()}
        seed = values.get("random_state")
        require(
            seed is None or (is_integer(seed) and 0 <= int(seed) < 2**64),
            f"the random_state of {name} is invalid",
        )
        model = cls(**values)
        if state is not None:
            self._set_state(model, name, state, depth)
        return model

    def _set_state(self, model: Any, name: str, stored: dict[str, Any], depth: int) -> None:
        types = self.allowed.attributes[name]
        state = {key: self.decode(item, depth + 1, fitted=True) for key, item in stored.items()}
        for key, value in state.items():
            require(
                key in types and has_type(value, types[key]),
                f"{name} has no attribute {_short(key)} of this type",
            )
        model._set_fitted_state(state)
        for key, hint in types.items():
            require(
                hasattr(model, key) or has_type(None, hint), f"{name} needs the attribute {key}"
            )
        require(set(model._fitted_state()) == set(stored), f"{name} has derived attributes")
        self.validate(model)

    def decode(self, stored: Any, depth: int = 0, *, fitted: bool | None = None) -> Any:
        """Decode any value; a model is accepted only if ``fitted`` is given, and must be so."""
        require(depth < _DEPTH, "it is nested too deeply")
        if isinstance(stored, list):
            return [self.decode(item, depth + 1, fitted=fitted) for item in stored]
        if not isinstance(stored, dict):
            return stored
        require(len(stored) == 1, "an object needs exactly one tag")
        depth += 1
        match stored:
            case {"model": _} if fitted is not None:
                return self.decode_model(stored, fitted=fitted, depth=depth)
            case {"tuple": list(items)}:
                return tuple(self.decode(items, depth, fitted=fitted))
            case {"dict": list(pairs)}:
                return self._decode_dict(pairs, depth)
            case {"float": "inf" | "-inf" | "nan" as text}:
                return float(text)
            case {"dtype": str(name)} if name in _DTYPES:
                return _DTYPES[name]
            case {"number": [str(name), value]} if name in _DTYPES:
                return _decode_number(_DTYPES[name], self.decode(value, depth))
            case {"array": str(name)} if name in self.arrays:
                return self.arrays[name]
            case {"words": [str(dtype), list(items)]}:
                return _decode_strings(dtype, items)
            case {"csr": ["array" | "matrix" as form, [rows, columns], data, indices, indptr]}:
                parts = [self.decode(part, depth) for part in (data, indices, indptr)]
                return _decode_csr(form, rows, columns, parts)
            case {"record": [str(name), dict(fields)]}:
                return self._decode_record(name, fields, depth)
        raise ValueError(f"{_short(stored)} is not a valid value")

    def _decode_dict(self, stored: list[Any], depth: int) -> Any:
        require(
            all(isinstance(pair, list) and len(pair) == 2 for pair in stored),
            "a dict is not a list of pairs",
        )
        pairs = [(self.decode(key, depth), self.decode(value, depth)) for key, value in stored]
        require(
            all(isinstance(key, str | int | float | np.generic) for key, _ in pairs),
            "a key of a dict is not a string or a number",
        )
        require(len(dict(pairs)) == len(pairs), "a dict has a duplicate key")
        return dict(pairs)

    def _decode_record(self, name: str, stored: dict[str, Any], depth: int) -> Any:
        require(name in self.allowed.records, f"there is no record {_short(name)}")
        cls, types = self.allowed.records[name], self.allowed.fields[name]
        wrong = (set(stored) - set(types)) | (required_fields(cls) - set(stored))
        require(
            not wrong, f"the field {_short(min(wrong, default=''))} of {name} is unknown or missing"
        )
        values = {key: self.decode(value, depth) for key, value in stored.items()}
        for key, hint in types.items():
            require(
                key not in values or has_type(values[key], hint),
                f"{name}.{key} is not of type {hint}",
            )
        return cls(**values)


def _decode_number(dtype: np.dtype[Any], value: Any) -> Any:
    message = f"{_short(value)} is not a {dtype}"
    require(type(value) is {"b": bool, "f": float}.get(dtype.kind, int), message)
    try:
        number = dtype.type(value)
    except OverflowError:
        raise ValueError(message) from None
    require(number.item() == value or value != value, message)
    return number


def _decode_strings(dtype: str, items: list[Any]) -> Array:
    if dtype == "object":
        require(
            all(type(item) in (str, int, bool) for item in items),
            "an array of objects has other values than strings, integers and booleans",
        )
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array
    require(all(type(item) is str for item in items), "an array of strings has other values")
    valid = dtype[:2] == "<U" and dtype[2:].isdecimal() and len(dtype) < 10
    width = int(dtype[2:]) if valid else 0
    require(
        max(map(len, items), default=0) <= width <= _CHARACTERS // max(1, len(items)),
        "the width of an array of strings is too small or too large",
    )
    return np.array(items, dtype=f"=U{width}")


def _decode_csr(form: str, rows: Any, columns: Any, parts: list[Any]) -> Any:
    from scipy.sparse import csr_array, csr_matrix

    require(
        all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts),
        "a CSR matrix needs three one-dimensional arrays",
    )
    data, indices, indptr = parts
    require(
        type(rows) is type(columns) is int and 0 <= rows < 2**62 and 0 < columns < 2**62,
        "the shape of a CSR matrix is invalid",
    )
    require(
        data.dtype.kind in "bfiu"
        and indices.dtype == indptr.dtype
        and indices.dtype in (np.int32, np.int64),
        "a CSR matrix needs numbers, and indices of int32 or int64",
    )
    require(
        len(indptr) == rows + 1
        and len(indices) == len(data) == indptr[-1]
        and indptr[0] == 0
        and bool(np.all(indptr[:-1] <= indptr[1:])),
        "a CSR matrix has an invalid indptr",
    )
    require(bool(np.all((indices >= 0) & (indices < columns))), "a CSR matrix has invalid indices")
    matrix = (csr_array if form == "array" else csr_matrix)((rows, columns), dtype=data.dtype)
    # set, not passed to the constructor, which may cast indices
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def array_names(stored: Any) -> Iterator[str]:
    """Yield the names of the arrays that an encoded value refers to."""
    stack = [stored]
    while stack:
        value = stack.pop()
        if isinstance(value, dict) and isinstance(value.get("array"), str) and len(value) == 1:
            yield value["array"]
        elif isinstance(value, dict | list):
            stack.extend(value.values() if isinstance(value, dict) else value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
