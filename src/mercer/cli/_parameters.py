"""Options of ``mercer fit`` for the parameters of the estimators, from their declaration."""

from __future__ import annotations

import os
from typing import Any

import click

from mercer.cli._map_syntax import parse_value
from mercer.linear_model.parameters import ESTIMATOR_PARAMETERS, Parameter
from mercer.validation.parameters import (
    Constraint,
    Flag,
    InstanceOf,
    Integer,
    MemorySize,
    Missing,
    Option,
    Positive,
    Threads,
    validate_parameter,
)

_OWN_OPTIONS = ("feature_map", "verbose", "random_state")  # --map, --json and --seed
_NAMES = {"n_jobs": "--jobs", "random_state": "--seed", "feature_map": "--map"}
_METAVARS: dict[type, str] = {
    Integer: "N",
    Threads: "N",
    Positive: "NUMBER",
    MemorySize: "SIZE",
    Flag: "true|false",
}


def option_name(parameter: str) -> str:
    """Return the name of the option for a parameter of an estimator."""
    return _NAMES.get(parameter, f"--{parameter.replace('_', '-')}")


class ParameterType(click.ParamType):
    """Type of an option whose values satisfy the constraints of a parameter."""

    def __init__(self, parameter: str, declaration: Parameter) -> None:
        self.parameter, self.constraints = parameter, declaration.constraints
        self.name = "|".join(
            dict.fromkeys(_metavar(each) for each in self.constraints if type(each) is not Missing)
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a text; raise ParameterError where no constraint allows it."""
        if not isinstance(value, str) or (ctx is not None and ctx.resilient_parsing):
            return value
        if not self.constraints:
            return value
        # "2GB" and the path "1" are allowed as they are written, "[0.1, 1]" as the list
        parsed = parse_value(value)
        takes_text = any(isinstance(each, InstanceOf | MemorySize) for each in self.constraints)
        candidates = (value, parsed) if takes_text else (parsed,)
        for candidate in candidates:
            if any(candidate in constraint for constraint in self.constraints):
                return candidate
        validate_parameter("", self.parameter, parsed, *self.constraints)
        return parsed

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        from click.shell_completion import CompletionItem

        if self.name == "FILE":
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(w) for w in self.name.split("|") if w.startswith(incomplete) and w]


def _metavar(constraint: Constraint) -> str:
    if isinstance(constraint, Option):
        return "|".join(constraint.options)
    if isinstance(constraint, InstanceOf):
        return "FILE" if os.PathLike in _types(constraint) else "{LABEL:WEIGHT}"
    return _METAVARS.get(type(constraint), "NUMBER")


def _types(constraint: InstanceOf) -> tuple[type, ...]:
    return constraint.types if isinstance(constraint.types, tuple) else (constraint.types,)


def estimator_options(command: Any) -> Any:
    """Add an option for each parameter of the estimators that has no option of its own."""
    for name in reversed(ESTIMATOR_PARAMETERS):
        if name not in _OWN_OPTIONS:
            command = estimator_option(name)(command)
    return command


def estimator_option(name: str) -> Any:
    """Return the option for a parameter of the estimators; its argument is parameter_<name>."""
    declaration = ESTIMATOR_PARAMETERS[name]
    kind = ParameterType(name, declaration)
    return click.option(
        option_name(name),
        f"parameter_{name}",
        type=kind,
        metavar=kind.name or "TEXT",
        help=_help(declaration),
    )


def _help(declaration: Parameter) -> str:
    text = declaration.help
    if declaration.classifier_only:
        text += " Classifiers only."
    if declaration.default is not None:
        text += f"  [default: {str(declaration.default).lower()}]"
    return text
