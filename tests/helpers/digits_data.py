"""The digits in the folder of a test of the command line, and a map that is small enough for
them.
"""

from __future__ import annotations

import pandas as pd

SMALL = "--map fourier:n_components=64"


def frame() -> pd.DataFrame:
    return pd.read_parquet("data.parquet")
