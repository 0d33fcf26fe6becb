"""Malformed and unusual sparse matrices, and their outcome at every entry point.

Trials run in a process that may crash.

Run as a program it prints a table of outcomes: rows are kinds of matrices, columns outcomes.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

import mercer
from mercer.maps import every_map
from mercer.stats.basic import Range

ROWS, COLUMNS = 40, 7
OUTCOMES = ("crashed", "silent", "odd error", "refused", "right")


def matrix() -> sp.csr_array:
    """Return rows in every map's domain, with an empty one."""
    rng = np.random.default_rng(3)
    X = rng.gamma(1.0, size=(ROWS, COLUMNS))
    X[rng.random(X.shape) < 0.4] = 0.0
    X[5] = 0.0
    return sp.csr_array(X)


def with_parts(**parts: Any) -> sp.csr_array:
    """Return the matrix with some arrays replaced; its flags claim canonical format."""
    X = matrix()
    for name, change in parts.items():
        array = getattr(X, name).copy()
        found = change(array)
        setattr(X, name, array if found is None else found)
    X.has_canonical_format = True
    return X


def entry(place: int, value: int) -> Callable[[np.ndarray], None]:
    def change(array: np.ndarray) -> None:
        array[place] = value

    return change


def unsorted(*, twice: bool = False) -> sp.csr_array:
    """Reverse the entries of each row; with ``twice``, split each into two halves."""
    X = matrix()
    parts = [
        (X.indices[a:b][::-1], X.data[a:b][::-1])
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]
    indices, data = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    if not twice:
        return sp.csr_array((data, indices, X.indptr), shape=X.shape)
    return sp.csr_array(
        (np.repeat(data / 2, 2), np.repeat(indices, 2), 2 * X.indptr), shape=X.shape
    )


def flagged(X: Any) -> Any:
    X.has_canonical_format = True
    return X


def converted(form: str, **parts: Any) -> Any:
    X = matrix().asformat(form) if form != "bsr" else sp.bsr_array(matrix(), blocksize=(2, 1))
    for name, change in parts.items():
        if form == "coo":
            coords = [places.copy() for places in X.coords]
            change(coords[name == "col"])
            X.coords = tuple(coords)
        else:
            array = getattr(X, name).copy()
            found = change(array)
            setattr(X, name, array if found is None else found)
    return X


def int64() -> sp.csr_array:
    X = matrix()
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def mixed() -> sp.csr_array:
    X = matrix()
    X.indptr = X.indptr.astype(np.int64)
    return X


def drop_last(array: np.ndarray) -> np.ndarray:
    return array[:-1].copy()


MALFORMED: dict[str, Callable[[], Any]] = {
    "negative index": lambda: with_parts(indices=entry(9, -1)),
    "index too large by 2": lambda: with_parts(indices=entry(9, COLUMNS + 2)),
    "index equal to the width": lambda: with_parts(indices=entry(-1, COLUMNS)),
    "index 1e8": lambda: with_parts(indices=entry(9, 10**8)),
    "index -1e8": lambda: with_parts(indices=entry(9, -(10**8))),
    "short data": lambda: with_parts(data=drop_last),
    "short indices": lambda: with_parts(indices=drop_last),
    "both short": lambda: with_parts(data=drop_last, indices=drop_last),
    "indices of floats": lambda: with_parts(indices=lambda array: array.astype(float)),
    "indptr falls": lambda: with_parts(indptr=entry(4, 0)),
    "indptr with 1e8": lambda: with_parts(indptr=entry(4, 10**8)),
    "indptr with -1e8": lambda: with_parts(indptr=entry(4, -(10**8))),
    "indptr starts with 1": lambda: with_parts(indptr=entry(0, 1)),
    "indptr ends beyond": lambda: with_parts(indptr=entry(-1, 10**6)),
    "indptr ends before": lambda: with_parts(indptr=lambda array: np.minimum(array, array[-1] - 1)),
    "short indptr": lambda: with_parts(indptr=drop_last),
    "long indptr": lambda: with_parts(indptr=lambda array: np.append(array, array[-1])),
    "CSC, row 1e8": lambda: converted("csc", indices=entry(9, 10**8)),
    "CSC, row -1": lambda: converted("csc", indices=entry(9, -1)),
    "CSC, indptr ends beyond": lambda: converted("csc", indptr=entry(-1, 10**6)),
    "COO, column 1e8": lambda: converted("coo", col=entry(9, 10**8)),
    "COO, row -1e8": lambda: converted("coo", row=entry(9, -(10**8))),
    "BSR, column 1e8": lambda: converted("bsr", indices=entry(9, 10**8)),
    "BSR, short data": lambda: converted("bsr", data=drop_last),
    "DIA, short data": lambda: converted("dia", data=drop_last),
}

