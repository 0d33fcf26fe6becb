"""Problems and plans of fits that are given by their sizes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from mercer.linear_model import routes
from mercer.linear_model.routes import Plan, Problem, Settings


def problem_of(
    rows: int | None, columns: int, features: int, *, limit: int, alpha: Any = "auto", **more: Any
) -> Problem:
    """Return a problem; more are fields of Settings and of Problem."""
    names = {field.name for field in fields(Settings)}
    given = {name: more.pop(name) for name in list(more) if name in names}
    given.setdefault("loss", "logistic" if more.get("outputs") else "squared")
    return Problem(Settings("plan", alpha, **given), rows, columns, features, limit, **more)


def plan_fit(rows: int | None, columns: int, features: int, **more: Any) -> Plan:
    """Return the plan of a problem, for the method to choose alpha that is given."""
    return routes.plan_fit(problem_of(rows, columns, features, **more))
