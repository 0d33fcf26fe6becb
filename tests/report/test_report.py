"""The report: one well-formed page without script, deterministic, hostile names as text."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.helpers.leaderboards import HOSTILE, board, hostile_report, plain_report, rows, written

from mercer import write_report
from mercer.report import figures
from mercer.report.labels import place_labels, shorten
from mercer.report.report import environment

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
VOID = {"meta", "link", "img", "br", "hr"}


class Page(HTMLParser):
    """Parser of a page: elements with attributes, and text outside of style; tags must match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), "an attribute is there twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.elements if found == tag]


def svgs(text: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)


@pytest.fixture
def plain() -> str:
    return plain_report()


@pytest.fixture
def hostile() -> str:
    return hostile_report()


@pytest.mark.parametrize("which", ["plain", "hostile"])
def test_a_page_is_well_formed_and_has_no_script_no_handler_and_no_address(which, request):
    text = request.getfixturevalue(which)
    parsed = Page(text)
    tags = {tag for tag, _ in parsed.elements}
    assert not tags & {
        "script",
        "iframe",
        "object",
        "embed",
        "form",
        "a",
        "img",
        "base",
        "foreignobject",
    }
    for tag, attributes in parsed.elements:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name, value in attributes.items():
            if name in ("href", "src", "xlink:href"):
                assert (value or "").startswith(("#", "data:")), (tag, value)
            if name != "xmlns" and name not in ("aria-label", "content"):
                assert "://" not in (value or ""), (tag, name, value)
    assert "@import" not in text and not re.search(r"url\((?!#)", text)


@pytest.mark.parametrize("which", ["plain", "hostile"])
def test_every_figure_is_xml_with_a_label_a_caption_and_unique_ids(which, request):
    text = request.getfixturevalue(which)
    found = svgs(text)
    # differences, scores, importances, confusions, coverage, errors, two heat maps, memory
    assert len(found) == 9
    seen: set[str] = set()
    for svg in found:
        tree = ElementTree.fromstring(svg)
        assert (
            tree.get("role") == "img"
            and len(tree.get("aria-label", "")) > 40
            and tree.get("viewBox")
        )
        assert tree.get("width") is None and tree.get("height") is None
        here = {node.get("id") for node in tree.iter() if node.get("id")}
        assert not here & seen
        seen |= here
        used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', svg))
        assert used <= here
    assert len(re.findall("<figcaption>.+?</figcaption>", text, flags=re.DOTALL)) == 9


def test_the_policy_precedes_style_and_link_and_allows_no_script(plain):
    head = Page(plain).elements
    tags = [tag for tag, _ in head]
    policy = next(i for i, (_, attributes) in enumerate(head) if attributes.get("http-equiv"))
    assert head[policy][1]["http-equiv"] == "Content-Security-Policy"
    assert head[policy][1]["content"].startswith(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    )
    assert "script-src" not in head[policy][1]["content"]
    assert policy < tags.index("style") and policy < tags.index("link")


def test_it_has_the_summary_every_entry_the_command_and_the_settings(plain):
    text = "".join(Page(plain).words)
    one = board()
    for words in [
        one.summary,
        "mercer compare data.csv --target y",
        "random state",
        "numpy",
        "scikit-learn",
        "column 3",
    ]:
        assert words in text
    for entry in one.entries:
        assert entry.name in text
    assert "sign-cauchy" in text and "laborious" in text
    assert "1,600 rows, 12 columns" in text
    assert "NaN" not in text and "nan%" not in text


def sections(text: str) -> dict[str, str]:
    """Text of each section, by its heading."""
    found = re.findall(r"<section>\s*<h2>(.*?)</h2>(.*?)</section>", text, flags=re.DOTALL)
    return {name: " ".join(" ".join(Page(f"<p>{body}</p>").words).split()) for name, body in found}


def test_final_scores_rounds_differences_and_the_next_command_are_apart(plain):
    found = sections(plain)
    names = list(found)
    assert names.index("Next") < names.index("Final scores") < names.index("Scores of rounds")
    assert found["Next"].startswith("mercer fit data.csv --target y --map exp-chi2")
    final, rounds = found["Final scores"], found["Scores of rounds"].partition("Models that")[0]
    for entry in board().entries:
        assert (entry.name in final) == entry.finalist
        assert (entry.name in rounds) != entry.finalist
    assert "guessing 34.00%" in final
    assert "chi2-series led, not finished" in rounds and "nystroem not finished" in rounds
    assert "anchors not finished" not in rounds and rounds.count("not finished") == 2
    stages = found["Scores of rounds"].partition("Not finished")[2]
    assert "20 s were not enough" in stages and "never started" in stages
    differences = found["Differences to the best model"]
    assert "fourier gamma=4 +0.40 [-0.30, +1.10] undecided" in differences
    assert "linear +7.00 [+5.00, +9.00] better" in differences
    assert "guessing +63.20 [+61.00, +65.40] better" in differences
    assert "120 others" in found["Confusion matrix"] and "Columns that matter" in found


