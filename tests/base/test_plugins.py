"""Kinds that other packages offer: all that a scenario can do with them, and the ways in which they can be broken."""

import itertools
import json
import math
import os
import subprocess
import sys
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import p2p_sim
from p2p_sim import extend
from p2p_sim.audit.small_exchange_attack import audit
from p2p_sim.base import plugins
from p2p_sim.base.errors import InputError
from p2p_sim.cli.main import main
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.report.results_report import write_report
from p2p_sim.scenario import Scenario, load_scenario
from p2p_sim.sweeps.dask_workers import compare, versions
from p2p_sim.sweeps.plan import load_sweep
from tests.conftest import ROOT
from tests.plug_ins import EXAMPLE, install, install_example

ERROR = 1e-9
GROUPS = ("p2p_sim.mechanisms", "p2p_sim.overlays", "p2p_sim.learners", "p2p_sim.populations", "p2p_sim.faults")


def own(**changes):
    scenario = load_scenario(EXAMPLE / "own.toml").replace(**{"population.users": 400, "clusters.count": 4})
    return scenario.replace(**{"replicates": 2, **changes})


@pytest.mark.slow
def test_the_example_runs_as_a_command_in_a_process_of_its_own(tmp_path):
    install_example(tmp_path / "site")
    python = os.pathsep.join([str(tmp_path / "site"), str(ROOT)])
    command = [
        sys.executable,
        "-c",
        "from p2p_sim.cli.main import main; main()",
        "run",
        str(EXAMPLE / "own.toml"),
        "--json",
    ]
    setting = {**os.environ, "PYTHONPATH": python, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=setting, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["mechanism"], record["population"]) == ("uneven_response", "moons")
    assert record["epsilon_upper"] == pytest.approx(math.log((0.8 - 1e-5) / 0.1))
    assert record["epsilon_local"] == pytest.approx(math.log(8.0))
    assert record["first_flip_prob_max"] == 0.1
    assert record["error_rate"]["mean"] < 0.25


def test_the_overlay_is_a_star_in_every_cluster(installed):
    result = p2p_sim.run(load_scenario(EXAMPLE / "star.toml"))
    assert result.row["disconnected_clusters"] == result.row["isolated_users"] == 0
    from p2p_sim.replicate.replicate import Replicate
    from p2p_sim.replicate.run import prepare

    ready = prepare(Replicate(load_scenario(EXAMPLE / "star.toml")))
    sizes = ready.population.cluster_sizes
    hubs = ready.network.overlay.degrees > 1
    assert sorted(ready.network.overlay.degrees[hubs]) == sorted(sizes - 1)
    assert np.any(np.flatnonzero(hubs) != ready.population.cluster_offsets[:-1])  # dealt, not the first of each


def test_what_is_not_asked_for_is_not_imported(installed, scenarios):
    load_scenario(scenarios / "quickstart.toml")
    assert "own_mechanism" not in sys.modules
    own()
    assert "own_mechanism" in sys.modules


