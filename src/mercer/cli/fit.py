"""mercer fit: a model from a file, to a file."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mercer.cli import _map_syntax
from mercer.cli._console import Voice, speaks
from mercer.cli._errors import option_of, stopping
from mercer.cli._options import (
    PATH,
    describe_index,
    names_of,
    open_data,
    open_like,
    options,
    require_output,
    require_target,
)
from mercer.cli._signatures import Signature, estimators
from mercer.cli.targets import CLASSIFY, Task, task_of

_HELP = {  # of parameters of the estimators; one that is not here appears by its name
    "loss": "squared, squared_hinge or logistic.",
    "alpha": "A number, [a,list] to choose from, or auto, gcv, kfold, loo.",
    "penalty": "l2, or l1 and group, which leave coefficients or whole maps out (squared loss).",
    "pca": "Learn on so many principal components.",
    "class_weight": 'balanced, or {"label": weight, ...}.',
    "max_memory": "What moments or matrices may hold: 2GB; a few blocks of rows come on top.",
    "checkpoint": "A file from which a fit that was stopped goes on (squared loss from moments).",
    "cluster": "The address of a Dask scheduler.",
    "device": "cuda, or cuda:0: a GPU, through torch.",
    "precision": "tf32 or bf16: shorter products of float32 on a GPU.",
    "fit_intercept": "false to leave the intercept out.",
    "max_iter": "Steps, at most.",
    "tol": "How far from the optimum steps end.",
    "n_jobs": "Threads; all of them when not given.",
}
AUTO = "auto"  # the map that mercer compare would find
_OURS = ("feature_map", "verbose", "random_state")  # which --map, the voice and --seed are for


class MapType(click.ParamType):
    """A map, or several, in the language of maps."""

    name = "map"

    def __init__(self, *, auto: bool = False) -> None:
        self.auto = auto  # whether "auto" may stand for it

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or (self.auto and value == AUTO):
            return value
        try:
            return _map_syntax.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(text) for text in _map_syntax.completions(incomplete)]


class _FromSignatures(click.Command):
    """A command with an option for each parameter of the estimators."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        return [*own[:-3], *_estimator_options(), *own[-3:]]  # before --json, --debug, --help


def _estimator_options() -> list[click.Parameter]:
    found = estimators()
    both = {name: one.parameters for name, one in found.items()}
    everything = {**both["KernelClassifier"], **both["KernelRegressor"]}
    made: list[click.Parameter] = []
    for name, default in everything.items():
        if name in _OURS:
            continue
        only = "" if all(name in one for one in both.values()) else " For classes only."
        flag = option_of(name)
        shown = "" if default == "None" else f"  [default: {default.strip(chr(39))}]"
        kind = PATH if name == "checkpoint" else click.STRING
        metavar = "FILE" if name == "checkpoint" else "VALUE"
        text = f"{_HELP.get(name, '')}{only}{shown}".strip()
        made.append(
            click.Option([flag, f"parameter_{name}"], type=kind, metavar=metavar, help=text)
        )
    return made


