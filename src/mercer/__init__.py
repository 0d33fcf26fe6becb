"""mercer: nonlinear kernel methods at linear cost. Explicit feature maps phi with <phi(x), phi(z)> ~ k(x, z), the exact k beside each one.

Public names are imported when they are first used, so that `import mercer` costs no more than NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer import kernels as kernels
    from mercer import theory as theory
    from mercer.certificate import certify as certify
    from mercer.devices import on as on
    from mercer.folding import fold as fold
    from mercer.grams import gram as gram
    from mercer.leaderboard import select as select
    from mercer.learn.classifier import KernelClassifier as KernelClassifier
    from mercer.learn.regressor import KernelRegressor as KernelRegressor
    from mercer.maps.additive_nystroem import AdditiveNystroem as AdditiveNystroem
    from mercer.maps.anchors import Anchors as Anchors
    from mercer.maps.chebyshev import Chi2Chebyshev as Chi2Chebyshev
    from mercer.maps.chi2 import Chi2Series as Chi2Series
    from mercer.maps.compose import Composed as Composed
    from mercer.maps.compose import Stacked as Stacked
    from mercer.maps.compressive import CompressiveFourier as CompressiveFourier
    from mercer.maps.expchi2 import ExpChi2 as ExpChi2
    from mercer.maps.fourier import RandomFourier as RandomFourier
    from mercer.maps.gcws import GCWS as GCWS
    from mercer.maps.hellinger import Hellinger as Hellinger
    from mercer.maps.homogeneous import Homogeneous as Homogeneous
    from mercer.maps.identity import Identity as Identity
    from mercer.maps.laplace import RandomLaplace as RandomLaplace
    from mercer.maps.nystroem import Nystroem as Nystroem
    from mercer.maps.pca import FeaturePCA as FeaturePCA
    from mercer.maps.projection import RandomProjection as RandomProjection
    from mercer.maps.scaled import Scaled as Scaled
    from mercer.maps.signs import SignCauchy as SignCauchy
    from mercer.maps.skewed import SkewedFourier as SkewedFourier
    from mercer.maps.unary import UnaryIntersection as UnaryIntersection
    from mercer.model import load as load
    from mercer.model import save as save
    from mercer.quotation.quoting import plan as plan
    from mercer.report.writing import write_report as write_report
    from mercer.streams import open_stream as open_stream

_home = {
    "KernelRegressor": "learn.regressor",
    "KernelClassifier": "learn.classifier",
    "UnaryIntersection": "maps.unary",
    "SignCauchy": "maps.signs",
    "GCWS": "maps.gcws",
    "Anchors": "maps.anchors",
    "AdditiveNystroem": "maps.additive_nystroem",
    "Chi2Chebyshev": "maps.chebyshev",
    "Chi2Series": "maps.chi2",
    "CompressiveFourier": "maps.compressive",
    "ExpChi2": "maps.expchi2",
    "FeaturePCA": "maps.pca",
    "Hellinger": "maps.hellinger",
    "Homogeneous": "maps.homogeneous",
    "Identity": "maps.identity",
    "RandomLaplace": "maps.laplace",
    "Scaled": "maps.scaled",
    "RandomProjection": "maps.projection",
    "SkewedFourier": "maps.skewed",
    "Composed": "maps.compose",
    "RandomFourier": "maps.fourier",
    "Nystroem": "maps.nystroem",
    "Stacked": "maps.compose",
    "certify": "certificate",
    "fold": "folding",
    "gram": "grams",
    "load": "model",
    "save": "model",
    "select": "leaderboard",
    "kernels": "",
    "on": "devices",
    "open_stream": "streams",
    "plan": "quotation.quoting",
    "theory": "",
    "write_report": "report.writing",
}

__version__ = "0.1.0"
__all__ = sorted(_home)

if not TYPE_CHECKING:  # a visible __getattr__ would make every misspelt name Any

    def __getattr__(name: str) -> Any:
        if name not in _home:
            raise AttributeError(f"module 'mercer' has no attribute {name!r}")
        home = _home[name]
        value = getattr(import_module(f"mercer.{home}"), name) if home else import_module(f"mercer.{name}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
