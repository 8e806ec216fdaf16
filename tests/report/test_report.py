"""The report: every point once, the numbers of the rows, nothing from elsewhere, nothing hostile."""

import json
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.measures.intervals import mean_interval
from p2p_sim.privacy.conditions import CAPPED_FETCHES, REALISED_CONDITIONS, SAME_SOURCES
from p2p_sim.report.page import report_page
from p2p_sim.report.privacy_statement import rounded_up
from p2p_sim.report.results_report import write_report
from p2p_sim.report.ro_crate import CRATE, VERSION
from p2p_sim.report.scenario_listing import scenario_in_order, sweep_file, toml
from p2p_sim.sweeps.sweep_file import SweepFile
from tests.commands import command
from tests.written_sweeps import AXES, base, made_rows, made_terms, manifest, write_sweep

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7*7 }}$\\frac$"


class Page(HTMLParser):
    """Elements, texts, and the cells of the table of points."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.headings, self.lines = [], [], [], []
        self.ids, self.text = [], ""
        self._points = self._body = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "table":
            self._points = found.get("id") == "points"
        if tag == "tbody":
            self._body = self._points
        if self._body and tag == "tr":
            self.lines.append([])
        if self._body and tag in ("td", "th"):
            self.lines[-1].append(found["data-v"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag):
        if tag == "tbody":
            self._body = False

    def handle_data(self, data):
        self.text += data


def page(axes=AXES, replicates=3, failures=(), exact=True, **changes):
    rows = pd.DataFrame(made_rows(axes, replicates, exact))
    return report_page(rows, manifest(axes, replicates, **changes), failures, terms=made_terms()), rows


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The report of a sweep, `s`, with a failure, and of a run, `r`: their paths."""
    folder = tmp_path_factory.mktemp("reports")
    write_sweep(folder / "s", AXES, 2, [{"point": "x", "replicate": 0, "error": "e"}])
    p2p_sim.run_all(base(), folder / "r")
    return {name: write_report(folder / name) for name in ("s", "r")}


def headings(text):
    found = re.search(r'<table id="points".*?<thead>(.*?)</thead>', text, re.S)
    assert found
    return [re.sub("<.*?>", "", part) for part in re.findall("<th .*?>(.*?)</th>", found.group(1))]


def test_every_point_is_there_once_with_the_numbers_of_the_rows():
    text, rows = page()
    columns = headings(text)
    lines = [dict(zip(columns, line, strict=True)) for line in Page(text).lines]
    assert [
        (float(line["flip probability α"]), float(line["probability that a message is lost"])) for line in lines
    ] == [(alpha, loss) for alpha in (0.05, 0.1, 0.2) for loss in (0.0, 0.1)]
    for line, (_, part) in zip(lines, rows.groupby("scenario", sort=False), strict=True):
        assert float(line["ε, learner"]) == part["epsilon_upper"].max()
        assert float(line["ε₀, noise alone"]) == part["epsilon_local"].max()
        assert float(line["excess risk (log loss, nats)"]) == pytest.approx(part["excess_risk"].mean(), rel=1e-14)
        assert line["replicates"] == "3"
    assert len(columns) <= 12


def test_columns_have_names_with_units_and_show_their_keys():
    axes = [{"keys": ["network.latency.median_s", "clusters.count"], "values": [[0.1, 4], [0.2, 5]]}]
    text, _ = page(axes)
    titles = re.findall(r'<th scope="col"(?: class="[^"]*")? title="(.*?)">', text)
    assert dict(zip(titles, headings(text), strict=True)) | {
        "network.latency.median_s": "median latency (seconds)",
        "clusters.count": "clusters count",
        "excess_risk": "excess risk (log loss, nats)",
        "epsilon_upper": "ε, learner",
    } == dict(zip(titles, headings(text), strict=True))
    assert [column for column in headings(text) if "_" in column or "." in column] == []
    assert titles[:4] == ["network.latency.median_s", "clusters.count", "excess_risk", "epsilon_upper"]


