"""Reproduce the experiments of five papers on real data, next to the published numbers.

A paper is one file here that has PAPER; nothing else is touched, ``papers()`` finds it. It reads
like this:

    def _accuracy(make: Callable[[int], Map], bench: Bench) -> dict[str, Measured]:
        split = bench.sets["mnist"].split(bench.pick(500, 6000, None), bench.pick(200, 5000, None))
        return {
            f"M = {M}": over_draws(bench.pick(1, 3, 20), lambda seed: svm(make(M, seed), split,
            C=1.0)) for M in bench.pick((100,), (100, 500, 2000), (100, 500, 1000, 2000, 4000,
            6000))
        }

    TABLE = Experiment(
        "compressive/figure2", "MNIST, sigma = 10", "Figure 2a", rule=SPLIT, about="What was done:
        data, split, learner.", cells=(Cell("typical", COLUMNS, partial(_accuracy, typical), {"M =
        100": 87.75, ...}, needs=("mnist",)), ...), picture=Picture("M", "accuracy, %", log="x"),
    )
    PAPER = Paper("compressive", "Compressive random features", "Chang, ... CVPR 2016", (TABLE,
    ...))

- A Cell is what is run, kept and resumed alone: seconds to a minute at standard size.
  ``run(bench)`` gives {column: Measured} for all or
  some of ``columns``; a small size may give fewer. It must depend on ``bench`` only: seeds are 0,
  1, 2, ...
- ``bench.pick(quick, standard, full)`` chooses by size; ``bench.sets[name].split(train, test,
  seed=)`` gives a ``sets.Split``,
  official rows where the set has them. ``needs`` names the sets: without them the cell is listed as
  absent, and never run.
- Published numbers stand in the cells, in per cent where they are accuracies; rows of ours that the
  paper has not have ``ours=True``; data
  that cannot be had are ``Cell(label, columns, published={...}, absent="reason")``.
- Rules: SPLIT (1 point, the paper's split), RANDOM (2.5 points), ``order(ties)``,
  ``not_comparable(reason)``; for an experiment, or for a
  cell. A row that misses needs a ``note``: one line that says why.
- ``heads``: ``svm`` (LIBLINEAR), ``learner`` (KernelClassifier, out of core), ``exact_svm``,
  ``exact_ridge``; each gives a Score (accuracy
  in per cent, seconds, features, bytes), and ``over_draws`` makes a Measured of several.
- Raise ``version`` of an experiment when its cells compute something else: its old numbers are then
  not used.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from experiments.records import Paper

# Order in which papers are run and shown; others come last.
ORDER = ("laplace", "anchors", "compressive", "gmm", "chi2")


def papers() -> dict[str, Paper]:
    """Return {name: paper} of every module here that defines PAPER."""
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    found = {module.PAPER.name: module.PAPER for module in modules if hasattr(module, "PAPER")}
    return dict(
        sorted(
            found.items(), key=lambda item: ORDER.index(item[0]) if item[0] in ORDER else len(ORDER)
        )
    )
