"""CSV files of unusual and of malformed structure, drawn from a seed, with the numbers in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WORDS = [
    "red",
    "green",
    "blue",
    "",
    "a b",
    "é",
    "x;y",
    "p|q",
    "t\tu",
    "c,d",
    'say "no"',
    "two\nlines",
]
WORDS += ["# no comment", "two\r\nlines", "'", "\u0661\u0662", "0x1F", "007", "'5"]
ODD = [
    "0x1p3",
    "1_000",
    "\u0661\u0662",
    "1e400",
    "-1e-400",
    "1e",
    "--1",
    "1.2.3",
    "+5",
    " 7",
    "7 ",
    "inf",
]
ODD += ["-Infinity", "nan", "NA", "null", "-", "?", "1e308", "1.797693134862315808e308", "4.9e-324"]
ODD += [
    "9007199254740993",
    "123456789012345678901234567890",
    ".5",
    "5.",
    "-.5e-3",
    "00012",
    "1,5",
    "1 000",
]
ODD += ["5\x00", "\x1a", "\ufeff3", "1d5", "1f", "TRUE", '"', '7"', '"7', "3\r", "\u22123"]
LETTERS = "abcdefgh"


@dataclass(frozen=True)
class Drawn:
    """A file: its bytes, the columns of numbers in it, whether anything in it is malformed."""

    content: bytes
    numbers: dict[str, np.ndarray]
    regular: bool


def draw_table(rng: np.random.Generator, rows: int) -> Drawn:
    """Return a file; a third is regular, the others have something odd or malformed in them."""
    regular = rng.random() < 0.4
    delimiter = str(rng.choice([",", ",", ";", "\t", "|"]))
    newline = str(rng.choice(["\n", "\n", "\r\n", "\r"]))
    quoted, missing = rng.choice([0.0, 0.0, 0.3, 1.0]), rng.choice([0.0, 0.0, 0.1])
    texts = int(rng.integers(0, 3)) * int(rng.random() < 0.4)
    numbers = {f"{name}_": rng.normal(size=rows) * 10.0 ** rng.integers(-9, 9) for name in LETTERS}
    numbers = dict(list(numbers.items())[: rng.integers(2, 7)])
    cells = {}
    for name, values in numbers.items():
        values[rng.random(rows) < missing] = np.nan
        values[0] = 0.25  # a column has a number
        form = str(rng.choice(["%r", "%.3f", "%.17g", "%.2e"]))
        words = ["" if np.isnan(value) else form % float(value) for value in values]
        numbers[name] = np.array([float(word or "nan") for word in words])
        cells[name] = words
    for i in range(texts):
        cells[f"word{i}"] = [WORDS[k] for k in rng.integers(len(WORDS), size=rows)]
    names = [str(name) for name in rng.permutation(list(cells))]

    def write(cell: str) -> str:
        special = any(mark in cell for mark in (delimiter, '"', "\n", "\r", "#"))
        if special or rng.random() < quoted:
            return '"' + cell.replace('"', '""') + '"'
        return cell

    records = [[write(name) for name in names]]
    records += [[write(cells[name][i]) for name in names] for i in range(rows)]
    ends = [newline] * len(records)
    if not regular:
        for _ in range(rng.integers(1, 3)):
            _damage(rng, records, ends, delimiter)
    if rng.random() < 0.5:
        ends[-1] = ""
    text = "".join(delimiter.join(record) + end for record, end in zip(records, ends, strict=True))
    encoding = str(rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16"]))
    return Drawn(text.encode(encoding, "surrogatepass"), numbers, regular)


def _damage(
    rng: np.random.Generator, records: list[list[str]], ends: list[str], delimiter: str
) -> None:
    """Change a cell, a line or an end of a line."""
    row = int(rng.integers(len(records)))
    column = int(rng.integers(len(records[row]))) if records[row] else 0
    match rng.integers(8):
        case 0:
            records[row].append("9")
        case 1 if records[row]:
            records[row].pop()
        case 2:
            ends[row] = str(rng.choice(["\r\n", "\r", "\n\n", "\n\r", " \n", "\n#\n", "\n# 1,2\n"]))
        case 3:
            records[row] = [str(rng.choice(["", " ", "#", delimiter * 9, '"']))]
        case 4:
            records[0][min(column, len(records[0]) - 1)] = str(rng.choice(["a_", "", '"x', "3"]))
        case _ if records[row]:
            records[row][column] = ODD[rng.integers(len(ODD))]
