"""The command line as a user has it: a folder with small files, commands, exit codes."""

from __future__ import annotations

import shlex
from pathlib import Path

from click import Group
from click.testing import CliRunner, Result

from mercer.cli import main


def call(line: str, group: Group = main, **env: str) -> Result:
    """The result of `mercer line`, or of another group of commands, in the current folder."""
    return CliRunner().invoke(
        group, shlex.split(line), env={"COLUMNS": "80", "MERCER_DEBUG": "", **env}
    )


def run(line: str, group: Group = main) -> str:
    """What a command that goes well says on standard output."""
    result = call(line, group)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(line: str, code: int = 1, group: Group = main) -> str:
    """What a command that does not go well says: one sentence, without a traceback."""
    before = set(Path().iterdir())
    result = call(line, group)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert set(Path().iterdir()) == before, "it has left a file"
    assert "Error: " in result.stderr
    return result.stderr.partition("Error: ")[2].strip()