def test_means_carry_the_interval_of_student():
    text, rows = page(exact=False)
    part = 1.0 - rows[rows["scenario"] == rows["scenario"][0]]["error_rate"]
    expected = mean_interval(part)
    row = re.search(r'<table id="points".*?<tbody>\s*<tr>(.*?)</tr>', text, re.S)
    assert row
    cells = dict(zip(headings(text), re.findall("<t[dh].*?>(.*?)</t[dh]>", row.group(1)), strict=True))
    found = re.findall(r"-?[\d.]+", re.sub("<.*?>", "", cells["accuracy"]))
    assert [float(number) for number in found] == pytest.approx(
        [expected.value, expected.low, expected.high], abs=10.0 ** -len(found[0].split(".")[1])
    )


def test_a_printed_bound_is_never_below_the_bound():
    values = np.exp(np.random.default_rng(3).uniform(-12, 12, 5000))
    assert all(float(rounded_up(float(value))) >= value for value in values)
    assert all(float(rounded_up(float(value))) <= value * 1.0011 for value in values)


def test_infinite_epsilon_is_said_and_promises_nothing():
    rows = pd.DataFrame(made_rows(AXES, 2))
    rows.loc[3, "epsilon_upper"] = np.inf
    text = report_page(rows, manifest(AXES, 2))
    assert "no finite ε is known to hold: ε = ∞" in text
    assert 'data-v="Infinity"' in text


def test_points_without_any_row_are_listed_with_their_failure():
    failures = [
        {"point": "f" * 16, "replicate": 0, "error": "ValueError: no", "mechanism.flip_prob": 0.4, "network.loss": 0.9},
        {"point": f"{1:016x}", "replicate": 5, "error": "OSError: x", "mechanism.flip_prob": 0.05, "network.loss": 0.1},
        {"point": f"{1:016x}", "replicate": 0, "error": "since done", "mechanism.flip_prob": 0.05, "network.loss": 0.1},
    ]
    text, _ = page(failures=failures)
    lines = [dict(zip(headings(text), line, strict=True)) for line in Page(text).lines]
    assert [line["failed"] for line in lines] == ["0", "1", "0", "0", "0", "0", "1"]
    assert lines[-1]["flip probability α"] == "0.4"
    assert lines[-1]["ε, learner"] == ""
    assert "ValueError: no" in text
    assert "since done" not in text


def test_many_points_are_cut_and_summed_up():
    axes = [{"keys": ["mechanism.flip_prob"], "values": [[0.001 * i] for i in range(1, 451)]}]
    text, rows = page(axes, 1)
    found = Page(text)
    assert len(found.lines) == 400
    assert "The first 400 of 450 points" in text
    assert 'id="summary"' in text
    assert rounded_up(rows["epsilon_upper"].max()) in text


def test_at_most_twelve_columns_whatever_is_swept():
    keys = [f"network.k{i}" for i in range(9)]
    axes = [{"keys": keys, "values": [[i + j for i in range(9)] for j in range(3)]}]
    text, _ = page(axes, 2, failures=[{"point": "x", "replicate": 0, "error": "e"}])
    assert len(headings(text)) <= 12
    assert "network.k8 = 9" in text


def test_hostile_text_stays_text():
    axes = [{"keys": [f"a{EVIL}"], "values": [[EVIL], ["b\x00"]], "labels": [EVIL, "b"]}]
    failures = [{"point": EVIL, "replicate": EVIL, "error": EVIL, f"a{EVIL}": EVIL}]
    tree = {**base().model_dump(mode="json"), "name": EVIL, EVIL: {"x": EVIL}}
    text, rows = page(axes, 2, failures, name=EVIL + "\ud800", scenario=tree, versions={EVIL: EVIL}, identity=EVIL)
    found = Page(text)
    assert found.tags.count("script") == 1
    assert "img" not in found.tags
    assert not [a for a in found.attributes if a[1].startswith("on")]
    assert "alert(1)" in found.text
    assert "49" not in re.findall(r"\{\{.*?\}\}", found.text)
    hostile = rows.assign(basis=EVIL, observer=EVIL, population=EVIL, learner=EVIL, mechanism=EVIL, adjacency=EVIL)
    assert Page(report_page(hostile, manifest(axes, 2, name=EVIL))).tags.count("script") == 1
    text.encode("utf-8", "replace")


