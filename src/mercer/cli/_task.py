"""Classification or regression: decided by --task, or by the first rows of the target."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer.data import Stream

CLASSIFY, REGRESS = "classify", "regress"
MOST_CLASSES = 1000  # without --max-classes
_MOST_NUMBERED = 30  # labels that are numbers
_WRITTEN_NUMBER = r"[-+(]?\s*[$€£]?\s*\d[\d.,' ]*(e[-+]?\d+)?\s*[%$€£)]?"
_MODELS = {CLASSIFY: "classifier", REGRESS: "regressor"}


@dataclass(frozen=True, eq=False)
class Task:
    """The task of a model.

    Attributes
    ----------
    name : "classify" or "regress"
    reason : str
        A sentence: "Target 'digit': 10 distinct integers in the first 1,797 rows; fitting a
        classifier (override with --task regress).".
    y : array
        Targets of the first rows.
    """

    name: str
    reason: str
    y: Any


def infer_task(
    stream: Stream, requested: str | None, most_classes: int = MOST_CLASSES, action: str = "{}"
) -> Task:
    """Decide the task from the first rows of a stream, unless it is requested.

    A target with more than `most_classes` classes is refused before anything is fitted. The action
    ends the sentence of the task: "fitting a {}".
    """
    import numpy as np

    from mercer.data.arrow import read_retyped
    from mercer.data.task import first_targets, is_classification

    _, y = read_retyped(stream, first_targets)
    if y.ndim == 2:
        names = ", ".join(stream.target or [])
        return Task(REGRESS, f"Targets {names}; {action.format(_MODELS[REGRESS])}.", y)
    is_text = y.dtype.kind not in "biuf"
    if requested == REGRESS and is_text:
        raise ValueError(
            f"The target {stream.target!r} has text, such as {y[0]!r}, and --task regress needs "
            "numbers."
        )
    task = requested or (CLASSIFY if is_classification(y) else REGRESS)
    values = set(y.tolist())
    if is_text and requested is None:
        _require_labels(stream.target, values)
    if task == CLASSIFY and len(values) > most_classes:
        raise _too_many_classes(stream.target, values, len(y), most_classes, is_text=is_text)
    kind = "string" if is_text else "boolean" if y.dtype.kind == "b" else "number"
    kind = "integer" if kind == "number" and bool(np.all(y == np.floor(y))) else kind
    other = REGRESS if task == CLASSIFY else CLASSIFY
    override = "" if is_text or requested else f" (override with --task {other})"
    reason = (
        f"Target {stream.target!r}: {len(values):,} distinct {kind}{'s' * (len(values) != 1)} in "
        f"the first {len(y):,} rows; {action.format(_MODELS[task])}{override}."
    )
    return Task(task, reason, y)


def _require_labels(name: Any, values: set[Any]) -> None:
    """Raise where most of many labels are numbers that are written as text."""
    numbers = [value for value in values if re.fullmatch(_WRITTEN_NUMBER, str(value).strip())]
    if len(values) > _MOST_NUMBERED and len(numbers) > 0.9 * len(values):
        others = sorted(map(str, values - set(numbers)))[:1]
        odd = f", and text such as {others[0]!r}" if others else ""
        raise ValueError(
            f"The target {name!r} has {len(values):,} distinct texts, most of them numbers such as "
            f"{sorted(map(str, numbers))[0]!r}{odd}. Write them as plain numbers for a regression "
            "(no units, no separators of thousands); --task classify takes them as classes."
        )


def _too_many_classes(
    name: Any, values: set[Any], rows: int, most: int, *, is_text: bool
) -> ValueError:
    examples = ", ".join(map(repr, sorted(values)[:3]))
    question = "Is it the right column?"
    if len(values) == rows:
        question = "Every row has a different one: is it an identifier?"
    regress = "; for regression, " + (
        "write numbers without units or currencies" if is_text else "--task regress"
    )
    return ValueError(
        f"The target {name!r} has {len(values):,} distinct values in its first {rows:,} rows "
        f"({examples}, ...), and at most {most:,} are accepted as classes. {question} For more "
        f"classes give --max-classes {len(values)} or more{regress}."
    )
