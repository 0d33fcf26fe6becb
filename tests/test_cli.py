from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from mercer.cli import main
from mercer.maps import registry


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments, catch_exceptions=False, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.output


def test_compare_shows_linear_exact_kernels_and_every_map():
    output = run("compare")
    lines = output.splitlines()
    linear = next(line for line in lines if line.strip().startswith("linear"))
    exact = next(line for line in lines if "exact Gaussian" in line)
    accuracy = {line.split()[0]: float(line.split("%")[0].split()[-1]) for line in (linear, exact)}
    assert 90 < accuracy["linear"] < 97
    assert accuracy["exact"] > 98
    for name in registry():
        row = next(line for line in lines if line.strip().startswith(f"{name} ~ "))
        accuracy[name] = float(row.split("%")[0].split()[-1])
        assert accuracy[name] > 90
        assert float(row.split("%")[1]) < 20
    assert accuracy["fourier"] > accuracy["linear"] + 2
    assert max(map(len, lines[:8])) <= 80


def test_maps_lists_every_registered_map():
    output = run("maps")
    for name, cls in registry().items():
        assert name in output
        assert cls.__name__ in output


def test_info_says_what_is_there():
    output = run("info")
    for word in ("mercer", "python", "numpy", "scikit-learn", "threads", "blas", "ops", "extras"):
        assert word in output


def commands() -> list[click.Command]:
    return [main.commands[name] for name in sorted(main.commands)]


@pytest.mark.parametrize("command", commands(), ids=lambda command: command.name)
def test_every_command_has_an_example_in_its_help(command):
    help_text = run(str(command.name), "--help")
    assert f"mercer {command.name}" in help_text.split("Example:")[1]


def test_an_unknown_command_is_a_usage_error():
    result = CliRunner().invoke(main, ["compere"])
    assert result.exit_code == 2
    assert "No such command 'compere'" in result.output


def test_an_error_is_one_sentence_and_exit_code_1():
    result = CliRunner().invoke(main, ["info"], env={"MERCER_NUM_THREADS": "abc"})
    assert result.exit_code == 1
    assert result.output == "Error: MERCER_NUM_THREADS must be a whole number of at least 1, got 'abc'.\n"
