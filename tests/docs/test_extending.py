"""The pages for those who build on the simulator, and how the project names itself."""

import fnmatch
import re
import tomllib

import pytest

import p2p_sim
import p2p_sim.extend
import p2p_sim.privacy
from tests.conftest import ROOT
from tests.plug_ins import EXAMPLE

GUIDE, DETAILS = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("extending.md", "stability.md"))
LONGEST = 150
"""Lines of the guide, which a newcomer reads as a whole."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def blocks(page: str, language: str) -> list[str]:
    return [block.strip() for block in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)]


def test_the_code_of_the_pages_is_the_code_of_the_example():
    assert len(GUIDE.splitlines()) <= LONGEST
    module = "".join(path.read_text(encoding="utf-8") for path in EXAMPLE.glob("*.py"))
    shown = blocks(GUIDE + DETAILS, "python")
    assert all(block in module for block in shown)
    classes = set(re.findall(r"^class (\w+)", module, re.MULTILINE))
    assert {name for block in shown for name in re.findall(r"^class (\w+)", block, re.MULTILINE)} == classes
    [told] = [tomllib.loads(block) for block in blocks(GUIDE, "toml")]
    package = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))
    assert told["project"]["entry-points"].items() <= package["project"]["entry-points"].items()
    assert told["tool"] == package["tool"]


def test_a_newcomer_needs_no_other_code():
    """Mechanism, learner, fault and protocol are on the guide itself, and short."""
    names = re.findall(r"^class (\w+Config)", "\n".join(blocks(GUIDE, "python")), re.MULTILINE)
    assert names == ["UnevenResponseConfig", "NearestMeanConfig", "JammedConfig", "SecondOpinionConfig"]
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLE.glob("*.py")}
    assert max(lines.values()) <= 40
    assert lines["own_protocol.py"] <= 25


@pytest.mark.parametrize("sort", ["mechanism", "learner", "network", "engine"])
def test_the_scenarios_that_the_guide_tells_run(installed, sort):
    """Each key in the text, in a scenario with the two lines of the guide's first one, or with others' mechanism."""
    said = re.findall(r"`((?:population|mechanism|learner|network|engine) = [^`]+)`", GUIDE)
    keys: dict[str, list[str]] = {}
    for line in said:
        keys.setdefault(line.partition(" ")[0], []).append(line)
    first, exchange, protocol = keys["mechanism"]
    lines = {"mechanism": [first], "learner": [first, *keys["learner"]], "network": [exchange, *keys["network"]],
             "engine": [protocol, *keys["engine"]]}[sort]  # fmt: skip
    row = p2p_sim.run(p2p_sim.Scenario.from_tree(tomllib.loads("\n".join(keys["population"] + lines)))).row
    assert row["error_rate"] is not None


def test_the_stable_names_are_there_and_are_all():
    for module, listed in zip((p2p_sim, p2p_sim.extend, p2p_sim.privacy), blocks(DETAILS, "text"), strict=True):
        names = re.split(r",\s+", listed)
        assert sorted(names) == sorted(module.__all__)
        assert all(getattr(module, name) is not None for name in names)


def test_a_sweep_can_be_called_whatever_has_been_imported():
    import p2p_sim.sweeps.run_sweep

    assert callable(p2p_sim.sweep)


def test_the_citation_agrees_with_the_project():
    import yaml

    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    project = PROJECT["project"]
    assert (cited["cff-version"], cited["title"], cited["version"]) == ("1.2.0", project["name"], project["version"])
    assert cited["license"] == project["license"]
    assert len(cited["references"]) == 5
    for paper in cited["references"]:
        assert {"type", "title", "authors", "year"} <= set(paper)
        assert all({"family-names", "given-names"} == set(author) for author in paper["authors"])


def test_every_file_that_is_no_module_is_packaged():
    for package, patterns in PROJECT["tool"]["setuptools"]["package-data"].items():
        folder = (ROOT / package.replace(".", "/")).resolve()
        assert (folder / "py.typed").is_file()
        others = [
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
        ]
        assert "py.typed" in others
        assert [name for name in others if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)] == []
