"""The group of all commands."""

from __future__ import annotations

import click

from mercer import __version__
from mercer.cli._errors import CommandGroup
from mercer.cli.certify import certify
from mercer.cli.compare import compare
from mercer.cli.fit import fit
from mercer.cli.info import completion, info, inspect, maps
from mercer.cli.plan import plan
from mercer.cli.predict import predict, transform

main = CommandGroup(
    "main",
    commands=[compare, fit, predict, transform, inspect, certify, plan, maps, info, completion],
    help="Kernel methods at linear cost: explicit feature maps with their exact kernels.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, prog_name="mercer")(main)
