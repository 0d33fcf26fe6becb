"""mercer maps, info, inspect and completion: what there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from mercer.cli import _map_syntax
from mercer.cli._console import Voice, plain_table, speaks
from mercer.cli._options import PATH
from mercer.cli._signatures import maps as signatures

_MOST_CLASSES = 10  # that are listed


class _MapName(click.ParamType):
    name = "map"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in signatures() if name.startswith(incomplete)]


@click.command(short_help="The maps, and the options of each.")
@click.argument("name", type=_MapName(), required=False)
@speaks
def maps(name: str | None, voice: Voice) -> None:
    """List the maps: kernels, domain, the parameter that buys accuracy, the paper. With NAME, the
    options of that map.

    \b
    Examples:
      mercer maps
      mercer maps gcws
    """
    if name is not None:
        _show_map(name, voice)
        return
    from mercer.maps import registry

    table = plain_table("=name", "=class(size)", "kernels; domain; paper")
    for known, cls in sorted(registry().items()):
        about = f"{', '.join(cls.kernels)}; {cls().domain}\n{cls.paper}\n"
        table.add_row(known, f"{cls.__name__}({cls.size_parameter or ''})", about)
        voice.event(
            "map",
            name=known,
            kernels=cls.kernels,
            domain=cls().domain,
            size_parameter=cls.size_parameter,
            options=signatures()[known].parameters,
        )
    voice.table(table)
    voice.say("mercer maps NAME shows the options of a map.")


def _show_map(name: str, voice: Voice) -> None:
    try:
        _map_syntax.parse(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    import inspect

    from mercer.maps import registry

    cls = registry()[name]
    options = signatures()[name].parameters
    described = _parameters_in((inspect.getdoc(cls) or "").replace("``", ""))
    voice.event("map", name=name, options=options)
    voice.say(f"{cls.__name__}: {(inspect.getdoc(cls) or '').partition(chr(10))[0]}\n")
    table = plain_table("=option", "=default", "")
    for option, default in options.items():
        table.add_row(option, default, described.get(option, ""))
    voice.table(table)
    size = (
        {cls.size_parameter: _map_syntax.literal(options[cls.size_parameter])}
        if cls.size_parameter
        else {}
    )
    voice.say(f"--map {_map_syntax.spell(_map_syntax.Named(name, size))}")


def _parameters_in(doc: str) -> dict[str, str]:
    """What a numpydoc docstring says of each parameter, in one line."""
    found: dict[str, str] = {}
    names: list[str] = []
    lines = doc.partition("Parameters\n----------\n")[2].splitlines()
    for line in lines:
        if line and not line.startswith(" "):
            if " : " not in line:
                break
            left, _, kind = line.partition(" : ")
            names = [one.strip() for one in left.split(",")]
            found |= dict.fromkeys(names, kind.partition(", default")[0])
        elif line.strip():
            found |= {one: f"{found[one]} {line.strip()}" for one in names}
        else:
            break
    return found


@click.command(short_help="Versions, processor, compiled parts.")
@speaks
def info(voice: Voice) -> None:
    """Print versions, CPU features, threads, compiled ops and installed extras.

    \b
    Example:
      mercer info
    """
    from mercer import system

    facts = system.facts()
    table = plain_table("", "", header=False)
    for name, value in facts.items():
        table.add_row(name, value)
    voice.table(table)
    voice.event("info", **facts)


@click.command(short_help="What a model file holds.")
@click.argument("model", type=PATH)
@speaks
def inspect(model: Path, voice: Voice) -> None:
    """Show what a model file holds: the map, the parameters, the columns it needs, and whether it
    is whole.

    \b
    Example:
      mercer inspect model.mercer
    """
    from mercer.persistence.io import describe, load

    shown = describe(model)
    loaded = load(model)  # which checks the digest, and that all parts go together
    fitted = getattr(loaded, "feature_map_", loaded)
    is_map = fitted is loaded
    stored = (
        {"class": shown["class"], **shown["parameters"]}
        if is_map
        else shown["parameters"]["feature_map"]
    )
    spelt = _map_syntax.spell(_map_syntax.of_description(stored))
    labels = None if shown["classes"] is None else loaded.classes_.tolist()
    voice.event(
        "model",
        **{
            **shown,
            "classes": labels,
            "map": spelt,
            "features": int(fitted._n_features_out),
            "digest": "right",
        },
    )
    table = plain_table("", "", header=False)
    for name, value in _facts(shown, loaded, fitted, spelt, is_map).items():
        table.add_row(name, value)
    voice.table(table)


def _facts(
    shown: dict[str, Any], loaded: Any, fitted: Any, spelt: str, is_map: bool
) -> dict[str, str]:
    from mercer.parallel.tile_size import size

    library = ", ".join(f"{name} {version}" for name, version in shown["library"].items())
    found = {"class": shown["class"], "map": spelt, "kernel": _kernel(fitted)}
    if not is_map:
        given = {
            name: value for name, value in shown["parameters"].items() if name != "feature_map"
        }
        found["parameters"] = ", ".join(
            f"{name}={json.dumps(value)}" for name, value in given.items()
        )
        found["alpha"] = f"{loaded.alpha_:.4g}"
        found["rows"] = f"{shown['rows']:,}" if shown["rows"] is not None else "-"
        if shown["classes"] is not None:
            found["classes"] = _listed([*map(str, loaded.classes_.tolist())])
    names = shown["feature_names"]
    columns = f"{shown['columns']:,}"
    found["columns"] = (
        columns if names is None else f"{columns}: {_listed([*map(str, fitted_names(loaded))])}"
    )
    found["features"] = f"{fitted._n_features_out:,}"
    return {
        **found,
        "seed": str(shown["seed"]),
        "size": size(shown["bytes"]),
        "written by": library,
        "digest": "right",
    }


def fitted_names(model: Any) -> list[str]:
    """The names of the columns that a model was fitted on."""
    return [str(name) for name in model.feature_names_in_]


def _kernel(fitted: Any) -> str:
    try:
        return repr(fitted.kernel_)
    except AttributeError:
        return "-"


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - _MOST_CLASSES:,} more" if len(words) > _MOST_CLASSES else ""
    return f"{', '.join(words[:_MOST_CLASSES])}{more}"


@click.command(short_help="Completion for bash, zsh and fish.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that makes SHELL complete commands, options, maps and files.

    \b
    Example:
      mercer completion zsh
    For good: mercer completion bash >> ~/.bashrc
    """
    from click.shell_completion import get_completion_class

    from mercer.cli import main

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(main, {}, "mercer", "_MERCER_COMPLETE").source())
