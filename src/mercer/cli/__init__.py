"""The command line. Heavy imports are inside the commands, so that --help is quick."""

from mercer.cli.main import main as main
