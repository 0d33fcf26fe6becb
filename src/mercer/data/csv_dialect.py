"""Detection of how a CSV file is written, from its first lines.

Each candidate separator splits the lines; the one that gives most lines the same number of cells,
and cells that are numbers or dates, is taken. Python's csv module splits, pyarrow reads the file.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mercer.data.cells import FALSE, NO, NULLS, TRUE, YES, mark_of, number_formats_of
from mercer.validation.rows import reads_as_number

DELIMITERS = {".csv": ",", ".tsv": "\t"}
_CANDIDATES = ",;\t|"
_SAID = {",": "','", ";": "';'", "\t": "tab", "|": "'|'", " ": "space"}
HEAD_BYTES = 2**16  # from which separators are detected
_LINES = 4  # at least, however long they are
_RECORDS = 200  # from which types are detected
_SCALE = 8  # sorted numbers are taken for names from this count on: random ones are once in 20,000

_MISSING = frozenset(NULLS)
_WORDS = frozenset((*NULLS, *TRUE, *FALSE))  # that are values
_NUMBER = re.compile(r"[+-]?(\d+([.,' \u00a0]\d+)*[.,]?|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([ T].*)?")
_TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?")
_YEAR = re.compile(r"(1[5-9]|20|21)\d\d")
_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?\s*')  # that Excel writes above a table
_SHOWN = 40  # characters of a cell in an error
_LONGEST_CELL = 100  # lines; a quote that is open for longer was not closed
_SVMLIGHT = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?(\s+\d+:\S+)+\s*(#.*)?")
_COMMA = re.compile(r"[+-]?(\d+,\d+|,\d+|\d{1,3}(\.\d{3})+,\d+)([eE][+-]?\d+)?", re.ASCII)
_POINT = re.compile(
    r"[+-]?(\d+\.\d+|\.\d+|\d{1,3}(,\d{3})+\.\d+|\d{1,3}(,\d{3}){2,})([eE][+-]?\d+)?", re.ASCII
)
_THOUSANDS = {
    ".": re.compile(r"[+-]?\d{1,3}([,' \u00a0\u202f]\d{3})+(\.\d+)?", re.ASCII),
    ",": re.compile(r"[+-]?\d{1,3}([.' \u00a0\u202f]\d{3})+(,\d+)?", re.ASCII),
}
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)  # a decimal, or thousands

_BINARY = {
    b"PAR1": "a Parquet file: name it .parquet",
    b"ARROW1": "an Arrow file: name it .arrow",
    b"PK\x03\x04": "a zip archive or an Excel workbook: save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an Excel workbook: save the sheet as CSV",
    b"\x93NUMPY": "a NumPy array: name it .npy",
    b"SQLite format 3": "a SQLite database: export the table as CSV",
    b"%PDF": "a PDF document",
    b"\xfd7zXZ": "compressed by xz: unpack it first",
}


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written.

    Attributes
    ----------
    delimiter, decimal, encoding : str
    names : tuple of str
        Names of the columns.
    index : bool
        Whether the first column has no name, as the index of a pandas frame that was written.
    skip : int
        Lines before the first row.
    comments : bool
        Whether lines that start with # and do not have the cells of a row are comments.
    newlines : bool
        Whether quoted cells contain line breaks.
    spaces : bool
        Whether cells have spaces around them.
    nulls : tuple of str
        Words for missing cells.
    words : frozenset of str
        Columns that have yes and no.
    empty : bool
        Whether there are no rows.
    notes : tuple of str
        Sentences about what is not usual.
    """

    delimiter: str
    decimal: str
    encoding: str
    names: tuple[str, ...]
    index: bool
    skip: int
    comments: bool
    newlines: bool
    spaces: bool
    nulls: tuple[str, ...]
    words: frozenset[str]
    empty: bool
    notes: tuple[str, ...]