def test_identity_holds_the_version_of_what_is_used_and_of_nothing_else(folder, scenarios):
    quick = load_scenario(scenarios / "quickstart.toml")
    bare = quick.content_hash()
    install_example(folder)
    plugins.offers.cache_clear()
    one = own()
    assert quick.content_hash() == bare
    assert quick.packages == {}
    assert one.packages == {"own-mechanism": "1.0"}
    first = one.content_hash()
    (folder / "own_mechanism-1.0.dist-info").rename(folder / "own_mechanism-1.1.dist-info")
    meta = folder / "own_mechanism-1.1.dist-info" / "METADATA"
    meta.write_text(meta.read_text().replace("1.0", "1.1"))
    plugins.offers.cache_clear()
    assert one.content_hash() != first
    assert quick.content_hash() == bare


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism.flip_prop": 0.1}, "mechanism.flip_prop: unknown key; did you mean mechanism.flip_prob"),
        ({"mechanism.flip_prob": 0.7}, "mechanism.flip_prob = 0.7: should be less than or equal to 0.5"),
        ({"mechanism.flip_prob": "0.1"}, 'mechanism.flip_prob = "0.1": should be a valid number'),
        ({"population.kind": "moon"}, r"population.kind = \"moon\": must be one of .*, 'moons'; did you mean moons"),
        ({"learner": {"kind": "nearest_mean", "k": 3}}, "learner.k: unknown key"),
        ({"network": {"overlay": {"kind": "star", "hubs": 2}}}, "network.overlay.hubs: unknown key"),
        ({"mechanism": {"flip_prob": 0.1, "kind": 3}}, "mechanism.kind"),
        (
            {"mechanism": {"kind": "dp_sgd", "target_epsilon": 1}, "population": 3},
            "population = 3: should be an object",
        ),
        (
            {"network.loss": 0.1, "engine": "events"},
            "mechanism.kind = 'uneven_response': no messages of it are simulated",
        ),
    ],
)
def test_faults_are_one_line_as_for_any_kind(installed, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        own(**changes)
    assert "\n" not in str(caught.value)


def test_values_pass_through_unchanged(installed):
    scenario = own(**{"mechanism.flip_prob": 0.25})
    again = Scenario.from_tree(scenario.model_dump(mode="json"))
    assert again.canonical() == scenario.canonical()
    assert again.mechanism == scenario.mechanism
    direct = Scenario(name="x", mechanism=scenario.mechanism, population=scenario.population, learner=scenario.learner)
    assert direct.mechanism is not None
    assert direct.mechanism.flip_prob == 0.25


def test_the_schema_has_the_kinds_and_their_descriptions(installed):
    schema = Scenario.model_json_schema()
    mapping = schema["properties"]["mechanism"]["discriminator"]["mapping"]
    assert mapping["uneven_response"] == "#/$defs/UnevenResponseConfig"
    assert "label_exchange" in mapping
    assert "Probability that a label of class 0 is sent as another one" in json.dumps(schema, ensure_ascii=False)
    assert {"MoonsConfig", "NearestMeanConfig", "StarConfig"} <= set(schema["$defs"])


def test_a_sweep_over_mechanisms_keeps_resumes_and_reports(installed, tmp_path):
    axes = {
        "mechanism": [{"kind": "uneven_response", "flip_prob": 0.1}, {"kind": "randomized_response", "flip_prob": 0.1}]
    }
    out = tmp_path / "out"
    rows = p2p_sim.sweep(own(), axes, out=out)
    assert set(rows["mechanism_kind"]) == {"uneven_response", "randomized_response"}
    pd.testing.assert_frame_equal(p2p_sim.sweep(own(), axes, out=out), rows)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["versions"]["own-mechanism"] == "1.0"
    text = write_report(out).read_text()
    assert (
        "that flips class 0 with a probability of its own, as own-mechanism 1.0 claims, which p2p-sim has not checked"
        in text
    )
    assert "each user answers once, with noise of her own" in text
    assert "For randomised response alone" in text


def test_a_report_of_what_is_no_longer_installed_says_what_it_claimed(installed, tmp_path):
    p2p_sim.run_all(own(replicates=1), tmp_path / "out")
    for info in installed.glob("*.dist-info"):
        info.rename(installed / "gone")
    plugins.offers.cache_clear()
    text = write_report(tmp_path / "out").read_text()
    assert "For uneven_response, as own-mechanism 1.0 claims, which p2p-sim has not checked" in text
    assert "each user answers once, with noise of her own" in text


MODULE = """
from typing import Literal
from p2p_sim.extend import Config, LocalMechanism
class Whole(LocalMechanism):
    kind: Literal["mine"] = "mine"
    def transition(self, num_classes):
        raise NotImplementedError
class Unfinished(LocalMechanism):
    kind: Literal["mine"] = "mine"
class Other(Config):
    kind: Literal["mine"] = "mine"
class Narrow(LocalMechanism):
    kind: Literal["mine"] = "mine"
    def transition(self):
        return None
class Misspelt(Whole):
    def transitions(self, num_classes):
        return None
class Astray(LocalMechanism):
    kind: Literal["mine"] = "mine"
    def transitions(self, num_classes):
        return None
class Named(Whole):
    kind: Literal["theirs"] = "theirs"
class Planet(Whole):
    adjacency = "planet"
class Text(Whole):
    conditions = "all is well"
number = 3
"""


@pytest.mark.parametrize(
    ("kind", "where", "message"),
    [
        ("mine", "broken:Whole", "plug-in broken 2.0 cannot be imported (ModuleNotFoundError: No module named"),
        ("mine", "fine:Nothing", "plug-in broken 2.0 cannot be imported (AttributeError:"),
        ("mine", "fine:Other", "fine:Other must be a class derived from p2p_sim.mechanisms.mechanism.MechanismBase"),
        ("mine", "fine:number", "fine:number must be a class derived from"),
        ("mine", "fine:Unfinished", "plug-in broken 2.0: fine:Unfinished lacks transition"),
        ("mine", "fine:Narrow", "plug-in broken 2.0: fine:Narrow.transition must take (self, num_classes)"),
        (
            "mine",
            "fine:Misspelt",
            "fine:Misspelt.transitions: no base class has this method; did you mean transition?",
        ),
        ("mine", "fine:Astray", "fine:Astray.transitions: no base class has this method; did you mean transition?"),
        ("mine", "fine:Named", "needs kind: Literal['mine'], the name of its entry point, not 'theirs'"),
        ("mine", "fine:Planet", "fine:Planet.adjacency = 'planet': must be 'label' or 'example'"),
        ("mine", "fine:Text", "fine:Text.conditions = 'all is well': must be a valid tuple"),
        ("dp_sgd", "fine:Whole", "is a kind of p2p-sim itself, and plug-in broken 2.0 offers it too"),
    ],
)
def test_a_broken_plug_in_is_a_fault_of_its_kind_alone(
    folder, tmp_path, monkeypatch, capsys, scenarios, kind, where, message
):
    install(folder, "broken", "2.0", {"p2p_sim.mechanisms": {kind: where}}, "import nothing_of_that_name")
    (folder / "fine.py").write_text(MODULE)
    plugins.offers.cache_clear()
    (tmp_path / "s.toml").write_text(f'name = "s"\n[mechanism]\nkind = "{kind}"\ntarget_epsilon = 1\n')
    good = str(scenarios / "quickstart.toml")
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "validate", str(tmp_path / "s.toml"), good])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    assert stop.value.code == 2
    assert f'mechanism.kind = "{kind}": ' in shown.err
    assert message in shown.err
    assert len(shown.err.splitlines()) == 1
    assert shown.out.startswith(f"{good}: ok")
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "schema"])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    assert not stop.value.code
    assert json.loads(shown.out)["properties"]["mechanism"]
    [warning] = shown.err.splitlines()
    assert warning.startswith(f"p2p-sim: warning: p2p_sim.mechanisms: {kind}: ")