@click.command(cls=_FromSignatures, short_help="A model from a file, to a file.")
@click.argument("data", type=PATH)
@options("target")
@click.option(
    "--map",
    "maps",
    type=MapType(auto=True),
    default="fourier",
    show_default=True,
    help="name:option=value,... (see mercer maps), a >> b, a + b; or auto, the one that mercer "
    "compare finds.",
)
@click.option(
    "--max-seconds",
    type=float,
    default=60,
    show_default=True,
    help="Of --map auto: when its race is stopped.",
)
@options("output")
@click.option(
    "--test", type=PATH, help="Rows that are not learnt from: the score on them is shown."
)
@options("task", "columns", "drop", "weight")
@click.option("--unlabeled", type=PATH, help="More rows, without a target, for --pca.")
@options("max-classes", "seed", "force")
@speaks
def fit(
    data: Path,
    target: str | None,
    maps: Any,
    max_seconds: float,
    output: Path,
    test: Path | None,
    task: str | None,
    columns: str | None,
    drop: str | None,
    weight: str | None,
    unlabeled: Path | None,
    max_classes: int,
    seed: int,
    force: bool,
    voice: Voice,
    **given: Any,
) -> None:
    """Fit a model to the rows of DATA and write it to a file.

    DATA is a .parquet, .csv, .tsv, .npy, .npz or svmlight file, or a folder of Parquet files; it
    may be larger than memory.

    \b
    Examples:
      mercer fit data.parquet --target digit -o model.mercer
      mercer fit data.csv --target digit --map "chi2-series:n_terms=3 >> fourier:n_components=256"
      -o chi2.mercer mercer fit data.parquet --target digit --map auto --max-seconds 5 -o
      chosen.mercer
      mercer fit data.parquet --target digit --map gcws:n_hashes=64,bits=4 --test data.csv -o
      hashes.mercer
    """
    require_output(output, force, read=(data, test, unlabeled, _checkpoint(given)))
    require_target(data, target)
    roles: Any = {"target": target, "weight": weight, "columns": columns, "drop": drop}
    stream = open_data(data, **roles)
    held_out = None if test is None else open_data(test, **roles)
    chosen = task_of(stream, task, max_classes)
    parameters = _parameters(chosen, given)
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = _labelled(parameters["class_weight"], stream)
    voice.say(
        " ".join(filter(None, [f"{_described(stream)}.", describe_index(stream), chosen.why]))
    )
    from mercer.linear_model.classifier import KernelClassifier
    from mercer.linear_model.regressor import KernelRegressor
    from mercer.persistence.io import save

    cls: Any = KernelClassifier if chosen.name == CLASSIFY else KernelRegressor
    how = {
        "max_seconds": max_seconds,
        "max_memory": parameters.get("max_memory"),
        "random_state": seed,
    }
    feature_map = _found(stream, chosen, voice, how) if maps == AUTO else _map_syntax.build(maps)
    model = cls(feature_map, random_state=seed, **parameters)
    start = time.perf_counter()
    _run(model, stream, unlabeled, voice, parameters)
    seconds = time.perf_counter() - start
    save(model, output)
    _summary(model, stream, seconds, output, voice)
    if held_out is not None:
        score = float(model.score(held_out))
        what = "accuracy" if chosen.name == CLASSIFY else "R^2"
        voice.say(
            f"{what} on {held_out.name}: {f'{score:.2%}' if what == 'accuracy' else f'{score:.4f}'}"
        )
        voice.event("score", score=score, measure=what, data=str(test))
    inputs = _inputs(stream, columns, target)
    voice.say(
        f"Next: mercer predict {shlex.quote(str(output))} {shlex.quote(str(data))}{inputs} -o "
        "predictions.parquet"
    )


def _found(stream: Any, task: Task, voice: Voice, how: dict[str, Any]) -> Any:
    """The map that wins a race on a sample of the rows."""
    from mercer.cli.compare import race

    if stream.weight is not None:
        voice.note("weights of rows count for the fit, not for the choice of the map.")
    board = race(stream, task, voice, **how)
    words = _map_syntax.spell(_map_syntax.of_map(board.best_.feature_map))
    voice.say(f"{board.verdict} So --map {shlex.quote(words)}.")
    if board.stopped is not None:
        voice.say(board.stopped)
    voice.event(
        "verdict", verdict=board.verdict, winner=board.winner.name, map=words, stopped=board.stopped
    )
    return board.best_.feature_map


def _run(
    model: Any, stream: Any, unlabeled: Path | None, voice: Voice, parameters: dict[str, Any]
) -> None:
    others = (
        {}
        if unlabeled is None
        else {"unlabeled": open_like(unlabeled, names_of(stream), stream.width)}
    )
    plan = _once(lambda: _show_plan(model, voice))
    with stopping(
        lambda: _what_is_kept(parameters.get("checkpoint"), getattr(model, "plan_", None))
    ):
        with voice.watching("fit", plan) as watch:
            if parameters.get("cluster") is None:  # whose workers do not speak
                stream.watched(watch)
            model.fit(stream, **others)
        plan()  # which nothing has shown where nothing was watched


