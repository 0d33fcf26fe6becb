"""The compiled core: instruction sets, argument checks of the binding, symbols, packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mercer.ops import cpu

ROOT = Path(__file__).parents[2]
OPS = str(ROOT / "tests" / "ops" / "test_every_op.py")
compiled = pytest.mark.skipif(not cpu.available(), reason=str(cpu.why_not()))
native: Any = None
if cpu.available():
    import mercer._native as native
ISAS = native.isas() if native else []


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in {"MERCER_ISA", "MERCER_PURE"}}
    return subprocess.run(
        [sys.executable, *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )


REPORT = "from mercer.ops import cpu; print(cpu.isa(), cpu.available(), cpu.why_not())"


@pytest.mark.full  # test_every_op_positions.py runs every op on every instruction set in make test
@compiled
@pytest.mark.parametrize("isa", ISAS)
def test_every_instruction_set_has_every_op_at_all_sizes(isa: str) -> None:
    """Run in float32 only; make test-isa runs all tests of ops and maps on each of them."""
    assert python("-c", REPORT, MERCER_ISA=isa).stdout.split()[0] == isa
    if isa == cpu.isa():
        return  # tested in this process
    done = python(
        "-m", "pytest", "-q", "-x", "-k", "all_sizes and compiled and float32", OPS, MERCER_ISA=isa
    )
    assert done.returncode == 0, done.stdout[-3000:]


@compiled
@pytest.mark.parametrize("isa", ["sse9", "AVX2", "neon " * 3])
def test_an_unknown_instruction_set_is_a_value_error(isa: str) -> None:
    done = python("-c", REPORT, MERCER_ISA=isa)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f'ValueError: MERCER_ISA is "{isa}"') and ", ".join(ISAS) in last


def test_mercer_pure_runs_without_the_core() -> None:
    done = python("-c", REPORT, MERCER_PURE="1")
    assert done.stdout.split(maxsplit=2) == ["numpy", "False", "MERCER_PURE is set\n"], done.stderr
    loaded = python(
        "-c", "import sys, mercer.ops; print('mercer._native' in sys.modules)", MERCER_PURE="1"
    )
    assert loaded.stdout == "False\n"


@pytest.mark.full
def test_ops_pass_without_the_core() -> None:
    done = python("-m", "pytest", "-q", "-k", "matrix", OPS, MERCER_PURE="1")
    assert done.returncode == 0, done.stdout[-3000:]


@compiled
def test_a_core_that_does_not_load_gives_a_reason() -> None:
    code = "import sys; sys.modules['mercer._native'] = None; " + REPORT
    done = python("-c", code)
    assert done.stdout.startswith("numpy False the compiled core was not built"), done.stderr


@compiled
def test_loading_the_core_leaves_denormals_alone() -> None:
    code = "import numpy as np, mercer._native; print(np.float32(1e-40) * np.float32(4) > 0)"
    assert python("-c", code).stdout == "True\n"


@compiled
def test_objects_of_the_instruction_sets_share_no_symbol() -> None:
    """The linker could keep a weak function compiled for AVX-512 for every CPU."""
    found = (ROOT / "build").glob("*/**/ops_*.dir/**/ops.cpp.o")
    objects = sorted(each for each in found if "sanitize" not in each.parts)
    nm = shutil.which("nm")
    if not objects or nm is None:
        pytest.skip("no build folder with objects, or no nm")
    for each in objects:
        lines = subprocess.run(
            [nm, "-C", str(each)], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert not [line for line in lines if line[17:18] in {"W", "V", "u"}], each
        shown = {line[19:] for line in lines if line[17:18] in {"T", "D", "R", "B"}}
        assert all(name.endswith("::table") for name in shown), (each, shown)


@compiled
def test_the_core_is_thread_safe() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((64, 100)).astype(np.float32)
    expected = native_gram(X)
    found: list[Any] = [None] * 8
    threads = [
        threading.Thread(target=lambda i=i: found.__setitem__(i, native_gram(X))) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(each, expected) for each in found)


def native_gram(X: Any) -> Any:
    out = np.empty((len(X), len(X)), dtype=X.dtype)
    native.gram_chi2(X, X, out)
    return out


def f(*shape: int) -> Any:
    return np.zeros(shape, dtype=np.float32)


def i(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int32)


def w(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.uint64)


def u(*shape: int) -> Any:
    return np.zeros(shape, dtype=np.uint8)


def frozen(A: Any) -> Any:
    A.flags.writeable = False
    return A


ONE = (i(0, 1), i(0), f(1))  # a sparse matrix with one row and one entry, in column 0


def descent(**wrong: Any) -> tuple[str, tuple[Any, ...], type[Exception]]:
    arguments: dict[str, Any] = {
        "codes": u(2, 3),
        "empty": None,
        "order": i(0, 1).astype(np.int64),
        "Y": f(2, 5),
        "c": f(2),
        "scale": 1.0,
        "slope": 0.5,
        "loss": 1,
        "F": f(2, 5),
        "a": f(2, 5),
        "b": f(5),
        "W": f(3, 4, 5),
    }
    return "coded_descent", tuple((arguments | wrong).values()), ValueError


WRONG: dict[str, tuple[str, tuple[Any, ...], type[Exception]]] = {
    "integers": ("cos_", (np.zeros((2, 2), dtype=int), 1.0, None), TypeError),
    "one dimension": ("cos_", (f(3), 1.0, None), TypeError),
    "a list": ("cos_", ([[1.0]], 1.0, None), TypeError),
    "read-only output": ("cos_", (frozen(f(2, 2)), 1.0, None), TypeError),
    "columns apart": ("cos_", (f(2, 4)[:, ::2], 1.0, None), ValueError),
    "Fortran order": ("exp2neg_", (np.asfortranarray(f(3, 2)), 1.0), ValueError),
    "overlapping rows": (
        "exp2neg_",
        (np.lib.stride_tricks.as_strided(f(9), (3, 3), (4, 4)), 1.0),
        ValueError,
    ),
    "phases too short": ("cos_", (f(2, 3), 1.0, f(2)), ValueError),
    "phases of another type": ("cos_", (f(2, 3), 1.0, np.zeros(3)), TypeError),
    "cossin out too narrow": ("cossin", (f(2, 3), 1.0, f(2, 5)), ValueError),
    "cossin out too short": ("cossin", (f(2, 3), 1.0, f(1, 6)), ValueError),
    "mixed types": ("cossin", (f(2, 3), 1.0, np.zeros((2, 6))), TypeError),
    "p not a power of two": ("hadamard", (f(2, 3), f(1, 3, 3), f(3), f(2, 3)), ValueError),
    "p is 0": ("hadamard", (f(2, 0), f(1, 3, 0), f(0), f(2, 0)), ValueError),
    "no signs": ("hadamard", (f(2, 4), f(1, 0, 4), f(4), f(2, 4)), ValueError),
    "X wider than p": ("hadamard", (f(2, 5), f(1, 3, 4), f(4), f(2, 4)), ValueError),
    "too many lengths": ("hadamard", (f(2, 4), f(1, 3, 4), f(5), f(2, 5)), ValueError),
    "lengths against out": ("hadamard", (f(2, 4), f(1, 3, 4), f(3), f(2, 4)), ValueError),
    "signs not contiguous": (
        "hadamard",
        (f(2, 4), f(1, 3, 8)[:, :, ::2], f(4), f(2, 4)),
        TypeError,
    ),
    "hadamard_cossin out": (
        "hadamard_cossin",
        (f(2, 4), f(1, 3, 4), f(4), 1.0, f(2, 4)),
        ValueError,
    ),
    "hadamard_cos phases": (
        "hadamard_cos",
        (f(2, 4), f(1, 3, 4), f(4), 1.0, f(3), f(2, 4)),
        ValueError,
    ),
    "series out": ("chi2_series", (f(2, 3), f(2), f(2, 5)), ValueError),
    "poles of another type": ("chi2_series", (f(2, 3), np.zeros(2), f(2, 6)), TypeError),
    "chebyshev out": ("chi2_chebyshev", (f(2, 3), 2, 1.0, f(2, 5)), ValueError),
    "chebyshev terms": ("chi2_chebyshev", (f(2, 3), -1, 1.0, f(2, 3)), ValueError),
    "homogeneous out": (
        "homogeneous",
        (f(2, 3), f(2), np.array([1]), 1.0, 1.0, f(2, 6)),
        ValueError,
    ),
    "amplitudes": ("homogeneous", (f(2, 3), f(1), np.array([1]), 1.0, 1.0, f(2, 9)), ValueError),
    "harmonic 0": ("homogeneous", (f(2, 3), f(2), np.array([0]), 1.0, 1.0, f(2, 9)), ValueError),
    "harmonics fall": (
        "homogeneous",
        (f(2, 1), f(3), np.array([2, 1]), 1.0, 1.0, f(2, 5)),
        ValueError,
    ),
    "harmonics as float": ("homogeneous", (f(2, 1), f(2), f(1), 1.0, 1.0, f(2, 3)), TypeError),
    "inner_products columns": ("inner_products", (f(2, 3), f(4, 5), f(2, 4)), ValueError),
    "inner_products out": ("inner_products", (f(2, 3), f(4, 3), f(4, 2)), ValueError),
    "weighted_sums rows": ("weighted_sums", (f(2, 3), f(4, 5), f(3, 5)), ValueError),
    "weighted_sums out": ("weighted_sums", (f(2, 3), f(2, 5), f(5, 3)), ValueError),
    "product columns": ("product", (f(2, 3), f(4, 5), f(2, 5)), ValueError),
    "product out": ("product", (f(2, 3), f(3, 5), f(2, 4)), ValueError),
    "product_cos phases": ("product_cos", (f(2, 3), f(3, 5), 1.0, f(4), f(2, 5)), ValueError),
    "product_cossin out": ("product_cossin", (f(2, 3), f(3, 5), 1.0, f(2, 5)), ValueError),
    "gram columns": ("gram_chi2", (f(2, 3), f(2, 4), f(2, 2)), ValueError),
    "gram out": ("gram_l1", (f(2, 3), f(4, 3), f(4, 2)), ValueError),
    "index too large": ("csr_product", (i(0, 1), i(3), f(1), f(3, 2), f(1, 2)), ValueError),
    "index negative": ("csr_product", (i(0, 1), i(-1), f(1), f(3, 2), f(1, 2)), ValueError),
    "indptr falls": ("csr_product", (i(0, 2, 1, 2), i(0, 1), f(2), f(3, 2), f(3, 2)), ValueError),
    "indptr too long": ("csr_product", (i(0, 5), i(0), f(1), f(3, 2), f(1, 2)), ValueError),
    "indptr does not start at 0": (
        "csr_product",
        (i(1, 1), i(0), f(1), f(3, 2), f(1, 2)),
        ValueError,
    ),
    "indptr empty": ("csr_product", (i(), i(), f(0), f(3, 2), f(0, 2)), ValueError),
    "indices and data differ": ("csr_product", (i(0, 1), i(0), f(2), f(3, 2), f(1, 2)), ValueError),
    "csr_product out": ("csr_product", (*ONE, f(3, 2), f(1, 3)), ValueError),
    "csr_exp2neg out": ("csr_exp2neg", (*ONE, f(3, 2), None, 1.0, f(1, 3)), ValueError),
    "csr_exp2neg offsets": ("csr_exp2neg", (*ONE, f(3, 2), f(3), 1.0, f(1, 2)), ValueError),
    "csr_exp2neg index": (
        "csr_exp2neg",
        (i(0, 1), i(3), f(1), f(3, 2), None, 1.0, f(1, 2)),
        ValueError,
    ),
    "spread out": ("spread", (i(0, 1), np.zeros((3, 2), dtype=np.int32)), ValueError),
    "spread to another type": ("spread", (i(0, 1), np.zeros((2, 2), dtype=np.int64)), TypeError),
    "mixed index types": (
        "csr_product",
        (i(0, 1).astype(np.int64), i(0), f(1), f(3, 2), f(1, 2)),
        TypeError,
    ),
    "gram csr index": ("gram_chi2_csr", (*ONE, i(0, 1), i(1), f(1), 1, f(1, 1)), ValueError),
    "gram csr columns": ("gram_minmax_csr", (*ONE, *ONE, -1, f(1, 1)), ValueError),
    "gram csr out": ("gram_intersection_csr", (*ONE, *ONE, 1, f(1, 2)), ValueError),
}

DRAWN = (f(1, 2, 4, 64), w(3, 4), 1, 0)  # 64 hashes of two columns
WRONG |= {
    "parameters out": ("gcws_parameters", (1, w(3, 4), 0, f(1, 3, 4, 64)), ValueError),
    "parameters of 32 hashes": ("gcws_parameters", (1, w(3, 4), 0, f(1, 2, 4, 32)), ValueError),
    "parameters in Fortran order": (
        "gcws_parameters",
        (1, w(3), 0, np.asfortranarray(f(2, 1, 4, 64))),
        TypeError,
    ),
    "a negative seed": ("gcws_parameters", (-1, w(3), 0, f(1, 1, 4, 64)), TypeError),
    "ids of another type": ("gcws_parameters", (1, i(3), 0, f(1, 1, 4, 64)), TypeError),
    "gcws columns": ("gcws", (f(2, 3), *DRAWN, 8, True, u(2, 64)), ValueError),
    "gcws ids": ("gcws", (f(2, 2), f(1, 2, 4, 64), w(3), 1, 0, 8, True, u(2, 64)), ValueError),
    "too few hashes": ("gcws", (f(2, 2), *DRAWN, 8, True, u(2, 65)), ValueError),
    "gcws rows": ("gcws", (f(2, 2), *DRAWN, 8, True, u(3, 64)), ValueError),
    "no bits": ("gcws", (f(2, 2), *DRAWN, 0, True, u(2, 64)), ValueError),
    "9 bits in a byte": ("gcws", (f(2, 2), *DRAWN, 9, True, u(2, 64)), ValueError),
    "17 bits in two bytes": (
        "gcws",
        (f(2, 2), *DRAWN, 17, True, u(2, 64).astype(np.uint16)),
        ValueError,
    ),
    "codes as float": ("gcws", (f(2, 2), *DRAWN, 8, True, f(2, 64)), TypeError),
    "place too large": ("gcws_csr", (i(0, 1), i(2), f(1), *DRAWN, 8, True, u(1, 64)), ValueError),
    "place negative": ("gcws_csr", (i(0, 1), i(-1), f(1), *DRAWN, 8, True, u(1, 64)), ValueError),
    "gcws_csr rows": ("gcws_csr", (*ONE, *DRAWN, 8, True, u(2, 64)), ValueError),
    "code too large": (
        "coded_product",
        (u(2, 3) + np.uint8(4), f(3, 4, 2), None, f(2, 2)),
        ValueError,
    ),
    "code + 1 too large": (
        "coded_product",
        (u(2, 3) + np.uint8(3), f(3, 4, 2), f(2, 3), f(2, 2)),
        ValueError,
    ),
    "code negative": ("coded_rows", (i(-1)[None], f(1, 4, 2), None, f(1, 2)), ValueError),
    "code for no table": ("coded_rows", (u(2, 3), f(3, 0, 2), None, f(2, 6)), ValueError),
    "codes into sums": (
        "coded_sums",
        (u(2, 3) + np.uint8(4), f(2, 5), None, f(3, 4, 5)),
        ValueError,
    ),
    "codes as int64": (
        "coded_rows",
        (i(0).astype(np.int64)[None], f(1, 4, 2), None, f(1, 2)),
        TypeError,
    ),
    "too few panels": ("coded_product", (u(2, 3), f(2, 4, 2), None, f(2, 2)), ValueError),
    "one panel of sums": ("coded_sums", (u(2, 3), f(2, 5), None, f(1, 4, 5)), ValueError),
    "fractions too few": ("coded_rows", (u(2, 3), f(3, 4, 2), f(2, 2), f(2, 6)), ValueError),
    "fractions of another type": (
        "coded_rows",
        (u(2, 3), f(3, 4, 2), np.zeros((2, 3)), f(2, 6)),
        TypeError,
    ),
    "product out": ("coded_product", (u(2, 3), f(3, 4, 2), None, f(2, 3)), ValueError),
    "coded_rows out": ("coded_rows", (u(2, 3), f(3, 4, 2), None, f(2, 5)), ValueError),
    "edges of two columns": ("levels", (f(2, 3), f(2, 4), True, u(2, 3)), ValueError),
    "256 edges in a byte": ("levels", (f(2, 3), f(3, 256), True, u(2, 3)), ValueError),
    "levels out": ("levels", (f(2, 3), f(3, 4), True, u(2, 4)), ValueError),
    "edges of another type": ("levels", (f(2, 3), np.zeros((3, 4)), True, u(2, 3)), TypeError),
    "one anchor": ("brackets", (f(2, 3), f(3, 1), u(2, 3), f(2, 3)), ValueError),
    "258 anchors in a byte": ("brackets", (f(2, 3), f(1, 258), u(2, 3), f(2, 3)), ValueError),
    "brackets codes": ("brackets", (f(2, 3), f(1, 4), u(2, 2), f(2, 3)), ValueError),
    "brackets fractions": ("brackets", (f(2, 3), f(1, 4), u(2, 3), f(3, 3)), ValueError),
    "descent codes": descent(codes=u(2, 3) + np.uint8(4)),
    "descent empty": descent(empty=np.zeros(3, bool)),
    "descent order": descent(order=i(2).astype(np.int64)),
    "descent Y": descent(Y=f(3, 5)),
    "descent c": descent(c=f(3)),
    "descent loss": descent(loss=3),
    "descent F": descent(F=f(2, 4)),
    "descent a": descent(a=f(2, 4)),
    "descent b": descent(b=f(4)),
    "descent W": descent(W=f(2, 4, 5)),
    "sums R": ("coded_sums", (u(2, 3), f(3, 5), None, f(3, 4, 5)), ValueError),
}


@compiled
@pytest.mark.parametrize("case", sorted(WRONG))
def test_the_binding_refuses(case: str) -> None:
    name, arguments, error = WRONG[case]
    with pytest.raises(error):
        getattr(native, name)(*arguments)


@compiled
def test_the_binding_refuses_unaligned_memory() -> None:
    raw = np.zeros(33, dtype=np.uint8)
    A = np.frombuffer(raw.data, dtype=np.float32, offset=1, count=8).reshape(2, 4)
    with pytest.raises((TypeError, ValueError)):
        native.exp2neg_(A, 1.0)


# Packages


def build(*arguments: str, **environment: str) -> None:
    # --no-build-isolation: no network is needed
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def fresh_python(folder: Path) -> Path:
    """Create an environment with a link to this one's NumPy, without mercer."""
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    borrowed = Path(sysconfig.get_path("purelib"))
    for name in ("numpy", "numpy.libs"):
        if (borrowed / name).exists():
            (site / name).symlink_to(borrowed / name)
    return folder / "bin" / "python"


