"""GPU benchmarks: medians of device events, errors against float64, share of ceilings.

Run with ``python -m benchmarks.gpu``.

Times are those of the device alone unless a row says otherwise. A bound is the larger of bytes over
the speed of a copy and operations over the speed of a product of matrices in the same precision,
both measured first.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mercer
from benchmarks.table import replace_part
from mercer import ops
from mercer.ops.torch import DeviceArray, matmul
from mercer.ops.torch.device_array import array
from mercer.stats.packed_symmetric import PackedSymmetric

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parent / "README.md"


@dataclass(frozen=True)
class Row:
    """A line: milliseconds (median, quartiles), target, error against float64, bound."""

    what: str
    ms: float
    low: float
    high: float
    target: float | None = None
    error: float | None = None
    bound: float | None = None  # milliseconds that the ceilings allow
    note: str = ""


@dataclass
class Ceilings:
    """Bytes per second of a copy, and operations per second of a product, by precision."""

    copy: float = 0.0
    float32: float = 0.0
    tf32: float = 0.0
    bf16: float = 0.0

    def bound(self, count: float, flops: float = 0.0, precision: str = "float32") -> float:
        """Return the milliseconds that so many bytes and operations need at least."""
        return 1e3 * max(count / self.copy, flops / getattr(self, precision))


def events(work: Callable[[], Any], rounds: int) -> tuple[float, float, float]:
    """Return median and quartiles of milliseconds between device events.

    Four runs lie between two events; three runs before do not count.

    So the device does not wait for the first launch; a work that waits for the device, as a map
    does that checks its input, still does.
    """
    for _ in range(3):
        work()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(4):
            work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 4)
    low, median, high = np.percentile(times, [25, 50, 75])
    return float(median), float(low), float(high)


def seconds(work: Callable[[], Any]) -> float:
    """Return wall-clock seconds until the device is done."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def random(*shape: int, positive: bool = False) -> torch.Tensor:
    made = torch.empty(shape, device="cuda")
    return made.exponential_() if positive else made.normal_()


