"""What is learnt on features: coefficients for each loss, from one pass of moments or by passes,
with the alpha that was asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import ParameterError, Setting
from mercer.linear_model.losses import LOSSES, Loss
from mercer.linear_model.normal_equations import Array, Normal
from mercer.linear_model.penalties import Penalty
from mercer.linear_model.solvers import newton
from mercer.linear_model.solvers.conjugate_gradients import choose_held_out, solve_blocks
from mercer.linear_model.solvers.passes import Kept, Pass
from mercer.linear_model.solvers.pca import Components
from mercer.linear_model.solvers.ridge import (
    ALPHAS,
    Choice,
    Rows,
    Spectrum,
    choose_gcv,
    choose_kfold,
    choose_loo,
    solve,
)
from mercer.parallel.tile_size import Plan
from mercer.validation.parameters import validate_integer, validate_option, warn_not_converged

FOLDS = 5
WORDS = ("auto", "gcv", "kfold", "loo")
PENALTIES = ("l2", "l1", "group")


@dataclass(frozen=True, eq=False)
class Head:
    """Predictions are z'coef + intercept; choice has the alphas that were tried and their scores,
    None for a single alpha.

    steps are those of the last solver: Newton steps, passes of conjugate gradients, 1 for a
    solution from moments.
    """

    coef: Array  # (D, t)
    intercept: Array  # (t,)
    alpha: float
    choice: Choice | None
    kkt: float | None = None  # how far a sparse head is from optimal
    steps: int = 1

    def check(self, features: int) -> None:
        """Refuse coefficients that are not those of so many features."""
        floats = self.coef.dtype == self.intercept.dtype == np.float64
        if (
            not floats
            or self.coef.shape != (features, *self.intercept.shape)
            or self.intercept.shape in ((), (0,))
        ):
            raise ValueError(
                f"Head needs a coefficient for each of {features} features, got shapes "
                f"{self.coef.shape} and {self.intercept.shape}."
            )
        if self.choice is not None and self.choice.alphas.shape != self.choice.scores.shape:
            raise ValueError("Head needs a score for each alpha.")
        if not (np.isfinite(self.coef).all() and np.isfinite(self.intercept).all()):
            raise ValueError("Head needs finite coefficients.")


def within_floats(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method that fits: a ValueError and no model where coefficients are not finite.

    The results are checked, not the flags of the floating point unit: some libraries of linear
    algebra set these in ordinary products.
    """

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **named: Any) -> Any:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = method(self, *args, **named)
        head = getattr(self, "_head", None)
        if head is None or (np.isfinite(head.coef).all() and np.isfinite(head.intercept).all()):
            return found
        del self._head
        raise ValueError(
            f"{type(self).__name__}: the numbers of X, y or the weights are too large or too "
            "small for sums of squares: the coefficients "
            "are not finite. Scale them (sklearn.preprocessing)."
        )

    return wrapped


def check_alpha(who: str, alpha: Any) -> None:
    """Refuse what is neither a number of at least 0, nor a list of such numbers, nor one of the
    words.
    """
    if isinstance(alpha, str):
        validate_option(who, "alpha", alpha, WORDS)
        return
    values = np.asarray(alpha)
    if (
        values.dtype.kind not in "iuf"
        or values.ndim > 1
        or values.size == 0
        or not np.all((values >= 0) & (values < np.inf))
    ):
        needed = (
            "a number of at least 0, a list of such numbers, or one of "
            f"{', '.join(map(repr, WORDS))}"
        )
        raise ParameterError(who, Setting("alpha"), f" must be {needed}, got {alpha!r}.")