def test_ticks_and_percentages_have_no_exponent_up_to_a_million():
    for value, text in [(99.7, "100"), (99.4, "99"), (1234.5, "1,234"), (0.0123, "0.012")]:
        assert figures._format_number(value) == text
    for value, text in [(0.9999, "100%"), (0.123456, "12.3%"), (10.0, "1,000%"), (1e-4, "0.01%")]:
        assert figures._percent(value) == text


def test_it_names_no_machine_and_no_folder(plain):
    import getpass
    import platform

    assert str(Path.home()) not in plain and str(Path.cwd()) not in plain
    assert not re.search(rf"\b{re.escape(platform.node())}\b", "".join(Page(plain).words))
    assert getpass.getuser() not in Page(plain).words


def test_hostile_names_are_shown_as_text(hostile):
    text = "".join(Page(hostile).words)
    for words in (HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[5], HOSTILE[7]):
        assert words in text
    assert HOSTILE[0] not in hostile
    shown = text.partition("Final scores")[2].partition("Settings")[0]  # all but the commands
    assert HOSTILE[3] not in shown and "x" * 60 + "…" in shown
    assert not re.search("[\x00-\x08\x0e-\x1f]", hostile)


@pytest.mark.full
def test_a_leaderboard_gives_the_same_bytes_in_every_process_and_with_any_matplotlib_settings(
    tmp_path,
):
    settings = tmp_path / "matplotlibrc"
    settings.write_text(
        "font.size: 30\nsvg.fonttype: none\naxes.grid: False\nsvg.hashsalt: "
        "other\nfigure.facecolor: red\nxtick.direction: in\n"
    )
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path;"
        "from tests.helpers import leaderboards;"
        "Path(sys.argv[2]).write_text(leaderboards.plain_report(), encoding='utf-8')"
    )
    # Tests on Dask change the numbers of threads in the environment, which the page states.
    inherited = {name: os.environ[name] for name in os.environ if "NUM_THREADS" not in name}
    environments = {
        "first.html": {"PYTHONHASHSEED": "1"},
        "second.html": {"PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(settings)},
    }
    for name, changed in environments.items():
        subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parents[2]), name],
            cwd=tmp_path,
            env={**inherited, **changed},
            check=True,
        )
    assert (tmp_path / "first.html").read_bytes() == (tmp_path / "second.html").read_bytes()


@pytest.mark.full
def test_models_without_a_seed_are_drawn_with_that_of_the_leaderboard(tmp_path):
    from mercer import KernelClassifier, RandomFourier

    one = board()
    entries = tuple(entry for entry in one.entries if entry.name in ("fourier gamma=4", "linear"))
    fourier = type(entries[0])(
        **{**vars(entries[0]), "model": KernelClassifier(RandomFourier(64, gamma=4.0))}
    )
    pages = []
    for seed in (3, 3, 4):
        again = board(
            entries=(fourier, entries[1]),
            winner=fourier,
            settings={**one.settings, "random_state": seed},
        )
        pages.append(svgs(written(tmp_path / "report.html", board=again)))
    assert pages[0] == pages[1] != pages[2]


@pytest.mark.full
def test_numbers_and_sparse_rows_and_a_leaderboard_of_linear_alone(tmp_path):
    X, y = rows()
    some = board(numeric=True)
    entries = tuple(
        one for one in some.entries if one.name in ("fourier gamma=4", "chi2-series", "linear")
    )
    few = board(numeric=True, entries=entries, winner=entries[0])
    text = written(tmp_path / "numbers.html", board=few, X=csr_array(X), y=y + 0.5)
    assert "R²" in text and "sorted by target" in text and len(svgs(text)) == 9
    assert "predict_interval" in text and "mean width" in text
    assert "<h2>Residuals</h2>" in text and "Confusion matrix" not in text
    linear = next(one for one in board().entries if one.kind == "linear")
    alone = board(
        entries=(linear,),
        winner=linear,
        summary="Linear is enough.",
        refused={},
        stopped="Time was up.",
        comparisons=(),
        skipped={},
    )
    text = written(tmp_path / "linear.html", board=alone)
    # scores, importances, confusions, coverage, memory
    assert len(svgs(text)) == 5 and "Time was up." in text
    assert "Scores of rounds" not in text and "Differences" not in text
    Page(text)


def test_models_after_the_finalists_and_the_best_others_are_in_a_details_element(tmp_path):
    linear = next(one for one in board().entries if one.kind == "linear")

    def made(i: int, finalist: bool):
        return type(linear)(
            **{
                **vars(linear),
                "name": f"model {i:02}",
                "kind": "map",
                "model": None,
                "finalist": finalist,
            }
        )

    entries = (*(made(i, i < 3) for i in range(30)), linear)
    text = written(tmp_path / "many.html", board=board(entries=entries, winner=entries[20]))
    first, _, folded = text.partition("<details>")
    folded = folded.partition("</details>")[0]
    shown = [*range(15), 20]  # three finalists, twelve others, the winner
    for i in range(30):
        assert (f"<bdi>model {i:02}</bdi>" in first) == (i in shown) and (
            f"<bdi>model {i:02}</bdi>" in folded
        ) == (i not in shown)
    assert "<bdi>linear</bdi>" in first and "The other 14 models" in folded
    final, _, rounds = first.partition("<h2>Scores of rounds</h2>")
    assert all(f"<bdi>model {i:02}</bdi>" in final for i in range(3))
    assert all(f"<bdi>model {i:02}</bdi>" in rounds for i in shown[3:])
    assert not any(f'<td class="text"><bdi>model {i:02}</bdi>' in final for i in shown[3:])
    assert first.count('<tr class="best">') == rounds.count('<tr class="best">') == 1
    Page(text)


