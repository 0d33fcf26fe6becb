"""Sparse matrices: malformed ones raise an error, unusual ones give the right numbers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers.shell import fails
from tests.helpers.sparse_damage import (
    COLUMNS,
    LEGAL,
    MALFORMED,
    ROWS,
    converted,
    entry,
    formatted,
    matrix,
    table,
    unsorted,
    with_parts,
)

import mercer
from mercer import KernelRegressor, Nystroem, RandomFourier, open_stream, plan, save, select
from mercer.maps import every_map
from mercer.validation.sparse import canonical_csr

BEGINNING = "RandomFourier: X is a malformed"


@pytest.fixture(scope="module")
def fitted():
    return RandomFourier(8, gamma=0.5, random_state=0).fit(matrix())


def test_every_entry_point_refuses_malformed_matrices_and_is_right_on_unusual_ones():
    counts, faults = table(most_crashes=3)
    assert not faults, "\n".join([formatted(counts), *faults[:20]])
    trials = 4 * len(every_map())
    assert all(counts[kind]["refused"] > trials for kind in MALFORMED)
    assert all(counts[kind]["right"] > trials for kind in LEGAL)


SENTENCES = {
    "negative index": r"CSR matrix: the column index -1 at row 1 \(its entry 4\), and 0 to 6 "
    r"are allowed\. Find",
    "index too large by 2": r"CSR matrix: the column index 9 at row 1 \(its entry 4\), and 0 to "
    r"6 are allowed\.",
    "index equal to the width": r"CSR matrix: the column index 7 at row 39 ",
    "short data": r"CSR matrix: indices has 151 entries and data 150; equal numbers are needed\. "
    r"Find where",
    "indices of floats": r"CSR matrix: indices must be a 1-d array of integers, got float64 of "
    r"shape \(151,\)\.",
    "indptr falls": r"CSR matrix: indptr decreases from \d+ to 0 at row 3, and must not decrease\.",
    "indptr starts with 1": r"CSR matrix: indptr must start with 0, got 1\.",
    "indptr ends beyond": r"CSR matrix: indptr ends with 1000000, and there are 151 entries; "
    r"they must agree\.",
    "indptr ends before": r"CSR matrix: indptr ends with 150, and there are 151 entries; they "
    r"must agree\.",
    "short indptr": r"CSR matrix: indptr needs 41 numbers for 40 rows, got 40\.",
    "CSC, row 1e8": r"CSC matrix: the row index 100000000 at column 0 \(its entry 9\), and 0 to "
    r"39 are allowed\.",
    "COO, column 1e8": r"COO matrix: col has the index 100000000 \(entry 9\) of a matrix with "
    r"7 cols\.",
    "BSR, column 1e8": r"BSR matrix: the block column index 100000000 at row 2 ",
    "DIA, short data": r"DIA matrix: data must have a row for each of 45 offsets, got float64 of "
    r"shape \(44, 7\)\.",
}


@pytest.mark.parametrize("kind", SENTENCES)
def test_errors_say_what_was_seen_where_and_what_is_needed(kind, fitted):
    with pytest.raises(ValueError, match=f"{BEGINNING} {SENTENCES[kind]}"):
        fitted.transform(MALFORMED[kind]())


def test_lists_of_columns_and_values_must_have_one_length(fitted):
    X = matrix().tolil()
    X.rows[4].append(1)
    with pytest.raises(
        ValueError, match=f"{BEGINNING} LIL matrix: columns and values do not match at row 4, where"
    ):
        fitted.transform(X)
    X = matrix().tolil()
    X.rows[4][0] = 10**8
    with pytest.raises(
        ValueError, match=f"{BEGINNING} CSR matrix: the column index 100000000 at row 4"
    ):
        fitted.transform(X)


def test_the_caller_keeps_the_matrix_and_its_flags():
    for X in (unsorted(), unsorted(twice=True), matrix()):
        for array in (X.data, X.indices, X.indptr):
            array.flags.writeable = False
        before = dict(vars(X))
        found = canonical_csr("test", X)
        assert vars(X) == before
        np.testing.assert_allclose(found.toarray(), X.toarray(), rtol=1e-12)
        rising = [
            np.all(np.diff(found.indices[a:b]) > 0)
            for a, b in zip(found.indptr, found.indptr[1:], strict=False)
        ]
        assert all(rising)


@pytest.mark.parametrize("size", [1, 2, 2**18 - 1, 2**18, 2**18 + 1, 2**19 + 3])
def test_order_is_seen_across_the_pieces_that_are_compared(size):
    """Rows of up to three entries; one pair out of order in the first, the last and the middle row
    of two or more.
    """
    lengths = np.resize([1, 2, 3, 0], size)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indptr = indptr[: np.searchsorted(indptr, size, side="right")]
    indices = np.concatenate([np.arange(length) for length in np.diff(indptr)])
    X = sp.csr_array(
        (np.arange(1.0, len(indices) + 1), indices, indptr), shape=(len(indptr) - 1, 3)
    )
    assert canonical_csr("test", X).indices is X.indices
    long = np.flatnonzero(np.diff(indptr) > 1)
    near = np.searchsorted(indptr[:-1], [2**18 - 1, 2**18, 2**18 + 1])
    for row in {
        *long[:1],
        *long[-1:],
        *(r for r in near if r in long),
        *(r - 1 for r in near if r - 1 in long),
    }:
        swapped = X.copy()
        swapped.indices[indptr[row + 1] - 2 : indptr[row + 1]] = swapped.indices[
            indptr[row + 1] - 2 : indptr[row + 1]
        ][::-1]
        swapped.has_canonical_format = True
        found = canonical_csr("test", swapped)
        np.testing.assert_array_equal(found.indices, X.indices)


BAD = {"index 1e8": MALFORMED["index 1e8"], "indptr with 1e8": MALFORMED["indptr with 1e8"]}


@pytest.mark.parametrize("kind", BAD)
def test_select_plan_and_save_refuse_it(kind, tmp_path):
    y = np.arange(ROWS) % 2
    with pytest.raises(ValueError, match="malformed CSR"):
        select(BAD[kind](), y)
    with pytest.raises(ValueError, match="malformed CSR"):
        plan(BAD[kind](), RandomFourier(8))
    landmarks = matrix().tocsc()
    nystroem = Nystroem(landmarks=landmarks, gamma=1.0).fit(matrix())
    landmarks.indices = landmarks.indices.copy()
    landmarks.indices[3] = 10**8
    with pytest.raises(ValueError, match="malformed CSC"):
        save(nystroem, tmp_path / "model.mercer")


def saved(path, **parts):
    X = matrix()
    arrays = {
        "data": X.data,
        "indices": X.indices,
        "indptr": X.indptr,
        "shape": np.array(X.shape),
        "format": b"csr",
    }
    for name, change in parts.items():
        arrays[name] = arrays[name].copy()
        found = change(arrays[name])
        arrays[name] = arrays[name] if found is None else found
    np.savez(path, y=np.arange(float(ROWS)), **arrays)


FILES = {
    "a column 1e8": (
        {"indices": entry(9, 10**8)},
        r"the column index 100000000 at d.npz, row 1 "
        r"of the file \(its entry 4",
    ),
    "a column -1": (
        {"indices": entry(-1, -1)},
        r"the column index -1 at d.npz, row 39 of the "
        r"file",
    ),
    "indptr falls": ({"indptr": entry(4, 0)}, r"indptr falls at row 3,"),
    "indptr starts with -4": (
        {"indptr": entry(0, -4)},
        r"indptr goes from -4 to 151, and 0 to "
        r"151 is needed",
    ),
    "indptr ends with 1e8": (
        {"indptr": entry(-1, 10**8)},
        r"indptr goes from 0 to 100000000, "
        r"and 0 to 151 is needed",
    ),
    "indices of floats": (
        {"indices": lambda array: array / 2},
        r"its data, indices and indptr "
        r"are float64 \(151,\), float64",
    ),
    "short indptr": ({"indptr": lambda array: array[:-1]}, r"int32 \(40,\) for 40 rows"),
    "short data": ({"data": lambda array: array[:-1]}, r"are float64 \(150,\), int32 \(151,\)"),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_of_malformed_matrices_are_refused(kind, tmp_path, monkeypatch):
    parts, sentence = FILES[kind]
    saved(tmp_path / "d.npz", **parts)
    with pytest.raises(ValueError, match=rf"d\.npz.* malformed CSR matrix: .*{sentence}"):
        list(open_stream(tmp_path / "d.npz").chunks())
    monkeypatch.chdir(tmp_path)
    assert "malformed CSR matrix" in fails(
        "fit d.npz --map fourier --target y --task regress -o model.mercer"
    )


def test_a_file_whose_matrix_is_right_is_read(tmp_path):
    saved(tmp_path / "d.npz")
    (chunk,) = open_stream(tmp_path / "d.npz").chunks()
    np.testing.assert_array_equal(chunk.X.toarray(), matrix().toarray())


def test_chunks_of_dask_are_refused_by_row():
    da = pytest.importorskip(
        "dask.array", reason="dask is not installed: pip install 'mercer[dask]'"
    )
    X = da.from_array(np.zeros((3 * ROWS, COLUMNS)), chunks=(ROWS, COLUMNS)).map_blocks(
        lambda block, block_info=None: (
            with_parts(indices=entry(9, 10**8))
            if block_info and block_info[0]["chunk-location"][0] == 2
            else matrix()
        ),
        meta=sp.csr_array((0, COLUMNS)),
    )
    with pytest.raises(
        ValueError, match=r"malformed CSR matrix: .* at row 81 \(chunk 2 of the Dask array\)"
    ):
        KernelRegressor(RandomFourier(8, gamma=1.0), alpha=1.0).fit(X, np.arange(3.0 * ROWS))
    with pytest.raises(ValueError, match="malformed CSR matrix"):
        RandomFourier(8, gamma=1.0).fit(matrix()).transform(X).compute(scheduler="synchronous")


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support")
def test_malformed_tensors_are_refused(fitted):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")
    rest = {
        "values": torch.ones(3, dtype=torch.float64),
        "size": (3, COLUMNS),
        "check_invariants": False,
    }
    bad = {
        "csr": lambda: torch.sparse_csr_tensor(
            torch.tensor([0, 5, 2, 300000]), torch.tensor([0, 1, 1]), **rest
        ),
        "csc": lambda: torch.sparse_csc_tensor(
            torch.tensor([0, 1, 2, 3, 3, 3, 3, 3]), torch.tensor([0, 10**8, 1]), **rest
        ),
        "coo": lambda: torch.sparse_coo_tensor(torch.tensor([[0, 1, 2], [0, 10**8, 1]]), **rest),
    }
    for layout, make in bad.items():
        with pytest.raises(
            ValueError,
            match=f"X is a malformed torch.sparse_{layout} tensor: .* Correct its indices",
        ):
            fitted.transform(make())
        with pytest.raises(ValueError, match=f"X is a malformed torch.sparse_{layout} tensor"):
            mercer.gram(mercer.kernels.Linear(), make())
    dense = torch.tensor(matrix().toarray())
    for tensor in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc()):
        np.testing.assert_array_equal(
            fitted.transform(tensor).numpy(), fitted.transform(dense).numpy()
        )


def test_a_block_matrix_must_have_blocks_that_divide_it(fitted):
    with pytest.raises(
        ValueError,
        match=rf"{BEGINNING} BSR matrix: data must be blocks whose shape divides \(40, 7\)",
    ):
        fitted.transform(converted("bsr", data=lambda data: np.ones((len(data), 3, 1))))