def detect_dialect(name: str, head: bytes, complete: bool, delimiter: str) -> Dialect:
    """Detect the dialect of a file from its first bytes.

    Parameters
    ----------
    name : str
        Name of the file in errors.
    head : bytes
        The first bytes of the file, at least several lines.
    complete : bool
        Whether they are the whole file.
    delimiter : str
        The usual separator of such files, taken where another is no better.
    """
    encoding, text = _decode(name, head, complete)
    end = _end_of_lines(text)
    complete, text = complete and end == len(text), text[:end]
    prefix, text = _cut_comments(text)
    comments = [line for line in prefix if line.strip()]
    if not text.strip():
        what = "has comments (#) and no rows" if comments else "is empty"
        raise ValueError(f"{name} {what}: a line with the names of the columns is needed.")
    if all(map(_SVMLIGHT.fullmatch, text.splitlines()[:3])):
        raise ValueError(
            f"{name} has lines such as {text.splitlines()[0][:40]!r}: it looks like svmlight "
            "(label index:value ...). Name it .svm."
        )
    declared = next(filter(None, map(_SEPARATOR.fullmatch, prefix)), None)
    if declared:
        lines = _split(text, complete, declared[1])
    else:
        lines = _choose_delimiter(text, complete, delimiter)
    _require_closed_quotes(name, text, lines, len(prefix))
    first, others = lines.records[lines.above], lines.body
    names, notes, header = _find_names(first, others, lines, comments)
    body = lines.above + header  # the first record that is a row
    if header and _are_units(lines.records[body : body + 1], others):
        notes.append(f"{','.join(others[0])[:40]!r} below the header is read as units and skipped.")
        others, body = others[1:], body + 1
    cells = others if header else [first, *others]
    columns: list[tuple[str, ...]] = list(zip(*cells, strict=True))
    decimal, unsure = _find_decimal(columns, lines.delimiter)
    unique, renamed = _unique_names(names)
    if lines.delimiter != delimiter or decimal != ".":
        comma = ", decimal comma" if decimal == "," else ""
        notes.insert(0, f"Separator {_SAID[lines.delimiter]}{comma}.")
    if unsure:
        notes.append(f"{unsure} is read as {unsure.replace(',', '.')}.")
    if encoding not in ("utf-8", "utf-8-sig"):
        notes.insert(0, f"Encoding {encoding}.")
    thousands = [
        repr(name)
        for name, column in zip(unique, columns, strict=False)
        if _have_thousands(column, decimal)
    ]
    if thousands:
        notes.append(f"Separators of thousands in {', '.join(thousands[:3])}.")
    between = any(
        record[0].startswith("#") and len(record) != lines.width
        for record in lines.records[lines.above + 1 :]
    )
    if between:
        notes.append("Lines between rows that start with # are skipped.")
    if renamed:
        notes.append(f"Columns of one name are renamed to {', '.join(map(repr, renamed[:3]))}.")
    spaces = any(cell != cell.strip() for column in columns for cell in column)
    return Dialect(
        delimiter=lines.delimiter,
        decimal=decimal,
        encoding="utf-8" if encoding == "utf-8-sig" else encoding,
        names=tuple(unique),
        index=len(names) > 1 and not names[0],
        skip=len(prefix) + (lines.ends[body - 1] if header else lines.starts[body]),
        comments=between or any(line.startswith("#") for line in comments),
        newlines=any("\n" in cell or "\r" in cell for column in columns for cell in column),
        spaces=spaces,
        nulls=_null_words(columns, spaces),
        words=frozenset(
            name
            for name, column in zip(unique, columns, strict=False)
            if not {*YES, *NO}.isdisjoint(map(str.strip, column))
        ),
        empty=complete and not cells and len(lines.records) == lines.above + 1,
        notes=tuple(notes),
    )


