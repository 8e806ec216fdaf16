"""Organisations that exchange models in a scenario: what they spend, what they get, and what it is worth."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.base.streams import Streams
from p2p_sim.learning.metrics import measured, predict
from p2p_sim.mechanisms import organisations
from p2p_sim.mechanisms.organisations import Combination
from p2p_sim.mechanisms.outcome import ByCluster
from p2p_sim.population.population import Examples, Population
from p2p_sim.privacy.spending_ledger import ReleaseLedger
from p2p_sim.privacy.where_bounds_hold import Situation
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.report.results_report import write_report
from p2p_sim.results.release_export import export_transcript
from p2p_sim.stacking import pst
from p2p_sim.stacking.clipped_rows import FeatureGroups
from p2p_sim.stacking.pst import GroupModels
from tests.commands import command, unwrapped
from tests.conftest import ROOT

LAW = {"kind": "synthetic", "users": 400, "num_clusters": 5, "heterogeneity": 0.6,
       "positive_low": 0.4, "positive_high": 0.6}  # fmt: skip
FAULTS = {"loss": 0.3, "duplication": 0.5, "request_timeout_s": 1.0,
          "on_timeout": {"retry": "same_peer", "attempts": 3},
          "availability": {"kind": "on_off", "mean_on_s": 2.0, "mean_off_s": 2.0}}  # fmt: skip
KINDS = ("private_stacking", "hypothesis_transfer")


def scenario(kind="private_stacking", network=None, population=None, **mechanism):
    return p2p_sim.Scenario.from_tree({
        "name": "models", "replicates": 2, "population": population or LAW, "network": network or {},
        "mechanism": {"kind": kind, "epsilon": 1.0, "norm_bound": 1.7, **mechanism},
    })  # fmt: skip


def by(text):
    return {int(k): float(v) for k, v in (cell.split(":") for cell in text.split())}


# the ledger


def test_a_release_costs_once_however_many_see_it():
    ledger = ReleaseLedger(3)
    ledger.pay(0, b"model", 1.0)
    for to in (1, 2, 2, 1):
        ledger.show(b"model", to)
    assert (ledger.spent(0), ledger.shown_to(0), ledger.spent(1), ledger.shown_to(1)) == (1.0, {1, 2}, 0.0, set())


def test_a_fresh_training_for_each_recipient_adds_up():
    ledger = ReleaseLedger(3)
    for to in (1, 2):
        ledger.pay(0, b"model for %d" % to, 1.0)
        ledger.show(b"model for %d" % to, to)
    assert ledger.spent(0) == 2.0


def test_disjoint_parts_cost_the_largest_and_all_rows_come_on_top():
    ledger = ReleaseLedger(1)
    for content, epsilon, part in ((b"a", 1.0, "low"), (b"b", 0.5, "high"), (b"c", 0.75, "high"), (b"d", 0.25, "")):
        ledger.pay(0, content, epsilon, part)
    assert ledger.spent(0) == 1.5


def test_what_nobody_paid_for_cannot_be_shown_and_nobody_pays_for_anothers():
    ledger = ReleaseLedger(2)
    with pytest.raises(LookupError, match="no entry of the ledger pays for"):
        ledger.show(b"model", 1)
    ledger.pay(0, b"model", 1.0)
    with pytest.raises(
        ValueError, match="from all rows of organisation 0: all rows of organisation 1 cannot pay for it"
    ):
        ledger.pay(1, b"model", 1.0)
    with pytest.raises(ValueError, match="from all rows of organisation 0: low of organisation 0 cannot pay for it"):
        ledger.pay(0, b"model", 1.0, "low")
    with pytest.raises(ValueError, match=r"must be 0\.\.1 and at least 0"):
        ledger.pay(2, b"other", 1.0)


# what a row says


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("combiner", ["mean", "stacked"])
def test_epsilon_is_that_of_the_worst_organisation(kind, combiner):
    result = p2p_sim.run(scenario(kind, combiner=combiner, tight=True))
    row, spent = result.row, by(result.row["epsilon_by_organisation"])
    assert row["epsilon_upper"] == pytest.approx(max(spent.values()), rel=1e-5)
    assert row["epsilon_best_cluster"] == pytest.approx(min(spent.values()), rel=1e-5)
    assert all(0.9 < epsilon <= 1.0 for epsilon in spent.values())
    assert len(result.privacy) == len(spent) == row["num_clusters"] == 5
    assert (row["adjacency"], row["delta"], row["observer"]) == ("example", 0.0, "learner")
    assert (row["trust"], row["submissions"]) == ("organisation", None)
    ids = {condition["id"] for condition in result.terms["epsilon_upper"]["conditions"]}
    assert {"released-once", "network-independent-of-rows", "clipped-rows", "blind-parts"} <= ids


def test_everything_arrives_where_nothing_fails_and_the_counts_agree():
    row = p2p_sim.run(scenario()).row
    assert row["arrived_by_organisation"] == "0:4 1:4 2:4 3:4 4:4"
    assert row["shown_by_organisation"] == "0:1,2,3,4 1:0,2,3,4 2:0,1,3,4 3:0,1,2,4 4:0,1,2,3"
    assert (row["models_arrived"], row["fetches"], row["organisations_offline"]) == (20, 20, "")
    assert row["bytes_sent"] == 40 * 64 + 20 * 3 * 8
    moved = p2p_sim.run(scenario("hypothesis_transfer", source=2)).row
    assert moved["shown_by_organisation"] == "0: 1: 2:0,1,3,4 3: 4:"
    assert moved["arrived_by_organisation"] == "0:1 1:1 2:0 3:1 4:1"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("combiner", ["mean", "stacked"])
@pytest.mark.parametrize(
    "network", [{**FAULTS, "loss": 0.6}, {"loss": 0.7}, {"duplication": 1.0}, {"deadline_s": 1e-9},
                {"overlay": {"kind": "regular", "degree": 2}}]
)  # fmt: skip
def test_faults_change_what_arrives_but_not_epsilon(kind, combiner, network):
    chosen = scenario(kind, combiner=combiner)
    perfect, faulty = (p2p_sim.run(each).row for each in (chosen, chosen.replace(network=network)))
    for column in ("epsilon_by_organisation", "epsilon_upper", "delta", "basis", "statement"):
        assert faulty[column] == perfect[column]
    if network == {"deadline_s": 1e-9}:
        assert (faulty["models_arrived"], faulty["excess_risk"] == perfect["excess_risk"]) == (0, False)
    assert (faulty["arrived_by_organisation"] == perfect["arrived_by_organisation"]) == (
        network == {"duplication": 1.0}
    )
    assert (faulty["error_rate"] == perfect["error_rate"]) or network != {"duplication": 1.0}


def test_who_was_offline_is_named():
    row = p2p_sim.run(scenario(network={"availability": {"kind": "always", "leave_share": 1.0, "leave_mean_s": 1e-6}}))
    assert row.row["organisations_offline"] == "0 1 2 3 4"
    assert row.row["models_arrived"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_both_engines_release_the_same(kind):
    chosen = scenario(kind)
    rows = [p2p_sim.run(chosen.replace(engine=engine)).row for engine in ("events", "vectorised")]
    same = ("epsilon_by_organisation", "models_arrived", "error_rate", "excess_risk")
    assert [rows[0][name] for name in same] == [rows[1][name] for name in same]
    assert (rows[0]["messages_sent"] > 0, rows[1]["messages_sent"]) == (True, None)


def test_one_target_asks_alone_and_who_trains_nothing_pays_nothing():
    row = p2p_sim.run(scenario("hypothesis_transfer", target=3)).row
    spent = by(row["epsilon_by_organisation"])
    assert [k for k, epsilon in spent.items() if epsilon > 0] == [0, 3]
    assert (row["fetches"], row["epsilon_best_cluster"]) == (1, 0.0)
    alone = p2p_sim.run(scenario(target=3)).row
    assert alone["arrived_by_organisation"] == "0:0 1:0 2:0 3:4 4:0"
    assert min(by(alone["epsilon_by_organisation"]).values()) > 0


def test_a_run_resumes_to_the_same_bytes(tmp_path):
    p2p_sim.run_all(scenario(network=FAULTS).replace(replicates=1), tmp_path / "grown")
    for place in ("grown", "whole"):
        p2p_sim.run_all(scenario(network=FAULTS), tmp_path / place)
    files = [(tmp_path / place / "rows.jsonl").read_bytes() for place in ("grown", "whole")]
    assert files[0] == files[1]
    assert len(p2p_sim.load_results(tmp_path / "whole")) == 2
    text = write_report(tmp_path / "whole").read_text(encoding="utf-8")
    assert "organisations that exchange private models" in text
    assert "No messages were simulated" not in text


def test_a_transcript_names_organisations(tmp_path):
    lines = export_transcript(scenario(network={"loss": 0.2}), tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv")
    assert len(frame) == lines
    assert set(frame["sender"]) == set(range(5))
    tree = {"name": "x", "replicates": 1, "population": LAW, "mechanism": {"kind": "dp_sgd", "target_epsilon": 1.0}}
    other = p2p_sim.Scenario.from_tree(tree)
    with pytest.raises(InputError, match="'dp_sgd': a transcript needs messages"):
        export_transcript(other, tmp_path / "u.csv")


# planted faults


def test_noise_drawn_anew_for_each_recipient_fails_the_run(monkeypatch):
    """A second training of the same rows is paid for too, and the ledger no longer says what is stated."""
    honest = organisations._OrganisationsRun.train

    def train_for_each(self, k, priors=None):
        for recipient in range(2):
            self.streams = Streams(recipient, 0)
            models = honest(self, k, priors)
        return models

    monkeypatch.setattr(organisations._OrganisationsRun, "train", train_for_each)
    with pytest.raises(RunFailed, match="the ledger says that organisations spent"):
        p2p_sim.run(scenario())


def test_a_ledger_that_forgets_a_release_fails_the_run(monkeypatch):
    honest = ReleaseLedger.pay

    def forgetful(self, owner, content, epsilon, part=""):
        if owner != 2:
            honest(self, owner, content, epsilon, part)

    monkeypatch.setattr(ReleaseLedger, "pay", forgetful)
    with pytest.raises(LookupError, match="no entry of the ledger pays for"):
        p2p_sim.run(scenario())
    with pytest.raises(RunFailed, match="the ledger"):  # nobody was shown it, but its predictor is out
        p2p_sim.run(scenario("hypothesis_transfer"))


def test_a_source_that_trains_each_group_at_epsilon_fails_the_run(monkeypatch):
    """Algorithm 4 as printed costs K ε."""
    honest = pst.train_groups
    monkeypatch.setattr(
        pst, "train_groups", lambda *given, epsilon, **named: honest(*given, epsilon=2 * epsilon, **named)
    )
    with pytest.raises(RunFailed, match="the ledger"):
        p2p_sim.run(scenario("hypothesis_transfer", groups=[[0], [1, 2]]))


# what is learned


def models(*weights, norm=1.0):
    groups = FeatureGroups.of(2, 1, None, None, norm)
    return [GroupModels(groups, (np.array(w, dtype=float),), None) for w in weights]


def test_the_mean_weighs_models_by_the_rows_behind_them():
    made = Combination(tuple(models([4.0, 0.0], [0.0, 4.0])), np.array([0.75, 0.25]))
    rows = np.array([[0.5, -0.5], [0.3, 0.4]])
    p = [1 / (1 + np.exp(-4.0 * rows[:, i])) for i in (0, 1)]
    assert made.probabilities(rows)[:, 1] == pytest.approx(0.75 * p[0] + 0.25 * p[1])
    ready = prepare(Replicate(scenario()))
    done = ready.mechanism.release_on(ready.network, ready.population)
    behind = done.release.predictor.predictors[1].weights
    sizes = ready.population.cluster_sizes
    assert sorted(behind) == pytest.approx(sorted(sizes / sizes.sum()))


def test_a_target_is_drawn_to_the_source_if_its_models_came():
    """With an overwhelming penalty a target's weights are the source's, or 0 where nothing came."""
    chosen = scenario("hypothesis_transfer", l2=1e6, target=1)
    for network, factor in (({}, 1.0), ({"deadline_s": 1e-9}, 0.0)):
        ready = prepare(Replicate(chosen.replace(network=network)))
        release = ready.mechanism.release_on(ready.network, ready.population).release
        [own] = release.predictor.predictors[1].models
        [source] = organisations._OrganisationsRun(ready.mechanism, ready.population, ready.network.streams).train(0)
        gap = np.abs(own.coefficients[0] - factor * source.coefficients[0]).max()
        assert gap < 1e-5


def test_what_is_sent_does_not_depend_on_rows_kept_for_the_combination():
    ready = prepare(Replicate(scenario(combiner="stacked")))

    def sent(population):
        return (
            organisations._OrganisationsRun(ready.mechanism, population, ready.network.streams)
            .train(0)[0]
            .coefficients[0]
        )

    run = organisations._OrganisationsRun(ready.mechanism, ready.population, ready.network.streams)
    order = organisations.order_of(run.streams, 0, len(run.signs[0]))
    low = ready.mechanism.stages[0][0].noise.num_rows
    changed = []
    for place in (order[0], order[low]):
        features = ready.population.features.copy()
        features[place] = 1.0 - features[place]
        changed.append(sent(replace(ready.population, features=features)))
    assert (sent(ready.population) != changed[0]).any()
    assert (sent(ready.population) == changed[1]).all()


def test_little_noise_learns_what_the_law_says_and_others_help():
    many = {**LAW, "users": 20_000, "positive_low": 0.5, "positive_high": 0.5}
    assert p2p_sim.run(scenario(population=many, epsilon=100.0)).row["error_rate"] == pytest.approx(0.2)
    few = {**LAW, "users": 600, "num_clusters": 12}
    chosen = scenario(population=few, l2=0.02)
    risk = [
        np.mean([p2p_sim.run(chosen.replace(network=network), k).row["excess_risk"] for k in range(4)])
        for network in ({}, {"deadline_s": 1e-9})
    ]
    assert risk[0] < 0.5 * risk[1]


def test_each_organisation_is_judged_on_its_own_rows():
    features, cluster = np.array([[1.0], [1.0], [1.0], [-1.0]]), np.array([0, 1, 1, -1])
    held = Examples(features, np.array([1, 0, 1, 0], np.uint8), cluster)
    people = Population(features, held.labels, np.array([0, 2, 4]), 2, held)
    groups = FeatureGroups.of(1, 1, None, None, 1.0)
    sure, denying = (Combination((GroupModels(groups, (np.array([w]),), None),), np.ones(1)) for w in (9.0, -9.0))
    assert measured(predict(people, ByCluster({0: sure, 1: denying}), None)).error_rate == pytest.approx(1 / 3)
    assert measured(predict(people, ByCluster({1: denying}), None)).error_rate == 0.5
    assert measured(predict(people, ByCluster({0: sure}), denying)).nonprivate_error_rate == 1.0
    with pytest.raises(InputError, match="no row of an organisation that is judged"):
        predict(replace(people, holdout=held.take(np.array([3]))), ByCluster({0: sure}), None)


# what is refused


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("clusters", {"kind": "kmeans"}, "clusters.kind = 'kmeans': looks at features, but a whole row is private"),
        ("network.peers", {"kind": "gossip"}, "network.peers.kind has no meaning for models"),
        ("network.learner_bandwidth_bps", 1e6, "network.learner_bandwidth_bps has no meaning"),
        ("network", {"deadline_s": 9.0, "batch_submission": True}, "network.batch_submission has no meaning"),
        ("network", {"request_timeout_s": 1.0, "on_timeout": {"retry": "redraw", "attempts": 2}}, "redraw"),
        ("network", {"request_timeout_s": 1.0, "on_timeout": {"fallback": "own_label"}}, "on_timeout.fallback has"),
        ("adversaries", {"liars": {"share": 0.1}}, "adversaries.liars has no meaning"),
        ("population", {"kind": "circle"}, "population.kind = 'circle': looks at all rows, but a whole row is private"),
        ("mechanism.importance", [0.5, 0.5], "importance needs groups"),
        ("mechanism.groups", [[0, 1], [1]], "feature 1 occurs twice"),
        ("mechanism.groups", [[-1]], "feature -1 does not exist"),
        ("mechanism.epsilon", 0.0, "mechanism.epsilon = 0.0: must be above 0 and at most 100, or .inf. for no noise"),
        ("mechanism.low_share", 1.0, "mechanism.low_share = 1.0: .*less than 1"),
        ("mechanism.source", 1, "mechanism.source: unknown key"),
    ],
)
def test_keys_without_a_meaning_are_refused_in_one_line(key, value, line):
    with pytest.raises(InputError, match=line) as refused:
        scenario().replace(**{key: value})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("mechanism", "line"),
    [
        ({"groups": [[0], [7]]}, "groups: feature 7 does not exist"),
        ({"target": 5}, "mechanism.target = 5: must be an organisation, 0 to 4"),
        ({"kind": "hypothesis_transfer", "source": 9}, "mechanism.source = 9: must be an organisation, 0 to 4"),
        ({"combiner": "stacked", "low_share": 1e-6}, "mechanism.low_share = 1e-06: leaves a model without any of the"),
    ],
)
def test_what_does_not_fit_the_organisations_is_refused(mechanism, line):
    with pytest.raises(InputError, match=line):
        p2p_sim.run(scenario(**mechanism))


def test_importance_must_be_declared_public():
    chosen = {"groups": [[0], [1, 2]], "importance": [0.7, 0.3]}
    with pytest.raises(InputError, match="must come from outside the data"):
        scenario(**chosen)
    assert p2p_sim.run(scenario(**chosen, importance_is_public=True)).row["epsilon_upper"] <= 1.0


def test_the_bound_says_where_it_does_not_apply():
    mechanism = prepare(Replicate(scenario())).mechanism
    assert mechanism.applies(Situation(2, faults=("network.loss",))) is None
    for asked, fails in ((Situation(3), "two-classes"), (Situation(roles=("adversaries.liars",)), "no-onlooker"),
                         (Situation(rounds=2, fresh=True), "single-round")):  # fmt: skip
        assert mechanism.applies(asked).identifier == fails


def test_the_command_line_refuses_with_status_2_and_runs_to_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = partial(command, "run", ROOT / "scenarios" / "models" / "stacking.toml", "--set")
    status, out, err = call("network.learner_bandwidth_bps=1.0")
    assert (status, out, err.count("\n")) == (2, "", 1)
    status, out, err = call("replicates=1", "--json")
    assert status == 0, err
    assert json.loads(out)["adjacency"] == "example"
    _, shown, _ = call("replicates=1")
    assert "models in time, by organisation" in shown
    assert "any one row (features and label)" in unwrapped(shown)
