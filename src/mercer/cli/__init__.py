"""The command line: reads, runs, prints. Heavy imports stay inside the commands, so that --help is
quick.
"""

from mercer.cli.main import main as main
