"""Small fits by every route and solver: cases of tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mercer import GCWS, KernelClassifier, KernelRegressor
from mercer.linear_model import routes
from mercer.linear_model.base import KernelModel
from mercer.linear_model.routes import ROUTES


@dataclass(frozen=True)
class RouteCase:
    """A fit by one route, whatever the work of the others is.

    Attributes
    ----------
    route : str
    parameters : mapping
        Of the estimator: a classifier where it has a loss.
    codes : bool
        Whether features are one-hot codes, and not the columns themselves.
    constants : mapping
        Constants of `mercer.linear_model.routes` that lead to the solver.
    """

    route: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    codes: bool = False
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def labels(self) -> bool:
        return "loss" in self.parameters

    def prepare(self, monkeypatch) -> None:
        """Let no other route be taken."""
        for name, route in ROUTES.items():
            if name != self.route:
                monkeypatch.setattr(type(route), "estimate", lambda *_: None)
        for name, value in self.constants.items():
            monkeypatch.setattr(routes, name, value)

    def make(self, **more: Any) -> KernelModel:
        cls: Any = KernelClassifier if self.labels else KernelRegressor
        feature_map: Any = GCWS(6, bits=3, random_state=0) if self.codes else "linear"
        return cls(
            **{"feature_map": feature_map, "scale": False, "alpha": 1.0, "n_jobs": 1}
            | dict(self.parameters)
            | more
        )


TWO = ["linear", "linear"]
NO_ROOM = {"max_memory": "1kB"}  # blocks are read in every pass

ROUTE_CASES = {
    "moments": RouteCase("moments"),
    "moments, classes": RouteCase("moments", {"loss": "squared"}),
    "moments, loo": RouteCase("moments", {"alpha": "loo"}),
    "moments, gcv": RouteCase("moments", {"alpha": "gcv"}),
    "moments, kfold": RouteCase("moments", {"alpha": "kfold"}),
    "moments, held-out": RouteCase(
        "moments",
        {"alpha": "auto"},
        constants={"LOO_ROWS": 0, "DECOMPOSED_FEATURES": 0},
    ),
    "moments, codes": RouteCase("moments", codes=True),
    "moments, pca": RouteCase("moments", {"pca": 1}),
    "moments, l1": RouteCase("moments", {"penalty": "l1"}),
    "moments, l1 kfold": RouteCase("moments", {"penalty": "l1", "alpha": "auto"}),
    "moments, group": RouteCase("moments", {"penalty": "group", "feature_map": TWO}),
    "two-stage": RouteCase("two-stage", {"pca": 1, "feature_map": TWO}),
    "gram": RouteCase("gram"),
    "gram, loo": RouteCase("gram", {"alpha": "loo"}),
    "gram, gcv": RouteCase("gram", {"alpha": "gcv"}),
    "gram, classes": RouteCase("gram", {"loss": "squared"}),
    "gram, codes": RouteCase("gram", codes=True),
    "passes": RouteCase("passes"),
    "passes, held-out": RouteCase("passes", {"alpha": "auto"}),
    "passes, read again": RouteCase("passes", NO_ROOM),
    "passes, codes": RouteCase("passes", codes=True),
    "newton, squared hinge": RouteCase("newton-cg", {"loss": "squared_hinge"}),
    "newton, logistic": RouteCase("newton-cg", {"loss": "logistic"}),
    "newton, log loss": RouteCase("newton-cg", {"loss": "log_loss"}),
    "newton, held-out": RouteCase("newton-cg", {"loss": "logistic", "alpha": "auto"}),
    "newton, read again": RouteCase("newton-cg", {"loss": "logistic", **NO_ROOM}),
    "newton, codes": RouteCase("newton-cg", {"loss": "squared_hinge"}, codes=True),
    "newton, log loss of codes": RouteCase("newton-cg", {"loss": "log_loss"}, codes=True),
}