def unpack(wheel: Path, interpreter: Path) -> str:
    site = next(interpreter.parents[1].glob("lib/python*/site-packages"))
    shutil.unpack_archive(wheel, site, "zip")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MERCER", "PYTHON"))}
    return subprocess.run(
        [interpreter, "-c", REPORT], env=clean, capture_output=True, text=True, check=True
    ).stdout


needs_backend = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("cmake", "g++")),
    reason="needs cmake and a compiler to build packages",
)


@pytest.mark.slow
@needs_backend
def test_a_wheel_works_in_a_fresh_environment(tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core")
    build(
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        str(tmp_path),
        ".",
        MERCER_NATIVE="1",
        SKBUILD_BUILD_DIR=str(tmp_path / "b"),
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert "none-any" not in wheel.name
    assert unpack(wheel, fresh_python(tmp_path / "env")).split()[1] == "True"


@pytest.mark.slow
@needs_backend
def test_a_source_package_holds_what_the_core_needs(tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core")
    code = f"import scikit_build_core.build as b; print(b.build_sdist({str(tmp_path)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    sdist = tmp_path / done.stdout.splitlines()[-1]
    build(
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        str(tmp_path),
        str(sdist),
        MERCER_NATIVE="1",
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert unpack(wheel, fresh_python(tmp_path / "env")).split()[1] == "True"


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment", [{"MERCER_PURE": "1"}, {"CXX": "/bin/false"}], ids=["MERCER_PURE", "no compiler"]
)
def test_without_a_compiler_the_wheel_is_pure_and_works(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    pytest.importorskip("scikit_build_core")
    environment = {"MERCER_NATIVE": "", "SKBUILD_BUILD_DIR": str(tmp_path / "b"), **environment}
    build("wheel", "--no-build-isolation", "--no-deps", "-w", str(tmp_path), ".", **environment)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("py3-none-any.whl")
    report = unpack(wheel, fresh_python(tmp_path / "env"))
    assert report.startswith("numpy False the compiled core was not built")


@pytest.mark.slow
def test_mercer_native_makes_a_failed_build_an_error(tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core")
    environment = {
        "MERCER_NATIVE": "1",
        "CXX": "/bin/false",
        "SKBUILD_BUILD_DIR": str(tmp_path / "b"),
    }
    with pytest.raises(AssertionError):
        build("wheel", "--no-build-isolation", "--no-deps", "-w", str(tmp_path), ".", **environment)