def _decode(name: str, head: bytes, complete: bool) -> tuple[str, str]:
    """Return the encoding of the first bytes, and their text up to the last whole character."""
    for magic, what in _BINARY.items():
        if head.startswith(magic):
            raise ValueError(f"{name} is no text: it is {what}.")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encodings = ["utf-16"]
    else:
        zero = head.find(b"\x00")
        if zero >= 0:
            guess = " It may be UTF-16 without a byte order mark." if zero < 4 else ""
            raise ValueError(
                f"{name} is no text: byte {zero} is 0.{guess} Save the table as UTF-8 text."
            )
        encodings = ["utf-8-sig" if head.startswith(codecs.BOM_UTF8) else "utf-8", "cp1252"]
    for encoding in encodings:
        try:
            return encoding, codecs.getincrementaldecoder(encoding)().decode(head, final=complete)
        except UnicodeDecodeError as error:
            if encoding == "utf-16":
                raise ValueError(
                    f"{name} starts as UTF-16, and bytes {error.start} to {error.end} are none: "
                    "save it as UTF-8."
                ) from None
    return "latin-1", head.decode("latin-1")


def _end_of_lines(text: str) -> int:
    """Return the end of the last whole line of the first characters, of at least four lines."""
    if len(text) <= HEAD_BYTES:
        return len(text)
    end = text.rfind("\n", 0, HEAD_BYTES) + 1
    if text.count("\n", 0, end) >= _LINES:
        return end
    end = 0
    for _ in range(_LINES):
        end = text.find("\n", end) + 1
        if not end:
            return len(text)
    return end


def _cut_comments(text: str) -> tuple[list[str], str]:
    """Return the lines before the table that are blank, comments (#) or sep=;, and the rest."""
    lines: list[str] = []
    for line in io.StringIO(text, newline=""):
        if line.strip() and not line.startswith("#") and not _SEPARATOR.fullmatch(line):
            break
        lines.append(line)
    return lines, text[sum(map(len, lines)) :]


@dataclass(frozen=True)
class _Lines:
    """Lines as one delimiter splits them.

    Attributes
    ----------
    records : list of lists of cells, blank lines left out
    starts, ends : list of int
        Number of lines before each record, and up to its end.
    width : int
        The most frequent number of cells.
    """

    delimiter: str
    records: list[list[str]]
    starts: list[int]
    ends: list[int]
    width: int

    @property
    def above(self) -> int:
        """Number of records before the table, which have fewer cells than its rows."""
        if self.short_header:
            return 0
        for place, record in enumerate(self.records):
            if len(record) >= self.width:
                return place
        return 0

    @property
    def short_header(self) -> bool:
        """Whether the first line has names, one less than rows have cells, as R writes them."""
        first, width = self.records[0], self.width
        others = {len(record) for record in self.records[1:]}
        words = all(cell.strip() and not _is_value(cell) for cell in first)
        return others == {width} and len(first) == width - 1 >= 2 and words

    @property
    def body(self) -> list[list[str]]:
        """Records after the first of the table, at most some hundreds."""
        records = self.records[self.above + 1 :][:_RECORDS]
        return [record for record in records if len(record) == self.width]

    def score(self) -> float:
        """Return the fraction of regular lines, and how many of their cells are values."""
        if self.width < 2:
            return 0.0
        regular = [record for record in self.records if len(record) == self.width]
        cells = [cell for record in regular[-_RECORDS:] for cell in record]
        return len(regular) / len(self.records) * (1 + sum(map(_is_value, cells)) / len(cells))


def _choose_delimiter(text: str, complete: bool, usual: str) -> _Lines:
    candidates = [usual, *(mark for mark in _CANDIDATES if mark != usual)]
    lines = max(
        (_split(text, complete, mark) for mark in candidates if mark == usual or mark in text),
        key=_Lines.score,
    )
    if lines.width < 2 and " " in text:  # where a space separates, nothing else does
        by_space = _split(text, complete, " ")
        regular = by_space.width > 1 and {*map(len, by_space.records)} == {by_space.width}
        if regular and all(_is_value(cell) for row in by_space.body for cell in row):
            return by_space
    return lines


