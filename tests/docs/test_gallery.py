"""The gallery: every figure of README and docs is in its registry, with its command and the test that runs it."""

import ast
import importlib.util
import re
import shlex

import pytest
from typer.main import get_command

from docs import make_readme_figures
from docs.generated import figures, gallery
from p2p_sim.cli.main import app
from tests.conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FIGURES = figures()


def shown() -> dict[str, set[str]]:
    """Images by the pages that show them, both from the root of the checkout."""
    found: dict[str, set[str]] = {}
    for page in PAGES:
        for link in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            image = (page.parent / link).resolve().relative_to(ROOT)
            found.setdefault(str(image), set()).add(str(page.relative_to(ROOT)))
    return found


def fault(figure: dict[str, str]) -> str | None:
    """What is amiss with an entry of the registry, or None."""
    if set(figure) != {"path", "shows", "command", "page", "test"} or not all(figure.values()):
        return "keys"
    if not (ROOT / figure["path"]).is_file():
        return "path"
    if figure["page"] not in shown().get(figure["path"], ()):
        return "page"
    if not runs(figure["command"]):
        return "command"
    file, _, name = figure["test"].partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8")) if (ROOT / file).is_file() else ast.Module([], [])
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return None if name in names else "test"


def runs(command: str) -> bool:
    """Whether a command is a module with a main part, a target of the Makefile, or p2p-sim with valid arguments."""
    program, *words = shlex.split(command)
    if program == "python" and words[:1] == ["-m"]:
        spec = importlib.util.find_spec(words[1])
        if spec is not None and spec.submodule_search_locations:
            spec = importlib.util.find_spec(f"{words[1]}.__main__")
        return spec is not None and '__name__ == "__main__"' in open(spec.origin or "", encoding="utf-8").read()
    if program == "make":
        return re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE) is not None
    commands = get_command(app).commands  # type: ignore[attr-defined]
    if program != "p2p-sim" or words[0] not in commands:
        return False
    try:
        commands[words[0]].make_context(words[0], words[1:])
    except Exception:
        return False
    return True


def test_the_registry_has_every_figure_and_nothing_else():
    listed = [figure["path"] for figure in FIGURES]
    assert sorted(listed) == sorted(shown())
    kept = {str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "figures").glob("*.png")}
    assert kept <= set(listed)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure["path"])
def test_its_page_command_and_test_exist(figure):
    assert fault(figure) is None


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("path", "docs/figures/none.png"),
        ("page", "docs/theorem.md"),
        ("command", "python -m docs.none"),
        ("command", "p2p-sim draw"),
        ("command", "p2p-sim check-bounds --picture bounds.png"),
        ("command", "make paintings"),
        ("test", "tests/docs/test_gallery.py::test_nothing"),
        ("test", "tests/none.py::test_nothing"),
        ("shows", ""),
    ],
)
def test_a_wrong_entry_is_seen(key, wrong):
    assert fault({**FIGURES[0], key: wrong}) == ("keys" if key == "shows" else key)


def test_the_page_has_every_figure_with_its_command():
    page = gallery()
    for figure in FIGURES:
        assert figure["command"] in page
        assert figure["shows"] in page


@pytest.mark.slow
def test_the_figures_of_the_readme_are_drawn(tmp_path):
    drawn = make_readme_figures.main(tmp_path, small=True, workers=1)
    assert all(path.stat().st_size > 10_000 for path in drawn)
    assert {f"docs/figures/{path.name}" for path in drawn} == {
        figure["path"] for figure in FIGURES if figure["command"] == "python -m docs.make_readme_figures"
    }
