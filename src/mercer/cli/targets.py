"""Whether a target is classes or numbers, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer.data import Stream

CLASSIFY, REGRESS = "classify", "regress"
MOST_CLASSES = 1000  # that are learnt without being asked for


@dataclass(frozen=True)
class Task:
    """ "classify" or "regress", and a sentence that says why."""

    name: str
    why: str


def task_of(stream: Stream, asked: str | None, most_classes: int = MOST_CLASSES) -> Task:
    """What the first rows of the stream say of its target.

    Words, booleans and whole numbers with few different values are classes, other numbers are
    numbers; `asked` decides where it is given. A target with more classes than `most_classes` is
    refused: its first rows would tell before an hour of work does.
    """
    import numpy as np

    from mercer.stats.class_sums import are_classes

    chunks = stream.chunks()
    y = np.asarray(next(chunks).y)
    name = stream.target if isinstance(stream.target, str) else ", ".join(stream.target or [])
    if y.ndim == 2:
        return Task(REGRESS, f"Several targets ({name}): numbers.")
    words = y.dtype.kind not in "biuf"
    found = set(y.tolist())
    seen = f"{len(found):,} different value{'s' * (len(found) > 1)} in the first {len(y):,} rows"
    if asked == REGRESS and words:
        raise ValueError(
            f"The target {name!r} has words, such as {y[0]!r}, and --task regress needs numbers."
        )
    classes = are_classes(y)
    task = asked or (CLASSIFY if classes else REGRESS)
    if task == CLASSIFY:
        _require_few(name, found, len(y), most_classes, words=words)
    if asked is not None:
        return Task(task, f"Target {name!r}, {seen}: {_AS[task]}, as asked for.")
    kind = "words" if words else "whole numbers" if classes else "numbers"
    other = "" if words else f" (--task {REGRESS if task == CLASSIFY else CLASSIFY} if not)"
    return Task(task, f"Target {name!r}: {kind}, {seen}: {_AS[task]}{other}.")


_AS = {CLASSIFY: "classes", REGRESS: "numbers to be predicted"}


def _require_few(name: str, found: set[Any], rows: int, most: int, *, words: bool) -> None:
    if len(found) <= most:
        return
    some = ", ".join(repr(one) for one in sorted(found)[:3])
    guess = (
        "Every row has its own: is it an identifier?"
        if len(found) == rows
        else "Is it the right column?"
    )
    way = f"For so many classes give --max-classes {len(found)} or more"
    raise ValueError(
        f"The target {name!r} has {len(found):,} different values in its first {rows:,} rows "
        f"({some}, ...), and at most {most:,} are "
        f"taken for classes. {guess} "
        f"{way}{'' if words else '; for numbers to be predicted, --task regress'}."
    )
