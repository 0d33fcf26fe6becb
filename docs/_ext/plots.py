"""matplotlib's plot directive in MyST pages too.

There it cannot insert lines into the input; and each ``eval-rst`` is a document of its own, so that
its numbers of figures, which are counted for each document, would name several figures alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Parser
from docutils.utils import new_document
from matplotlib.sphinxext.plot_directive import PlotDirective
from myst_parser.mocking import MockStateMachine


class Plot(PlotDirective):
    """Plot the figure of a code block; figures are counted for each page."""

    def run(self) -> list[nodes.Node]:
        document = self.state_machine.document
        page = document.settings.env.temp_data  # of the page that is read
        document.attributes["_plot_counter"] = page.get("plot_counter", 0)
        in_myst = isinstance(self.state_machine, MockStateMachine)
        found = self._run_in_myst() if in_myst else super().run()
        page["plot_counter"] = document.attributes["_plot_counter"]
        return found

    def _run_in_myst(self) -> list[nodes.Node]:
        """Run the directive, and parse the lines that it would insert."""
        inserted: list[str] = []

        def insert_input(lines: Sequence[str], source: str | None = None) -> None:
            inserted.extend(lines)

        self.state_machine.insert_input = insert_input
        errors = super().run()
        document = self.state.document
        figures = new_document(document["source"], document.settings)
        figures.reporter = document.reporter
        Parser().parse("\n".join(inserted), figures)
        return [*errors, *figures.children]


def setup(app: Any) -> dict[str, bool]:
    """Replace the directive of matplotlib's extension."""
    app.setup_extension("matplotlib.sphinxext.plot_directive")
    app.add_directive("plot", Plot, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
