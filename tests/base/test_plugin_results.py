"""What a plug-in returns is looked at where it enters the simulator: one line that names the package and the method."""

import re
import sys
from pathlib import Path

import pytest

import p2p_sim
from p2p_sim.base import plugins
from p2p_sim.base.errors import InputError
from p2p_sim.base.plugins import plug_in_fault
from p2p_sim.cli.main import main
from p2p_sim.mechanisms.plug_in_results import check_bounds, check_release
from p2p_sim.population.build import check_sample
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import account, exchange
from p2p_sim.report.scenario_listing import toml
from p2p_sim.scenario import Scenario, load_scenario
from p2p_sim.sweeps.plan import make_plan
from p2p_sim.sweeps.run_sweep import run_sweep
from p2p_sim.sweeps.sweep_file import Axis
from tests.commands import command
from tests.conftest import ROOT
from tests.plug_ins import install

ENTRIES = {
    "mechanisms": {"answers": "AnswersConfig", "vectors": "Vectors", "modelled": "ModelConfig"},
    "learners": {"says": "SaysConfig", "fits": "FitsConfig"},
    "populations": {"drawn": "DrawnConfig"},
    "overlays": {"web": "WebConfig"},
    "faults": {"noise": "NoiseConfig"},
    "protocols": {"behaves": "BehavesConfig"},
}


@pytest.fixture
def faulty(installed):
    entries = {f"p2p_sim.{group}": {kind: f"faulty:{name}" for kind, name in kinds.items()}
               for group, kinds in ENTRIES.items()}  # fmt: skip
    install(installed, "faulty", "1.0", entries, (ROOT / "tests" / "wrong_results.py").read_text(encoding="utf-8"))
    plugins.offers.cache_clear()
    return installed


def scenario(**tables) -> Scenario:
    tree = {"name": "x", "replicates": 1, "population": {"kind": "moons", "users": 60},
            "clusters": {"kind": "kmeans", "count": 2, "min_size": 5},
            "mechanism": {"kind": "uneven_response", "flip_prob": 0.2},
            "learner": {"kind": "nearest_mean"}}  # fmt: skip
    return Scenario.from_tree({**tree, **tables})


def exchanged(**network) -> Scenario:
    return scenario(mechanism={"kind": "label_exchange", "flip_prob": 0.2}, learner={"kind": "table"}, network=network,
                    population={"kind": "synthetic", "users": 60, "num_clusters": 2, "heterogeneity": 0.0},
                    clusters={"kind": "given"})  # fmt: skip


def answers(fault: str) -> Scenario:
    return scenario(mechanism={"kind": "answers", "flip_prob": 0.2, "fault": fault})


def vectors(shape: str, fault: str) -> Scenario:
    learner = {"kind": "one_vs_rest" if shape == "bits" else "soft_logistic_regression"}
    return scenario(mechanism={"kind": "vectors", "flip_prob": 0.2, "shape": shape, "fault": fault}, learner=learner)


def modelled(fault: str) -> Scenario:
    return scenario(mechanism={"kind": "modelled", "flip_prob": 0.2, "fault": fault})


def says(fault: str, when: str = "release") -> Scenario:
    return scenario(learner={"kind": "says", "fault": fault, "when": when})


def fits(fault: str) -> Scenario:
    return scenario(learner={"kind": "fits", "fault": fault})


def drawn(fault: str) -> Scenario:
    return scenario(population={"kind": "drawn", "users": 60, "fault": fault})


def web(fault: str) -> Scenario:
    return exchanged(overlay={"kind": "web", "fault": fault})


def noise(fault: str) -> Scenario:
    return exchanged(in_transit=[{"kind": "noise", "fault": fault}])


def behaves(fault: str) -> Scenario:
    return exchanged().replace(mechanism={"kind": "behaves", "flip_prob": 0.2, "fault": fault}, engine="processes")


def known_noise(fault: str) -> Scenario:
    return answers(fault).replace(learner={"kind": "backward_correction"})


