"""Every case of every map, at one size, against its rivals."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.base import clone

from benchmarks.libraries import libraries
from benchmarks.measure import Row, against, alone
from mercer.evaluation.kernel_error import gram_error
from mercer.maps import every_map
from mercer.maps.base import Map, Rate

ROWS, COLUMNS, SIZE = 4000, 128, 1024


def rows(rounds: int) -> Iterator[Row]:
    """Return one row for each rival of a case, or one without a rival."""
    for case in (case for cls in every_map() for case in cls.cases()):
        size = COLUMNS // 2 if isinstance(case.rate, Rate) and case.rate.ends else SIZE
        feature_map = case.with_size(size) if isinstance(case.rate, Rate) else clone(case)
        X = data(case)
        ours = feature_map.fit(X)
        sample = X[:500]
        what = " ".join(repr(feature_map).split())
        error = gram_error(ours.kernel_, sample, ours.transform(sample))
        size = sum(block.nbytes for block in ours.blocks(sample)) / len(sample)
        rivals = [(library.name, library.rival(feature_map)) for library in libraries()]
        for name, theirs in rivals:
            if theirs is not None:
                theirs.fit(X)
                rival_error = gram_error(ours.kernel_, sample, theirs.transform(sample))
                works = partial(ours.transform, X), name, partial(theirs.transform, X)
                yield against(
                    what, *works, rounds, error=error, rival_error=rival_error, bytes_per_row=size
                )
        if all(theirs is None for _, theirs in rivals):
            yield alone(what, partial(ours.transform, X), rounds, error=error, bytes_per_row=size)


def data(feature_map: Map) -> np.ndarray:
    """Return float32 rows in the map's domain, scaled so that kernels are neither 0 nor 1."""
    rng = np.random.default_rng(0)
    shape = (ROWS, COLUMNS)
    X = (
        rng.gamma(1.0, size=shape)
        if feature_map.domain == "nonnegative"
        else rng.normal(size=shape)
    )
    return (X / np.sqrt(COLUMNS)).astype(np.float32)