@pytest.mark.figures
def test_hostile_labels_in_figures_stay_text(tmp_path):
    write_sweep(tmp_path / "s", [{"keys": ["population.users"], "values": [[EVIL], ["a$b$c"]]}], 2)
    text = write_report(tmp_path / "s").read_text()
    assert Page(text).tags.count("svg") == 3
    assert Page(text).tags.count("script") == 1


@pytest.mark.figures
def test_a_label_that_no_figure_can_hold_is_said_not_fatal(tmp_path):
    write_sweep(tmp_path / "s", [{"keys": ["population.users"], "values": [["a\x00"], ["b"]]}], 2)
    text = write_report(tmp_path / "s").read_text()
    assert "Not drawn" in text


@pytest.mark.figures
def test_the_page_refers_to_nothing_outside(written):
    for path in written.values():
        text = path.read_text()
        assert outside(text) == []
        assert "default-src 'none'" in text
        ids = Page(text).ids
        assert len(ids) == len(set(ids))
        targets = {value[1:] for _, key, value in Page(text).attributes if key == "href"}
        targets |= set(re.findall(r"url\(#(.*?)\)", text))
        assert targets <= set(ids)


def outside(text):
    """References to anything that is not in the page."""
    found = re.findall(r"https?:|//[a-z]|\bsrc=|@import|<link|<iframe|<object", text, re.I)
    found += re.findall(r"url\((?!#|data:)", text)
    return found + [v for _, k, v in Page(text).attributes if k in ("href", "xlink:href", "src") and v[0] != "#"]


@pytest.mark.parametrize("leak", ['<img src="a.png">', "<a href='https://x.org'>", "<p style='background:url(x)'>"])
def test_a_planted_reference_is_seen(leak):
    assert outside(page()[0] + leak)


@pytest.mark.slow
@pytest.mark.figures
def test_the_same_results_give_the_same_bytes(written, tmp_path):
    imports = "from pathlib import Path; from p2p_sim.report.results_report import write_report"
    again = tmp_path / "again.html"
    script = f"{imports}; write_report(Path({str(written['s'].parent)!r}), Path({str(again)!r}))"
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONHASHSEED": "17", "PATH": ""})
    assert again.read_bytes() == write_report(written["s"].parent, tmp_path / "one.html").read_bytes()


def test_headings_are_in_order_and_figures_have_words(written):
    text = written["s"].read_text()
    found = Page(text)
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    assert all(b <= a + 1 for a, b in zip(found.headings, found.headings[1:], strict=False))
    assert ("html", "lang", "en") in found.attributes
    alts = [value for tag, key, value in found.attributes if tag == "svg" and key == "aria-label"]
    assert len(alts) == found.tags.count("svg") == 3
    assert all("replicate" in alt for alt in alts)
    assert found.text.count("95% confidence interval") >= 3


