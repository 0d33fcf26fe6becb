"""svmlight files of unusual and of malformed structure, drawn from a seed."""

from __future__ import annotations

import numpy as np

LABELS = [
    b"nan",
    b"inf",
    b"",
    b"1_0",
    b"0x1p3",
    b"1,2",
    b"\xd9\xa1",
    b"1\x00",
    b"--1",
    b"1:2",
    b".",
]
LABELS += [b"1e", b"+", b"one", b"qid:1", b"1e999", b"-1e-999"]
VALUES = [
    b"",
    b"0x10",
    b"1_0",
    b"1e",
    b"1.2.3",
    b"2:3",
    b"\xc2\xb2",
    b"\x001",
    b"NaN",
    b"-Infinity",
]
VALUES += [b"1e-400", b"1e400", b"infinit", b"na", b"+-1", b"1d5", b"1,5", b".", b"-.e3"]
INDICES = [
    b"-1",
    b"+3",
    b"0x2",
    b"1_0",
    b"",
    b"2.0",
    b"2000000000",
    b"100000000000000",
    b"9" * 5000,
]
INDICES += [b"qid", b"\xd9\xa3", b"0000000000000002", b"\x002", b"a"]
BLANKS = [b" ", b"  ", b"\t", b" \t ", b"\x0b", b"\x0c", b"\r", b"\x00", b"\xc2\xa0"]
ENDS = [
    b"\r\n",
    b"\r",
    b"\n\n",
    b" \n",
    b" # a comment: 1 2:3\n",
    b"#\n",
    b"\n# 1 1:1\n",
    b"\n\r\n",
]
ENDS += [b"#qid:2\n", b"\x00\n", b"# \x00 #\n", b"\x1a\n", b"\\\n"]


def draw_number(rng: np.random.Generator) -> bytes:
    """Return a number in one of the ways in which programs write it."""
    value = rng.normal() * 10.0 ** rng.integers(-30, 30)
    form = rng.choice(["%r", "%.17g", "%.3f", "%.25e", "%d", "%+.2E", "%.400f"])
    return (form % (float(value) if form != "%d" else int(rng.integers(-99, 99)))).encode()


def draw_lines(rng: np.random.Generator, rows: int) -> bytes:
    """Return lines, of which none or a few have something unusual or malformed in them."""
    rate = rng.choice([0.0, 0.3, 2.0]) / rows

    def unusual(choices: list[bytes], usual: bytes) -> bytes:
        return choices[rng.integers(len(choices))] if rng.random() < rate else usual

    lines = [b"\xef\xbb\xbf"] if rng.random() < rate / 4 else []
    newline = [b"\n", b"\r\n"][rng.integers(2)]
    for _ in range(rows):
        columns = np.flatnonzero(rng.random(12) < 0.3) + rng.integers(2)
        if rng.random() < rate / 2:
            columns = rng.permutation(np.repeat(columns, 2))
        line = unusual(LABELS, draw_number(rng))
        for column in columns:
            index, value = unusual(INDICES, b"%d" % column), unusual(VALUES, draw_number(rng))
            line += unusual(BLANKS, b" ") + index + unusual([b"", b"::", b" :"], b":") + value
        lines.append(line + unusual(ENDS, newline))
    text = b"".join(lines)
    return text.rstrip(b"\r\n") if rng.random() < 0.5 else text