ROWS = r"must give an array \(2, 2\) of probabilities, each row with the sum 1, "
PAYLOAD = r"payload must be an array \(\d+,\) of classes in 0..1"
MATRIX = r"payload must be an array \(\d+, 2\) of"
FOUND = {
    "Vectors.release": [
        (lambda: vectors("soft", "infinite"), rf"{MATRIX} shares .*, but holds infinity or NaN"),
        (lambda: vectors("soft", "doubled"), rf"{MATRIX} shares .*, but holds a row that is no distribution"),
        (lambda: vectors("soft", "minus"), rf"{MATRIX} shares .*, but holds a row that is no distribution"),
        (lambda: vectors("soft", "wide"), rf"{MATRIX} shares .*, not float64 \(\d+, 4\)"),
        (lambda: vectors("signed", "infinite"), rf"{MATRIX} finite weights"),
        (lambda: vectors("bits", "wide"), r"payload must be an array \(\d+, 1\) of packed bits, not uint8 \(\d+, 2\)"),
        (lambda: vectors("bits", "words"), r"packed bits \(uint8\), not uint16"),
    ],
    "AnswersConfig.release": [
        (lambda: answers("nan labels"), rf"{PAYLOAD}, not float64"),
        (lambda: answers("column"), rf"{PAYLOAD}, not uint8 \(\d+, 1\)"),
        (lambda: answers("few"), rf"{PAYLOAD}, not uint8"),
        (lambda: answers("third class"), rf"{PAYLOAD}, not 2"),
        (lambda: answers("one user"), "user must be ascending, each user at most once"),
        (lambda: answers("descending"), "user must be ascending, each user at most once"),
        (lambda: answers("strangers"), "user must lie in 0..59"),
        (lambda: answers("negative"), "user must lie in 0..59"),
        (lambda: answers("list of users"), r"user must be an array of integers \(m,\), not float64"),
        (lambda: answers("half users"), r"user must be an array of integers \(m,\), not float64"),
        (lambda: answers("soft"), "LabelRelease of kind 'hard', as its configuration declares, not .* of kind 'soft'"),
        (lambda: answers("nothing"), "must give a LabelRelease of kind 'hard', .*, not NoneType"),
        (lambda: answers("model"), "LabelRelease of kind 'hard', as its configuration declares, not ModelRelease"),
    ],
    "AnswersConfig.transition": [
        (lambda: answers("rows"), f"{ROWS}but gave a row that is no distribution"),
        (lambda: answers("negative rows"), f"{ROWS}but gave a row that is no distribution"),
        (lambda: answers("nan rows"), f"{ROWS}but gave a row that is no distribution"),
        (lambda: answers("wide rows"), rf"{ROWS}not float64 \(2, 4\)"),
        (lambda: answers("list of rows"), f"{ROWS}not list"),
    ],
    "AnswersConfig.calibrated": [(lambda: answers("calibrated"), "must give the same class, not None")],
    "AnswersConfig.local_epsilon": [
        (lambda: answers("negative ε"), "must give a number of at least 0, or None, not -1.0"),
        (lambda: answers("nan ε"), "must give a number of at least 0, or None, not nan"),
        (lambda: answers("word ε"), "must give a number of at least 0, or None, not '3'"),
    ],
    "AnswersConfig.privacy": [
        (lambda: answers("too few"), r"must give \d bounds, one for each cluster or size of cluster, not \d"),
        (lambda: answers("no list"), r"must give \d bounds, one for each cluster or size of cluster, not NoneType"),
    ],
    "AnswersConfig.noise_law": [
        (lambda: known_noise("law"), "must give None or a NoiseLaw of 2 classes"),
        (lambda: known_noise("classes of law"), "must give None or a NoiseLaw of 2 classes"),
        (lambda: known_noise("groups of law"), "must give None or a NoiseLaw of 2 classes, with a group for each"),
    ],
    "AnswersConfig.columns": [
        (lambda: answers("nowhere"), "nothing must be the name of a key or of a property"),
        (lambda: answers("names alone"), "must be a tuple of extend.Column"),
        (lambda: answers("taken"), "its column 'num_users' has another meaning in a row"),
        (lambda: answers("no column"), "kind must be a finite number, not 'answers'"),
    ],
    "AnswersConfig.accountant": [
        (lambda: answers("lower above"), r"epsilon_lower = 3.* must be at least 0 and at most epsilon_upper = 2"),
        (lambda: answers("narrow"), r"Narrowly.delta must take \(self, epsilon\)"),
        (lambda: answers("changeable"), "Changeable must have a hash, as a frozen dataclass has"),
        (lambda: answers("below nothing"), "epsilon_lower = -2.0 must be at least 0"),
        (lambda: answers("martian"), "observer = 'martian': must be one of learner, "),
        (lambda: answers("other delta"), "its bound is at delta = 5e-06, not at 1e-05"),
        (lambda: answers("adjacency"), "adjacency = 'planet': must be one of label, example"),
        (lambda: answers("number"), "must give a PrivacyBound, not float"),
        (lambda: answers("no accountant"), "must give an Accountant, not None"),
    ],
    "Wrongly.delta": [
        (lambda: answers("no bracket"), "must give a Bracket, not float"),
        (lambda: answers("nan bracket"), "must give 0 <= lower <= upper <= 1, not nan and nan"),
        (lambda: answers("turned"), "must give 0 <= lower <= upper <= 1, not 0.5 and 0.1"),
        (lambda: answers("above one"), "must give 0 <= lower <= upper <= 1, not 0.0 and 1.5"),
    ],
    "Wrongly.conditions": [
        (lambda: answers("one text"), "must be a tuple of texts, not 'all is well'"),
        (lambda: answers("numbers"), r"must be a tuple of texts, not \(1, 2\)"),
    ],
    "ModelConfig.release": [(lambda: modelled("no model"), "the released model must have a method probabilities")],
    "Said.probabilities": [
        (lambda: modelled("nan"), "must give probabilities: finite, at least 0, each row with the sum 1"),
        (lambda: says("nan"), "must give probabilities: finite"),
        (lambda: says("nan", "truth"), "must give probabilities: finite"),
        (lambda: says("infinite"), "must give probabilities: finite"),
        (lambda: says("list"), r"must give an array of floating-point numbers \(30, 2\), not list"),
        (lambda: says("negative"), "must give probabilities: finite, at least 0"),
        (lambda: says("sums"), "must give probabilities: .*, each row with the sum 1"),
        (lambda: says("flat"), r"must give an array of floating-point numbers \(30, 2\), not float64 \(30,\)"),
        (lambda: says("none"), r"must give an array of floating-point numbers \(30, 2\), not NoneType"),
        (lambda: says("turned"), r"must give an array of floating-point numbers \(30, 2\), not float64 \(2, 30\)"),
        (lambda: says("classes"), r"must give an array of floating-point numbers \(30, 2\), not float64 \(30, 3\)"),
        (lambda: says("integers"), r"must give an array of floating-point numbers \(30, 2\), not int64"),
    ],
    "FitsConfig.fit": [(lambda: fits("three"), "must give a predictor with a method probabilities, not int")],
    "SaysConfig.learn": [
        (lambda: says("mute"), r"Mute.probabilities must take \(self, features\)"),
        (lambda: says("nobody"), "must give a predictor with a method probabilities, not NoneType")],
    "DrawnConfig.sample": [
        (lambda: drawn("nothing"), "population.kind = 'drawn': must give a Sample, not NoneType"),
        (lambda: drawn("nan features"), "users: features must be finite"),
        (lambda: drawn("nan held out"), "holdout: features must be finite"),
        (lambda: drawn("list"), "users: labels must be uint8"),
        (lambda: drawn("column"), "users: labels must be uint8"),
        (lambda: drawn("nan labels"), "users: labels must be uint8"),
        (lambda: drawn("fewer labels"), "users: labels must be uint8"),
        (lambda: drawn("wider"), "holdout: features must have 2 columns, as the users' features have"),
        (lambda: drawn("third class"), r"users: labels must lie in 0\.\.1, and there must be some"),
        (lambda: drawn("nobody"), r"users: labels must lie in 0\.\.1, and there must be some"),
        (lambda: drawn("flat"), r"users: features must be floating-point numbers \(n, d\)"),
        (lambda: drawn("pair"), "must give a Sample, not tuple"),
        (lambda: drawn("one class"), "num_classes must be a whole number from 2 to 256, not 1"),
        (lambda: drawn("half a class"), "num_classes must be a whole number from 2 to 256, not 2.5"),
        (lambda: drawn("cluster"), r"users: cluster must be integers \(60,\)"),
        (lambda: drawn("row"), r"users: row must be integers \(60,\)"),
        (lambda: drawn("unmeasured"), "must hold rows out, or give the law, by which errors are measured"),
        (lambda: drawn("mass"), "law: mass must be probabilities"),
        (lambda: drawn("negative mass"), "law: mass must be probabilities"),
        (lambda: drawn("law of labels"), "law: label_distribution must be probabilities"),
        (lambda: drawn("shape of law"), r"law: must have points \(P, 2\), mass \(P,\)"),
        (lambda: drawn("far point"), r"point must be integers \(60,\) in 0..1, with a law"),
        (lambda: drawn("no point"), r"point must be integers \(60,\) in 0..1, with a law"),
        (lambda: drawn("values"), "values must be 2 finite numbers, increasing"),
    ],
    "WebConfig.graph": [
        (lambda: web("floats"), r"kind = 'web': edges must be an array of integers \(m, 2\), not float64"),
        (lambda: web("list"), r"edges must be an array of integers \(m, 2\), not list"),
        (lambda: web("nothing"), r"edges must be an array of integers \(m, 2\), not NoneType"),
        (lambda: web("number"), r"edges must be an array of integers \(m, 2\), not int64 \(\)"),
        (lambda: web("flat"), r"edges must be an array of integers \(m, 2\), not int64 \(\d+,\)"),
        (lambda: web("below"), "edges must join two different nodes"),
        (lambda: web("triples"), r"edges must be an array of integers \(m, 2\), not int64 \(\d+, 3\)"),
        (lambda: web("loop"), "edges must join two different nodes"),
        (lambda: web("away"), "edges must join two different nodes"),
        (lambda: web("twice"), "an edge occurs twice"),
    ],
    "WebConfig.expected_degree": [
        (lambda: web("nan degree"), "expected_degree must be finite and at least 0"),
        (lambda: web("no degree"), "expected_degree must be finite and at least 0"),
        (lambda: web("negative degree"), "expected_degree must be finite and at least 0"),
    ],
    "NoiseConfig.delay_s": [
        (lambda: noise("nan"), "network.in_transit.kind = 'noise': delay_s must give finite seconds of at least 0"),
        (lambda: noise("back in time"), "delay_s must give finite seconds of at least 0"),
        (lambda: noise("never"), "delay_s must give finite seconds of at least 0"),
        (lambda: noise("one number"), r"delay_s must give an array of floating \(\d+,\), not float"),
    ],
    "NoiseConfig.lost": [
        (lambda: noise("floats"), "lost must give an array of bool"),
        (lambda: noise("nothing"), "lost must give an array of bool .*, not NoneType"),
        (lambda: noise("longer"), r"lost must give an array of bool .*, not bool \(\d+,\)"),
        (lambda: noise("own dice"), "lost must give a message the same answer each time, and draw only from messages"),
        (lambda: noise("by neighbour"), "lost must give a message the same answer each time"),
    ],
    "NoiseConfig.duplicated": [
        (lambda: noise("numbers"), "duplicated must give an array of bool .*, not int64"),
        (lambda: noise("column"), r"duplicated must give an array of bool .*, not bool \(\d+, 1\)"),
    ],
    "NoiseConfig.corrupted": [
        (lambda: noise("labels"), "corrupted must give labels below 2"),
        (lambda: noise("list"), "corrupted must give an array of uint8 .*, not list"),
        (lambda: noise("wide"), r"corrupted must give an array of uint8 .*, not uint8 \(2, \d+\)"),
        (lambda: noise("wider type"), "corrupted must give an array of uint8 .*, not int64"),
    ],
    "BehavesConfig.protocol": [
        (lambda: behaves("no protocol"), "must give a Protocol, not NoneType"),
        (lambda: behaves("narrow"), r"Narrow.user must take \(self, me\)"),
        (lambda: behaves("class"), "must give a Protocol, not ABCMeta"),
    ],
    "Behaves.user": [
        (lambda: behaves("no generator"), "must be a generator, with a yield, not None"),
        (lambda: behaves("number"), r"must yield what me.ask\(\) or me.wait\(\) gives, not 3"),
        (lambda: behaves("nothing"), r"must yield what me.ask\(\) or me.wait\(\) gives, not None"),
        (lambda: behaves("reply"), r"must yield what me.ask\(\) or me.wait\(\) gives, not Reply\("),
        (lambda: behaves("no yield at all"), r"must write yield before me.ask\(\), not <"),
        (lambda: behaves("no yield"), r"must write yield before me.ask\(\), not <"),
        (lambda: behaves("class 2"), "me.submit: must be a label, 0 to 1, not 2"),
        (lambda: behaves("class -1"), "me.submit: must be a label, 0 to 1, not -1"),
        (lambda: behaves("half a class"), "me.submit: must be a label, 0 to 1, not 0.5"),
        (lambda: behaves("word"), "me.submit: must be a label, 0 to 1, not '0'"),
        (lambda: behaves("none"), "me.submit: must be a label, 0 to 1, not None"),
        (lambda: behaves("from nobody"), r"me.submit: the source must be 0 to \d+, not 1000000"),
        (lambda: behaves("reply of a word"), "me.submit: must be a label, 0 to 1, not '0'"),
        (lambda: behaves("to nobody"), r"me.send: peer must be 0 to \d+, not 1000000"),
        (lambda: behaves("to -1"), r"me.send: peer must be 0 to \d+, not -1"),
        (lambda: behaves("to a half"), r"me.send: peer must be 0 to \d+, not 0.5"),
        (lambda: behaves("to none"), r"me.send: peer must be 0 to \d+, not None"),
        (lambda: behaves("word sent"), "me.send: payload must be a label or a finite number, not '0'"),
        (lambda: behaves("nan sent"), "me.send: payload must be a label or a finite number, not nan"),
        (lambda: behaves("back in time"), "me.wait: seconds must be at least 0, not -1.0"),
        (lambda: behaves("never"), "me.wait: seconds must be at least 0, not inf"),
        (lambda: behaves("word waited"), "me.wait: seconds must be at least 0, not '1'"),
        (lambda: behaves("nameless"), "me.coin: name must be a text, not 0"),
        (lambda: behaves("probability"), "me.coin: probability must be 0 to 1, not 1.5"),
        (lambda: behaves("nan coin"), "me.coin: probability must be 0 to 1, not nan"),
    ],
    "Behaves.answer": [
        (lambda: behaves("string"), "must give None or a label, 0 to 1, not '0'"),
        (lambda: behaves("half"), "must give None or a label, 0 to 1, not 0.5"),
        (lambda: behaves("class 2 answered"), "must give None or a label, 0 to 1, not 2"),
        (lambda: behaves("reply answered"), r"must give None or a label, 0 to 1, not Reply\("),
        (lambda: behaves("unasked"), "what was sent unasked gets no reply; must give None, not 1"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "make", "message"), [(method, *case) for method, cases in FOUND.items() for case in cases]
)
def test_a_wrong_result_is_one_line_that_names_package_and_method(faulty, tmp_path, monkeypatch, method, make, message):
    """With exit status 2, and nothing written."""
    monkeypatch.chdir(tmp_path)
    Path("x.toml").write_text(toml(make().model_dump(mode="json")), encoding="utf-8")
    status, _, err = command("run", "x.toml", "--out", "out", "--workers", "1")
    lines = [line for line in err.splitlines() if not line.startswith("p2p-sim: warning: ")]
    assert (status, len(lines)) == (2, 1)
    assert re.match(f"p2p-sim: plug-in faulty 1.0: {method}: .*{message}", lines[0])
    assert not list(Path("out").glob("rows*"))
    assert not list(Path("out").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("method", "make", "message"),
    [(method, *case) for method in ("AnswersConfig.transition", "AnswersConfig.calibrated", "AnswersConfig.accountant",
                                    "Wrongly.delta", "Wrongly.conditions")
     for case in FOUND[method]],
)  # fmt: skip
def test_validate_finds_a_wrong_matrix_or_bound_without_a_run(faulty, tmp_path, monkeypatch, method, make, message):
    monkeypatch.chdir(tmp_path)
    Path("x.toml").write_text(toml(make().model_dump(mode="json")), encoding="utf-8")
    status, _, err = command("validate", "x.toml")
    assert status == 2
    assert re.match(f"plug-in faulty 1.0: {method}: .*{message}", err)
    Path("fine.toml").write_text(toml(answers("").model_dump(mode="json")), encoding="utf-8")
    assert command("validate", "fine.toml")[0] == 0


def test_every_group_of_entry_points_has_wrong_results():
    assert {f"p2p_sim.{group}" for group in ENTRIES} == set(plugins.GROUPS)
    given = {"Said", "Behaves", "Wrongly"}  # what a class of a kind gives
    classes = {method.partition(".")[0] for method in FOUND} - given
    assert classes == {name for kinds in ENTRIES.values() for name in kinds.values()}


def test_what_is_right_passes(faulty):
    """The control: each of these plug-ins without its fault."""
    for fine in (
        answers(""), vectors("soft", ""), vectors("signed", ""), vectors("bits", ""), modelled(""), says("", "truth"),
        says(""), fits(""), drawn(""), web(""), noise(""), behaves(""), known_noise(""),
    ):  # fmt: skip
        row = p2p_sim.run(fine).row
        assert 0.0 <= row["error_rate"] <= 1.0
        assert 0.0 <= row["epsilon_lower"] <= row["epsilon_upper"]


def test_corrupted_vectors_must_be_numbers(faulty):
    tree = noise("vectors").model_dump(mode="json")
    tree["mechanism"] = {"kind": "label_exchange", "randomizer": {"kind": "alibi", "epsilon": 1.0}}
    given = Scenario.from_tree({**tree, "learner": {"kind": "soft_logistic_regression"}})
    with pytest.raises(InputError, match=r"NoiseConfig.corrupted: .*corrupted must give finite numbers"):
        p2p_sim.run(given)


def test_the_command_ends_with_status_2_and_a_sweep_notes_the_line(faulty, tmp_path, monkeypatch, capsys):
    line = "plug-in faulty 1.0: AnswersConfig.accountant: observer = 'martian'"
    tables = {"population": 'kind = "moons"\nusers = 60', "clusters": 'kind = "kmeans"\ncount = 2\nmin_size = 5',
              "mechanism": 'kind = "answers"\nflip_prob = 0.2\nfault = "martian"',
              "learner": 'kind = "nearest_mean"'}  # fmt: skip
    text = 'name = "x"\nreplicates = 1\n' + "".join(f"[{name}]\n{keys}\n" for name, keys in tables.items())
    (tmp_path / "x.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "run", "x.toml"])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2
    assert [each for each in shown if line in each] == shown[-1:]
    plan = make_plan("x", answers("martian"), [Axis(key="mechanism.fault", values=("martian", ""))], 1)
    result = run_sweep(plan, tmp_path / "out")
    assert result.failed == 1
    assert line in (tmp_path / "out" / "failures.jsonl").read_text()


CURRENT = ("quickstart", "vectors", "curator", "cluster-labels", "noisy-aggregates",
           "network/loss", "regression", "pate", "noise-shares", "dp-sgd")  # fmt: skip


@pytest.mark.parametrize("name", CURRENT)
def test_what_the_simulators_own_kinds_give_would_pass(name):
    """The control: the checks refuse nothing that p2p-sim itself releases, states and draws."""
    given = load_scenario(ROOT / "scenarios" / f"{name}.toml")
    case = Replicate(given)
    done = exchange(case)
    people = done.population
    check_release("", done.outcome.release, given.mechanism.releases, people.num_users, people.num_classes)
    bounds = account(case, people, done.mechanism, done.outcome).learner
    check_bounds("", bounds, len(people.cluster_sizes), given.privacy.delta)
    check_sample("", given.population.sample(case.places, case.streams))


def test_an_exception_that_simpy_copied_is_that_of_the_plug_in(monkeypatch):
    """SimPy raises a copy without the plug-in's frames, whose cause is the exception itself."""
    namespace = {"__name__": "mine_faults"}
    exec("def lost(messages):\n    raise ValueError('boom')\n", namespace)
    monkeypatch.setattr("p2p_sim.base.plugins.offers_of_all", lambda: [NamedOffer()])
    copy = ValueError("boom")
    with pytest.raises(ValueError, match="boom") as caught:
        namespace["lost"](None)
    copy.__cause__ = caught.value
    assert "lost failed: ValueError: boom" in plug_in_fault(copy)


class NamedOffer:
    """An offer of the module `mine_faults`, as a message names it."""

    class entry:  # noqa: N801
        module = "mine_faults"

    def __str__(self) -> str:
        return "mine 1.0"