def _show_plan(model: Any, voice: Voice) -> bool:
    """Say what will be done, once it is known: before the first pass that sums anything up."""
    plan = getattr(model, "plan_", None)
    if plan is not None:
        voice.say(f"Plan: {plan}")
        voice.event(
            "plan",
            route=plan.route,
            passes=list(plan.passes),
            features=plan.features,
            bytes=plan.held,
        )
    return plan is not None


def _once(do: Callable[[], bool]) -> Callable[[], None]:
    done: list[bool] = []

    def maybe() -> None:
        if not any(done):
            done.append(do())

    return maybe


def _what_is_kept(checkpoint: str | None, plan: Any) -> str:
    if checkpoint is None and plan is not None and plan.route not in ("moments", "two-stage"):
        return "Nothing was written."
    if checkpoint is None:
        return "Nothing was written; with --checkpoint FILE a fit goes on where it was stopped."
    from mercer.stats.checkpoint import Checkpoint

    rows = Checkpoint.read_row_count(checkpoint)
    if not rows:
        return f"{checkpoint} has no rows yet: run the same command again to begin anew."
    return f"The first {rows:,} rows are in {checkpoint}: run the same command again to go on."


def _parameters(task: Task, given: dict[str, Any]) -> dict[str, Any]:
    """What was given for the estimator, by parameter."""
    cls = "KernelClassifier" if task.name == CLASSIFY else "KernelRegressor"
    known: Signature = estimators()[cls]
    found = {
        name.removeprefix("parameter_"): value for name, value in given.items() if value is not None
    }
    for name in found:
        if name not in known.parameters:
            raise click.UsageError(
                f"{option_of(name)} is for classes, and the target is numbers. {task.why}"
            )
    words = ("max_memory", "cluster", "checkpoint")  # which are taken as they are written
    return {
        name: str(value) if name in words else _map_syntax.literal(value)
        for name, value in found.items()
    }


def _checkpoint(given: dict[str, Any]) -> Path | None:
    kept = given.get("parameter_checkpoint")
    return None if kept is None else Path(kept)


def _labelled(weights: dict[Any, Any], stream: Any) -> dict[Any, Any]:
    """Weights by the labels themselves: {"1": 3} is of the label 1 where labels are numbers, as
    JSON has words for keys.
    """
    import numpy as np

    labels = {
        str(label): label for label in np.unique(np.asarray(next(stream.chunks()).y)).tolist()
    }
    return {labels.get(str(label), label): weight for label, weight in weights.items()}


def _inputs(stream: Any, columns: str | None, target: str | None) -> str:
    """The --columns that predict needs where columns have no names and the target is one of
    them.
    """
    if columns is not None:
        return f" --columns {shlex.quote(columns)}"
    if names_of(stream) is not None or target is None or stream.columns is None:
        return ""
    numbers = [int(one.removeprefix("x")) for one in stream.columns]
    spans = [f"{start}:{stop}" for start, stop in _runs(numbers)]
    return f" --columns {','.join(spans)}"


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as (first, last + 1)."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return found


def _summary(model: Any, stream: Any, seconds: float, output: Path, voice: Voice) -> None:
    from mercer.parallel.tile_size import size

    rows, features = (
        int(stream.rows or model.n_samples_seen_),
        int(model.feature_map_._n_features_out),
    )
    classes = len(model.classes_) if hasattr(model, "classes_") else None
    what = "" if classes is None else f"{classes:,} classes, "
    if model.penalty != "l2":
        what += f"{int((model.coef_ != 0).reshape(-1, features).any(axis=0).sum()):,} in use of "
    voice.say(
        f"Fitted on {rows:,} rows in {seconds:.1f} s: {what}{features:,} features, alpha "
        f"{model.alpha_:.3g}. "
        f"Written to {output} ({size(output.stat().st_size)})."
    )
    if model.penalty == "group" and model.zero_maps_:
        voice.say(f"Of no use: {', '.join(model.zero_maps_)}.")
    voice.event(
        "done",
        model=str(output),
        rows=rows,
        seconds=round(seconds, 3),
        features=features,
        classes=classes,
        alpha=float(model.alpha_),
    )


def _described(stream: Any) -> str:
    rows = "" if stream.rows is None else f"{stream.rows:,} rows x "
    return f"{stream.name}: {rows}{stream.width:,} columns"