LEGAL: dict[str, Callable[[], Any]] = {
    "unsorted": unsorted,
    "unsorted, flagged as canonical": lambda: flagged(unsorted()),
    "duplicated": lambda: unsorted(twice=True),
    "duplicated, flagged as canonical": lambda: flagged(unsorted(twice=True)),
    "int64": int64,
    "int64 indptr, int32 indices": mixed,
    "CSC, duplicated": lambda: unsorted(twice=True).tocsc(),
    "COO": lambda: matrix().tocoo(),
    "BSR": lambda: converted("bsr"),
    "DIA": lambda: converted("dia"),
    "LIL": lambda: matrix().tolil(),
    "DOK": lambda: matrix().todok(),
}


def entries() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield (name, call); a call returns numbers that do not depend on the matrix format."""
    good = matrix()
    for cls in every_map():
        case = cls.cases()[0]
        name = cls.__name__
        fitted = case.fit(good)
        yield f"{name}.fit", lambda X, case=case: dense(case.fit(X).transform(good))
        yield f"{name}.transform", lambda X, fitted=fitted: dense(fitted.transform(X))
        yield (
            f"{name}.blocks",
            lambda X, fitted=fitted: np.vstack([block.toarray() for block in fitted.blocks(X)]),
        )
        kernel = fitted.kernel_
        if not kernel.expensive:
            yield f"gram({name}.kernel_)", lambda X, kernel=kernel: mercer.gram(kernel, X, good)
            yield f"gram({name}.kernel_), Z", lambda X, kernel=kernel: mercer.gram(kernel, good, X)
            yield f"{name}.kernel_", lambda X, kernel=kernel: kernel(X)
    y = np.arange(ROWS) % 2
    models = (
        mercer.KernelRegressor(mercer.RandomFourier(16, random_state=0), alpha=1.0),
        mercer.KernelClassifier(mercer.RandomLaplace(16, random_state=0), alpha=1.0),
    )
    for model in models:
        name = type(model).__name__
        first = {"classes": [0, 1]} if name == "KernelClassifier" else {}
        fitted = clone(model).fit(good, y)
        yield f"{name}.fit", lambda X, model=model: clone(model).fit(X, y).predict(good)
        yield (
            f"{name}.partial_fit",
            lambda X, model=model, first=first: (
                clone(model).partial_fit(X, y, **first).predict(good)
            ),
        )
        for method in ("predict", "decision_function"):
            if hasattr(fitted, method):
                yield f"{name}.{method}", getattr(fitted, method)
        yield f"{name}.score", lambda X, fitted=fitted: np.float64(fitted.score(X, y))
    fourier = mercer.RandomFourier(16, gamma=0.5, random_state=0).fit(good)
    hashes = mercer.GCWS(16, random_state=0).fit(good)
    yield "certify", lambda X: np.float64(mercer.certify(fourier, X, pairs=50).mean)
    yield "GCWS.codes", hashes.codes
    yield "GCWS.similarity", lambda X: hashes.similarity(good, X)[0]
    yield (
        "landmarks of Nystroem",
        lambda X: mercer.Nystroem(landmarks=X, gamma=0.5).fit(good).transform(good),
    )
    yield (
        "open_stream",
        lambda X: np.vstack([dense(chunk.X) for chunk in mercer.open_stream(X).chunks()]),
    )
    yield (
        "open_stream, columns, target",
        lambda X: np.vstack(
            [dense(c.X) for c in mercer.open_stream(X, columns=[3, 1], target=2).chunks()]
        ),
    )
    yield "accumulate", lambda X: mercer.accumulate(X, Range()).high


def dense(Z: Any) -> np.ndarray:
    return Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z)


def parts_of(X: Any) -> list[np.ndarray]:
    names = ("data", "indices", "indptr", "coords", "offsets")
    return [
        np.array(getattr(X, name))
        for name in names
        if hasattr(X, name) and X.format not in ("lil", "dok")
    ]


def outcome(call: Callable[[Any], Any], make: Callable[[], Any], expected: Any) -> str:
    """Return the outcome of a call: one of OUTCOMES but "crashed", with the error's text."""
    X = make()
    before = parts_of(X)
    try:
        found = call(X)
    except ValueError as error:
        text = str(error)
        return (
            "refused"
            if expected is None and "malformed" in text and len(text) > 60
            else f"odd error {text}"
        )
    except Exception as error:
        return f"odd error {type(error).__name__}: {error}"
    unchanged = all(np.array_equal(a, b) for a, b in zip(before, parts_of(X), strict=True))
    right = expected is not None and np.allclose(found, expected, rtol=1e-9, atol=1e-9)
    return (
        "right"
        if right and unchanged
        else f"silent {'' if right else 'wrong '}{'' if unchanged else 'changed'}"
    )


