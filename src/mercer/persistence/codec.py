"""Fitted models as plain values: what JSON has, tags for what it has not, and references to arrays.
Nothing is imported by name.

value                                   stored as
None, True, 3, 0.25, "word", [...]      itself
(...), {...: ...}                       {"tuple": [...]}, {"dict": [[key, value], ...]}
inf, a NumPy number, a dtype            {"float": "inf"}, {"number": ["float32", 0.5]}, {"dtype":
"float64"} an array, of words, a CSR matrix        {"array": name}, {"words": ["<U3", [...]]},
{"csr": [form, shape, data, indices, indptr]} a frozen dataclass of ours              {"record":
[class, {field: value}]}
a map or an estimator of ours           {"model": [class, {parameter: value}, {attribute: value} or
None]}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.persistence.allowed_types import Known, agrees, is_whole, names_of, needed
from mercer.validation.sparse import validate_sparse

Array = NDArray[Any]

_DEPTH = 100
HOW = frozenset(
    {"n_jobs", "verbose", "checkpoint", "cluster", "device", "precision"}
)  # how a fit ran, not what the model is
_NUMBERS = {
    np.dtype(kind).name: np.dtype(kind)
    for kind in ("?", "f4", "f8", *(f"{s}{n}" for s in "iu" for n in (1, 2, 4, 8)))
}
_LETTERS = 2**22  # of an array of words, room included
_ODD = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}


@dataclass(eq=False)
class Packer:
    """Values to plain values; arrays are put aside under the path at which they were first met."""

    known: Known
    who: str
    arrays: dict[str, Array] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)

    def model(self, model: Any, path: str, *, fitted: bool) -> dict[str, Any]:
        """A map or an estimator: its parameters and, when it is fitted, what fit has found."""
        name = _name(self.known.models, model)
        if name is None:
            raise self._refused(path, model)
        params = {
            key: value for key, value in model.get_params(deep=False).items() if key not in HOW
        }
        if not isinstance(params.get("random_state", 0), int | np.integer):
            params["random_state"] = None  # a generator: seed_ and what was drawn are kept
        stored = self._each(params, f"{path}params.")
        kept = model._kept() if fitted else {}
        strange = min(set(kept) - set(self.known.attributes[name]), default=None)
        if strange is not None:
            raise ValueError(
                f"{name} cannot be saved: its class does not say of what type the attribute "
                f"{strange} is."
            )
        return {"model": [name, stored, self._each(kept, path) if fitted else None]}

    def plain(self, value: Any, path: str) -> Any:
        """Any other value."""
        if path.count(".") > _DEPTH:
            raise ValueError(f"{self.who}: {path[:60]}... is nested too deeply for a model file.")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if np.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.generic):
            return self._number(value, path)
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if type(value) is list:
            return [self.plain(one, f"{path}.{i}") for i, one in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [self.plain(one, f"{path}.{i}") for i, one in enumerate(value)]}
        if isinstance(value, dict):
            pairs = enumerate(value.items())
            return {
                "dict": [
                    [self.plain(key, f"{path}.key"), self.plain(one, f"{path}.{i}")]
                    for i, (key, one) in pairs
                ]
            }
        if isinstance(value, np.dtype) or (
            isinstance(value, type) and issubclass(value, np.generic)
        ):
            return {"dtype": self._dtype(np.dtype(value), value, path)}
        if hasattr(value, "tocsr"):
            validate_sparse(self.who, value)
            return self._csr(value.tocsr(), path)
        if _name(self.known.models, value) is not None:
            return self.model(value, f"{path}.", fitted=".params." not in f".{path}.")
        name = _name(self.known.records, value)
        if name is None:
            raise self._refused(path, value)
        return {
            "record": [
                name,
                self._each({key: getattr(value, key) for key in names_of(type(value))}, f"{path}."),
            ]
        }

    def _each(self, values: dict[str, Any], path: str) -> dict[str, Any]:
        return {key: self.plain(value, f"{path}{key}") for key, value in sorted(values.items())}

    def _number(self, value: Any, path: str) -> Any:
        if isinstance(value, np.str_):
            return str(value)
        return {"number": [self._dtype(value.dtype, value, path), self.plain(value.item(), path)]}

    def _array(self, value: Array, path: str) -> Any:
        if value.dtype.kind in "OU":
            words = (
                value.tolist()
                if value.ndim == 1 and (value.dtype == object or value.nbytes <= 4 * _LETTERS)
                else [value]
            )
            words = [str(word) if isinstance(word, np.str_) else word for word in words]
            for word in words:
                if type(word) not in (str, int, bool):
                    raise self._refused(path, word)
            return {"words": [value.dtype.str if value.dtype.kind == "U" else "object", words]}
        self._dtype(value.dtype, value, path)
        if isinstance(value, np.ma.MaskedArray):
            raise self._refused(path, value)
        if id(value) not in self._names:
            self._names[id(value)] = path
            self.arrays[path] = value
        return {"array": self._names[id(value)]}

    def _csr(self, value: Any, path: str) -> Any:
        parts = [
            self._array(getattr(value, part), f"{path}.{part}")
            for part in ("data", "indices", "indptr")
        ]
        form = "array" if type(value).__name__ == "csr_array" else "matrix"
        return {"csr": [form, [int(size) for size in value.shape], *parts]}

    def _dtype(self, dtype: np.dtype[Any], value: Any, path: str) -> str:
        if dtype.newbyteorder("=") not in _NUMBERS.values():
            raise self._refused(path, value)
        return dtype.name

    def _refused(self, path: str, value: Any) -> ValueError:
        name = getattr(value, "__name__", repr(value))
        what = f"the Python function {name!r}" if callable(value) else f"a {_kind(value)}"
        way = (
            "a kernel by its name, or one of mercer.kernels"
            if callable(value)
            else "numbers, words, lists or arrays"
        )
        where = path.removeprefix("params.").strip(".") or "it"
        return ValueError(
            f"{self.who} cannot be saved: {where} is {what}, and a model file, which never runs "
            "code, does not keep it. "
            f"Use {way}, and fit again."
        )


@dataclass(eq=False)
class Unpacker:
    """Plain values back to values, each judged as it comes: what a file says is not trusted."""

    known: Known
    arrays: Mapping[str, Array]
    judge: Callable[[Any], None]  # refuses a fitted map or estimator whose parts do not go together

    def model(self, stored: Any, *, fitted: bool, depth: int = 0) -> Any:
        """A map or an estimator, made by its constructor."""
        tag, body = _tagged(stored)
        _need(
            tag == "model" and _is_list(body, 3), "a model has a class, parameters and attributes"
        )
        name, params, kept = body
        _need(
            isinstance(name, str) and name in self.known.models,
            f"there is no model class {_short(name)}",
        )
        _need(
            (kept is not None) == fitted,
            f"{name} is {'not fitted' if fitted else 'fitted, and a parameter'}",
        )
        cls = self.known.models[name]
        accepted = set(inspect.signature(cls).parameters) - HOW
        strange = set(_keys(params)) - accepted
        _need(not strange, f"{name} has no parameter {_short(min(strange, default=''))}")
        given = {key: self.value(value, depth + 1, fitted=False) for key, value in params.items()}
        _need(_is_seed(given.get("random_state")), f"{name} has no random_state like that")
        made = cls(**given)
        if fitted:
            hints = self.known.attributes[name]
            found = {key: self.value(kept[key], depth + 1, fitted=True) for key in _keys(kept)}
            for key, value in found.items():
                _need(
                    key in hints and agrees(value, hints[key]),
                    f"{name} has no attribute {_short(key)} of this type",
                )
            made._keep(found)
            for key, hint in hints.items():
                _need(hasattr(made, key) or agrees(None, hint), f"{name} needs the attribute {key}")
            _need(set(made._kept()) == set(kept), f"{name} has attributes that others follow from")
            self.judge(made)
        return made

    def value(self, stored: Any, depth: int = 0, *, fitted: bool | None = None) -> Any:
        """Any value; models only where fitted says whether they are: among what fit has found, not
        among parameters.
        """
        _need(depth < _DEPTH, "it is nested too deeply")
        if isinstance(stored, list):
            return [self.value(one, depth + 1, fitted=fitted) for one in stored]
        if not isinstance(stored, dict):
            return stored
        tag, body = _tagged(stored)
        if tag == "model" and fitted is not None:
            return self.model(stored, fitted=fitted, depth=depth + 1)
        if tag == "tuple":
            _need(isinstance(body, list), "a tuple is a list of values")
            return tuple(self.value(body, depth + 1, fitted=fitted))
        _need(tag in _TAGS, f"there is no value of the kind {_short(tag)}")
        return _TAGS[tag](self, body, depth + 1)

    def _dict(self, body: Any, depth: int) -> Any:
        _need(
            isinstance(body, list) and all(_is_list(pair, 2) for pair in body),
            "a dict is a list of pairs",
        )
        pairs = [(self.value(key, depth), self.value(value, depth)) for key, value in body]
        _need(
            all(isinstance(key, str | int | float | np.generic) for key, _ in pairs),
            "keys are words and numbers",
        )
        found = dict(pairs)
        _need(len(found) == len(pairs), "a key of a dict is there twice")
        return found

    def _float(self, body: Any, depth: int) -> Any:
        _need(
            isinstance(body, str) and body in _ODD, "a float is inf, -inf or nan where it is a word"
        )
        return float(_ODD[body])

    def _number(self, body: Any, depth: int) -> Any:
        _need(_is_list(body, 2), "a number has a dtype and a value")
        dtype, value = self._dtype(body[0], depth), self.value(body[1], depth)
        _need(
            type(value) is (bool if dtype.kind == "b" else float if dtype.kind == "f" else int),
            f"no {dtype} is {_short(value)}",
        )
        try:
            number = dtype.type(value)
        except OverflowError:
            number = None
        _need(
            number is not None and (number.item() == value or value != value),
            f"no {dtype} is {_short(value)}",
        )
        return number

    def _dtype(self, body: Any, depth: int) -> Any:
        _need(isinstance(body, str) and body in _NUMBERS, f"there is no dtype {_short(body)}")
        return _NUMBERS[body]

    def _array(self, body: Any, depth: int) -> Any:
        _need(isinstance(body, str) and body in self.arrays, f"there is no array {_short(body)}")
        return self.arrays[body]

    def _words(self, body: Any, depth: int) -> Any:
        _need(_is_list(body, 2) and isinstance(body[1], list), "words have a dtype and a list")
        kind, words = body
        if kind == "object":
            _need(
                all(type(word) in (str, int, bool) for word in words),
                "words are words, whole numbers and flags",
            )
            found = np.empty(len(words), dtype=object)
            found[:] = words
            return found
        _need(all(type(word) is str for word in words), "words are words")
        known = (
            isinstance(kind, str) and kind[:2] == "<U" and kind[2:].isdecimal() and len(kind) < 10
        )
        width = int(kind[2:]) if known else 0
        _need(
            max(map(len, words), default=0) <= width <= _LETTERS // max(1, len(words)),
            "words have room, and not too much",
        )
        return np.array(words, dtype=f"=U{width}")

    def _csr(self, body: Any, depth: int) -> Any:
        from scipy.sparse import csr_array, csr_matrix

        _need(
            _is_list(body, 5) and body[0] in ("array", "matrix") and _is_list(body[1], 2),
            "a CSR matrix has five parts",
        )
        data, indices, indptr = (self.value(part, depth) for part in body[2:])
        _need(
            all(
                isinstance(part, np.ndarray) and part.ndim == 1 for part in (data, indices, indptr)
            ),
            "CSR has three arrays",
        )
        rows, columns = body[1]
        _need(
            type(rows) is int
            and type(columns) is int
            and 0 <= rows < 2**62
            and 0 < columns < 2**62,
            "CSR has a shape",
        )
        _need(
            data.dtype.kind in "bfiu" and indices.dtype == indptr.dtype,
            "CSR has numbers and places",
        )
        _need(indices.dtype in (np.int32, np.int64), "CSR has places of int32 or int64")
        whole = (
            len(indptr) == rows + 1
            and len(indices) == len(data)
            and indptr[0] == 0
            and indptr[-1] == len(data)
        )
        _need(
            bool(whole and np.all(indptr[:-1] <= indptr[1:])),
            "CSR rows begin and end among its entries",
        )
        _need(bool(np.all((indices >= 0) & (indices < columns))), "CSR places are columns")
        found = (csr_array if body[0] == "array" else csr_matrix)((rows, columns), dtype=data.dtype)
        found.data, found.indices, found.indptr = (
            data,
            indices,
            indptr,
        )  # as they are: a constructor may cast places
        return found

    def _record(self, body: Any, depth: int) -> Any:
        _need(_is_list(body, 2) and isinstance(body[0], str), "a record has a class and fields")
        name, stored = body
        _need(name in self.known.records, f"there is no record {_short(name)}")
        cls = self.known.records[name]
        wrong = (set(_keys(stored)) - set(names_of(cls))) | (needed(cls) - set(stored))
        _need(
            not wrong,
            f"{name} does not have the field {_short(min(wrong, default=''))}, or needs it",
        )
        values = {key: self.value(value, depth) for key, value in stored.items()}
        for key, hint in self.known.fields[name].items():
            _need(key not in values or agrees(values[key], hint), f"{name}.{key} is no {hint}")
        return cls(**values)


_TAGS = {
    name: getattr(Unpacker, f"_{name}")
    for name in ["dict", "float", "number", "dtype", "array", "words", "csr", "record"]
}


def names_in(stored: Any) -> Iterator[str]:
    """The names of the arrays that a stored value refers to."""
    left = [stored]
    while left:
        one = left.pop()
        if isinstance(one, dict) and isinstance(one.get("array"), str) and len(one) == 1:
            yield one["array"]
        elif isinstance(one, dict | list):
            left.extend(one.values() if isinstance(one, dict) else one)


def _name(known: Mapping[str, type], value: Any) -> str | None:
    """The name of the value's class, where it is known."""
    return next((name for name, cls in known.items() if cls is type(value)), None)


def _is_seed(value: Any) -> bool:
    return value is None or (is_whole(value) and 0 <= int(value) < 2**64)


def _tagged(stored: Any) -> tuple[str, Any]:
    _need(isinstance(stored, dict) and len(stored) == 1, "an object has one tag")
    return next(iter(stored.items()))


def _keys(stored: Any) -> list[str]:
    _need(isinstance(stored, dict), "names and values are an object")
    return list(stored)


def _is_list(value: Any, size: int) -> bool:
    return isinstance(value, list) and len(value) == size


def _need(good: bool, sentence: str) -> None:
    if not good:
        raise ValueError(sentence)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _kind(value: Any) -> str:
    cls = type(value)
    return (
        cls.__name__
        if cls.__module__ == "builtins"
        else f"{cls.__module__.split('.')[0]} {cls.__name__}"
    )