def test_a_misspelt_group_is_named(folder):
    (folder / "fine.py").write_text(MODULE)
    install(folder, "astray", "1.0", {"p2p_sim.mechanism": {"mine": "fine:Whole"}})
    plugins.offers.cache_clear()
    wrong = "astray offers this kind in the group 'p2p_sim.mechanism', not in 'p2p_sim.mechanisms'"
    with pytest.raises(InputError, match=wrong):
        Scenario.from_tree({"name": "x", "mechanism": {"kind": "mine"}})


def test_a_kind_that_two_packages_offer_is_refused(folder):
    (folder / "fine.py").write_text(MODULE)
    for name in ("one", "two"):
        install(folder, name, "1.0", {"p2p_sim.mechanisms": {"mine": "fine:Whole"}})
    plugins.offers.cache_clear()
    with pytest.raises(InputError, match=r'mechanism.kind = "mine": is offered by one 1.0 and by two 1.0'):
        Scenario.from_tree({"name": "x", "mechanism": {"kind": "mine"}})


def test_workers_need_the_plug_ins_that_are_used(installed, tmp_path):
    here = versions()
    assert here["plug-in own-mechanism"] == "1.0"
    lacking = {name: version for name, version in here.items() if not name.startswith("plug-in")}
    compare("tcp://x", here, {"w": lacking})
    with pytest.raises(InputError, match=r"w has no plug-in own-mechanism, this process 1.0; install the same"):
        compare("tcp://x", here, {"w": lacking}, own().packages)
    with pytest.raises(InputError, match=r"w has plug-in own-mechanism 0.9, this process 1.0"):
        compare("tcp://x", here, {"w": {**here, "plug-in own-mechanism": "0.9"}}, own().packages)
    (tmp_path / "base.toml").write_text('name = "b"\n[mechanism]\nflip_prob = 0.1\n')
    axis = '[[axes]]\nkey = "learner"\nvalues = [{kind = "table"}, {kind = "nearest_mean"}]\n'
    (tmp_path / "s.toml").write_text(f'name = "s"\nbase = "base.toml"\n{axis}')
    assert load_sweep(tmp_path / "s.toml").packages == {"own-mechanism": "1.0"}


