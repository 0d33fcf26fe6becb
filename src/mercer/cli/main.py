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


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mercer")
def main() -> None:
    """Kernel methods at linear cost: explicit feature maps with their exact kernels."""


for command in (
    compare,
    fit,
    predict,
    transform,
    inspect,
    certify,
    plan,
    maps,
    info,
    completion,
):
    main.add_command(command)
