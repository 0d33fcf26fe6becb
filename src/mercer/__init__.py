"""Nonlinear kernel methods at linear cost.

Explicit feature maps phi with <phi(x), phi(z)> ~ k(x, z), each with its exact kernel k. Public
names are imported on first use, so that ``import mercer`` takes no longer than ``import numpy``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer import kernels as kernels
    from mercer import theory as theory
    from mercer.data import open_stream as open_stream
    from mercer.evaluation.certificate import certify as certify
    from mercer.evaluation.plan import plan as plan
    from mercer.kernels.gram import gram as gram
    from mercer.linear_model.classifier import KernelClassifier as KernelClassifier
    from mercer.linear_model.regressor import KernelRegressor as KernelRegressor
    from mercer.maps.additive_nystroem import AdditiveNystroem as AdditiveNystroem
    from mercer.maps.anchors import Anchors as Anchors
    from mercer.maps.chi2_chebyshev import Chi2Chebyshev as Chi2Chebyshev
    from mercer.maps.chi2_series import Chi2Series as Chi2Series
    from mercer.maps.compose import Composed as Composed
    from mercer.maps.compose import Stacked as Stacked
    from mercer.maps.compressive import CompressiveFourier as CompressiveFourier
    from mercer.maps.exp_chi2 import ExpChi2 as ExpChi2
    from mercer.maps.fourier import RandomFourier as RandomFourier
    from mercer.maps.gcws import GCWS as GCWS
    from mercer.maps.hellinger import Hellinger as Hellinger
    from mercer.maps.homogeneous import Homogeneous as Homogeneous
    from mercer.maps.identity import Identity as Identity
    from mercer.maps.laplace import RandomLaplace as RandomLaplace
    from mercer.maps.metric import Metric as Metric
    from mercer.maps.nystroem import Nystroem as Nystroem
    from mercer.maps.pca import FeaturePCA as FeaturePCA
    from mercer.maps.projection import RandomProjection as RandomProjection
    from mercer.maps.scaled import Scaled as Scaled
    from mercer.maps.sign_cauchy import SignCauchy as SignCauchy
    from mercer.maps.skewed import SkewedFourier as SkewedFourier
    from mercer.maps.tabular import Tabular as Tabular
    from mercer.maps.unary_intersection import UnaryIntersection as UnaryIntersection
    from mercer.model_selection.select import select as select
    from mercer.parallel.device import use_device as use_device
    from mercer.persistence.io import load as load
    from mercer.persistence.io import save as save
    from mercer.report.report import write_report as write_report
    from mercer.stats.reduce import accumulate as accumulate

# Public name -> the module that defines it; "" for a subpackage.
_modules = {
    "KernelRegressor": "linear_model.regressor",
    "KernelClassifier": "linear_model.classifier",
    "UnaryIntersection": "maps.unary_intersection",
    "SignCauchy": "maps.sign_cauchy",
    "GCWS": "maps.gcws",
    "Anchors": "maps.anchors",
    "accumulate": "stats.reduce",
    "AdditiveNystroem": "maps.additive_nystroem",
    "Chi2Chebyshev": "maps.chi2_chebyshev",
    "Chi2Series": "maps.chi2_series",
    "CompressiveFourier": "maps.compressive",
    "ExpChi2": "maps.exp_chi2",
    "FeaturePCA": "maps.pca",
    "Hellinger": "maps.hellinger",
    "Homogeneous": "maps.homogeneous",
    "Identity": "maps.identity",
    "RandomLaplace": "maps.laplace",
    "Scaled": "maps.scaled",
    "RandomProjection": "maps.projection",
    "SkewedFourier": "maps.skewed",
    "Composed": "maps.compose",
    "Metric": "maps.metric",
    "RandomFourier": "maps.fourier",
    "Nystroem": "maps.nystroem",
    "Stacked": "maps.compose",
    "Tabular": "maps.tabular",
    "certify": "evaluation.certificate",
    "gram": "kernels.gram",
    "load": "persistence.io",
    "save": "persistence.io",
    "select": "model_selection.select",
    "kernels": "",
    "use_device": "parallel.device",
    "open_stream": "data",
    "plan": "evaluation.plan",
    "theory": "",
    "write_report": "report.report",
}

__version__ = "0.1.0"
__all__ = sorted(_modules)

if not TYPE_CHECKING:  # type checkers would take every misspelt name for Any

    def __getattr__(name: str) -> Any:
        if name not in _modules:
            raise AttributeError(f"module 'mercer' has no attribute {name!r}")
        module = _modules[name]
        if module:
            value = getattr(import_module(f"mercer.{module}"), name)
        else:
            value = import_module(f"mercer.{name}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