def test_wrong_arguments_raise_and_leave_no_file(tmp_path):
    X, y = rows()
    wrong = [
        ({"X": X[:, :5]}, "the leaderboard has 12 columns and X has 5"),
        ({"y": y[:9]}, r"one class or number for each of the 240 rows of X, got y of shape \(9,\)"),
        ({"X": X[:4], "y": y[:4]}, "at least 8 rows, got 4"),
        ({"names": ["a", "b"]}, "got 2 names for 12 columns"),
    ]
    for given, says in wrong:
        with pytest.raises(ValueError, match=says):
            write_report(board(), tmp_path / "report.html", **{"X": X, "y": y, **given})
    with pytest.raises(FileNotFoundError):
        write_report(board(), tmp_path / "no" / "report.html", X=X, y=y)
    with pytest.raises(IsADirectoryError):
        write_report(board(), tmp_path, X=X, y=y)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_package_is_named_with_its_extra(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    X, y = rows()
    with pytest.raises(
        ValueError, match=rf"A report needs {package}: pip install 'mercer\[plot\]'\."
    ):
        write_report(board(), tmp_path / "report.html", X=X, y=y)
    assert not list(tmp_path.iterdir())


def test_labels_overlap_no_other_label_and_no_point():
    from matplotlib.figure import Figure

    rng = np.random.default_rng(0)
    with figures._style():
        figure = Figure(figsize=(5.6, 4.2))
        axes = figure.subplots()
        points = [(float(x), float(y), 0.01) for x, y in rng.random((25, 2))]
        axes.plot([x for x, _, _ in points], [y for _, y, _ in points], "o")
        place_labels(
            axes, points, [[f"{i} a name", str(i)] for i in range(25)], ["black"] * 25, range(25)
        )
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axes.texts]
        spots = axes.transData.transform([(x, y) for x, y, _ in points])
    assert len(boxes) > 15
    for i, box in enumerate(boxes):
        assert not any(
            box.shrunk(0.98, 0.98).overlaps(other.shrunk(0.98, 0.98)) for other in boxes[:i]
        )
        assert not any(box.contains(*spot) for spot in spots)


def test_a_label_without_a_line_is_nearest_to_its_own_point():
    from matplotlib.figure import Figure

    rng = np.random.default_rng(1)
    with figures._style():
        figure = Figure(figsize=(5.6, 4.2))
        axes = figure.subplots()
        # a cluster, in which a label beside one point is beside others too
        points = [(float(x), float(y), 0.0) for x, y in 0.5 + 0.02 * rng.normal(size=(12, 2))]
        axes.set(xlim=(0, 1), ylim=(0, 1))
        place_labels(axes, points, [[str(i)] for i in range(12)], ["black"] * 12, range(12))
        figure.draw_without_rendering()
        spots = axes.transData.transform([(x, y) for x, y, _ in points])
        led = {tuple(np.round(line.get_xydata()[0], 9)) for line in axes.lines}
        assert len(axes.texts) > 4 and led
        for text in axes.texts:
            own = int(text.get_text())
            box = text.get_window_extent()
            gaps = np.hypot(*(spots - np.clip(spots, [box.x0, box.y0], [box.x1, box.y1])).T)
            nearest = gaps[own] <= gaps.min()
            assert nearest or tuple(np.round(points[own][:2], 9)) in led


def test_a_text_that_is_wider_than_the_figure_is_not_cut():
    with figures._style():
        figure, axes = figures._axes(2.0)
        plain = figures._svg(figure, "plain").view_box
        assert [float(x) for x in plain.split()] == pytest.approx([0, 0, 72 * 5.6, 72 * 2.0])
        axes.set_xlabel("a long label " * 10)
        axes.set_title("a title", y=1.5)
        _, _, width, height = map(float, figures._svg(figure, "wide").view_box.split())
        figure.draw_without_rendering()
        for text in (axes.xaxis.label, axes.title):
            box = text.get_window_extent()
            assert box.width <= width and box.height <= height
        assert width > 72 * 5.6 and height > 72 * 2.0


def test_names_in_figures_are_short_and_missing_glyphs_are_boxes():
    assert shorten("fourier") == "fourier"
    assert shorten("a" * 40, 10) == "a" * 9 + "…"
    assert shorten("\U0001f9ff\n$x$") == "□□$x$"


def test_text_is_escaped_and_has_no_character_that_a_page_cannot_have():
    page = environment().from_string("{{ text }}").render(text="a\x00b\ud800c\tÄ<&'\"")
    assert page == "a\ufffdb\ufffdc\tÄ&lt;&amp;&#39;&#34;"
