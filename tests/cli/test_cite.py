"""What to cite: every kind of a scenario has its papers, or says that there are none."""

import email.message
import json
import re
import tomllib

import pytest
import yaml

from p2p_sim.base.packages import url
from p2p_sim.base.shipped_files import shipped
from p2p_sim.scenario import Scenario, load_scenario
from p2p_sim.sweeps.catalogue import PROJECT, TABLE, cited, references
from tests.commands import command
from tests.conftest import ROOT

PLACES = ("population", "mechanism", "mechanism.randomizer", "learner")
"""Keys of a scenario of which every kind needs an answer."""
WITHOUT_PAPER = set(tomllib.loads(TABLE.read_text(encoding="utf-8"))["own"])
ALIBI = "--set", 'mechanism={kind="alibi", target_epsilon=1.0}', "--set", 'learner={kind="soft_logistic_regression"}'


def kinds() -> set[str]:
    """Every kind of every table of a scenario, as "table.kind = value"; plug-ins are left out."""
    schema = Scenario.model_json_schema()

    def below(node, path, seen):
        name = node.get("$ref", "").rpartition("/")[2]
        if name and name not in seen:
            yield from below(schema["$defs"][name], path, {*seen, name})
        for choice in ("oneOf", "anyOf", "allOf"):
            for branch in node.get(choice, ()):
                yield from below(branch, path, seen)
        for key, value in node.get("properties", {}).items():
            if "const" in value:
                yield f"{path}{key} = {value['const']}"
            for one in value.get("enum", ()):
                yield f"{path}{key} = {one}"
            yield from below(value, f"{path}{key}.", seen)

    return set(below(schema, "", set()))


def missing(answered: set[str]) -> list[str]:
    """Kinds of a population, mechanism, randomizer or learner that have no answer."""
    asked = {line for line in kinds() if line.partition(".kind = ")[0] in PLACES}
    return sorted(line for line in asked if line not in answered)


def test_every_kind_has_papers_or_says_that_it_has_none():
    answered = {line for one in references().values() for line in one.used}
    assert missing(answered | WITHOUT_PAPER) == []
    assert missing(answered - {"mechanism.kind = pate"}) != []  # the control
    assert answered & WITHOUT_PAPER == set()


def test_papers_name_parts_that_exist():
    known = kinds()
    assert [line for one in references().values() for line in one.used if line not in known] == []
    assert [line for line in WITHOUT_PAPER if line not in known] == []


def test_every_reference_is_complete():
    venue = {"inproceedings": "booktitle", "article": "journal", "techreport": "institution"}
    for key, one in references().items():
        assert {"author", "title"} <= set(one.fields), key
        assert isinstance(one.fields["year"], int), key
        assert "others" not in one.fields["author"], key
        assert len(set(one.fields["author"])) == len(one.fields["author"]), key
        assert one.type not in venue or venue[one.type] in one.fields, key
        assert one.type != "misc" or {"note", "eprint"} & set(one.fields), key
        text = one.bibtex()
        assert text.count("{") == text.count("}"), key


def test_the_citation_file_says_the_same_of_the_project_and_of_its_papers():
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    mine = references()[PROJECT].fields
    assert mine["title"].startswith(told["title"])
    assert (mine["version"], mine["license"]) == (told["version"], told["license"])
    assert mine["author"] == [f"{{{author['name']}}}" for author in told["authors"]]
    paper = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    assert f"{mine['year']}" in re.findall(r"^date: .*(\d{4})$", paper, re.MULTILINE)
    assert str(told.get("date-released", mine["year"])).startswith(f"{mine['year']}")
    papers = {one.fields["title"].casefold(): one for one in references().values()}
    assert len(papers.keys() & {paper["title"].casefold() for paper in told["references"]}) == 5
    for paper in told["references"]:
        if (one := papers.get(paper["title"].casefold())) is not None:  # Bayes consistency has no scenario
            authors = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]
            assert (one.fields["author"], one.fields["year"]) == (authors, paper["year"])


def test_the_projects_entry_has_its_address_as_soon_as_the_package_names_one(monkeypatch):
    made = email.message.Message()
    monkeypatch.setattr("importlib.metadata.metadata", lambda name: made)
    assert url() is None
    made["Project-URL"] = "Homepage, https://example.org/p2p-sim"
    made["Project-URL"] = "Issues, https://example.org/issues"
    assert url() == "https://example.org/p2p-sim"
    assert "  url = {https://example.org/p2p-sim},\n" in references.__wrapped__()[PROJECT].bibtex()


def test_the_quickstart_cites_the_project_and_its_papers():
    status, out, _ = command("cite", "quickstart")
    assert status == 0
    assert re.findall(r"^@\w+\{(\w+),$", out, re.MULTILINE)[:2] == ["p2p_sim", "esfandiari2022clustering"]
    assert "% mechanism.kind = label_exchange\n" in out
    assert "malek2021antipodes" not in out
    changed = command("cite", "quickstart", *ALIBI, "--json")[1]
    keys = [one["key"] for one in json.loads(changed)["references"]]
    assert "malek2021antipodes" in keys
    assert "esfandiari2022clustering" not in keys


def test_a_sweep_cites_what_any_of_its_points_uses():
    out = command("cite", "privacy-utility")[1]
    alone = command("cite")[1]
    assert "esfandiari2022clustering" in out
    assert re.findall(r"@\w+\{(\w+),", alone) == [PROJECT]


@pytest.mark.parametrize("name", ["nothing-of-this-name", "none.toml"])
def test_a_scenario_that_is_not_there_is_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, errors = command("cite", name)
    assert (status, out) == (2, "")
    assert len(errors.splitlines()) == 1


def test_every_shipped_scenario_has_something_to_cite():
    plain = [path for name, path in shipped().items() if not name.startswith(("sweeps/", "own_"))]
    assert len(plain) > 20
    for path in plain:
        if "[[axes]]" not in path.read_text(encoding="utf-8"):
            assert len(cited([load_scenario(path)])) > 1, path
