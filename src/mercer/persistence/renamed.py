"""Names that were renamed, and attributes that were added, after files were written.

Every renamed class, fitted attribute and field of a record gets a line here, and every fitted
attribute that was only a parameter before, so that all files still load.
"""

from __future__ import annotations

from typing import Any

CLASSES: dict[str, str] = {
    "After": "CompositionTransform",
    "Beside": "StackedTransform",
    "Between": "AnchorInterpolation",
    "Centred": "Centered",
    "Choice": "AlphaSearch",
    "Decays": "LaplaceFeatures",
    "Featured": "KernelOnFeatures",
    "Guard": "InputCheck",
    "Head": "LinearPredictor",
    "Measured": "CheckedProjection",
    "Nearest": "NearestAnchor",
    "Over": "ComposedKernel",
    "Same": "IdentityStage",
    "Waves": "FourierFeatures",
}
"""Old name of a model or record class -> current name."""

ATTRIBUTES: dict[str, str] = {
    "drawn_": "tile_transform_",
    "_head": "_predictor",
    "_taken": "n_samples_seen_",
    "_columns": "_targets_2d",
    "_announced": "_classes_declared",
}
"""Old name of a fitted attribute, of any model -> current name."""

_SIZE = {"n_components_": "n_components"}
FROM_PARAMETERS: dict[str, dict[str, str]] = {
    "CompressiveFourier": _SIZE,
    "ExpChi2": _SIZE | {"gamma_": "gamma"},
    "Nystroem": {"kernel_params_": "kernel_params"},
    "RandomFourier": _SIZE,
    "RandomLaplace": _SIZE,
    "SignCauchy": _SIZE,
    "SkewedFourier": _SIZE,
}
"""Current name of a model class -> {fitted attribute that older files lack: its parameter}."""

FIELDS: dict[str, dict[str, str]] = {
    "CompositionTransform": {"guards": "checks"},
    "FourierFeatures": {"reach": "max_norm"},
    "LinearPredictor": {"choice": "search", "steps": "n_iter"},
    "Plan": {"held": "solver_bytes", "room": "cache_bytes"},
}
"""Current name of a record class -> {old name of a field: current name}."""


def with_current_names(stored: Any) -> Any:
    """Return an encoded value with current names, and with attributes that were added.

    Raises
    ------
    ValueError
        If an attribute or a field has both its old and its current name.
    """
    if isinstance(stored, list):
        return [with_current_names(value) for value in stored]
    if not isinstance(stored, dict):
        return stored
    current = {key: with_current_names(value) for key, value in stored.items()}
    for tag, position in (("model", 2), ("record", 1)):
        body = current.get(tag)
        if len(current) == 1 and isinstance(body, list) and len(body) > 1:
            if isinstance(body[0], str):
                body[0] = CLASSES.get(body[0], body[0])
            if len(body) > position and isinstance(body[position], dict):
                table = ATTRIBUTES if tag == "model" else FIELDS.get(str(body[0]), {})
                body[position] = _rename_keys(body[position], table)
                if tag == "model" and isinstance(body[1], dict):
                    for attribute, parameter in FROM_PARAMETERS.get(str(body[0]), {}).items():
                        if parameter in body[1] and not isinstance(body[1][parameter], str):
                            body[position].setdefault(attribute, body[1][parameter])
    return current


def _rename_keys(values: dict[str, Any], table: dict[str, str]) -> dict[str, Any]:
    renamed = {table.get(name, name): value for name, value in values.items()}
    if len(renamed) != len(values):
        raise ValueError(f"it has {min(set(table) & set(values))!r} under two names")
    return renamed
