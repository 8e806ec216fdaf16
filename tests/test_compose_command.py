"""`p2p-sim compose`: what it adds up, and what it refuses to."""

import json
from pathlib import Path

import numpy as np
import pytest

from p2p_sim import Scenario, load_scenario, release
from p2p_sim.analysis.privacy import (
    DpSgd,
    FetchDistribution,
    LabelExchange,
    NoisyScore,
    Poisson,
    PrivacyBound,
    Selection,
    ShuffledResponse,
    TruncatedNegativeBinomial,
    compose,
)
from p2p_sim.analysis.privacy.statement.composition import Composition
from p2p_sim.analysis.privacy.statement.conditions import FRESH
from p2p_sim.analysis.privacy.statement.worst import OnePoint, OneUser, WorstOf
from p2p_sim.cli.releases import ScenarioRelease, accounts
from p2p_sim.replicate.case import Case
from p2p_sim.replicate.run import exchange
from tests.commands import command
from tests.conftest import ROOT
from tests.fuzz import readers
from tests.fuzz.harness import Target, fuzz

EXCHANGE = '[[release]]\nkind = "exchange"\ncluster_size = 20\nflip_prob = 0.2\nsampling_rate = 0.5\n'
STEPS = '[[release]]\nkind = "dp_sgd"\nnoise_multiplier = 2.0\nsampling_rate = 0.1\nsteps = 20\n'
CHOSEN = '[[release]]\nkind = "selection"\nmean_runs = 10.0\n'
RUN = 'base = {kind = "dp_sgd", noise_multiplier = 4.0, sampling_rate = 0.1, steps = 20}\n'
SCENARIO = '[[release]]\nkind = "scenario"\n'
STATED = '[[release]]\nkind = "statement"\nepsilon = 0.5\n'
SMALL = """name = "small"
seed = 3
[population]
kind = "synthetic"
users = 60
num_clusters = 3
[mechanism]
flip_prob = 0.2
[network]
loss = 0.1
request_timeout_s = 1.0
"""


def written(folder: Path, *releases: str, head: str = "delta = 1e-5\n") -> Path:
    (folder / "releases.toml").write_text("\n".join([head, *releases]), encoding="utf-8")
    return folder / "releases.toml"