def _require_closed_quotes(name: str, text: str, lines: _Lines, above: int) -> None:
    """Raise for a quoted cell of very many lines, or a name of a column with rows in it."""
    for place, cells in enumerate(lines.records[: lines.above + 1]):
        for cell in cells:
            if lines.delimiter in cell and len(cell.splitlines()) > 1:
                raise ValueError(
                    f'{name}: a quote (") in line {above + lines.starts[place] + 1}, above the '
                    f"rows, is not closed before the next line: {cell[:_SHOWN]!r}. Close it."
                )
    for start, end in zip(lines.starts, lines.ends, strict=True):
        long = end - start > _LONGEST_CELL
        last = end == lines.ends[-1] and end - start > 1
        if long or last:
            record = "".join(text.splitlines(keepends=True)[start:end])
            if long or record.count('"') % 2:
                raise ValueError(
                    f'{name}: a quote (") in line {above + start + 1} is not closed in the '
                    f"{end - start - 1} lines after it. Close it, or double quotes inside of cells."
                )


def _split(text: str, complete: bool, delimiter: str) -> _Lines:
    """Split text into records; the last one is left out where the text goes on."""
    records, starts, ends = [], [], []
    longest = csv.field_size_limit(len(text) + 1)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        end = 0
        for record in reader:
            if record:
                records.append(record)
                starts.append(end)
                ends.append(reader.line_num)
            end = reader.line_num
    finally:
        csv.field_size_limit(longest)
    if not complete and len(records) > 2:
        records.pop()
    lengths = Counter(map(len, records))
    width = max(lengths, key=lambda length: (lengths[length], length))
    return _Lines(delimiter, records, starts, ends, width)


def _find_names(
    first: list[str], others: list[list[str]], lines: _Lines, comments: list[str]
) -> tuple[list[str], list[str], bool]:
    """Return the names of the columns, notes, and whether the first record has these names."""
    notes = []
    skipped = len(comments) + lines.above
    header = True
    if len(first) == lines.width - 1:
        at_end = all(not row[-1].strip() for row in others)
        names = [*first, ""] if at_end else ["", *first]
        notes.append("The header has one name less than the rows have cells.")
    elif len(first) > lines.width:  # the rows are ragged, which is reported when they are read
        names = first
    else:
        header, doubtful = _is_header(first, others)
        names = first
        if header and doubtful:
            notes.append(
                f"The first line is read as names of columns, and {', '.join(doubtful[:3])} among "
                "them look like values."
            )
    if not header:
        last = comments[-1].lstrip("# ").strip() if comments else ""
        named = next(csv.reader([last], delimiter=lines.delimiter), [])
        if len(named) == lines.width and not any(map(_is_value, named)):
            names, skipped = named, skipped - 1
            notes.append("The last comment line is read as names of columns.")
        else:
            names = [f"f{place}" for place in range(lines.width)]
            several = f"columns are named f0 to f{lines.width - 1}"
            notes.append(f"No header: {several if lines.width > 1 else 'the column is named f0'}.")
    if skipped:
        notes.append(f"{skipped} line{'s' * (skipped > 1)} before the table skipped.")
    return [name.strip() for name in names], notes, header


def _is_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> tuple[bool, list[str]]:
    """Return whether the first record has names of columns, and those that look like values.

    Words above values are names; values above values are none, nor is a word that its column
    repeats. Numbers are names where they count columns from 0 (pandas) or are sorted, as
    wavelengths are.
    """
    names, values = 0, list[str]()
    for cell, column in zip(map(str.strip, first), zip(*others, strict=True), strict=False):
        words = [word for word in map(str.strip, column) if word not in _MISSING]
        marked = words and sum(map(_is_marked, words)) > len(words) / 2
        typed = marked or (words and sum(map(_is_value, words)) > len(words) / 2)
        if cell in _MISSING:
            continue
        if _is_value(cell) or (marked and _is_marked(cell)):
            if typed or not words:
                values.append(repr(cell))
        elif typed:
            names += 1
        elif cell in words:
            values.append(repr(cell))
        elif len(words) >= 10 and len(set(words)) <= len(words) / 5:
            names += 1  # a word that is none of the few of its column
    if not others:
        values = [repr(cell) for cell in first if reads_as_number(cell)]
        names = len(first) - len(values)
    return (bool(names) or not values or _are_numbered(first)), values