def check_loss(who: str, loss: str, alpha: Any, penalty: Any, pca: Any, checkpoint: Any) -> None:
    """Refuse a loss that is not known, and what does not go with a loss that needs passes."""
    validate_option(who, "loss", loss, ("squared", *LOSSES))
    if loss == "squared":
        return
    check_alpha(who, alpha)
    if isinstance(alpha, str) and alpha != "auto":
        raise ValueError(
            f"{who}: alpha={alpha!r} needs loss='squared', got loss={loss!r}. Use 'auto' (rows "
            "held out), a number or a list."
        )
    if not isinstance(alpha, str) and np.any(np.asarray(alpha) == 0):
        raise ValueError(
            f"{who}: alpha = 0 needs loss='squared': with loss={loss!r} rows that can be "
            "separated have no minimum. Give an alpha above 0."
        )
    for name, value, default in (
        ("penalty", penalty, "l2"),
        ("pca", pca, None),
        ("checkpoint", checkpoint, None),
    ):
        if value != default:
            raise ValueError(
                f"{who}: {name}={value!r} needs the moments of loss='squared', got "
                f"loss={loss!r}. Leave {name} out."
            )


def check_plan(
    who: str, plan: Plan, features: int, *, penalty: str, pca: Any, checkpoint: Any
) -> None:
    """Refuse what needs moments where the plan is passes over the rows."""
    for name, value, default in (
        ("pca", pca, None),
        ("penalty", penalty, "l2"),
        ("checkpoint", checkpoint, None),
    ):
        if plan.route == "passes" and value != default:
            raise ParameterError(
                who,
                Setting(name, repr(value)),
                f" needs the moments of {features} features. {plan} Raise ",
                Setting("max_memory"),
                ", or leave ",
                Setting(name),
                " out.",
            )


def is_chosen(alpha: Any) -> bool:
    """Whether alpha is to be chosen, by a word or from a list; a number is taken as it is."""
    return isinstance(alpha, str) or np.ndim(alpha) == 1


def check_head(who: str, penalty: str, alpha: Any, pca: Any, widths: Sequence[int]) -> None:
    """Refuse more components than a map has features, a penalty that is not known, and what does
    not go with it.
    """
    if pca is not None and validate_integer(who, "pca", pca) > max(widths):
        raise ValueError(
            f"{who}: pca must be at most the number of features of a map, {max(widths)}, got {pca}."
        )
    validate_option(who, "penalty", penalty, PENALTIES)
    if penalty == "l2":
        return
    if penalty == "group" and len(widths) < 2:
        raise ParameterError(
            who,
            Setting("penalty", "'group'"),
            " chooses among maps, and ",
            Setting("feature_map"),
            " is one map: give ",
            Setting("feature_map", text="a list of maps"),
            ", or use ",
            Setting("penalty", "'l1'"),
            ".",
        )
    if isinstance(alpha, str) and alpha in ("gcv", "loo"):
        raise ValueError(
            f"{who}: alpha={alpha!r} needs penalty='l2'. Use 'kfold' (which 'auto' is here), a "
            "number or a list."
        )
    if not isinstance(alpha, str) and np.any(np.asarray(alpha) == 0):
        raise ValueError(
            f"{who}: penalty={penalty!r} needs an alpha above 0, got {alpha!r}; for plain least "
            "squares use penalty='l2'."
        )


def by_folds(alpha: Any, penalty: str) -> bool:
    """Whether alpha is chosen by folds that are left out."""
    return is_chosen(alpha) if penalty != "l2" else isinstance(alpha, str) and alpha == "kfold"


def from_moments(
    folds: Sequence[Normal],
    alpha: Any,
    again: Callable[[], Rows],
    components: Components | None = None,
) -> Head:
    """The ridge head from normal equations, one for each fold of the rows (a single one, unless
    alpha is "kfold").

    again gives the rows once more, for the leverages of alpha="loo".
    """
    if not is_chosen(alpha) and components is None:
        coef, intercept = solve(folds[0], float(alpha), overwrite=True)
        return Head(coef, intercept, float(alpha), None)
    spectrum = Spectrum.of(sum(folds[1:], start=folds[0]), components, overwrite=True)
    choice = None
    if isinstance(alpha, str) and alpha == "kfold":
        choice = choose_kfold(
            [fold for fold in folds if fold.n > 0], ALPHAS * spectrum.scale, components
        )
    elif isinstance(alpha, str) and alpha == "loo":
        choice = choose_loo(spectrum, again())
    elif is_chosen(alpha):
        choice = choose_gcv(spectrum, None if isinstance(alpha, str) else alpha)
    used = float(alpha) if choice is None else choice.alpha
    return Head(spectrum.coef(used), spectrum.intercept(used), used, choice)


