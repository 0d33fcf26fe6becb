"""A metric that is learned from targets: the directions in which a model changes count most."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._typing import Array
from mercer.errors import ParameterError, Setting
from mercer.kernels import Kernel
from mercer.kernels import Metric as MetricKernel
from mercer.kernels import Scaled as ScaledKernel
from mercer.maps._transform import Chain
from mercer.maps.base import Map
from mercer.maps.stages.linear import Components, Divide
from mercer.rng import Rng
from mercer.validation.parameters import ArrayLike, Integer, Missing, Option, Threads

FULL_COLUMNS = 1024
"""Columns up to which kind="auto" is "full": M then has a million numbers."""


class Metric(Map):
    """phi(x) = M^(1/2) x, M the average of (grad f)(grad f)' over the rows, f a model of y.

    Directions in which f does not change are left out, so that a kernel of distances behind it
    spends its features on what matters: a recursive feature machine (Radhakrishnan et al.) on
    explicit features. M is learned by KernelRegressor and KernelClassifier, together with the map
    that follows: ``KernelRegressor(Metric() >> RandomFourier())``. f is that model for the M of the
    round before, M = I first, and its gradient has a closed form. The rounds are run
    with M the average and with M its square root, and the M of the smallest error on held-out rows
    is kept, M = I among them; where gamma is "auto", it is chosen on these rows too.

    Fitted by itself, where there are no targets, M is the identity, with a warning.

    Parameters
    ----------
    kind : {"auto", "full", "diagonal"}, default="auto"
        "diagonal" has a length scale for each column; "auto" is "full" up to 1,024 columns.
    n_rounds : int, default=5
        Rounds at most; three in a row that do not lower the error are the last.
    max_rows : int, default=16384
        Rows of the sample on which M is learned, a quarter of them held out. All rows are read once
        to draw it; the model with this M is then fitted to all of them.
    matrix : array-like of shape (n_features, n_features) or (n_features,), optional
        M^(1/2), or its diagonal, where it is known: nothing is learned.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    matrix_ : array of shape (n_features, n_features) or (n_features,)
        M^(1/2), or its diagonal. Mean squared distances of rows are those of M = I, so that a gamma
        that is a number keeps its meaning.
    metric_ : array of shape (n_features, n_features) or (n_features,)
        M, or its diagonal.
    importances_ : array of shape (n_features,)
        The diagonal of M, divided by its sum: the shares of the columns in the squared gradients
        of the model. Columns of one unit are comparable, which ``Scaled`` gives them.
    is_identity_ : bool
        Whether M = I, as where no round lowered the error of held-out rows: importances say nothing
        then, and models have none.
    validation_scores_ : array of shape (rounds + 1,)
        R^2 on the held-out rows after each round, M = I first; None where nothing was learned.
    kernel_, limit_ : Kernel
        x'M z.

    Notes
    -----
    Gradients exist of ``RandomFourier`` (all kernels), ``Nystroem`` (gaussian, laplacian, cauchy,
    matern), ``SkewedFourier``, the linear maps and those of single columns (``Homogeneous``,
    ``Chi2Series``, ``Hellinger``; with kind="diagonal", since they need numbers of at least 0) and
    compositions of them; other maps are refused. Frequencies
    of the laplacian and Matern 1/2 kernels have no finite variance: gradients are of f smoothed
    over 0.3 of the spread of the rows.

    A. Radhakrishnan, D. Beaglehole, P. Pandit and M. Belkin, "Mechanism for feature learning in
    neural networks and backpropagation-free machine learning models", Science 383, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor, Metric, RandomFourier
    >>> X = np.random.default_rng(0).normal(size=(1000, 10))
    >>> y = np.sin(2 * X[:, 3]) * X[:, 7]
    >>> model = KernelRegressor(Metric() >> RandomFourier(), random_state=0).fit(X, y)
    >>> sorted(np.argsort(model.importances_)[-2:].tolist())
    [3, 7]
    """

    name = "metric"
    kernels = ("linear",)
    paper = "Radhakrishnan et al., Science 2024"
    parameter_constraints = {
        "kind": (Option("auto", "full", "diagonal"),),
        "n_rounds": (Integer(0),),
        "max_rows": (Integer(16),),
        "matrix": (Missing(), ArrayLike("a square matrix, or a number for each column")),
        "n_jobs": (Threads(),),
    }
    size_parameter = None
    rate = None
    random = False
    numpy_attributes = True
    matrix_: Array
    validation_scores_: Array | None

    def __init__(
        self,
        *,
        kind: str = "auto",
        n_rounds: int = 5,
        max_rows: int = 16384,
        matrix: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kind = kind
        self.n_rounds = n_rounds
        self.max_rows = max_rows
        self.matrix = matrix
        self.n_jobs = n_jobs

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the call that makes this map; of a matrix its shape."""
        if self.matrix is None:
            return super().__repr__(N_CHAR_MAX)
        return f"Metric(matrix=<{' x '.join(map(str, np.shape(self.matrix)))}>)"

    @property
    def metric_(self) -> Array:
        """M, or its diagonal."""
        check_is_fitted(self)
        P = self.matrix_
        return P**2 if P.ndim == 1 else P @ P.T

    @property
    def importances_(self) -> Array:
        """The diagonal of M, divided by its sum."""
        M = self.metric_
        diagonal = M if M.ndim == 1 else np.diag(M)
        return diagonal / diagonal.sum()

    @property
    def is_identity_(self) -> bool:
        """Whether M = I: no round lowered the error of held-out rows."""
        check_is_fitted(self)
        P = self.matrix_
        return bool(np.array_equal(P, np.ones(len(P)) if P.ndim == 1 else np.eye(len(P))))

    @property
    def kernel_(self) -> Kernel:
        """x'M z; the features have no error."""
        check_is_fitted(self)
        P = self.matrix_
        return ScaledKernel(1 / P) if P.ndim == 1 else MetricKernel(P)

    def is_diagonal(self, d: int) -> bool:
        """Return whether M is diagonal for d columns."""
        return self.kind == "diagonal" or (self.kind == "auto" and d > FULL_COLUMNS)

    def check(self, d: int) -> None:
        if self.matrix is None:
            return
        P = np.asarray(self.matrix, dtype=np.float64)
        valid = P.shape in ((d,), (d, d)) and bool(np.isfinite(P).all())
        if not valid or (P.ndim == 1 and not np.all(P > 0)) or not P.any():
            raise ParameterError(
                type(self).__name__,
                Setting("matrix"),
                f" must be {d} finite numbers above 0, or a finite matrix of shape ({d}, {d}) that "
                f"is not 0, for {d} columns, got an array of shape {P.shape}.",
            )

    def build(self, rng: Rng, d: int, statistics: None) -> Chain:
        if self.matrix is None:
            warnings.warn(
                "Metric is the identity: it is learned from targets, by KernelRegressor or "
                "KernelClassifier, together with the map that follows.",
                stacklevel=2,
            )
        P = np.ones(d) if self.matrix is None else np.array(self.matrix, dtype=np.float64)
        self.matrix_, self.validation_scores_ = np.ascontiguousarray(P), None
        if P.ndim == 1:
            return Chain((Divide(1 / self.matrix_),))
        return Chain((Components(self.matrix_),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [cls()]