def ceilings(rounds: int) -> Ceilings:
    found = Ceilings()
    source = torch.empty(2**30, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    found.copy = 2 * 4 * 2**30 / events(lambda: target.copy_(source), rounds)[0] * 1e3
    A, B = random(8192, 8192), random(8192, 8192)
    for name in ("float32", "tf32", "bf16"):
        with matmul.use_precision(name):
            X, Y = (A.bfloat16(), B.bfloat16()) if name == "bf16" else (A, B)
            work = (
                (lambda X=X, Y=Y: torch.mm(X, Y))
                if name == "bf16"
                else (lambda: matmul.matmul(A, B))
            )
            setattr(found, name, 2 * 8192**3 / events(work, rounds)[0] * 1e3)
    return found


def relative(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def fourier(top: Ceilings, rounds: int) -> Iterator[Row]:
    """Time RandomFourier on a tensor: bare product, op, and map with validated input."""
    shapes = (
        (65536, 784, 4096, 1.15 * 1.48),
        (65536, 4200, 8192, 1.05 * 15.9),
        (262144, 128, 2048, 1.5),
    )
    for n, d, D, target in shapes:
        X = random(n, d)
        out = torch.empty((n, D), device="cuda")
        W = (random(D, d) / np.sqrt(d)).T  # as a map holds it: the numbers of a column side by side
        count = 4.0 * (n * d + n * D)
        with matmul.use_precision("tf32"):
            bare, low, high = events(lambda X=X, W=W, out=out: matmul.matmul(X, W, out=out), rounds)
            what = f"{n} x {d} -> {D}, tf32"
            yield Row(
                f"product alone, {what}",
                bare,
                low,
                high,
                bound=top.bound(count, 2.0 * n * d * D, "tf32"),
            )
            for form in ("offset", "paired"):
                phi = mercer.RandomFourier(
                    D, gamma=1 / d, design="iid", form=form, random_state=0
                ).fit(np.zeros((1, d)))
                m = D if form == "offset" else D // 2
                panel = W[:, :m]
                link = phi.tile_transform_.stages[-1].link
                phases = DeviceArray(torch.rand(m, device="cuda"))

                def op(
                    form: str = form,
                    X: Any = X,
                    panel: Any = panel,
                    phases: Any = phases,
                    out: Any = out,
                    link: Any = link,
                ) -> None:
                    if form == "offset":
                        ops.product_cos(
                            DeviceArray(X), DeviceArray(panel), link.scale, phases, DeviceArray(out)
                        )
                    else:
                        ops.product_cossin(
                            DeviceArray(X), DeviceArray(panel), link.scale, DeviceArray(out)
                        )

                bound = top.bound(count, 2.0 * n * d * m, "tf32")
                median = events(op, rounds)
                note = f"{median[0] / bare:.2f} times the product alone"
                yield Row(
                    f"cosines of a product, {form}, {what}",
                    *median,
                    target=target,
                    bound=bound,
                    note=note,
                )

                def whole(phi: Any = phi, X: Any = X, out: Any = out) -> None:
                    phi.transform(X, out=out)

                median = events(whole, rounds)
                few = X[:2048]
                exact = phi.transform(few.double())
                error = relative(phi.transform(few), exact)
                note = "waits for the check of X"
                yield Row(
                    f"RandomFourier, {form}, {what}",
                    *median,
                    target=target,
                    error=error,
                    bound=bound,
                    note=note,
                )
        phi = mercer.RandomFourier(D, gamma=1 / d, design="iid", random_state=0).fit(
            np.zeros((1, d))
        )
        median = events(lambda phi=phi, X=X, out=out: phi.transform(X, out=out), rounds)
        error = relative(phi.transform(few), phi.transform(few.double()))
        bound = top.bound(count, n * d * D)
        yield Row(
            f"RandomFourier, paired, {n} x {d} -> {D}, float32", *median, error=error, bound=bound
        )
        if d >= 64:
            phi = mercer.RandomFourier(D, gamma=1 / d, design="hadamard", random_state=0).fit(
                np.zeros((1, d))
            )
            median = events(lambda phi=phi, X=X, out=out: phi.transform(X, out=out), rounds)
            error = relative(phi.transform(few), phi.transform(few.double()))
            yield Row(
                f"RandomFourier, hadamard, {n} x {d} -> {D}, float32",
                *median,
                error=error,
                bound=top.bound(count),
            )


def lifts(top: Ceilings, rounds: int) -> Iterator[Row]:
    n, d = 65536, 4200
    X = random(n, d, positive=True)
    few = X[:512]
    for what, phi, values, target in (
        ("chi2 series, 5 values", mercer.Chi2Series(5, poles="minimax"), 5, 1.7),
        ("homogeneous chi2, 3 values", mercer.Homogeneous(1), 3, None),
        ("Chebyshev, 4 values", mercer.Chi2Chebyshev(4, center=1.0), 4, None),
    ):
        phi.fit(few.cpu().numpy())
        out = torch.empty((n, values * d), device="cuda")
        stage = stage_there(phi, X)
        bound = top.bound(4.0 * n * d * (1 + values))
        error = relative(phi.transform(few), phi.transform(few.double()))

        def op(stage: Any = stage, out: Any = out) -> None:
            stage.lift(DeviceArray(X), DeviceArray(out), None)

        yield Row(
            f"{what}, {n} x {d}, the op",
            *events(op, rounds),
            target=target,
            error=error,
            bound=bound,
        )
        median = events(lambda phi=phi, out=out: phi.transform(X, out=out), rounds)
        yield Row(
            f"{what}, {n} x {d}, the map",
            *median,
            target=target,
            error=error,
            bound=bound,
            note="waits for the check of X",
        )
        del out


def stage_there(phi: Any, X: torch.Tensor) -> Any:
    """Return the first stage of a fitted map, its arrays on the device of X."""
    from mercer.maps._transform import adapt_transform

    return adapt_transform(phi.tile_transform_, array(X)).stages[0]


def sampling(top: Ceilings, rounds: int) -> Iterator[Row]:
    n, d, k = 16384, 784, 1024
    X = random(n, d)
    X[0], X[1] = X[0].abs(), -X[1].abs()  # so that all 1568 columns are in use
    phi = mercer.GCWS(k, bits=8, random_state=0).fit(np.zeros((1, d)))
    median = events(lambda: phi.codes(X), rounds)
    few = X[:256].cpu().numpy()
    wrong = float(np.mean(phi.codes(X[:256]).cpu().numpy() != phi.codes(few)))
    cells = n * 2 * d * k
    note = (
        f"{cells / median[0] * 1e-9:.3g}e12 cells a second; hashes that differ from the "
        f"CPU's: {wrong:.1e}"
    )
    yield Row(
        f"GCWS codes, {n} x {2 * d}, {k} hashes", *median, target=16.0, error=wrong, note=note
    )


def grams(top: Ceilings, rounds: int) -> Iterator[Row]:
    n, d = 16384, 784
    X = random(n, d, positive=True)
    few = X[:256]
    for name, kernel in (
        ("chi2", mercer.kernels.Chi2()),
        ("intersection", mercer.kernels.Intersection()),
        ("min-max", mercer.kernels.MinMax()),
        ("Jensen-Shannon", mercer.kernels.JensenShannon()),
        ("Laplacian", mercer.kernels.Laplacian(1e-3)),
        ("exponentiated chi2", mercer.kernels.ExpChi2(1e-3)),
        ("Gaussian", mercer.kernels.Gaussian(1e-3)),
    ):
        median = events(lambda kernel=kernel: mercer.gram(kernel, X), max(3, rounds // 3))
        error = relative(mercer.gram(kernel, few), mercer.gram(kernel, few.double()))
        cells = n * n * d
        note = f"{cells / median[0] * 1e-9:.3g}e12 cells a second"
        yield Row(
            f"Gram {name}, {n}^2 x {d}",
            *median,
            target=111.0 if name == "chi2" else None,
            error=error,
            note=note,
        )


def sums(top: Ceilings, rounds: int) -> Iterator[Row]:
    """Time Z'Z of 65536 rows in blocks of 8192, products in float32 or shorter, sums in float64."""
    n, D, block = 65536, 8192, 8192
    Z = random(n, D)
    few = Z[:block]
    exact = few.double().T @ few.double()
    for precision, target in (("tf32", 35.0), ("bf16", None), ("float32", None)):
        total = PackedSymmetric(D, like=DeviceArray(Z))

        def work(total: Any = total) -> None:
            for start in range(0, n, block):
                total.add_products(DeviceArray(Z[start : start + block]))

        with matmul.use_precision(precision):
            median = events(work, max(3, rounds // 3))
            one = PackedSymmetric(D, like=DeviceArray(Z))
            one.add_products(DeviceArray(few))
            error = relative(one.toarray().tensor, exact)
        bound = top.bound(4.0 * n * D, float(n) * D * D, precision)
        yield Row(
            f"Z'Z, {n} rows, D = {D}, {precision}", *median, target=target, error=error, bound=bound
        )


def torch_loop(
    X: Any, y: Any, W: torch.Tensor, phases: torch.Tensor, *, tf32: bool, alpha: float = 1.0
) -> torch.Tensor:
    """Return ridge coefficients by the loop that a user would write: sums of float32 products."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    D, block = W.shape[1], 65536
    G, c = torch.zeros(D, D, device="cuda"), torch.zeros(D, 1, device="cuda")
    for start in range(0, len(X), block):
        x = torch.from_numpy(X[start : start + block]).cuda()
        t = torch.from_numpy(y[start : start + block]).float().cuda()
        Z = torch.cos(x @ W + phases) * (2 / D) ** 0.5
        G += Z.T @ Z
        c += Z.T @ t[:, None]
    solution = torch.linalg.solve(G + alpha * torch.eye(D, device="cuda"), c).cpu()
    torch.backends.cuda.matmul.allow_tf32 = False
    return solution


def ridge(top: Ceilings, rows: int, cpu_rows: int) -> Iterator[Row]:
    """Time the fit of a NumPy array by wall clock, from copies to the solution, beside a loop."""
    d, D = 784, 8192
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, d), dtype=np.float32)
    y = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2]).astype(np.float64)
    phi = mercer.RandomFourier(D, gamma=1 / d, design="iid", random_state=0)
    W, phases = random(d, D) / d**0.5, 2 * np.pi * torch.rand(D, device="cuda")

    def fit(precision: str, alpha: Any, count: int = rows) -> Any:
        model = mercer.KernelRegressor(phi, alpha=alpha, device="cuda", precision=precision)
        return model.fit(X[:count], y[:count])

    works: dict[str, Callable[[], Any]] = {}
    for precision in ("float32", "tf32", "bf16"):
        if precision != "bf16":
            works[f"torch loop, {precision}"] = lambda precision=precision: torch_loop(
                X, y, W, phases, tf32=precision == "tf32"
            )
        works[f"{precision}, alpha given"] = lambda precision=precision: fit(precision, 1.0)
        works[f"{precision}, alpha chosen"] = lambda precision=precision: fit(precision, "auto")
    for precision in ("float32", "tf32", "bf16"):  # kernels are compiled
        fit(precision, "auto", 20000)
    torch_loop(X[:20000], y[:20000], W, phases, tf32=True)
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(5):  # interleaved
        for name, work in works.items():
            times[name].append(1e3 * seconds(work))
    for name, spent in times.items():
        low, median, high = np.percentile(spent, [25, 50, 75])
        loop = times.get(f"torch loop, {name.partition(',')[0]}")
        note = "" if loop is None else f"{median / np.median(loop):.2f} times the torch loop"
        what = f"ridge fit, {rows:,} x {d}, D = {D}, {name}"
        yield Row(what, median, low, high, note=note)
    small = seconds(lambda: fit("float32", 1.0, cpu_rows))
    model = mercer.KernelRegressor(phi, alpha=1.0)
    start = time.perf_counter()
    model.fit(X[:cpu_rows], y[:cpu_rows])
    ms = 1e3 * (time.perf_counter() - start)
    note = (
        f"{os.cpu_count()} cores, {ops.cpu.isa()}; the GPU takes {1e3 * small:.4g} ms for "
        f"these rows, {ms / 1e3 / small:.3g} times less"
    )
    yield Row(
        f"ridge fit, {cpu_rows:,} x {d}, D = {D}, the same code on the CPU", ms, ms, ms, note=note
    )


def losses(top: Ceilings, cpu_rows: int) -> Iterator[Row]:
    """Time other losses, alpha chosen, ten classes, on the device and on the CPU."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((cpu_rows, 64), dtype=np.float32)
    scores = np.sin(2 * X[:, :10]) + X[:, 10:20] * X[:, 20:30]
    y = scores.argmax(axis=1)
    phi = mercer.RandomFourier(2048, random_state=0)
    for loss in ("logistic", "squared_hinge", "log_loss"):

        def fit(device: str | None, count: int = cpu_rows, loss: str = loss) -> Any:
            model = mercer.KernelClassifier(phi, loss=loss, device=device)
            return model.fit(X[:count], y[:count])

        fit("cuda", 5000)
        there = 1e3 * seconds(lambda fit=fit: fit("cuda"))
        start = time.perf_counter()
        model = fit(None)
        here = 1e3 * (time.perf_counter() - start)
        gap = np.abs(fit("cuda").decision_function(X[:1000]) - model.decision_function(X[:1000]))
        note = f"CPU {here:.4g} ms, {os.cpu_count()} cores; scores differ by {gap.max():.1e}"
        yield Row(
            f"{loss}, {cpu_rows:,} x 64, D = 2048, alpha chosen", there, there, there, note=note
        )


def mnist(top: Ceilings, data: str | None) -> Iterator[Row]:
    """Time ridge regression of 60000 rows, D = 16384, ten classes, and 10000 predictions."""
    path = Path(data or os.environ.get("MERCER_DATA", "")) / "mnist.npz"
    if not path.is_file():
        return
    with np.load(path) as file:
        rows, labels, first = file["X"].astype(np.float32) / 255, file["y"], int(file["n_train"])
    X, y, X_test, y_test = rows[:first], labels[:first], rows[first:], labels[first:]
    phi = mercer.RandomFourier(16384, gamma=0.02, random_state=0)
    for precision in ("float32", "tf32"):
        model = mercer.KernelClassifier(phi, alpha=1.0, device="cuda", precision=precision)
        fit = 1e3 * seconds(lambda model=model: model.fit(X, y))
        predict = 1e3 * seconds(lambda model=model: model.predict(X_test))
        score = model.score(X_test, y_test)
        note = f"test accuracy {score:.4f}, predictions {predict:.4g} ms"
        yield Row(f"MNIST 60000, D = 16384, ridge, {precision}", fit, fit, fit, note=note)


def table(rows: list[Row]) -> str:
    lines = [
        "| what | ms (quartiles) | target | error | of the bound | note |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        target = (
            ""
            if row.target is None
            else f"{row.target:.3g} "
            f"{'met' if row.ms <= row.target else f'missed by {row.ms / row.target - 1:.0%}'}"
        )
        error = "" if row.error is None else f"{row.error:.1e}"
        share = "" if row.bound is None else f"{row.bound / row.ms:.0%}"
        lines.append(
            f"| {row.what} | {row.ms:.4g} ({row.low:.4g}-{row.high:.4g}) | {target} | {error} | "
            f"{share} | {row.note} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="rows of the streamed ridge fit"
    )
    parser.add_argument(
        "--cpu-rows", type=int, default=32768, help="rows of the same fit on the CPU"
    )
    parser.add_argument("--data", help="a folder with mnist.npz; $MERCER_DATA when left out")
    parser.add_argument("--out", default=str(RESULTS / "gpu-h200.json"))
    parser.add_argument(
        "parts",
        nargs="*",
        help="fourier, lifts, sampling, grams, sums, ridge, losses, mnist; all when left out",
    )
    options = parser.parse_args()
    top = ceilings(options.rounds)
    device = torch.cuda.get_device_name()
    print(device, {name: f"{value:.4g}" for name, value in asdict(top).items()}, flush=True)
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "fourier": lambda: fourier(top, options.rounds),
        "lifts": lambda: lifts(top, options.rounds),
        "sampling": lambda: sampling(top, options.rounds),
        "grams": lambda: grams(top, options.rounds),
        "sums": lambda: sums(top, options.rounds),
        "ridge": lambda: ridge(top, options.rows, options.cpu_rows),
        "losses": lambda: losses(top, options.cpu_rows),
        "mnist": lambda: mnist(top, options.data),
    }
    rows: list[Row] = []
    for name in options.parts or parts:
        for row in parts[name]():
            rows.append(row)
            print(table([row]).splitlines()[-1], flush=True)
        torch.cuda.empty_cache()
        Path(options.out).write_text(
            json.dumps(
                {
                    "device": device,
                    "torch": torch.__version__,
                    "ceilings": asdict(top),
                    "rows": [asdict(row) for row in rows],
                },
                indent=1,
            )
        )
    if not options.parts:
        replace_part(README, "gpu", table(rows))


if __name__ == "__main__":
    main()
