"""An element of an op's result does not depend on its position in memory, in its row or tile.

Bits of the compiled forms are compared, in both dtypes and on every instruction set of this CPU:
of all ops for alignment, for rows and columns of those whose case has such axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.helpers.gram_cases import CSR_GRAM
from tests.helpers.op_arguments import Args, Array
from tests.helpers.op_cases import CASES, result
from tests.helpers.op_forms import every_dtype

from mercer import ops
from mercer.ops import cpu

native: Any = None
if cpu.available():
    import mercer._native as native
ISAS = native.isas() if native else []
pytestmark = pytest.mark.skipif(not cpu.available(), reason=str(cpu.why_not()))
WIDTH = 16  # entries of the widest vector
# Cases have phases, fractions and tables by odd and even sizes.
SIZES = [(20, 36, 5 * WIDTH), (22, 37, 5 * WIDTH + 1)]
OFFSETS = [
    pytest.param((0, 1, WIDTH // 2, WIDTH + 3), id="some offsets"),
    pytest.param(range(2 * WIDTH + 1), id="all offsets", marks=pytest.mark.full),
]
every_size = pytest.mark.parametrize(
    "size",
    [pytest.param(SIZES[0], id="even", marks=pytest.mark.full), pytest.param(SIZES[1], id="odd")],
)


@pytest.fixture(params=ISAS)
def isa(request, monkeypatch) -> Iterator[str]:
    """Run ops on one instruction set."""
    monkeypatch.setenv("MERCER_ISA", request.param)
    native.pick()
    yield native.isa()
    monkeypatch.undo()
    native.pick()


def arguments(name: str, dtype: type, size: tuple[int, int, int], large: str = "") -> Args:
    """Return a case as wide as offsets and lengths need it.

    `large` names the matrix of a Gram op with some very large rows.
    """
    rng = np.random.default_rng(7)
    rows, inputs, outputs = size
    axes = CASES[name].axes
    across = inputs if axes.prefix or "Z" in "".join(axes.columns) else outputs
    args = CASES[name].make(rng, dtype, rows, across, outputs)
    if name.startswith("gram_") and name not in ("gram_l1", "gram_l2"):
        factor = dtype(1e25 if dtype is np.float32 else 1e200)
        if large in args:
            args[large][::5] *= factor
        elif large:
            data, indptr = args[f"{large}_data"], args[f"{large}_indptr"]
            for row in range(0, len(indptr) - 1, 5):
                data[indptr[row] : indptr[row + 1]] *= factor
    return args


def cut(args: Args, axes: dict[str, int], part: slice) -> Args:
    """Slice the arguments along some axes; an empty name or one with a final _ is a CSR matrix."""
    found = dict(args)
    for name, axis in axes.items():
        if name == "" or name.endswith("_"):
            indptr = args[f"{name}indptr"]
            values = "logs" if "places" in args else f"{name}data"
            entries = slice(indptr[part.start], indptr[part.stop])
            for each in ("places" if "places" in args else f"{name}indices", values):
                found[each] = args[each][entries]
            found[f"{name}indptr"] = indptr[part.start : part.stop + 1] - indptr[part.start]
        elif args.get(name) is not None and args[name].shape[axis] > 1:  # not a shared table
            found[name] = args[name][(slice(None),) * axis + (part,)]
    return found


def along(axis: int, part: slice, values: int = 1) -> tuple[slice, ...]:
    return (slice(None),) * axis + (slice(part.start * values, part.stop * values),)


def outputs(name: str, args: Args, place: tuple[slice, ...]) -> Args:
    """Allocate outputs with the shape of a part."""
    if name.endswith("_") or CASES[name].state:  # works in place
        return {}
    place = place[1:] if name == "brackets" else place
    return {each: np.empty_like(args[each][place], order="C") for each in CASES[name].outputs}


def run(name: str, args: Args) -> Array:
    with np.errstate(all="ignore"):
        return np.array(result(ops, name, args))


def bits(A: Array) -> Array:
    return np.ascontiguousarray(A).view(f"u{A.itemsize}")


@every_size
@every_dtype
@pytest.mark.parametrize("name", sorted(name for name in CASES if CASES[name].axes.rows))
def test_a_row_has_the_same_bits_in_every_tile(isa, name: str, dtype: type, size) -> None:
    args, axes = arguments(name, dtype, size, large="X"), CASES[name].axes
    whole = run(name, args)
    length = whole.shape[axes.output[0]]
    for start, rows in product(
        range(0, length, 1 + length // 30), (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
    ):
        if start + rows <= length:
            part = slice(start, start + rows)
            place = along(axes.output[0], part)
            found = run(name, cut(args, axes.rows, part) | outputs(name, args, place))
            np.testing.assert_array_equal(
                bits(found), bits(whole[place]), f"{rows} rows from row {start} on"
            )


@pytest.mark.parametrize("offsets", OFFSETS)
@every_size
@every_dtype
@pytest.mark.parametrize(
    "name", sorted(name for name in CASES if CASES[name].axes.columns or CASES[name].axes.prefix)
)
def test_a_column_has_the_same_bits_at_every_offset_and_length(
    isa, name: str, dtype: type, size, offsets
) -> None:
    args, axes = arguments(name, dtype, size, large="Z"), CASES[name].axes
    whole = run(name, args)
    columns = next(
        (args[k].shape[a] for k, a in axes.columns.items() if k in args and args[k] is not None),
        size[2],
    )
    columns = len(args["Z_indptr"]) - 1 if axes is CSR_GRAM else columns
    values = whole.shape[axes.output[1]] // columns
    assert columns >= 5 * WIDTH and values == (axes.values or values)
    for start, length in product(offsets[:1] if axes.prefix else offsets, range(1, 3 * WIDTH + 1)):
        part = slice(start, start + length)
        place = along(axes.output[1], part, values)
        found = run(name, cut(args, axes.columns, part) | outputs(name, args, place))
        np.testing.assert_array_equal(
            bits(found), bits(whole[place]), f"{length} columns from column {start} on"
        )


def moved(A: Any, offset: int, gap: int) -> Any:
    """Copy to `offset` entries after a 64-byte boundary, with `gap` entries between rows."""
    if not isinstance(A, np.ndarray):
        return A
    row = A.shape[-1] + (gap if A.ndim == 2 else 0)
    memory = np.zeros(int(np.prod(A.shape[:-1])) * row + offset + 128 // A.itemsize, dtype=A.dtype)
    first = -memory.ctypes.data % 64 // A.itemsize + offset
    place = memory[first : first + int(np.prod(A.shape[:-1])) * row].reshape(*A.shape[:-1], row)[
        ..., : A.shape[-1]
    ]
    place[...] = A
    return place


@pytest.mark.parametrize("offsets", OFFSETS)
@every_size
@every_dtype
@pytest.mark.parametrize("name", sorted(CASES))
def test_bits_do_not_depend_on_alignment_or_gaps_between_rows(
    isa, name: str, dtype: type, size, offsets
) -> None:
    args = arguments(name, dtype, size)
    whole = run(name, args)
    names = [k for k, a in args.items() if isinstance(a, np.ndarray)]
    for offset, gap in product(offsets, (0, 1, 5, WIDTH)):
        found = run(name, {k: moved(a, offset, gap) for k, a in args.items()})
        np.testing.assert_array_equal(bits(found), bits(whole), f"offset {offset}, gap {gap}")
    for each, offset in product(names, (1, 3, WIDTH)):  # one of them alone
        found = run(name, args | {each: moved(args[each], offset, 3)})
        np.testing.assert_array_equal(bits(found), bits(whole), f"{each} at offset {offset}")
