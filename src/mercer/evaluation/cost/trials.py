"""Trials: each kind of work is done a few times, and the record of this machine's speeds is made of
the fastest.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mercer import ops
from mercer.data import open_sink, open_stream
from mercer.data.batches import blocks_of
from mercer.evaluation.cost.speeds import ANY, Speeds
from mercer.evaluation.outline import Outline, Part
from mercer.linear_model.regressor import KernelRegressor
from mercer.linear_model.solvers.blocks import multiply, multiply_transposed
from mercer.maps import registry
from mercer.maps.base import Map
from mercer.maps.block import Block, Coded, Dense, OneHot, Sparse
from mercer.maps.fourier import RandomFourier
from mercer.maps.hellinger import Hellinger
from mercer.maps.projection import RandomProjection
from mercer.parallel.threads import at_most, one_blas_thread, threads
from mercer.parallel.tile_size import grid
from mercer.stats.base import empty_like
from mercer.stats.moments import Moments
from mercer.stats.reduce import fold

_ROUNDS = 3  # of each trial, of which the fastest counts
_LEAST = 0.004  # seconds that are timed together
_DENSITY = 0.05  # of sparse rows
_SHAPES = ((40, 1), (200, 4))  # columns of the rows, and what the knob of a map is multiplied with
_ROWS = 2048

Table = dict[str, tuple[float, ...]]
Told = Callable[[str], None]


def measure(tell: Told = lambda what: None) -> Speeds:
    """The speeds of this machine, in some seconds; tell(what) is called before each kind of
    trial.
    """
    tables: dict[str, Table] = {"look": {}}
    drawn: dict[str, list[tuple[float, float]]] = {}
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        fitted = []
        for d, times in _SHAPES:
            for made in _maps(times, d):
                tell(f"{type(made).__name__}, {d} columns")
                fitted.append((d, _fit(made, d, tables, drawn)))
        for form in ("float32", "float64", "csr"):
            tell(f"features of {form} rows")
            for name, most in ((form, None), (f"{form} alone", 1)):
                with at_most(most):
                    tables[name] = _rates([_trial(made, d, form) for d, made in fitted])
        tell("sums")
        tables["sums"] = {form: _sums(form) for form in ("float32", "float64", "csr")}
        forms = ("float32", "float64", "csr", "coded")
        tables["products"] = {form: _products(form) for form in forms}
        tables["gradients"] = {form: _products(form, wide=True) for form in forms}
        tables["images"] = {form: _products(form, wide=True, whole=True) for form in forms}
        tell("equations")
        tables["solve"] = _solve()
        tell("files")
        tables["read"] = _read()
        tables["start"] = {ANY: (_start(),)}
    tables["draw"] = {
        name: _two([[1.0, numbers] for numbers, _ in of], [one for _, one in of])
        for name, of in drawn.items()
    }
    for name in ("look", "draw"):
        tables[name][ANY] = tuple(np.median(list(tables[name].values()), axis=0).tolist())
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return Speeds(tables, ops.cpu.isa(), threads(), when)


def _maps(times: int, d: int) -> Iterator[Map]:
    """Every map as it comes, and those whose stages depend on a parameter in each way."""
    for cls in registry().values():
        made = cls()
        if "n_measurements" in made.get_params():
            made.set_params(n_measurements=d // 2)
        size = None if made.size_parameter is None else made.get_params()[made.size_parameter]
        ends = getattr(made.rate, "ends", False)
        yield (
            made if size is None else made.with_size(d // 2 if ends else max(2, size // 4 * times))
        )
    for design in ("iid", "hadamard"):
        yield RandomFourier(256 * times, design=design, gamma=1.0)
    yield RandomProjection(d // 2, method="hadamard")


def _fit(
    made: Map, d: int, tables: dict[str, Table], drawn: dict[str, list[tuple[float, float]]]
) -> Map:
    """The map, fitted; seconds for each number that it looks at, and what it has drawn in which
    time.
    """
    rows = _rows(d, "float64", 1024)
    made.set_params(
        **{name: 0 for name in made.get_params() if name.split("__")[-1] == "random_state"}
    )
    seconds = fastest(lambda: made.fit(rows), rounds=2)
    looked = 0.0
    summary = made.required_statistics(d)
    if summary is not None:
        looked = fastest(lambda: fold(blocks_of(rows), empty_like(summary)))
        tables["look"][type(made).__name__] = (looked / rows.size,)
    numbers = sum(array.size for array in made.tile_transform_.arrays().values())
    drawn.setdefault(type(made).__name__, []).append((float(numbers), max(seconds - looked, 1e-6)))
    return made


def _trial(made: Map, d: int, form: str) -> tuple[tuple[Part, ...], float]:
    """The parts of a map, and seconds for a row."""
    known = Outline.of(made, density=_DENSITY if form == "csr" else None)
    n = min(_ROWS, grid(max(d, known.columns), 4).rows)
    rows = _rows(d, form, n)
    parts = known.parts
    if form == "csr":
        parts = tuple(Part(part.kind, part.cost.sparse(d, _DENSITY)) for part in parts)
    return parts, fastest(lambda: made._transform_block(rows)) / n


def _rates(trials: list[tuple[tuple[Part, ...], float]]) -> Table:
    """Seconds for a multiply-add and a byte of each kind: none negative, and as near to all trials
    as they can be, relative to each.
    """
    from scipy.optimize import nnls

    kinds = sorted({part.kind for parts, _ in trials for part in parts})
    A = np.zeros((len(trials), 2 * len(kinds)))
    for i, (parts, seconds) in enumerate(trials):
        for part in parts:
            at = 2 * kinds.index(part.kind)
            A[i, at : at + 2] += np.array([part.cost.flops, max(part.cost.bytes, 0.0)]) / seconds
    scale = A.max(axis=0)
    found = nnls(A / np.where(scale > 0, scale, 1), np.ones(len(trials)))[0] / np.where(
        scale > 0, scale, 1
    )
    rates = {kind: (float(found[2 * i]), float(found[2 * i + 1])) for i, kind in enumerate(kinds)}
    known = [rate for rate in rates.values() if sum(rate) > 0]
    middle = (
        float(np.median([rate[0] for rate in known])),
        float(np.median([rate[1] for rate in known])),
    )
    return {ANY: middle, **{kind: rate for kind, rate in rates.items() if sum(rate) > 0}}


def _sums(form: str) -> tuple[float, float]:
    """Seconds for a row of moments: of D^2 and of D; for sparse rows, of the square of its entries
    and of D^2 for a block.
    """
    seconds: list[float] = []
    units: list[list[float]] = []
    for D in (256, 1024):
        n = grid(D, 8 if form == "float64" else 4).rows // (1 if form != "csr" else 4)
        block, y = _features(D, form, n), np.ones(n)
        moments = Moments()
        moments.add(block, y)
        seconds.append(fastest(lambda block=block, y=y, moments=moments: moments.add(block, y)))  # type: ignore[misc]
        units.append([n * (_DENSITY * D) ** 2, D**2] if form == "csr" else [n * D**2, n * D])
    return _two(units, seconds)


def _products(form: str, *, wide: bool = False, whole: bool = False) -> tuple[float, float]:
    """Seconds for a number of a row of Z, and for it and each output, of Z p and Z'r together.

    wide, with p and r of float64; whole, by one product for a block, as conjugate gradients have
    it.
    """
    n, D, seconds, units = 2048, 2048, [], []  # larger than any cache, as blocks are
    block = _features(D, form, n)
    dtype = np.float64 if wide else block.dtype
    stored = {"csr": _DENSITY * D, "coded": 64.0}.get(form, float(D))
    for t in (1, 8):
        P, R = np.ones((block.shape[1], t), dtype), np.ones((n, t), dtype)
        if whole:
            seconds.append(fastest(lambda P=P, R=R: (block @ P, block.T @ R)))  # type: ignore[misc]
        else:
            both = lambda P=P, R=R: (multiply(block, P), multiply_transposed(block, R))  # noqa: E731
            seconds.append(fastest(both))
        units.append([n * stored, n * stored * t])
    return _two(units, seconds)


def _two(units: list[list[float]], seconds: list[float]) -> tuple[float, float]:
    """Two rates, neither negative, relative to each trial."""
    from scipy.optimize import nnls

    A = np.array(units) / np.array(seconds)[:, None]
    scale = np.where(A.max(axis=0) > 0, A.max(axis=0), 1.0)
    a, b = nnls(A / scale, np.ones(len(seconds)))[0] / scale
    return float(a), float(b)


def _solve() -> Table:
    """Seconds for D^3: eigenvectors, and a Cholesky factor."""
    from scipy.linalg import cho_factor, eigh

    D = 768
    rows = np.random.default_rng(0).random((D, D))
    A = rows @ rows.T + D * np.eye(D)
    vectors = fastest(lambda: eigh(A, check_finite=False, driver="evd"), rounds=2)
    factor = fastest(lambda: cho_factor(A, check_finite=False))
    return {"eigenvectors": (vectors / D**3,), "factor": (factor / D**3,)}


def _read() -> Table:
    """Seconds for a number of each kind of file, which the system has in memory."""
    n, d = 4000, 50
    rows = np.random.default_rng(0).random((n, d), dtype=np.float32)
    found: Table = {}
    with TemporaryDirectory() as name:
        for suffix, kind in (
            (".npy", "npy"),
            (".csv", "csv"),
            (".svm", "svmlight"),
            (".parquet", "parquet"),
        ):
            path = Path(name) / f"rows{suffix}"
            try:
                _write(path, rows)
            except ImportError:  # an extra that is not here
                continue
            found[kind] = (
                fastest(lambda path=path: [None for _ in open_stream(path).chunks()])  # type: ignore[misc]
                / rows.size,
            )
    memory = fastest(lambda: [None for _ in open_stream(rows).blocks(512)]) / rows.size
    return {ANY: (max(rate for (rate,) in found.values()),), **found, "array": (memory,)}


def _write(path: Path, rows: Any) -> None:
    if path.suffix == ".svm":
        path.write_text(
            "".join(
                "1 " + " ".join(f"{j + 1}:{v:.7g}" for j, v in enumerate(row)) + "\n"
                for row in rows
            )
        )
        return
    with open_sink(path, rows.shape[1], dtype=rows.dtype) as sink:
        sink.write(rows)


def _start() -> float:
    """Seconds of a fit of next to nothing."""
    X = np.random.default_rng(0).random((20, 2))
    return fastest(lambda: KernelRegressor(Hellinger()).fit(X, X[:, 0]))


def _rows(d: int, form: str, n: int) -> Any:
    rng = np.random.default_rng(0)
    if form != "csr":
        return rng.random((n, d)).astype(form)
    entries = max(1, round(_DENSITY * d))
    columns = np.sort(rng.permuted(np.tile(np.arange(d), (n, 1)), axis=1)[:, :entries], axis=1)
    made = csr_array(
        (rng.random(n * entries, dtype=np.float32), columns.ravel(), np.arange(n + 1) * entries),
        (n, d),
    )
    made.has_canonical_format = True
    return made


def _features(D: int, form: str, n: int) -> Block:
    """A block of n rows of features."""
    if form == "coded":
        codes = np.random.default_rng(0).integers(0, 256, (n, 64)).astype(np.uint8)
        return Coded(codes, OneHot(256, 1.0))
    return Sparse(_rows(D, form, n)) if form == "csr" else Dense(_rows(D, form, n))


def fastest(work: Callable[[], Any], rounds: int = _ROUNDS) -> float:
    """Seconds of the fastest of some runs, after one that does not count."""
    start = time.perf_counter()
    work()
    once = time.perf_counter() - start
    repeats = max(1, int(_LEAST / max(once, 1e-7)))
    best = np.inf
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        best = min(best, (time.perf_counter() - start) / repeats)
    return float(best)