WRONG = """
from typing import Literal
import numpy as np
from p2p_sim import extend
class Twice(extend.GraphOverlay):
    kind: Literal["twice"] = "twice"
    def expected_degree(self, size):
        return 2.0
    def graph(self, size, seed):
        return np.array([[0, 1], [1, 0]])
class Away(Twice):
    kind: Literal["away"] = "away"
    def graph(self, size, seed):
        return np.array([[0, size]])
class Signed(extend.Source):
    kind: Literal["signed"] = "signed"
    def sample(self, places, streams):
        return extend.Sample(extend.Examples(np.zeros((99, 2)), np.ones(99, dtype=np.int64)), 2)
class Large(Signed):
    kind: Literal["large"] = "large"
    def sample(self, places, streams):
        return extend.Sample(extend.Examples(np.zeros((99, 2)), np.full(99, 2, dtype=np.uint8)), 2)
from own_mechanism import UnevenResponseConfig
class ExtraConfig(UnevenResponseConfig):
    kind: Literal["extra"] = "extra"
    columns = (extend.Column("num_users", "a column that is taken"),)
    num_users: int = 3
"""


def test_an_overlay_may_number_its_nodes_by_small_integers():
    class Everybody(extend.GraphOverlay):
        kind: Literal["everybody"] = "everybody"

        def expected_degree(self, size):
            return size - 1.0

        def graph(self, size, seed):
            return np.stack(np.triu_indices(size, 1), axis=1).astype(np.int8)

    edges = Everybody()._checked(Everybody().graph(100, 1), 100)
    assert edges.dtype == np.int64
    assert len(edges) == 4950


@pytest.mark.parametrize(
    ("group", "kind", "where", "message"),
    [
        ("overlays", "twice", "Twice", "network.overlay.kind = 'twice': an edge occurs twice in a cluster of"),
        ("overlays", "away", "Away", "network.overlay.kind = 'away': edges must join two different nodes of 0.."),
        ("populations", "signed", "Signed", "population.kind = 'signed': users: labels must be uint8"),
        ("populations", "large", "Large", "population.kind = 'large': users: labels must lie in 0..1"),
        (
            "mechanisms",
            "extra",
            "ExtraConfig",
            "'extra': its column 'num_users' has another meaning in a row",
        ),
    ],
)
def test_what_would_spoil_figures_is_refused(installed, group, kind, where, message):
    install(installed, "wrong", "1", {f"p2p_sim.{group}": {kind: f"wrong:{where}"}}, WRONG)
    plugins.offers.cache_clear()
    tree = {"name": "x", "engine": "vectorised", "population": {"kind": "synthetic", "users": 99, "num_clusters": 1},
            "clusters": {"kind": "kmeans", "count": 1},
            "mechanism": {"kind": "uneven_response", "flip_prob": 0.2}}  # fmt: skip
    if group == "overlays":
        more = {"engine": "events", "mechanism": {"flip_prob": 0.2}, "network": {"overlay": {"kind": kind}}}
    elif group == "populations":
        more = {"population": {"kind": kind}}
    else:
        more = {"mechanism": {"kind": kind, "flip_prob": 0.2}}
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        p2p_sim.run(Scenario.from_tree({**tree, **more}))


def hockey_stick(epsilon, matrix, users):
    """δ at ε over everything that could be seen of some users, one of whom changes her label: by enumeration."""
    classes, worst = len(matrix), 0.0
    outputs = list(itertools.product(range(classes), repeat=users))
    for first, second, *others in itertools.product(range(classes), repeat=users + 1):
        delta = 0.0
        for seen in outputs:
            rest = math.prod(matrix[label, s] for s, label in zip(seen[1:], others, strict=True))
            delta += rest * max(0.0, matrix[first, seen[0]] - math.exp(epsilon) * matrix[second, seen[0]])
        worst = max(worst, delta)
    return worst


