"""svmlight files: the compiled reader, its definition in Python and scikit-learn's reader."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from tests.helpers.hostile_svmlight import draw_lines
from tests.helpers.stream_data import chunk_bytes

from mercer import KernelRegressor, open_stream
from mercer.data.svmlight import MOST_COLUMNS, measure_lines, parse_lines
from mercer.ops import cpu

compiled = pytest.mark.skipif(not cpu.available(), reason=str(cpu.why_not()))
NATIVE = Path(__file__).parents[2] / "native"


def read(path: Path, **options):
    """Return all rows, dense, and labels."""
    chunks = list(open_stream(path, **options).chunks())
    return np.vstack([chunk.X.toarray() for chunk in chunks]), np.concatenate(
        [chunk.y for chunk in chunks]
    )


def assert_same_bits(a, b) -> None:
    assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def assert_reads_or_refuses(path: Path, text: bytes, size: int) -> bool:
    """Compare a file, read in ranges of some bytes, with scikit-learn; return whether it reads."""
    path.write_bytes(text)
    try:
        with chunk_bytes(size):
            X, y = read(path)
    except ValueError as error:
        if "hostile.svm" not in str(error):
            raise
        return False
    Z, z = load_svmlight_file(str(path))
    assert_same_bits(y, z)
    assert_same_bits(X, Z.toarray())
    return True


def assert_compiled_equals_definition(text: bytes, base: int, most: int) -> bool:
    *arrays, refused = parse_lines(text, base, most)
    *others, at = cpu.svmlight_rows(text, base, most)
    if refused >= 0:  # the same line; the rows before it are read
        line = text[refused:].split(b"\n")[0]
        assert refused <= at <= refused + len(line), text
        rows = len(arrays[0])
        others = [
            others[0][:rows],
            others[1][: rows + 1],
            *(x[: arrays[1][-1]] for x in others[2:]),
        ]
    else:
        assert at == -1, text
    for one, other in zip(arrays, others, strict=True):
        assert_same_bits(one, other)
    if base == 0:
        *extent, refused = measure_lines(text, most)
        *other, at = cpu.svmlight_extent(text, most)
        assert (refused >= 0) == (at >= 0)
        assert refused >= 0 or not extent[0] or other[0] == extent[0]
        assert refused >= 0 or extent[2] < 0 or other == extent
    return refused < 0


@compiled
@pytest.mark.parametrize("seed", range(40))
def test_the_compiled_reader_equals_its_definition_on_hostile_lines(seed):
    rng = np.random.default_rng(seed)
    read = [
        assert_compiled_equals_definition(draw_lines(rng, 5), base, most)
        for base, most in ((0, 100), (1, 12), (0, 9), (0, MOST_COLUMNS - 1))
        for _ in range(3)
    ]
    assert seed % 10 or any(read)


@compiled
@pytest.mark.parametrize("seed", range(4))
def test_the_compiled_reader_equals_its_definition_on_random_bytes(seed):
    characters = b"0123456789" * 3 + b"::::     .eE+-#\n\n\rinfa\x00\x0b_x"
    source = random.Random(seed)
    for _ in range(500):
        text = bytes(source.choices(characters, k=source.randrange(60)))
        assert_compiled_equals_definition(text, source.randrange(2), source.choice((9, 10**6)))


def draw_decimals(count: int, seed: int) -> list[str]:
    """Return decimals that are hard to round: halfway between doubles, subnormal, long."""
    source = random.Random(seed)
    numbers = ["0", "-0", "-0.0e-99", "9007199254740993", "9007199254740992e22", "1e23", "1e22"]
    numbers += ["2.2250738585072011e-308", "5e-324", "2.4703282292062327e-324", "1e309", "1e-999"]
    numbers += ["1.7976931348623158e308", "1.7976931348623159e308", "0." + "0" * 400 + "1e401"]
    numbers += ["1" + "0" * 400 + "e-400", "179769313486231580793e289", "00000000000000000000001.5"]
    numbers += [
        "1e99999999999999999999",
        "1e-99999999999999999999",
        "0e999999999",
        ".5",
        "5.",
        "+.5e+3",
    ]
    for _ in range(count):
        (value,) = struct.unpack("<d", source.randbytes(8))
        if value - value != 0:
            continue
        numbers.append(repr(value))
        numbers.append(f"{value:.{source.randrange(25)}e}")
        numbers.append(
            f"{source.randrange(10 ** source.randrange(1, 25))}e{source.randrange(-330, 310)}"
        )
        middle = f"{np.nextafter(1.0, 2) * source.random():.60f}"
        numbers.append(middle)
        exact = f"{int(2**53 + source.randrange(10**6)) * 2 + 1}"  # between two doubles
        numbers += [exact, exact + ".0", exact + "." + "0" * 30 + "1", exact[:-1] + "." + exact[-1]]
    return numbers


@pytest.mark.parametrize("seed", range(2))
def test_numbers_are_those_of_python_to_the_last_bit(seed):
    decimals = draw_decimals(3000, seed)
    text = "".join(f"{decimal} 1:{decimal}\n" for decimal in decimals).encode()
    expected = np.array([float(decimal) for decimal in decimals])
    parse = cpu.svmlight_rows if cpu.available() else parse_lines
    labels, _, _, values, refused = parse(text, 1, 1)
    assert refused == -1
    assert_same_bits(labels, expected)
    assert_same_bits(values, expected)


PROGRAM = r"""
#include "decimal.h"
#include <clocale>
#include <cstdio>
#include <iostream>
int main() {
    std::setlocale(LC_ALL, "");
    for (std::string text; std::getline(std::cin, text);) {
        double value = 0;
        const char *end = text.data() + text.size();
        if (read_number(text.data(), end, &value) != end) return 1;
        unsigned long long bits;
        std::memcpy(&bits, &value, 8);
        std::printf("%016llx\n", bits);
    }
}
"""


@pytest.mark.full
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("flag", ["-DMERCER_STRTOD", "-O3"])
def test_numbers_are_those_of_python_without_from_chars(flag, tmp_path):
    source = tmp_path / "numbers.cpp"
    source.write_text(PROGRAM)
    subprocess.run(
        ["c++", "-std=c++17", flag, f"-I{NATIVE}", "-o", tmp_path / "numbers", source], check=True
    )
    decimals = draw_decimals(5000, 5)
    done = subprocess.run(
        [tmp_path / "numbers"],
        input="\n".join(decimals),
        capture_output=True,
        text=True,
        check=True,
    )
    bits = [struct.pack(">d", float(decimal)).hex() for decimal in decimals]
    assert done.stdout.split() == bits


READ = {
    "no newline at the end": b"1 1:2\n-1 2:3",
    "CRLF": b"1 1:2\r\n-1 2:3\r\n",
    "CRLF, no newline at the end": b"1 1:2\r\n-1 2:3\r",
    "blank lines": b"\n\n1 1:2\n \t\n-1 2:3\n\n\r\n",
    "comments": b"# 7 1:7\n1 1:2# 3:4\n#\n-1 2:3 # a qid:7 \xff",
    "other blanks": b"  1\t1:2  \n\x0c-1\x0b2:3\t\n",
    "signs and zeros": b"+1 01:+2\n-1. 0002:3e0\n",
}


@pytest.mark.parametrize("text", READ.values(), ids=READ)
@pytest.mark.parametrize("size", [2, 6, 14, 100])
def test_lines_of_many_forms_are_the_same_rows(text, size, tmp_path):
    (tmp_path / "d.svm").write_bytes(text)
    with chunk_bytes(size):
        X, y = read(tmp_path / "d.svm")
    np.testing.assert_array_equal(X, [[2, 0], [0, 3]])
    np.testing.assert_array_equal(y, [1, -1])


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_last_line_without_newline_is_read_at_every_boundary_of_ranges(newline, tmp_path):
    path = tmp_path / "d.svm"
    text = newline.join(b"%d 1:%d %d:5" % (i, i + 1, 2 + i % 3) for i in range(9))
    whole = [[i + 1, *(5.0 * (i % 3 == j) for j in range(3))] for i in range(9)]
    for size in range(1, len(text) + 3):
        for end in (b"", newline):
            path.write_bytes(text + end)
            with chunk_bytes(2 * size):
                X, y = read(path)
            np.testing.assert_array_equal(y, np.arange(9))
            np.testing.assert_array_equal(X, whole)


def test_a_label_alone_in_the_last_line_is_a_row(tmp_path):
    (tmp_path / "d.svm").write_bytes(b"1 1:2\n7")
    X, y = read(tmp_path / "d.svm")
    np.testing.assert_array_equal(X, [[2], [0]])
    np.testing.assert_array_equal(y, [1, 7])


REFUSED = {
    b"3 2000000000:1": "column '2000000000' is beyond 134,217,727, the last that is read",
    b"3 100000000000000:1": "column '100000000000000' is beyond 134,217,727",
    b"3 %s:1" % (b"9" * 5000): r"column '9{40}\.\.\.' is beyond 134,217,727",
    b"3 2:1 2:1": "columns must be sorted and unique, and 2 follows 2",
    b"3 2:1 1:1": "columns must be sorted and unique, and 1 follows 2",
    b"3 -1:1": "'-1:1' is not index:value",
    b"3 7": "'7' is not index:value",
    b"3 2:": "the value '' of column 2 is no number",
    b"3 2:1_0": "the value '1_0' of column 2 is no number",
    b"3 2:0x10": "the value '0x10' of column 2 is no number",
    b"3 2:1:4": "the value '1:4' of column 2 is no number",
    b"1,2 3:1": "the label '1,2' is no number",
    b"\xd9\xa1 3:1": "the label '\u0661' is no number",
    b"3\x00 3:1": r"the label '3\\x00' is no number",
    b"3 qid:2 3:1": r"it has a query id \(qid:\)",
}


@pytest.mark.parametrize(("line", "problem"), REFUSED.items(), ids=map(repr, range(len(REFUSED))))
@pytest.mark.parametrize("size", [8, 2**20])
def test_a_line_that_is_refused_is_named_with_its_row_and_number(line, problem, size, tmp_path):
    (tmp_path / "d.svm").write_bytes(b"# first\n1 1:1\n\n2 1:1\n" + line + b"\n4 1:1\n")
    where = r"no svmlight file \(label index:value \.\.\.\) at d.svm, row 2 of the file, line 5: "
    with chunk_bytes(size), pytest.raises(ValueError, match=where + problem):
        open_stream(tmp_path / "d.svm")


def test_no_memory_grows_with_the_largest_column(tmp_path):
    (tmp_path / "d.svm").write_bytes(b"1 1:2\n2 %d:3\n" % (MOST_COLUMNS - 1))
    tracemalloc.start()
    try:
        stream = open_stream(tmp_path / "d.svm")
        (chunk,) = stream.chunks()
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    assert chunk.X.shape == (2, MOST_COLUMNS - 1) and stream.width == MOST_COLUMNS - 1


def test_a_line_that_is_too_long_is_named_by_its_number(monkeypatch, tmp_path):
    monkeypatch.setattr("mercer.data.svmlight.LONGEST_LINE", 1000)
    entries = b"".join(b" %d:1" % i for i in range(1, 500))
    (tmp_path / "d.svm").write_bytes(b"1 1:1\n2 1:1\n1" + entries)
    with (
        chunk_bytes(20),
        pytest.raises(ValueError, match=r"d.svm, line 3 has more than 1,000 bytes"),
    ):
        open_stream(tmp_path / "d.svm")


def test_numbers_that_are_not_finite_are_read_and_refused_by_a_fit(tmp_path):
    (tmp_path / "d.svm").write_bytes(b"1 1:2\n2 1:nan\n3 1:-inf\n4 1:1e999\n")
    X, _ = read(tmp_path / "d.svm")
    np.testing.assert_array_equal(X[:, 0], [2, np.nan, -np.inf, np.inf])
    with pytest.raises(ValueError, match=r"d.svm, row 1 of the file"):
        KernelRegressor("fourier").fit(tmp_path / "d.svm")
    (tmp_path / "d.svm").write_bytes(b"1 1:2\nnan 1:1\n")
    with pytest.raises(ValueError, match=r"target 'label' needs a value in every row, got nan"):
        read(tmp_path / "d.svm")


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_hostile_files_are_read_as_scikit_learn_does_or_refused(seed, tmp_path):
    rng = np.random.default_rng(seed)
    read = sum(
        assert_reads_or_refuses(
            tmp_path / "hostile.svm", draw_lines(rng, 8), int(rng.choice([16, 64, 300, 10**6]))
        )
        for _ in range(50)
    )
    assert 10 <= read <= 45


@pytest.mark.slow
def test_ten_thousand_rows_of_hostile_files_are_read_as_scikit_learn_does_or_refused(tmp_path):
    rng = np.random.default_rng(99)
    read = sum(
        assert_reads_or_refuses(
            tmp_path / "hostile.svm", draw_lines(rng, 20), int(rng.choice([16, 64, 300, 10**6]))
        )
        for _ in range(600)
    )
    assert read >= 150  # of 12,000 rows in all
