"""The figures of the docs can be drawn, and the links of the pages lead somewhere."""

import re

import pytest

from docs import make_clustering_figures, make_figures, make_neighbour_figure, make_network_figures, make_tune_figure
from p2p_sim.replicate.replicate import identity
from p2p_sim.scenario import load_scenario
from tests.conftest import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.slow
@pytest.mark.figures
@pytest.mark.parametrize(
    ("page", "figures", "others"),
    [
        ("how-private.md", make_figures, {"bounds.png"}),
        ("network.md", make_network_figures, {"film-light.png", "film-dark.png"}),
        ("neighbour.md", make_neighbour_figure, set()),
        ("clustering-paper.md", make_clustering_figures, set()),
        ("tune.md", make_tune_figure, set()),
    ],
)
def test_every_figure_of_the_guides_is_drawn(tmp_path, page, figures, others):
    paths = figures.main(tmp_path, small=True)
    drawn = {path.name for path in paths}
    assert all(path.stat().st_size > 10_000 for path in paths)
    used = set(re.findall(r"\(figures/([a-z-]+\.png)\)", (ROOT / "docs" / page).read_text(encoding="utf-8")))
    assert used == drawn | others


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_the_directory_that_the_readme_loads_is_that_of_its_own_run():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    scenario = load_scenario(ROOT / "scenarios" / "quickstart.toml").replace(**{"mechanism.flip_prob": 0.2})
    assert f'load_results("results/quickstart-{identity(scenario)[:8]}")' in text


def test_the_start_page_names_every_page_one_a_line():
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    named = [re.findall(r"\]\(([\w-]+)\.md\)", line) for line in lines]
    assert sorted(page for line in named for page in line) == sorted(pages)
    assert {len(line) for line in named} == {1}


def test_extras_are_installed_without_replacing_the_installation():
    """An editable install stays one, and no page speaks of a package index that does not have p2p-sim."""
    pages = {page.name: page.read_text(encoding="utf-8") for page in (*PAGES, ROOT / "CHANGELOG.md")}
    wrong = r"pip install (--\S+ )*'?(\.\[|p2p-sim)"
    found = [name for name, text in pages.items() for _ in re.finditer(wrong, text)]
    assert found == ["install.md"] * len(found)
    assert re.search(wrong, "pip install '.[tune]'")
    assert re.search(wrong, "pip install p2p-sim")


def test_the_code_of_how_it_works_is_the_code_of_the_product():
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    names = ("exchange/algorithm.py", "exchange/protocol.py", "exchange/processes.py", "privacy/definition.py")
    modules = [ROOT / "p2p_sim" / name for name in names]
    code = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    code = re.sub(
        r'\n    """The labels that the learner gets.*?"""(?=\n)', "", code, flags=re.DOTALL
    )  # the page says it in words
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    assert [block for block in blocks if block.rstrip() not in code] == []
