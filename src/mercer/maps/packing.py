"""A fitted map on its way to another process or to a file.

To a process go its parameters, its seed and what it saw, where that is less than what it has drawn;
to a file, what it has drawn.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, Self

from mercer.maps._transform import TileTransform
from mercer.parallel import devices
from mercer.parallel.threads import one_blas_thread
from mercer.parallel.tile_size import worth_redrawing
from mercer.rng import Rng
from mercer.stats.basic import Statistic


class Packing:
    """What Map has of it; compositions pack their parts."""

    n_features_in_: int
    seed_: Any
    tile_transform_: TileTransform
    get_params: Callable[..., dict[str, Any]]
    _seen_: Any = None  # what look() saw, where it is small beside what was drawn

    def required_statistics(self, d: int) -> Statistic | None:
        raise NotImplementedError

    def build(self, rng: Rng, d: int, statistics: Any) -> TileTransform:
        raise NotImplementedError

    def _remember(self, statistics: Any) -> None:
        """Keep what was seen, if it is small beside what was drawn."""
        if statistics is not None and self._is_less(statistics):
            self._seen_ = statistics
        elif "_seen_" in vars(self):
            del self._seen_

    def _packed(self) -> Self:
        """A copy without what was drawn, where _unpacked can draw it again."""
        other = copy.copy(self)
        known = self._seen_ is not None or self.required_statistics(self.n_features_in_) is None
        if known and self._is_less(self._seen_):
            del other.tile_transform_
        return other

    def _unpacked(self) -> Self:
        """The map that was packed."""
        if hasattr(self, "tile_transform_"):
            return self
        other = copy.copy(self)
        with devices.at(None), one_blas_thread():
            other.tile_transform_ = other.build(Rng(self.seed_), self.n_features_in_, self._seen_)
        return other

    def _kept(self) -> dict[str, Any]:
        """What fit has found, by attribute: beside the parameters, all that a model file holds."""
        params = self.get_params(deep=False)
        return {
            name: value for name, value in vars(self).items() if name not in {*params, "_seen_"}
        }

    def _keep(self, kept: dict[str, Any]) -> None:
        """Take over what _kept gave: the map is then fitted as that one was."""
        self.__dict__.update(kept)

    def _is_less(self, statistics: Any) -> bool:
        drawn = sum(array.nbytes for array in self.tile_transform_.arrays().values())
        return worth_redrawing(0, drawn) and worth_redrawing(_sent_bytes(statistics), drawn)


def _sent_bytes(statistics: Any) -> int:
    """Bytes of a summary on its way; its arrays are counted, not copied."""
    arrays: list[pickle.PickleBuffer] = []
    return len(pickle.dumps(statistics, 5, buffer_callback=arrays.append)) + sum(
        array.raw().nbytes for array in arrays
    )
