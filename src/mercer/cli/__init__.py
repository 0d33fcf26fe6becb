"""The command line: reads, runs, prints. Heavy imports stay inside the commands, so that --help is quick."""

from __future__ import annotations

import click

from mercer import __version__
from mercer.cli.about import completion, info, inspect, maps
from mercer.cli.certifying import certify
from mercer.cli.comparing import compare
from mercer.cli.converting import convert
from mercer.cli.errors import Sentences
from mercer.cli.fitting import fit
from mercer.cli.planning import plan
from mercer.cli.predicting import predict, transform
from mercer.cli.reproducing import papers


@click.group(cls=Sentences, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mercer")
def main() -> None:
    """Nonlinear kernel methods at linear cost: feature maps, the exact kernel beside each one, and the measured error."""


for command in (compare, fit, predict, transform, inspect, certify, plan, convert, papers, maps, info, completion):
    main.add_command(command)
