"""Every system of the stacking paper from a scenario: the models, their ε, and what is refused."""

import math

import numpy as np
import pytest

import p2p_sim
from p2p_sim.audit.organisations_attack import audit_organisations
from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms import organisations
from p2p_sim.mechanisms.organisations import order_of
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.stacking import FeatureStacking, PrivateLogisticRegression, SampleStacking, pphtl, pst

FEATURES = 6
OWNER = {"kind": "random", "count": 1}


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, FEATURES)) / 2.0
    labels = rows @ np.array([3.0, 2.0, 1.0, 0.5, 0.2, 0.0]) + rng.logistic(size=500) > 0.0
    names = [f"x{i}" for i in range(FEATURES)]
    lines = [",".join([*(f"{x:.6f}" for x in row), str(int(y))]) for row, y in zip(rows, labels, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join([",".join([*names, "y"]), *lines]) + "\n")
    return tmp_path


def made(folder, clusters=OWNER, kind="private_stacking", **keys):
    tree = {
        "name": "s", "replicates": 2, "clusters": clusters,
        "population": {"kind": "table", "path": "t.csv", "label": "y", "classes": [0, 1]},
        "mechanism": {"kind": kind, "epsilon": 1.0, "l2": 0.02, "norm_bound": 1.5, **keys},
    }  # fmt: skip
    return p2p_sim.Scenario.from_tree(tree, folder)


def learned(chosen, replicate=0):
    """What each organisation predicts with, and the run that made it."""
    ready = prepare(Replicate(chosen, replicate))
    outcome = ready.mechanism.release_on(ready.network, ready.population)
    return ready, outcome.release.predictor.predictors


SYSTEMS = {
    "PLR": {},
    "PST-S": {"parts": 5, "combiner": "stacked"},
    "PST-F(U)": {"num_groups": 3, "shuffle_features": True, "combiner": "stacked"},
    "PST-F(W)": {"num_groups": 3, "importance": [0.6, 0.3, 0.1], "importance_is_public": True, "combiner": "stacked"},
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_epsilon_of_a_single_owner_is_that_of_the_estimator(name, table):
    chosen = made(table, **SYSTEMS[name])
    ready = prepare(Replicate(chosen))
    people, keys = ready.population, SYSTEMS[name]
    shared = {"l2": 0.02, "norm_bound": 1.5, "random_state": 0}
    weights = {"importance": keys.get("importance"), "importance_is_public": True}
    models = {
        "PLR": PrivateLogisticRegression(1.0, **shared),
        "PST-S": SampleStacking(1.0, n_parts=5, **shared),
        "PST-F(U)": FeatureStacking(1.0, n_groups=3, **shared),
        "PST-F(W)": FeatureStacking(1.0, n_groups=3, **weights, **shared),
    }
    fitted = models[name].fit(people.features.astype(float), people.labels)
    row = p2p_sim.run(chosen).row
    assert row["epsilon_upper"] == pytest.approx(fitted.privacy_.epsilon_upper, rel=1e-12)
    assert (row["adjacency"], row["trust"], row["num_clusters"]) == ("example", "organisation", 1)
    assert 0.0 <= row["auc"] <= 1.0


def test_plr_is_the_estimator(table):
    ready, predictors = learned(made(table))
    noise = ready.network.streams.generator("models-own", 0)
    rows, labels = ready.population.features.astype(float), ready.population.labels
    plain = PrivateLogisticRegression(1.0, 0.02, 1.5, random_state=noise).fit(rows, labels)
    assert predictors[0].models[0].coefficients[0] == pytest.approx(plain.coef_[0], abs=1e-8)
    assert predictors[0].probabilities(rows)[:, 1] == pytest.approx(plain.predict_proba(rows)[:, 1], abs=1e-8)


def test_parts_are_disjoint_and_the_high_level_has_other_rows(table, monkeypatch):
    honest, seen = pst.train_groups, []
    monkeypatch.setattr(
        pst,
        "train_groups",
        lambda rows, *rest, **named: (seen.append(rows.copy()), honest(rows, *rest, **named))[1],
    )
    ready, predictors = learned(made(table, **SYSTEMS["PST-S"]))
    order, rows = order_of(ready.network.streams, 0, 400), ready.population.features
    assert [len(part) for part in seen] == [40] * 5
    assert np.concatenate(seen) == pytest.approx(rows[order[:200]])
    assert len(predictors[0].models) == 5
    assert predictors[0].high.shape == (5,)


def test_votes_and_single_groups_are_what_they_say(table):
    groups = {"num_groups": 3, "importance": [0.6, 0.3, 0.1], "importance_is_public": True}
    ready, mean = learned(made(table, **groups))
    rows = ready.population.features.astype(float)
    margins = mean[0].margins(rows)
    sure, votes = np.tanh(0.5 * margins), np.sign(margins)
    expected = {
        ("mean", None): sure @ [0.6, 0.3, 0.1],
        ("weighted", None): votes @ [0.6, 0.3, 0.1],
        ("majority", None): votes.mean(axis=1),
        ("mean", 1): sure[:, 1],
        ("majority", 2): votes[:, 2],
    }
    for (combiner, group), balance in expected.items():
        keys = groups | {"combiner": combiner} | ({} if group is None else {"only_group": group})
        _, predictors = learned(made(table, **keys))
        assert predictors[0].probabilities(rows)[:, 1] == pytest.approx(0.5 * (1.0 + balance)), combiner


def test_features_are_dealt_by_no_row(table):
    [[_, first], [_, second], [_, other]] = (
        learned(made(table, num_groups=3, shuffle_features=shuffled), replicate)
        for shuffled, replicate in ((True, 0), (False, 0), (True, 1))
    )
    members = [found[0].models[0].groups.members for found in (first, second, other)]
    assert members[1] == ((0, 1), (2, 3), (4, 5))
    assert members[0] != members[1]
    assert members[0] != members[2]
    assert sorted(i for group in members[0] for i in group) == list(range(FEATURES))


def test_pphtl_is_the_estimator(table):
    chosen = made(table, {"kind": "random", "count": 3}, "hypothesis_transfer", pull=0.03)
    ready, predictors = learned(chosen)
    [source] = organisations._OrganisationsRun(ready.mechanism, ready.population, ready.network.streams).train(0)
    assert sorted(predictors) == [1, 2]
    first, last = ready.population.cluster_offsets[1:3]
    rows, labels = ready.population.features[first:last].astype(float), ready.population.labels[first:last]
    noise = ready.network.streams.generator("models-own", 1)
    plain = pphtl(source.coefficients[0], 1.0, l2=0.02, pull=0.03, norm_bound=1.5, random_state=noise).fit(rows, labels)
    assert predictors[1].models[0].coefficients[0] == pytest.approx(plain.coef_[0], abs=1e-8)
    worst = max(plain.privacy_.epsilon_upper, source.privacy.epsilon_upper)
    assert p2p_sim.run(chosen).row["epsilon_upper"] == pytest.approx(worst, rel=1e-9)


def test_several_sources_are_averaged_and_each_pays_once(table):
    clusters = {"kind": "random", "count": 4}
    keys = {"source": [0, 2], "source_weights": [0.8, 0.2], "source_weights_are_public": True, "l2": 1e6}
    ready, predictors = learned(made(table, clusters, "hypothesis_transfer", **keys))
    run = organisations._OrganisationsRun(ready.mechanism, ready.population, ready.network.streams)
    [[one], [two]] = run.train(0), run.train(2)
    expected = 0.8 * one.coefficients[0] + 0.2 * two.coefficients[0]
    assert sorted(predictors) == [1, 3]
    assert predictors[3].models[0].coefficients[0] == pytest.approx(expected, abs=1e-5)
    row = p2p_sim.run(made(table, clusters, "hypothesis_transfer", source=[0, 2])).row
    assert all(float(part.split(":")[1]) <= 1.0 for part in row["epsilon_by_organisation"].split())


def test_without_noise_nothing_is_private(table):
    result = p2p_sim.run(made(table, epsilon="inf"))
    assert result.row["epsilon_upper"] == math.inf
    assert result.row["auc"] > 0.8


@pytest.mark.parametrize("keys", SYSTEMS.values(), ids=SYSTEMS)
def test_one_class_alone_is_no_reason_to_refuse(keys, table):
    """A refusal would tell something of the rows."""
    lines = (table / "t.csv").read_text().splitlines()
    (table / "t.csv").write_text("\n".join([lines[0], *(line[:-1] + "1" for line in lines[1:])]) + "\n")
    row = p2p_sim.run(made(table, **keys)).row
    assert row["error_rate"] <= 1.0
    assert row["auc"] is None


def test_random_organisations_look_at_no_feature(table):
    chosen = made(table, {"kind": "random", "count": 7})
    people = prepare(Replicate(chosen)).population
    assert people.cluster_sizes.tolist() == [58] + [57] * 6
    text = (table / "t.csv").read_text().replace("0.", "0.9").replace("-", "")
    (table / "t.csv").write_text(text)
    again = prepare(Replicate(chosen)).population
    assert (again.row == people.row).all() if people.row is not None else True
    assert np.bincount(np.repeat(np.arange(7), again.cluster_sizes)).tolist() == [58] + [57] * 6


@pytest.mark.parametrize(
    "keys",
    [pytest.param(SYSTEMS["PST-S"], id="PST-S", marks=pytest.mark.slow), pytest.param(SYSTEMS["PST-F(U)"], id="U")],
)
def test_an_audit_attacks_parts_and_dealt_groups(keys, table):
    case = Replicate(made(table, {"kind": "random", "count": 5}, **keys))
    assert audit_organisations(case, 1000).passed
    loud = prepare(case).mechanism
    plan = loud.plan
    less = organisations.Organisations(
        type(plan)(**{**vars(plan), "epsilon": 30.0}), loud.sizes, loud.senders, loud.learners
    )
    assert not audit_organisations(case, 500, mechanism=less).passed


@pytest.mark.parametrize(
    ("clusters", "kind", "keys", "line"),
    [
        (OWNER, "private_stacking", {"epsilon": 0.0}, 'must be above 0 and at most 100, or "inf"'),
        (OWNER, "private_stacking", {"epsilon": "much"}, 'must be above 0 and at most 100, or "inf"'),
        ({"kind": "kmeans"}, "private_stacking", {}, "looks at features, but a whole row is private"),
        (OWNER, "private_stacking", {"groups": [[0, 1], [1, 2]]}, "feature 1 occurs twice"),
        (OWNER, "private_stacking", {"groups": [[0], [1]], "num_groups": 2}, "num_groups: groups are given"),
        (OWNER, "private_stacking", {"num_groups": 2, "norm_bound": [1.0] * 3}, "one for each of the 2 groups"),
        (OWNER, "private_stacking", {"norm_bound": 0.0}, "norm_bound = 0.0: must be 1e-9 to 1e9"),
        (OWNER, "private_stacking", {"shuffle_features": True}, "shuffle_features needs num_groups"),
        (OWNER, "private_stacking", {"num_groups": 2**53}, "mechanism.num_groups = 9007199254740992"),
        (OWNER, "private_stacking", {"num_groups": 2, "importance": [0.7, 0.3]}, "must come from outside the data"),
        (OWNER, "private_stacking", {"num_groups": 2, "only_group": 2}, "only_group = 2: must be one of 2 groups"),
        (
            OWNER,
            "private_stacking",
            {"num_groups": 2, "only_group": 0, "combiner": "stacked"},
            "combiner not 'stacked'",
        ),
        ({"kind": "random", "count": 2}, "hypothesis_transfer", {"source": [0, 0]}, "each once"),
        ({"kind": "random", "count": 2}, "hypothesis_transfer", {"source": -1}, "must be an organisation, from 0"),
        (OWNER, "hypothesis_transfer", {"source": [0, 1], "source_weights": [0.5, 0.5]}, "source_weights_are_public"),
        (OWNER, "hypothesis_transfer", {"source": [0, 1], "source_weights": [0.5, 0.6]}, "of sum 1"),
    ],
)
def test_what_cannot_be_is_one_line(clusters, kind, keys, line, table):
    with pytest.raises(InputError) as refused:
        made(table, clusters, kind, **keys)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("keys", "clusters", "line"),
    [
        ({"num_groups": 9}, OWNER, "num_groups = 9"),
        ({"parts": 300, "combiner": "stacked"}, OWNER, "mechanism.parts = 300: an organisation has 200 rows"),
        ({}, {"kind": "random", "count": 300}, "clusters.count = 300: makes clusters of 1, below min_size = 2"),
    ],
)
def test_what_does_not_fit_the_table_is_one_line(keys, clusters, line, table):
    with pytest.raises(InputError, match=line):
        p2p_sim.run(made(table, clusters, **keys))