def test_privacy_is_stated_with_observer_conditions_and_caution(tmp_path):
    text, rows = page()
    for words in (
        "differ in the label of one user",
        "at most " + rounded_up(rows["epsilon_upper"].max()),
        "the learner sees the set of submissions, not their arrival times",
        "an eavesdropper on the wire (ε₀, the noise alone)",
        "it protects nobody&#39;s real data",
    ):
        assert words in text
    assert "realised" not in text
    faulty = rows.assign(epsilon_others_upper=rows["epsilon_upper"], basis="realised network: exact")
    text = report_page(faulty, manifest(AXES, 3))
    assert "conditional on each replicate&#39;s realised network" in text
    assert "these ε must not be averaged" in text
    [said] = made_terms().values()
    for conditions, there, missing in (
        ((*REALISED_CONDITIONS, SAME_SOURCES), "from the same sources", "exceeds her cap"),
        ((*REALISED_CONDITIONS, CAPPED_FETCHES), "exceeds her cap", "from the same sources"),
    ):
        told = [{"id": condition.identifier, "text": str(condition)} for condition in conditions]
        terms = {"realised": {"epsilon_upper": {**said["epsilon_upper"], "conditions": told}}}
        text = report_page(faulty.assign(statement="realised"), manifest(AXES, 3), terms=terms)
        assert there in text
        assert missing not in text
    assert "oracle" not in text
    told = report_page(rows.assign(oracle=True), manifest(AXES, 3))
    assert "heterogeneity φ by an oracle, which looked at the population; ε does not account for that" in told
    unknown = report_page(rows.assign(mechanism_kind="something_new"), manifest(AXES, 3))
    assert "every user draws one noisy label" not in unknown
    assert "without the conditions under which the figures hold" in unknown


def test_the_first_figures_name_the_loss_and_no_noise_that_is_not_there():
    """Of the 0-1 loss of a curator's release, in several points and in one."""
    text, rows = page()
    assert "excess risk, nats" in text
    curator = {"mechanism_kind": "cluster_rr", "epsilon_local": None, "excess_risk_loss": "zero_one"}
    assert "nats" not in report_page(rows.assign(**curator), manifest(AXES, 3))
    _, one = page(axes=[])
    assert "ε₀, the noise alone" in report_page(one, manifest([], 3))
    told = report_page(one.assign(**curator), manifest([], 3))
    assert "nats" not in told
    assert "peers and eavesdroppers" not in told


def test_the_listings_run_again():
    scenario = base()
    tree = scenario.model_dump(mode="json")
    again = p2p_sim.Scenario.from_tree(tomllib.loads(toml(scenario_in_order(tree))))
    assert again.content_hash() == scenario.content_hash()
    axes = [*AXES, {"keys": ["a.b", "c"], "values": [[1, "x"], [2, "y"]], "labels": ["one", "two"]}]
    plots = [{"x": "a.b", "y": "excess_risk", "group": None, "facet": None, "fit": False}]
    named = manifest(axes, 4, plots=plots, name="noise")
    listed = tomllib.loads(toml(sweep_file(named)))
    assert listed["base"] == f"{scenario.name}.toml"
    text = Page(report_page(pd.DataFrame(made_rows(AXES, 2)), manifest(AXES, 2, name="noise"), terms=made_terms())).text
    assert f'base = "{scenario.name}.toml"' in text
    assert f"Save the base scenario, which includes what the sweep sets, as {scenario.name}.toml" in text
    known = SweepFile.model_validate_json(json.dumps(listed))
    assert [list(axis.names) for axis in known.axes] == [axis["keys"] for axis in axes]
    assert [[list(step) for step in axis.steps] for axis in known.axes] == [axis["values"] for axis in axes]


def test_texts_with_brackets_and_line_breaks_are_listed_as_they_are():
    texts = ["a,  b]", "[\n  c,\n]", '"\\', "\x7f", "{ d = 1 }"]
    tree = {"name": texts[1], "x": {"texts": texts, "rows": [[1, "e"], [2.5, "]"]], "a b": {"": texts}}}
    assert tomllib.loads(toml({**tree, "none": None})) == tree
    assert 'rows = [\n    [1, "e"],' in toml(tree)
    assert tomllib.loads(toml({"half": "\ud800"})) == {"half": "?"}


@pytest.mark.parametrize("file", ["quickstart", "adult", "network/sybil", "network/churn", "network/file-overlay"])
def test_every_kind_of_scenario_is_listed_in_full(scenarios, file):
    scenario = p2p_sim.load_scenario(scenarios / f"{file}.toml")
    listed = tomllib.loads(toml(scenario_in_order(scenario.model_dump(mode="json"))))
    assert p2p_sim.Scenario.from_tree(listed, scenario.folder).content_hash() == scenario.content_hash()


