"""The best model of a leaderboard, fitted to one half of a sample to be measured on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from mercer.evaluation.convergence import with_seed
from mercer.linear_model.base import KernelModel
from mercer.report.data import SampleSplit, ignored_warnings, split_steps


@dataclass(frozen=True)
class BestModel:
    """Fitted model, and the sample as its input.

    Attributes
    ----------
    name : str
    fitted : KernelModel
        Fitted to ``sample.train``.
    sample : SampleSplit
        After the steps before the model, where it was a pipeline.
    has_steps : bool
        Whether it was one: the columns of the sample are then features of these steps.
    """

    name: str
    fitted: Any
    sample: SampleSplit
    has_steps: bool = False

    @property
    def numeric(self) -> bool:
        """Whether targets are numbers."""
        return bool(self.fitted._numeric_targets)


def fit_best(name: str, model: Any, sample: SampleSplit, seed: int) -> BestModel | None:
    """Fit a model to the training rows; None where it is not mercer's or refuses the rows."""
    steps, last = split_steps(model)
    if not isinstance(last, KernelModel):
        return None
    sample = sample.transform(steps)
    with ignored_warnings():
        try:
            fitted = with_seed(clone(last), seed).fit(sample.train, sample.train_y)
        except ValueError:  # such as one class, or too few rows
            return None
    return BestModel(name, fitted, sample, has_steps=bool(steps))
