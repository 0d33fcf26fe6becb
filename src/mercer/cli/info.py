"""mercer maps, info, inspect and completion: maps, versions, model files, shells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from mercer.cli import _map_syntax
from mercer.cli._console import Console, output_options, plain_table
from mercer.cli._options import PATH, print_columns
from mercer.cli.fit import format_importances, format_noise

_MOST_LISTED = 10  # classes or columns


class _MapName(click.ParamType):
    name = "map"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        from click.shell_completion import CompletionItem

        names = _map_syntax.registered_maps()
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(short_help="List the maps, and the options of each.")
@click.argument("name", type=_MapName(), required=False)
@output_options
def maps(name: str | None, console: Console) -> None:
    """List the maps: kernels, domain, size parameter, paper. With NAME, the options of that map.

    \b
    Examples:
      mercer maps
      mercer maps gcws
    """
    if name is not None:
        _print_map(name, console)
        return
    table = plain_table("=name", "=class(size)", "kernels; domain; paper")
    for map_name, cls in _map_syntax.registered_maps().items():
        about = f"{', '.join(cls.kernels)}; {cls().domain}\n{cls.paper}\n"
        table.add_row(map_name, f"{cls.__name__}({cls.size_parameter or ''})", about)
        console.event(
            "map",
            name=map_name,
            kernels=cls.kernels,
            domain=cls().domain,
            size_parameter=cls.size_parameter,
            options=_options(cls),
        )
    console.table(table)
    console.print("mercer maps NAME lists the options of a map.")


def _options(cls: Any) -> dict[str, str]:
    return {name: repr(default) for name, default in _map_syntax.defaults(cls).items()}


def _print_map(name: str, console: Console) -> None:
    import inspect

    try:
        _map_syntax.parse(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    cls = _map_syntax.registered_maps()[name]
    doc = inspect.getdoc(cls) or ""
    descriptions = _parse_parameters(doc.replace("``", ""))
    console.event("map", name=name, options=_options(cls))
    console.print(f"{cls.__name__}: {doc.partition(chr(10))[0]}\n")
    table = plain_table("=option", "=default", "")
    for option, default in _options(cls).items():
        table.add_row(option, default, descriptions.get(option, ""))
    console.table(table)
    size = cls.size_parameter
    example = {} if size is None else {size: _map_syntax.defaults(cls)[size]}
    console.print(f"--map {_map_syntax.format_spec(_map_syntax.MapSpec(name, example))}")


def _parse_parameters(doc: str) -> dict[str, str]:
    """Return the description of each parameter in a numpydoc docstring, on one line."""
    descriptions: dict[str, str] = {}
    names: list[str] = []
    for line in doc.partition("Parameters\n----------\n")[2].splitlines():
        if line and not line.startswith(" "):
            if " : " not in line:
                break
            left, _, kind = line.partition(" : ")
            names = [name.strip() for name in left.split(",")]
            descriptions |= dict.fromkeys(names, kind.partition(", default")[0])
        elif line.strip():
            descriptions |= {name: f"{descriptions[name]} {line.strip()}" for name in names}
        else:
            break
    return descriptions


@click.command(short_help="Print versions, CPU features and compiled ops.")
@output_options
def info(console: Console) -> None:
    """Print versions, CPU features, threads, compiled ops and installed extras.

    \b
    Example:
      mercer info
    """
    from mercer import system

    facts = system.describe_system()
    console.table(_key_value_table(facts))
    console.event("info", **facts)


@click.command(short_help="Describe a model file.")
@click.argument("model", type=PATH)
@output_options
def inspect(model: Path, console: Console) -> None:
    """Print the map, parameters and columns of a model file, and verify its checksum.

    \b
    Example:
      mercer inspect model.mercer
    """
    from mercer.linear_model.base import encoder_of
    from mercer.persistence.io import describe, load

    description = describe(model)
    loaded = load(model)  # verifies the checksum and the consistency of all parts
    feature_map = getattr(loaded, "feature_map_", loaded)
    stored: Any = {"class": description["class"], **description["parameters"]}
    if feature_map is not loaded:
        stored = description["parameters"]["feature_map"]
    spec = _map_syntax.format_spec(_map_syntax.spec_of_description(stored))
    labels = None if description["classes"] is None else loaded.classes_.tolist()
    fields = {
        **description,
        "classes": labels,
        "map": spec,
        "features": int(feature_map._n_features_out),
        "checksum": "OK",
    }
    console.event("model", **fields)
    console.table(_key_value_table(_format_model(description, loaded, feature_map, spec)))
    encoder = encoder_of(feature_map)
    if encoder is not None:
        print_columns(encoder, console)


def _format_model(
    description: dict[str, Any], loaded: Any, feature_map: Any, spec: str
) -> dict[str, str]:
    from mercer.parallel.tile_size import format_bytes

    kernel = getattr(feature_map, "kernel_", None)
    rows = {
        "class": description["class"],
        "map": spec,
        "kernel": "-" if kernel is None else repr(kernel),
    }
    if feature_map is not loaded:
        parameters = [
            f"{name}={json.dumps(value)}"
            for name, value in description["parameters"].items()
            if name != "feature_map"
        ]
        count = description["rows"]
        rows |= {
            "parameters": ", ".join(parameters),
            "alpha": f"{loaded.alpha_:.4g}",
            "rows": "-" if count is None else f"{count:,}",
        }
        if loaded.uncertainty and hasattr(loaded, "noise_variance_"):
            rows["noise"] = f"standard deviation {format_noise(loaded)}"
        if description["classes"] is not None:
            rows["classes"] = _format_list(loaded.classes_.tolist())
    if feature_map is not loaded and loaded.plan_.scaled:
        rows["scaled"] = "columns centered and divided by their spread"
    if hasattr(loaded, "predict") and hasattr(loaded, "importances_"):
        rows["importances"] = format_importances(loaded)
    rows["columns"] = f"{description['columns']:,}"
    if description["feature_names"] is not None:
        rows["columns"] += f": {_format_list(loaded.feature_names_in_)}"
    versions = description["library"].items()
    return {
        **rows,
        "features": f"{feature_map._n_features_out:,}",
        "seed": str(description["seed"]),
        "size": format_bytes(description["bytes"]),
        "written by": ", ".join(f"{name} {version}" for name, version in versions),
        "checksum": "OK",
    }


def _key_value_table(values: dict[str, str]) -> Any:
    table = plain_table("", "", header=False)
    for name, value in values.items():
        table.add_row(name, value)
    return table


def _format_list(values: Any) -> str:
    more = f" and {len(values) - _MOST_LISTED:,} more" if len(values) > _MOST_LISTED else ""
    return f"{', '.join(map(str, values[:_MOST_LISTED]))}{more}"


@click.command(short_help="Print a completion script for bash, zsh or fish.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that makes SHELL complete commands, options, maps and files.

    \b
    Example:
      mercer completion zsh
    To install it: mercer completion bash >> ~/.bashrc
    """
    from click.shell_completion import get_completion_class

    from mercer.cli import main

    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(main, {}, "mercer", "_MERCER_COMPLETE").source())