@pytest.mark.slow
@pytest.mark.figures
def test_a_large_sweep_makes_a_small_page(tmp_path):
    flips = [[float(f"{x:.4g}")] for x in np.linspace(0.01, 0.4, 25)]
    users = [[100 * 2**i] for i in range(10)]
    axes = [{"keys": ["mechanism.flip_prob"], "values": flips}, {"keys": ["population.users"], "values": users}]
    write_sweep(tmp_path / "s", [*axes, {"keys": ["network.loss"], "values": [[0.0], [0.1]]}], 20)
    path = write_report(tmp_path / "s")
    assert path.stat().st_size < 5_000_000
    assert len(Page(path.read_text()).lines) == 400


def test_what_cannot_be_reported_is_one_line(tmp_path):
    with pytest.raises(InputError, match="holds no results of p2p-sim"):
        write_report(tmp_path)
    write_sweep(tmp_path / "s", AXES, 1)
    rows = tmp_path / "s" / "rows.jsonl"
    whole = rows.read_text()
    for content, message in (
        ("", "no finished replicate"),
        ("{not json\n", "damaged"),
        (whole.replace("epsilon_local", "other"), "no column epsilon_local"),
        (whole.replace('"num_users": 400', '"num_users": "many"'), "column num_users must hold numbers"),
        (whole.replace("network.loss", "gone"), "network.loss"),
    ):
        rows.write_text(content)
        with pytest.raises(InputError, match=message) as caught:
            write_report(tmp_path / "s")
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "s" / "report.html").exists()
    rows.write_text(whole)
    (tmp_path / "s" / "failures.jsonl").write_text("[1]\n")
    with pytest.raises(InputError, match=r"failures\.jsonl: damaged"):
        write_report(tmp_path / "s")


def test_the_file_is_written_where_it_is_asked_for_and_nowhere_else(tmp_path):
    write_sweep(tmp_path / "s", AXES, 1)
    before = sorted(path.name for path in (tmp_path / "s").iterdir())
    assert write_report(tmp_path / "s", tmp_path / "x.html") == tmp_path / "x.html"
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == before
    for out, message in (
        (tmp_path / "s" / "rows.jsonl", "must end in .html"),
        (tmp_path / "none" / "x.html", "cannot be written"),
    ):
        with pytest.raises(InputError, match=message):
            write_report(tmp_path / "s", out)


def test_the_command_prints_the_path_and_refuses_in_one_line(tmp_path):
    write_sweep(tmp_path / "s", AXES, 1)
    assert command("report", tmp_path / "s") == (0, f"{tmp_path / 's' / 'report.html'}\n", "")
    status, _, refused = command("report", tmp_path)
    assert status == 2
    assert refused.count("\n") == 1


def test_a_crate_lists_every_file_and_refers_to_nothing_that_is_missing(tmp_path):
    directory = tmp_path / "s"
    write_sweep(directory, AXES, 1)
    (directory / "my own µ.csv").write_text("x\n")
    for _ in range(2):  # the second one replaces the first, which is no part of itself
        assert command("report", directory, "--crate")[1].splitlines()[1:] == [str(directory / CRATE)]
        graph = json.loads((directory / CRATE).read_text(encoding="utf-8"))["@graph"]
        entities = {entity["@id"]: entity for entity in graph}
        assert len(entities) == len(graph)
        files = {entity["name"]: entity["contentSize"] for entity in graph if entity["@type"] == "File"}
        on_disk = [path for path in directory.iterdir() if path.name not in (CRATE, ".lock")]
        assert files == {path.name: str(path.stat().st_size) for path in on_disk}
        texts = re.findall(r'{"@id": "([^"]*)"}', json.dumps(graph))
        assert [text for text in texts if text not in entities] == [VERSION]
    assert "my%20own%20%C2%B5.csv" in entities
    assert entities["#software"]["softwareVersion"] == manifest(AXES, 1)["versions"]["p2p-sim"]
