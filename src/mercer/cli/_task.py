"""Classification or regression: decided by --task, or by the first rows of the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer.data import Stream

CLASSIFY, REGRESS = "classify", "regress"
MOST_CLASSES = 1000  # without --max-classes
_MODELS = {CLASSIFY: "classifier", REGRESS: "regressor"}


@dataclass(frozen=True, eq=False)
class Task:
    """The task of a model, with the targets of the first rows.

    Attributes
    ----------
    name : "classify" or "regress"
    target : str
        Description of the target: "Target 'digit': 10 distinct integers in the first 1,797 rows".
    override : str
        " (override with --task regress)", or empty.
    y : array
        Targets of the first rows.
    """

    name: str
    target: str
    override: str
    y: Any

    @property
    def model(self) -> str:
        return _MODELS[self.name]

    def describe(self, action: str) -> str:
        """Return a sentence: "<target>; fitting a classifier (override with --task regress)."."""
        return f"{self.target}; {action}{self.override}."


def infer_task(stream: Stream, requested: str | None, most_classes: int = MOST_CLASSES) -> Task:
    """Decide the task from the first rows of a stream, unless it is requested.

    A target with more than `most_classes` classes is refused before anything is fitted.
    """
    import numpy as np

    from mercer.data.task import is_classification

    y = np.asarray(next(iter(stream.chunks())).y)
    if y.ndim == 2:
        return Task(REGRESS, f"Targets {', '.join(stream.target or [])}", "", y)
    name = str(stream.target)
    is_text = y.dtype.kind not in "biuf"
    if requested == REGRESS and is_text:
        raise ValueError(
            f"The target {name!r} has text, such as {y[0]!r}, and --task regress needs numbers."
        )
    values = set(y.tolist())
    classes = is_classification(y)
    task = requested or (CLASSIFY if classes else REGRESS)
    if task == CLASSIFY:
        _require_few_classes(name, values, len(y), most_classes, is_text=is_text)
    kind = "string" if is_text else "boolean" if y.dtype.kind == "b" else "number"
    kind = "integer" if kind == "number" and bool(np.all(y == np.floor(y))) else kind
    target = (
        f"Target {name!r}: {len(values):,} distinct {kind}{'s' * (len(values) != 1)} in the first "
        f"{len(y):,} rows"
    )
    other = REGRESS if task == CLASSIFY else CLASSIFY
    override = "" if is_text or requested else f" (override with --task {other})"
    return Task(task, target, override, y)


def _require_few_classes(
    name: str, values: set[Any], rows: int, most: int, *, is_text: bool
) -> None:
    if len(values) <= most:
        return
    examples = ", ".join(map(repr, sorted(values)[:3]))
    question = "Is it the right column?"
    if len(values) == rows:
        question = "Every row has a different one: is it an identifier?"
    regress = "" if is_text else "; for regression, --task regress"
    raise ValueError(
        f"The target {name!r} has {len(values):,} distinct values in its first {rows:,} rows "
        f"({examples}, ...), and at most {most:,} are accepted as classes. {question} For more "
        f"classes give --max-classes {len(values)} or more{regress}."
    )