@pytest.mark.parametrize(("alpha", "first", "classes"), [(0.1, 0.3, 2), (0.3, 0.1, 2), (0.2, 0.05, 3), (0.5, 0.5, 2)])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.05, 0.6])
def test_epsilon_is_that_of_an_enumeration(installed, alpha, first, classes, delta):
    config = own(**{"mechanism.flip_prob": alpha, "mechanism.first_flip_prob": first}).mechanism
    [bound] = config.deployed(Setup(np.array([2]), classes, delta)).privacy(np.array([2]), delta)
    matrix = config.transition(classes)
    assert hockey_stick(bound.epsilon_upper, matrix, 2) <= delta * (1 + 1e-9) + 1e-14
    if bound.epsilon_lower > 0:
        assert hockey_stick(bound.epsilon_lower * (1 - 1e-9), matrix, 2) >= delta * (1 - 1e-9)
    if bound.epsilon_lower > 0 and first != alpha and classes == 2:  # planted: one law for both classes
        [common] = config.model_copy(update={"first_flip_prob": alpha}).deployed(
            Setup(np.array([2]), 2, delta)).privacy(np.array([2]), delta)  # fmt: skip
        assert bool(hockey_stick(common.epsilon_upper, matrix, 2) > delta) is (first < alpha)


@pytest.mark.parametrize("planted", [False, True])
def test_answers_follow_the_law(installed, planted):
    """Pearson's test at 1e-9; the planted mechanism flips both classes alike."""
    more = {"mechanism.first_flip_prob": 0.2} if planted else {}
    result = p2p_sim.run(own(**{"population.users": 40_000, "clusters.count": 1, **more}))
    labels, payload = result.population.labels, result.release.payload
    statistic = 0.0
    for label, law in enumerate([[0.9, 0.1], [0.2, 0.8]]):
        expected = np.array(law) * np.count_nonzero(labels == label)
        statistic += float(((np.bincount(payload[labels == label], minlength=2) - expected) ** 2 / expected).sum())
    assert bool(chi2.sf(statistic, 2) < ERROR) is planted


def test_the_law_of_the_table_reaches_the_audit_and_the_advantage(installed):
    row = p2p_sim.run(own()).row
    assert row["advantage_uniform"] == row["advantage_local"] == pytest.approx(0.35)
    assert row["first_flip_prob"] == 0.1
    audited = audit(own(**{"population.users": 2000}), trials=20_000)
    assert audited.passed
    assert audited.epsilon_attacked > 0.7 * audited.bound.epsilon_upper


KNOWING = """
from typing import Any, ClassVar, Literal
import numpy as np
from p2p_sim import extend

class KnowingConfig(extend.Learner):
    kind: Literal["knowing"] = "knowing"
    uses_noise_law: ClassVar[bool] = True
    loss: ClassVar[Literal["zero_one"]] = "zero_one"

    def fit(self, features: Any, weights: Any) -> Any:
        return Shares(weights.mean(axis=0))

    def learn(self, received: extend.Received) -> Any:
        law = received.law(self.kind)
        assert isinstance(law, extend.NoiseLaw) and law.source == "user"
        return Shares(law.weights(received.release.payload).mean(axis=0))

class Shares:
    def __init__(self, shares: Any) -> None:
        self.shares = shares

    def probabilities(self, features: Any) -> Any:
        return np.tile(self.shares, (len(features), 1))
"""


def test_a_plug_in_gives_a_noise_law_and_gets_one(installed, folder):
    """Its table is the law of what it releases, and learners may use it."""
    install(folder, "knowing", "1.0", {"p2p_sim.learners": {"knowing": "knowing:KnowingConfig"}}, KNOWING)
    plugins.offers.cache_clear()
    row = p2p_sim.run(own(**{"learner.kind": "forward_correction", "population.users": 2000})).row
    assert row["error_rate"] < row["nonprivate_error_rate"] + 0.05
    assert p2p_sim.run(own(**{"learner.kind": "knowing"})).row["learner"] == "knowing"
    with pytest.raises(InputError, match=r"learner\.kind = 'knowing': needs hard labels whose noise law is public"):
        p2p_sim.run(own(**{"learner.kind": "knowing", "mechanism": {"kind": "cluster_rr", "target_epsilon": 1.0,
                                                                    "heterogeneity": 0.2}}))  # fmt: skip