def _are_units(record: Sequence[Sequence[str]], others: Sequence[Sequence[str]]) -> bool:
    """Return whether the record below the header is that of others, and has words above values.

    Most columns of values have one, and no other column has.
    """
    if len(others) < _LINES or list(record) != [others[0]]:
        return False
    typed, units = 0, 0
    for unit, *column in zip(*others, strict=True):
        words = [word for word in map(str.strip, column) if word not in _MISSING]
        values = bool(words) and all(_is_value(word) or _is_marked(word) for word in words)
        typed += values
        if unit.strip() not in _MISSING:
            if not values or _is_value(unit) or _is_marked(unit):
                return False
            units += 1
    return units > typed / 2


def _are_numbered(first: Sequence[str]) -> bool:
    numbers = [text for text in first if reads_as_number(text)]
    if [text.strip() for text in numbers] == [str(place) for place in range(len(numbers))]:
        return len(numbers) > 1
    years = [int(text) for text in numbers if _YEAR.fullmatch(text.strip())]
    by_one = {after - before for before, after in pairwise(years)} in ({1}, {-1})
    if len(years) == len(numbers) < len(first) and by_one:  # beside a word: country,2019,2020
        return True
    steps = {float(after) > float(before) for before, after in pairwise(numbers)}
    return len({*map(float, numbers)}) == len(numbers) >= _SCALE and len(steps) == 1


def _is_value(cell: str) -> bool:
    """Return whether a cell is a number, a date, a time, a truth value or missing."""
    cell = cell.strip()
    return (
        reads_as_number(cell)
        or cell in _WORDS
        or any(pattern.fullmatch(cell) for pattern in (_NUMBER, _DATE, _TIME))
    )


def _is_marked(cell: str) -> bool:
    """Return whether a cell is a number with a mark: $1,200, 12 %."""
    return not reads_as_number(cell) and bool(mark_of(cell)) and bool(number_formats_of(cell))


def _have_thousands(column: Sequence[str], decimal: str) -> bool:
    """Return whether all cells are numbers, some of them such as 1,234 or 1 234."""
    cells = [cell for cell in map(str.strip, column) if cell not in _MISSING]
    return any(_THOUSANDS[decimal].fullmatch(cell) for cell in cells) and all(
        _THOUSANDS[decimal].fullmatch(cell)
        or reads_as_number(cell.replace(",", ".") if decimal == "," else cell)
        for cell in cells
    )


def _find_decimal(columns: Sequence[Sequence[str]], delimiter: str) -> tuple[str, str]:
    """Return the decimal mark, and a cell that would be thousands with another mark, if any."""
    cells = [cell.strip() for column in columns for cell in column if "," in cell or "." in cell]
    comma = sum(
        "," in cell and bool(_COMMA.fullmatch(cell)) and not _EITHER.fullmatch(cell)
        for cell in cells
    )
    point = sum(bool(_POINT.fullmatch(cell)) and not _EITHER.fullmatch(cell) for cell in cells)
    if comma or point:
        return "," if comma > point else ".", ""
    unsure = next((cell for cell in cells if _EITHER.fullmatch(cell) and "," in cell), "")
    points = any(_EITHER.fullmatch(cell) and "." in cell for cell in cells)
    if unsure and not points and delimiter != ",":
        return ",", unsure
    return ".", ""


def _unique_names(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return names as pandas makes them, "x", "x.1" and "Unnamed: 0", and those of repeated."""
    given = {*names}
    unique = dict[str, None]()
    renamed = list[str]()
    for place, name in enumerate(names):
        new, number = name or f"Unnamed: {place}", 0
        while new in unique or (number and new in given):
            number += 1
            new = f"{name}.{number}"
        if number:
            renamed.append(new)
        unique[new] = None
    return [*unique], renamed


def _null_words(columns: Iterable[Sequence[str]], spaces: bool) -> tuple[str, ...]:
    """Return the words of missing cells; "-" is none where a column has "+" too."""
    signs = any({"+", "-"} <= {*map(str.strip, column)} for column in columns)
    words = [word for word in NULLS if not (signs and word == "-")]
    return tuple(dict.fromkeys([*words, *(f" {word}" for word in words if spaces)]))