def test_the_total_is_that_of_the_accountants(tmp_path):
    path = written(tmp_path, EXCHANGE + "times = 10\n", STEPS)
    status, out, err = command("compose", path, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    exact = Composition((LabelExchange(20, 0.2, 0.5), DpSgd(2.0, 0.1, 20)), (10, 1))
    assert found["epsilon_upper"] == exact.epsilon(1e-5).epsilon_upper
    assert (found["observer"], found["adjacency"], found["user_account"]) == ("learner", "label", None)
    alone = [line["epsilon_alone_upper"] for line in found["releases"]]
    assert max(alone) < found["epsilon_upper"] < sum(alone)
    assert found["releases"][0]["epsilon_so_far_upper"] == alone[0]
    assert 0.0 < found["gdp_mu"] < 3.0
    assert found["renyi"]["2"] == "inf"  # the rounding of the steps is an infinite loss


@pytest.mark.figures
def test_the_table_says_each_release_and_the_conditions(tmp_path):
    path = written(tmp_path, EXCHANGE, STATED + 'adjacency = "example"\nname = "next year"\n')
    status, out, _ = command("compose", path, "--figure", tmp_path / "f.png")
    assert status == 0
    assert "ε of it alone" in out
    assert "What protects a whole example protects its label too, and counts here as such: next year." in out
    assert "- noise, peers and subsamples are fresh in every exchange" in out
    assert "Rényi ε, at most: " in out
    assert (tmp_path / "f.png").stat().st_size > 10_000


def test_a_choice_among_runs_is_paid_for(tmp_path):
    run, score = DpSgd(4.0, 0.1, 20), NoisyScore(5.0)
    law = TruncatedNegativeBinomial.of_mean(10.0, 0.0)
    [account] = accounts(written(tmp_path, CHOSEN + RUN + "score_noise = 5.0\n", STATED))
    assert account.lines[0].release.every == Selection(WorstOf((run, score)), law)
    assert account.lines[0].alone.epsilon_upper > 1.2 * run.epsilon(1e-5).epsilon_upper
    assert account.bound.epsilon_upper > account.lines[0].alone.epsilon_upper
    status, out, _ = command("compose", written(tmp_path, CHOSEN + RUN))
    assert status == 0
    assert "best of 10 runs in the mean" in out
    assert "- only the best run is released" in out
    more = 'score_noise = 5.0\nheld_out = false\nlaw = "poisson"\n'
    [account] = accounts(written(tmp_path, CHOSEN + RUN + more))
    assert account.lines[0].release.every == Selection(Composition((run, score), (1, 1)), Poisson(10.0))
    [account] = accounts(written(tmp_path, CHOSEN + 'law = "geometric"\n' + RUN.replace("20}", "20, times = 2}")))
    law = TruncatedNegativeBinomial.of_mean(10.0, 1.0)
    assert account.lines[0].release.every == Selection(Composition((run,), (2,)), law)


def test_whole_examples_are_protected_only_if_all_releases_do(tmp_path):
    both = [STATED + 'adjacency = "example"\n'] * 2
    status, out, _ = command("compose", written(tmp_path, *both, head='delta = 1e-5\nadjacency = "example"'), "--json")
    assert (status, json.loads(out)["adjacency"]) == (0, "example")
    assert 0.9 < json.loads(out)["epsilon_upper"] <= 1.0001


@pytest.mark.parametrize(
    ("releases", "head", "said"),
    [
        ([EXCHANGE + 'noise = "memoised"\ntimes = 5\n'], "delta = 1e-5", "give rounds = 5 without times"),
        (['[[release]]\nkind = "exchnge"\n'], "delta = 1e-5", "did you mean exchange?"),
        (["[[release]]\nepsilon = 1.0\n"], "delta = 1e-5", "release 1: kind: is missing"),
        ([STATED, EXCHANGE], 'delta = 1e-5\nadjacency = "example"', "protects labels alone"),
        ([EXCHANGE, EXCHANGE + 'observer = "peer"\n'], "delta = 1e-5", "observer = learner, peer"),
        ([CHOSEN + 'score_noise = 0.5\nbase = {kind = "statement", epsilon = 0.1, observer = "coalition"}\n'],
         "delta = 1e-5", "observer = coalition: sees every run"),
        ([EXCHANGE + 'observer = "coalition"\n'], "delta = 1e-5", "needs members"),
        ([STEPS], "delta = 1e-15", "must be at least"),
        ([STEPS + "times = 0\n"], "delta = 1e-5", "times = 0"),
        ([CHOSEN], "delta = 1e-5", "release 1: base: is missing"),
        ([CHOSEN + RUN.replace("dp_sgd", "scenario")], "delta = 1e-5", "base.kind"),
        ([CHOSEN.replace("10.0", "0.5") + RUN], "delta = 1e-5", "mean = 0.5: must be above 1"),
        ([CHOSEN + RUN + "score_noise = 0.0\n"], "delta = 1e-5", "noise_scale = 0.0: must lie in"),
        ([CHOSEN + 'base = {kind = "exchange", cluster_size = 9, flip_prob = 0.2, observer = "peer"}\n'],
         "delta = 1e-5", "observer = peer: sees every run"),
        ([EXCHANGE + "alpha = 0.1\n"], "delta = 1e-5", "alpha: unknown key"),
        ([EXCHANGE.replace("0.2", "0.7")], "delta = 1e-5", "flip_prob = 0.7: must be 0, or lie in"),
        ([], "delta = 1e-5", "release"),
        ([STATED], "release = 3\ndelta = 1e-5", "not valid TOML"),
        ([], "release = 3\ndelta = 1e-5", "release"),
        ([], 'release = ["a"]\ndelta = 1e-5', "release"),
        ([STATED], "", "delta: is missing"),
        ([SCENARIO + 'scenario = "nowhere"\n'], "delta = 1e-5", "nothing of p2p-sim has this name"),
        ([SCENARIO + 'scenario = "quickstart"\nreplicates = [1, 1]\n'], "delta = 1e-5", "different"),
    ],
)  # fmt: skip
def test_what_has_no_total_is_refused_in_one_line(tmp_path, releases, head, said):
    status, out, err = command("compose", written(tmp_path, *releases, head=head))
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert "releases.toml" in err


def test_memoised_rounds_are_one_exchange(tmp_path):
    """n = 20, α = .1, θ = 1: two rounds that repeat noise cost more than composing them would claim."""
    path = written(tmp_path, EXCHANGE.replace("0.2", "0.1").replace("0.5", "1.0") + 'rounds = 2\nnoise = "memoised"\n')
    [account] = accounts(path)
    truth = LabelExchange(20, 0.1, 1.0, rounds=2).epsilon(1e-5)
    assert truth.epsilon_lower <= account.bound.epsilon_upper <= 1.01 * truth.epsilon_upper


def test_one_user_in_realised_networks(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    path = written(tmp_path, SCENARIO + 'scenario = "small.toml"\nreplicates = 2\n', STATED)
    every, hers = accounts(path, user=7)
    assert [line.release.label for line in hers.lines[:2]] == ["small, replicate 0", "small, replicate 1"]
    assert hers.bound.epsilon_upper <= every.bound.epsilon_upper * (1 + 1e-9)
    assert hers.bound.conditional_on == "the realised network"
    case = Case(load_scenario(tmp_path / "small.toml"), 1)
    done = exchange(case)
    found = done.mechanism.account(done.outcome, done.population.cluster_sizes, case.scenario.situation(2), 1e-5)
    worst = max(bound.epsilon_upper for bound in found.learner)
    assert worst * (1 - 1e-6) <= every.lines[1].alone.epsilon_upper <= 1.02 * worst
    status, out, _ = command("compose", path, "--user", 7)
    assert status == 0
    assert "user 7" in out
    assert "it holds for her place there" in out
    for user in (60, -1):
        status, _, err = command("compose", path, "--user", user)
        assert (status, f"--user {user}" in err) == (2, True)


def test_scenarios_without_messages_are_composed_whole():
    for name, kind in (("dp-sgd", DpSgd), ("curator", WorstOf)):
        scenario = load_scenario(name)
        done = exchange(Case(scenario, 0))
        sizes, situation = done.population.cluster_sizes, scenario.situation(done.population.num_classes)
        assert isinstance(done.mechanism.accountant_of(done.outcome, sizes, situation), kind)
    with pytest.raises(ValueError, match="kind"):
        ScenarioRelease(kind="nothing", scenario="x")


def test_one_statement_is_worth_its_dominating_pair():
    """Against dp-accounting's privacy loss distribution of an (ε, δ) statement."""
    from dp_accounting.pld import common
    from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters

    model = OnePoint(PrivacyBound(0.0, 1.0, 1e-4, "learner", "label", "stated"))
    stated = common.DifferentialPrivacyParameters(1.0, 1e-4)
    theirs = from_privacy_parameters(stated, value_discretization_interval=1e-3)
    for epsilon in (0.0, 0.3, 0.99, 1.0, 2.0):
        assert model.delta(epsilon).upper == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-6)
    for delta in (1e-4, 2e-4, 0.1):
        assert model.delta(model.epsilon(delta).epsilon_upper).upper == pytest.approx(delta, rel=1e-6)
    assert model.epsilon(1e-5).epsilon_upper == np.inf


def test_the_worst_of_several_and_one_of_many():
    models = (LabelExchange(20, 0.2, 0.5), ShuffledResponse(12, 0.2))
    worst = WorstOf(models)
    for epsilon in (0.0, 0.4, 0.9):
        assert worst.delta(epsilon).upper == max(model.delta(epsilon).upper for model in models)
    weights = np.zeros((6, 6))
    weights[:, 0], weights[:, 1] = 0.9, 0.1
    fetch = FetchDistribution(weights, 0.2, 0.3)
    often, never = OneUser(fetch, 0, 6), OneUser(fetch, 5, 6)
    assert often.delta(0.5).upper > 10 * never.delta(0.5).upper
    assert often.epsilon(1e-3).epsilon_upper > never.epsilon(1e-3).epsilon_upper


def test_spoilt_files_are_taken_or_refused(tmp_path):
    found = fuzz([Target("releases", readers.releases, 1.0)], 300, 1, tmp_path)["releases"]
    assert found.faults == []
    assert min(found.taken, found.refused) > 20


def test_the_shipped_file_is_no_scenario():
    from p2p_sim.base.shipped import shipped

    assert not [name for name in shipped() if "releases" in name]
    assert (ROOT / "examples/releases/two-years.toml").exists()


SAME_USERS = """name = "{name}"
seed = 4
noise_salt = {salt}
engine = "vectorised"
[population]
kind = "synthetic"
users = 400
num_clusters = 2
[mechanism]
flip_prob = {alpha}
"""


def twice(folder: Path, salt: int) -> Path:
    for name, alpha, own in (("first", 0.1, 0), ("second", 0.3, salt)):
        (folder / f"{name}.toml").write_text(SAME_USERS.format(name=name, alpha=alpha, salt=own))
    return written(folder, *(f'{SCENARIO}scenario = "{name}.toml"\n' for name in ("first", "second")))


@pytest.mark.parametrize(("salt", "told"), [(0, True), (1, False)])
def test_two_releases_with_shared_noise_tell_labels_for_certain(salt, told):
    """Where they differ the same number lies between the two flip probabilities: the weaker noise left the label."""
    tree = {"name": "twice", "population": {"kind": "synthetic", "users": 2_000}, "engine": "vectorised"}
    settings = [{"mechanism": {"kind": "randomized_response", "flip_prob": alpha}} for alpha in (0.1, 0.3)]
    first, second = (
        exchange(Case(Scenario.from_tree({**tree, **mechanism, "noise_salt": own})))
        for mechanism, own in zip(settings, (0, salt), strict=True)
    )
    assert (first.population.labels == second.population.labels).all()
    [weak, strong] = (one.outcome.labels.payload for one in (first, second))
    [differ] = np.nonzero(weak != strong)
    assert len(differ) > 300
    assert bool((weak == first.population.labels)[differ].all()) == told


def test_scenarios_that_share_noise_are_refused(tmp_path):
    path = twice(tmp_path, 0)
    status, out, err = command("compose", path)
    assert (status, out) == (2, "")
    assert "releases 1 and 2: both are drawn with seed = 4, replicate 0, noise_salt = 0" in err
    assert err.count("\n") == 1
    assert command("compose", written(tmp_path, *[SCENARIO + 'scenario = "first.toml"\n'] * 2))[0] == 2
    status, out, _ = command("compose", twice(tmp_path, 1), "--json")
    assert status == 0
    assert "fresh-rounds" not in json.loads(out)["condition_ids"]  # the simulator drew them apart


def test_releases_of_runs_are_composed_from_python():
    tree = {"name": "twice", "population": {"kind": "synthetic", "users": 60, "num_clusters": 3}, "seed": 4}
    first = Scenario.from_tree({**tree, "mechanism": {"flip_prob": 0.1}})
    second = first.replace(**{"mechanism.flip_prob": 0.3})
    with pytest.raises(ValueError, match="releases 1 and 2: both are drawn with seed = 4, replicate 0, noise_salt = 0"):
        compose([release(first), release(second)], 1e-4)
    with pytest.raises(ValueError, match="release 1, twice: both are drawn"):
        compose([release(first)] * 2, 1e-4)
    apart = compose([release(first), release(second.replace(noise_salt=1)), release(first, replicate=1)], 1e-4)
    assert FRESH not in apart.conditions
    bare = [release(first).accountant, release(second).accountant, release(first, replicate=1).accountant]
    in_words = compose(bare, 1e-4)
    assert FRESH in in_words.conditions  # nobody knows what they were drawn with
    assert in_words.epsilon_upper == pytest.approx(apart.epsilon_upper)
