"""The page for those who build on the simulator, and how the project names itself."""

import fnmatch
import re
import tomllib

import p2p_sim
import p2p_sim.extend
import p2p_sim.privacy
from tests.conftest import ROOT
from tests.plug_ins import EXAMPLE

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def blocks(language: str) -> list[str]:
    return [block.strip() for block in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)]


def test_the_code_of_the_page_is_the_code_of_the_example():
    module = "".join(path.read_text(encoding="utf-8") for path in EXAMPLE.glob("*.py"))
    shown = blocks("python")
    assert all(block in module for block in shown)
    classes = set(re.findall(r"^class (\w+)", module, re.MULTILINE))
    assert {name for block in shown for name in re.findall(r"^class (\w+)", block, re.MULTILINE)} == classes
    assert all(block in (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8") for block in blocks("toml"))


def test_the_stable_names_are_there_and_are_all():
    for module, listed in zip((p2p_sim, p2p_sim.extend, p2p_sim.privacy), blocks("text"), strict=True):
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