def trials() -> Iterator[tuple[str, str, Callable[[], str]]]:
    """Yield (kind, entry, run) for the whole table."""
    good = matrix()
    for name, call in entries():
        expected = call(good.toarray())
        for kind, make in MALFORMED.items():
            yield kind, name, lambda call=call, make=make: outcome(call, make, None)
        for kind, make in LEGAL.items():
            yield (
                kind,
                name,
                lambda call=call, make=make, expected=expected: outcome(call, make, expected),
            )


def run_from(first: int) -> None:
    """Run the trials from one on; a line before and after each locates a crash."""
    warnings.simplefilter("ignore")
    for number, (kind, name, run) in enumerate(trials()):
        if number >= first:
            print(f"{number}\t{kind}\t{name}\t", end="", flush=True)
            print(" ".join(run().split()), flush=True)


def table(most_crashes: int | None = None) -> tuple[dict[str, Counter[str]], list[str]]:
    """Count outcomes for each kind, and collect crashes, silent results and other errors.

    It ends early after most_crashes: every one of them is paid with another process.
    """
    counts = {kind: Counter[str]() for kind in (*MALFORMED, *LEGAL)}
    faults, first = [], 0
    while True:
        command = [sys.executable, __file__, str(first)]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        for line in lines:
            number, kind, name, text = line.split("\t")
            result = next((known for known in OUTCOMES if text.startswith(known)), "crashed")
            counts[kind][result] += 1
            if result not in ("refused", "right"):
                faults.append(
                    f"{kind}: {name}: {text or f'crashed, exit status {done.returncode}'}"
                )
            first = int(number) + 1
        if done.returncode == 0:
            return counts, faults
        if (
            most_crashes is not None
            and sum(found["crashed"] for found in counts.values()) >= most_crashes
        ):
            return counts, faults
        if not lines or lines[-1].split("\t")[3]:
            raise RuntimeError(
                f"exit status {done.returncode} outside of a trial:\n{done.stderr[-3000:]}"
            )


def formatted(counts: dict[str, Counter[str]]) -> str:
    lines = [f"{'':34}" + "".join(f"{name:>11}" for name in OUTCOMES)]
    lines += [
        f"{kind:34}" + "".join(f"{found[name]:11}" for name in OUTCOMES)
        for kind, found in counts.items()
    ]
    total = sum(counts.values(), Counter[str]())
    return "\n".join([*lines, f"{'all':34}" + "".join(f"{total[name]:11}" for name in OUTCOMES)])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_from(int(sys.argv[1]))
    else:
        found, wrong = table()
        print(formatted(found))
        print("\n".join(wrong[:40]))
        sys.exit(bool(wrong))
