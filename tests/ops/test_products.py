"""Products of the core, which replace those of OpenBLAS on some processors, on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import threadpoolctl
from tests.helpers.op_arguments import Args
from tests.helpers.op_cases import CASES, check, result
from tests.helpers.op_forms import every_dtype

from mercer import ops
from mercer.ops import cpu

native: Any = None
if cpu.available():
    import mercer._native as native
pytestmark = pytest.mark.skipif(not cpu.available(), reason=str(cpu.why_not()))
every_product = pytest.mark.parametrize("name", ["product", "product_cos", "product_cossin"])


@pytest.fixture(params=native.isas() if native else [])
def core(request, monkeypatch) -> Iterator[None]:
    """Compute products by the core, on one instruction set."""
    monkeypatch.setenv("MERCER_ISA", request.param)
    native.pick()
    monkeypatch.setattr(cpu, "replaces_blas", lambda: True)
    yield
    monkeypatch.undo()
    native.pick()


@every_dtype
@every_product
def test_all_sizes(core, name: str, dtype: type) -> None:
    """Rows beyond blocks of 6, columns beyond panels and vectors, up to three parts of W."""
    rng = np.random.default_rng(0)
    sizes = [(k, (7 * k) % 23, (5 * k) % 71) for k in range(40)]
    for n, d, m in [
        *sizes,
        (13, 64, 64),
        (7, 33, 131),
        (14, 1024, 20),
        (6, 1025, 3),
        (9, 2200, 70),
    ]:
        args = CASES[name].make(rng, dtype, n, d, m)
        check(ops, name, args)


@every_dtype
@every_product
def test_bits_do_not_depend_on_the_block(core, name: str, dtype: type) -> None:
    rng = np.random.default_rng(1)
    for d in (37, 1100):
        args = CASES[name].make(rng, dtype, 23, d, 150)
        whole, values = result(ops, name, args).copy(), 2 if name == "product_cossin" else 1
        for rows, columns in (
            (slice(0, 1), slice(0, 150)),
            (slice(3, 8), slice(0, 150)),
            (slice(5, 23), slice(1, 150)),
            (slice(0, 23), slice(70, 87)),
            (slice(9, 16), slice(149, 150)),
        ):
            part: Args = args | {"X": args["X"][rows], "W": args["W"][:, columns]}
            if part.get("phases") is not None:
                part["phases"] = args["phases"][columns]
            place = rows, slice(columns.start * values, columns.stop * values)
            part["out"] = np.empty_like(whole[place])
            np.testing.assert_array_equal(result(ops, name, part), whole[place])


@pytest.mark.parametrize(
    ("libraries", "amd", "replaced"),
    [
        (["openblas"], True, True),
        (["openblas", "openblas", "openmp"], True, True),
        (["openblas"], False, False),
        (["openblas", "mkl"], True, False),
        (["mkl"], True, False),
        ([], True, False),
    ],
)
def test_products_of_the_core_replace_openblas_on_amd_with_avx512(
    libraries: list[str], amd: bool, replaced: bool, monkeypatch
) -> None:
    def info() -> list[dict[str, str]]:
        return [
            {"user_api": api if api == "openmp" else "blas", "internal_api": api}
            for api in libraries
        ]

    monkeypatch.setattr(threadpoolctl, "threadpool_info", info)
    monkeypatch.setattr(native, "amd", lambda: amd)
    cpu.blas_is_openblas.cache_clear()
    try:
        assert cpu.replaces_blas() == (replaced and cpu.isa() == "avx512")
    finally:
        cpu.blas_is_openblas.cache_clear()