def sparse_from_moments(folds: Sequence[Normal], alpha: Any, penalty: Penalty) -> Head:
    """The head with few coefficients; an alpha that must be chosen is chosen by folds."""
    folds = [fold for fold in folds if fold.n > 0]
    choice = (
        penalty.choose(folds, None if isinstance(alpha, str) else alpha)
        if is_chosen(alpha)
        else None
    )
    used = float(alpha) if choice is None else choice.alpha
    total = sum(folds[1:], start=folds[0])
    coef, kkt = penalty.solve(total, used)
    return Head(coef, total.intercept(coef), used, choice, kkt)


def from_passes(who: str, rows: Pass, alpha: Any, fit_intercept: bool, tol: float) -> Head:
    """The head by conjugate gradients over blocks; an alpha that must be chosen is chosen on a
    tenth of the rows.
    """
    if isinstance(alpha, str) and alpha != "auto":
        raise ParameterError(
            who,
            Setting("alpha", repr(alpha)),
            " needs moments, and those of so many features exceed ",
            Setting("max_memory"),
            ". Use 'auto' (rows held out), a number or a list, or a larger ",
            Setting("max_memory"),
            ".",
        )
    if not isinstance(alpha, str) and np.any(np.asarray(alpha) == 0):
        raise ParameterError(
            who,
            "alpha = 0 needs moments, and those of so many features exceed ",
            Setting("max_memory"),
            ". Give an alpha above 0, or a larger ",
            Setting("max_memory"),
            ".",
        )
    if not is_chosen(alpha):
        solution = solve_blocks(rows, float(alpha), fit_intercept=fit_intercept, tol=tol)
        return Head(
            solution.coef, solution.intercept, float(alpha), None, steps=solution.iterations
        )
    given = None if isinstance(alpha, str) else alpha
    held = choose_held_out(rows, given, fit_intercept=fit_intercept)
    solution = solve_blocks(
        rows, held.alpha, fit_intercept=fit_intercept, coef0=held.solution.coef, tol=tol
    )
    choice = Choice(held.alpha, held.alphas, held.scores)
    return Head(solution.coef, solution.intercept, held.alpha, choice, steps=solution.iterations)


def from_newton(
    who: str,
    rows: Kept,
    loss: Loss,
    alpha: Any,
    classes: Array,
    *,
    fit_intercept: bool,
    exact: bool,
    tol: float,
    max_iter: int,
) -> Head:
    """The head by Newton's method; an alpha that must be chosen is chosen on a tenth of the rows.
    Outputs that are late are named.
    """
    how: Any = {"fit_intercept": fit_intercept, "exact": exact, "max_iter": max_iter}
    choice, start = None, None
    if is_chosen(alpha):
        given = None if isinstance(alpha, str) else alpha
        choice, start = newton.choose_held_out(rows, loss, given, **how)
    used = float(alpha) if choice is None else choice.alpha
    found = newton.minimise(rows, loss, used, start=start, tol=tol, **how)
    if found.late.any():
        late = np.flatnonzero(found.late)
        names = [repr(label) for label in classes[late + (len(classes) == 2)].tolist()]
        some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        warn_not_converged(
            f"{who}: Newton's method has not reached tol={tol:g} for class {some}: the gradient "
            f"is {found.gradient[late].max():.2g} of the "
            f"first after {found.steps} steps and {found.passes} passes. Take a larger max_iter "
            f"(it is {max_iter}), alpha or tol."
        )
    return Head(found.coef, found.intercept, used, choice, steps=found.steps)


def signs(labels: Iterable[Any], classes: Array) -> Array:
    """One against all: +1 in the class, -1 outside; a column for each class, or one for two
    classes, +1 for the second.
    """
    y = np.asarray(labels)
    Y = np.where(y[:, None] == classes[None, :], 1.0, -1.0)
    return Y[:, 1:] if len(classes) == 2 else Y
