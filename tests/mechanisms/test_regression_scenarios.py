"""Labels that are numbers, run from scenarios: held against the study, enumeration, sampling and planted errors."""

import copy
import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from analysis.regression.__main__ import floor_of
from analysis.regression.methods import (
    BINS,
    DEBIASED,
    EXCHANGED,
    KNOWING,
    UNBIASED,
    LabelLaw,
    Released,
    _noise_variance,
    _numbers,
    learned,
    risk,
)
from analysis.regression.methods import without_privacy as study_without_privacy
from p2p_sim import InputError, Scenario
from p2p_sim.audit.local_attack import audit_local
from p2p_sim.base.streams import Streams
from p2p_sim.base.toml import set_key
from p2p_sim.exchange.engines import Exchange
from p2p_sim.learning.learner import Received
from p2p_sim.learning.ridge import RidgeConfig, spread, value_figures, value_floor
from p2p_sim.measures.baseline import warnings_of
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.label_values import RrOnBins, RrOnBinsConfig, UnbiasedValues, UnbiasedValuesConfig
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.network.network_config import Network, NetworkConfig
from p2p_sim.population.drawn_features import LinearConfig
from p2p_sim.population.population import Population, even_grid, rounded
from p2p_sim.privacy.conditions import PUBLIC_GRID, PUBLIC_PRIOR
from p2p_sim.privacy.randomized_response import law_delta, law_epsilon
from p2p_sim.privacy.rivals.rr_on_bins import bins_law
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare

BASE = {
    "name": "numbers",
    "seed": 5,
    "replicates": 1,
    "engine": "vectorised",
    "population": {"kind": "linear", "users": 2000, "num_clusters": 10},
    "mechanism": {"kind": "rr_on_bins", "target_epsilon": 2.0},
    "learner": {"kind": "ridge"},
}
EXCHANGE = {"kind": "label_exchange", "randomizer": {"kind": "rr_on_bins", "epsilon": 2.0}}
ENDS = (0, 16)
TABLE = {"kind": "table", "path": "none.csv", "label": "y"}


def exchange(kind, target):
    """An exchange of messages of a kind, calibrated to the learner's ε."""
    return {"kind": "label_exchange", "target_epsilon": target, "randomizer": {"kind": kind}}


def numbers(**changes):
    """The base scenario with dotted keys changed; __ stands for a dot."""
    tree = copy.deepcopy(BASE)
    for key, value in changes.items():
        set_key(tree, key.replace("__", "."), value)
    return Scenario.from_tree(tree)


@pytest.mark.parametrize(
    ("method", "randomizer", "learner"),
    [
        (EXCHANGED + DEBIASED + KNOWING, {"kind": "rr_on_bins", "debias": True}, {"cluster_means": True}),
        (EXCHANGED + UNBIASED, {"kind": "unbiased_values"}, {}),
        (EXCHANGED + BINS, {"kind": "rr_on_bins"}, {}),
    ],
)
def test_a_scenario_gives_what_the_study_computes_on_its_own(method, randomizer, learner):
    """The study draws, reads and learns with other code; only the exchange and the randomizer are the same."""
    streams, law = Streams(5, 0), LabelLaw(0.1, 10, 200)
    people, values = law.draw(streams), tuple(np.linspace(0.0, 1.0, 17).tolist())
    noise = (UnbiasedValues if "unbiased" in method else RrOnBins)(2.0, values)
    opened = Network.open(NetworkConfig(), people.population, streams)
    done = Exchange(noise, 1.0, "vectorised").run(people.population, opened, False, None)
    base = method.removeprefix(EXCHANGED).removesuffix(KNOWING)
    each = _numbers(noise, base)
    found = Released(done.user, each[done.payload], _noise_variance(noise, each), math.nan, math.nan)

    mechanism = {"kind": "label_exchange", "randomizer": {**randomizer, "epsilon": 2.0}}
    row = p2p_sim.run(numbers(mechanism=mechanism, learner={"kind": "ridge", **learner})).row
    assert row["excess_risk"] == pytest.approx(risk(learned(method, people, found), people), rel=1e-9)
    assert row["nonprivate_excess_risk"] == pytest.approx(risk(study_without_privacy(people), people), rel=1e-9)
    assert row["best_risk"] == pytest.approx(law.residual, rel=1e-12)
    assert row["value_spread"] == pytest.approx(0.1, rel=1e-12)
    if method == EXCHANGED + UNBIASED:
        assert row["excess_risk_floor"] == pytest.approx(floor_of(law), rel=1e-9)
    if learner:
        assert row["excess_risk_floor"] is None


def test_the_floor_is_what_a_learner_reaches_who_gets_exact_means():
    """Of biased numbers too; the control takes each user's own mean, where bias alone is left."""
    config = LinearConfig(users=400, num_clusters=10, spread=0.15)
    law = config.law()
    users = Population(law.points, np.zeros(40, np.uint8), np.arange(0, 41, 4), 17, law=law, law_clusters=True,
                       values=config.known_values)  # fmt: skip
    published = RrOnBins(1.0, config.known_values).published("cluster")
    mean = law.label_distribution @ published.means
    of_cluster = np.repeat(mean.reshape(10, 4).mean(axis=1), 4)
    found = []
    for told in (of_cluster, mean):
        release = LabelRelease(np.arange(40, dtype=np.int32), told, "values")
        received = Received(law.points, release, 17, users.cluster_offsets, None, published)
        model = RidgeConfig(l2=0.0).learn(received)
        f = law.label_distribution @ np.array(config.known_values)
        found.append(float(law.mass @ (model.numbers(law.points) - f) ** 2))
    floor = value_floor(users, published)
    assert floor == pytest.approx(found[0], rel=1e-9)
    assert abs(floor - found[1]) > 1e-3
    assert value_floor(users, RrOnBins(1.0, config.known_values).published("user")) is None


def test_squared_errors_are_those_of_fresh_users():
    """400,000 fresh labels; an error of 2% of the standard deviation would be seen."""
    done = p2p_sim.run(numbers())
    config = LinearConfig(users=400_000, num_clusters=10)
    fresh = config.sample((), Streams(77, 0))
    model = RidgeConfig().fit_values(done.population.features, np.full(2000, 0.25), config.known_values)
    said = model.numbers(fresh.users.features)
    losses = (np.array(config.known_values)[fresh.users.labels] - said) ** 2
    exact = value_figures(done.population, [model.numbers(done.population.law.points)])
    assert exact["squared_error"] == pytest.approx(losses.mean(), abs=6 * losses.std() / math.sqrt(losses.size))
    assert exact["nonprivate_squared_error"] is None
    assert done.row["squared_error"] == pytest.approx(done.row["excess_risk"] + done.row["best_risk"], rel=1e-12)
    assert done.row["constant_squared_error"] == pytest.approx(
        done.row["constant_excess_risk"] + done.row["best_risk"], rel=1e-12
    )


def test_held_out_labels_are_not_rounded_and_users_labels_are():
    tree = {"population": {"kind": "diabetes", "grid": 3, "high": 300.0}, "clusters": {"kind": "kmeans", "count": 4}}
    done = p2p_sim.run(numbers(**tree))
    held = done.population.holdout
    assert len(held.labels) == 88
    assert len(np.unique(held.target)) > 50
    assert held.target.max() > 300.0
    assert set(np.unique(done.population.labels)) == {0, 1, 2}
    assert done.row["nonprivate_squared_error"] < done.row["constant_squared_error"]
    assert done.row["excess_risk"] is None


def test_a_table_of_ones_own_has_labels_that_are_numbers(tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "t.csv"
    x = rng.uniform(-1.0, 1.0, 300)
    y = 5.0 * x + rng.normal(0.0, 1.0, 300)
    path.write_text("x,y\n" + "".join(f"{a:.6f},{b:.6f}\n" for a, b in zip(x, y, strict=True)))
    table = {"kind": "table", "path": str(path), "label": "y", "label_range": [-4.0, 4.0], "grid": 9}
    clusters = {"kind": "kmeans", "count": 3, "min_size": 40}
    found = numbers(population=table, clusters=clusters)
    done = p2p_sim.run(found)
    grid, people = np.linspace(-4.0, 4.0, 9), done.population
    assert (people.labels == np.abs(y[people.row, None] - grid).argmin(axis=1)).all()
    assert sorted(people.holdout.target) == pytest.approx(sorted(np.delete(y, people.row)), abs=1e-6)
    assert done.row["squared_error"] < done.row["constant_squared_error"]
    _, told = found.population.remarks(())
    outside = np.mean(np.abs(y) > 4.0)
    assert told == f"labels 'y': numbers, rounded to 9 values from -4 to 4; {outside:.1%} are outside and clipped"
    path.write_text("x,y\n" + "1,a\n2,b\n" * 50)
    with pytest.raises(InputError, match=r"population\.label = 'y': label_range needs finite numbers"):
        p2p_sim.run(found)


def test_what_is_no_better_than_a_constant_is_said():
    rows = pd.DataFrame({"squared_error": [3.0, 3.2], "nonprivate_squared_error": [1.0, 1.1]})
    assert warnings_of(rows.assign(constant_squared_error=[9.0, 9.1])) == []
    (line,) = warnings_of(rows.assign(constant_squared_error=[3.1, 3.1]))
    said = "what is learned has squared error 3.1, not clearly below the 3.1 of a constant"
    assert line == said + "; with so few replicates hardly anything is clear: run more"
    three = pd.concat([rows] * 3, ignore_index=True)
    (line,) = warnings_of(three.assign(constant_squared_error=3.1))
    assert line.startswith(said + "; smaller clusters")


def test_numbers_are_rounded_to_the_nearest_value_and_clipped():
    values, rng = even_grid(-1.0, 3.0, 7), np.random.default_rng(0)
    target = np.concatenate([rng.uniform(-3.0, 5.0, 500), values])
    assert (rounded(target, values) == np.abs(target[:, None] - np.array(values)).argmin(axis=1)).all()
    assert rounded(np.array([-9.0, 9.0]), values).tolist() == [0, 6]


def test_the_spread_of_labels_is_an_unbiased_estimate():
    """Variances of two clusters by hand, divided by n - 1 and weighted by their users."""
    labels = np.array([0, 1, 2, 2, 0], dtype=np.uint8)
    people = Population(np.zeros((5, 1)), labels, np.array([0, 2, 5]), 3, values=(0.0, 1.0, 4.0))
    by_hand = (2 * np.var([0.0, 1.0], ddof=1) + 3 * np.var([4.0, 4.0, 0.0], ddof=1)) / 5
    assert spread(people) == pytest.approx(math.sqrt(by_hand), rel=1e-12)


@pytest.mark.parametrize("kind", ["rr_on_bins", "unbiased_values"])
def test_the_stated_epsilon_is_that_of_the_enumerated_table(kind):
    prior = tuple((np.arange(17) + 1.0) / np.sum(np.arange(17) + 1.0))
    case = Replicate(numbers(mechanism={"kind": kind, "target_epsilon": 1.5, "prior": list(prior)}))
    ready = prepare(case)
    noise, delta = ready.mechanism.noise, 1e-5
    assert noise.prior == prior
    (bound,) = ready.mechanism.privacy(np.array([200]), delta)
    assert law_epsilon(noise.law) <= bound.epsilon_upper <= 1.5
    assert bound.epsilon_lower <= bound.epsilon_upper
    assert law_delta(noise.law, bound.epsilon_upper) <= 1e-12
    assert law_delta(noise.law, bound.epsilon_lower) > delta
    assert {PUBLIC_GRID, PUBLIC_PRIOR} <= set(bound.conditions)
    plain = ready.mechanism.model_copy(update={"prior": None})
    assert PUBLIC_PRIOR not in plain.privacy(np.array([200]), delta)[0].conditions


@pytest.mark.parametrize("kind", ["rr_on_bins", "unbiased_values"])
def test_released_numbers_follow_the_published_law(kind):
    """Frequencies of each number given each of three labels; a distance of 0.02 would be seen at 1e-9."""
    values, count = even_grid(0.0, 1.0, 5), 60_000
    configs = {"rr_on_bins": RrOnBinsConfig(target_epsilon=1.0, debias=True)}
    config = configs.get(kind, UnbiasedValuesConfig(target_epsilon=1.0))
    mechanism = config.deployed(Setup(np.array([count]), 5, 1e-5, values=values))
    labels = np.repeat(np.array([0, 1, 4], dtype=np.uint8), count // 3)
    people = Population(np.zeros((count, 1)), labels, np.array([0, count]), 5, values=values)
    outcome = mechanism.run(people, NetworkConfig(), Streams(3, 0))
    law, told = mechanism.value_law(outcome), outcome.labels.payload
    assert set(np.unique(told)) <= set(law.numbers)
    for label in (0, 1, 4):
        shares = np.array([np.mean(told[labels == label] == number) for number in law.numbers])
        assert shares == pytest.approx(law.law[label], abs=0.02)
    if kind == "unbiased_values":
        assert law.means == pytest.approx(values, abs=1e-9)


def test_an_exchange_with_losses_states_what_its_network_made():
    found = numbers(mechanism=EXCHANGE, engine="events", network={"loss": 0.1, "start_window_s": 1.0},
                    population__users=400)  # fmt: skip
    done = p2p_sim.run(found)
    law = RrOnBins(2.0, done.population.values)
    assert 200 < len(done.release) < 400
    assert set(np.unique(done.release.payload)) <= set(law.outputs)
    assert 0.0 < done.row["epsilon_upper"] <= done.row["epsilon_local"] <= 2.0
    assert PUBLIC_GRID in done.privacy[0].conditions


def test_rows_of_classes_have_no_columns_of_numbers():
    classes = {"mechanism": {"kind": "randomized_response", "flip_prob": 0.1}, "learner": {"kind": "table"}}
    row = p2p_sim.run(numbers(**classes)).row  # numbers as classes
    assert row["excess_risk_loss"] == "zero_one"
    assert not [column for column in row if "squared" in column or column == "value_spread"]


def test_a_calibrated_exchange_meets_its_target_and_no_larger_one():
    small = {"population": {"kind": "linear", "users": 120, "num_clusters": 3, "grid": 4}}
    row = p2p_sim.run(numbers(mechanism=exchange("rr_on_bins", 0.8), **small)).row
    assert 0.79 < row["epsilon_upper"] <= 0.8 < row["epsilon_local"]
    for kind in ("rr_on_bins", "unbiased_values"):  # more than the randomizer has
        most = prepare(Replicate(numbers(mechanism=exchange(kind, 40.0), **small))).mechanism.randomizer
        assert most.local_epsilon == pytest.approx(10.0, rel=1e-6)


@dataclasses.dataclass(frozen=True)
class WrongNormaliser(RrOnBins):
    """Keeps the bin with probability e^ε/(e^ε+1), as if there were two bins, and shares the rest among the others."""

    def randomize(self, labels, rng):
        bins, keep = len(self.bins), 1.0 / (1.0 + math.exp(-self.target_epsilon))
        own = np.array(self.bins.bin_of, dtype=np.uint8)[labels]
        shift = np.where(rng.random(labels.size) < keep, 0, rng.integers(1, bins, labels.size))
        return ((own + shift) % bins).astype(np.uint8)


class WronglyNormalised(RrOnBinsConfig):
    """Sends what `WrongNormaliser` makes of labels."""

    def randomizer(self, setup):
        noise = super().randomizer(setup)
        return WrongNormaliser(**{field.name: getattr(noise, field.name) for field in dataclasses.fields(noise)})


class BinsOfTheData(RrOnBinsConfig):
    """Chooses the bins of each three users for the shares of their true labels."""

    def release(self, labels, features, clusters, streams):
        noise, told, rng = self.noise, [], streams.generator("flip")
        cached = {}
        for start in range(0, labels.size, 3):
            three = labels[start : start + 3]
            counts = np.bincount(three, minlength=17) + 1e-3
            chosen = cached.setdefault(
                tuple(counts), dataclasses.replace(noise, prior=tuple((counts / counts.sum()).tolist()))
            )
            told.append(chosen.numbers[chosen.randomize(three, rng)])
        return LabelRelease.of(np.concatenate(told), "values")


@pytest.mark.parametrize("kind", ["rr_on_bins", "unbiased_values"])
@pytest.mark.slow_where(lambda kind: kind == "unbiased_values")
def test_an_audit_passes_sound_randomizers(kind):
    done = audit_local(Replicate(numbers(mechanism={"kind": kind, "target_epsilon": 2.0})), 12_000)
    assert done.passed
    assert 1.6 < done.epsilon_attacked <= done.bound.epsilon_upper <= 2.0


def test_an_audit_catches_a_wrong_normaliser_and_bins_chosen_on_the_data():
    case = Replicate(numbers(mechanism={"kind": "rr_on_bins", "target_epsilon": 4.0}))
    sound = prepare(case).mechanism
    assert len(sound.noise.bins) > 2  # with two bins the normaliser is right
    wrong = WronglyNormalised(target_epsilon=4.0).deployed(sound.setup)
    assert not audit_local(case, 8_000, mechanism=wrong).passed
    case = Replicate(numbers())
    sound = prepare(case).mechanism
    biased = BinsOfTheData(target_epsilon=sound.target_epsilon, debias=sound.debias, loss=sound.loss)
    assert not audit_local(case, 4_000, mechanism=biased.deployed(sound.setup)).passed


def test_the_scores_of_an_attack_are_the_ratios_of_the_table():
    law = RrOnBins(3.0, even_grid(0.0, 1.0, 17), debias=True).published("user")
    ratio = np.log(law.law[ENDS[1]] / law.law[ENDS[0]])
    assert law.scores(law.numbers, *ENDS) == pytest.approx(ratio, abs=1e-12)
    assert ratio.max() == pytest.approx(law_epsilon(law.law), rel=1e-9)
    assert bins_law((0, 1), 2, 1.0).shape == (2, 2)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mechanism__prior": "labels"}, r"mechanism\.prior = \"labels\""),
        ({"mechanism__prior": [0.5, 0.5]}, r"mechanism\.prior: 2 probabilities are given for 17"),
        ({"population": {"kind": "diabetes", "low": "min"}}, r"population\.low = \"min\""),
        ({"population": {"kind": "diabetes", "high": -1.0}}, r"high: the high end, -1, must be above the low one, 0"),
        ({"population": {**TABLE, "label_range": "auto"}}, r"population\.label_range = \"auto\""),
        ({"population": {**TABLE, "label_range": [2.0, 1.0]}}, r"label_range: the high end, 1, must be above"),
        ({"population": {**TABLE, "grid": 5}}, r"grid: needs label_range"),
        ({"population": {**TABLE, "label_range": [0, 1], "classes": [0, 1]}}, r"are numbers, not classes"),
        ({"population__users": 5}, r"users = 5: must be at least num_clusters = 10"),
        ({"population": {"kind": "wine"}}, r"population\.kind = 'wine': its labels are classes"),
        ({"population": {"kind": "wine"}, "mechanism": EXCHANGE}, r"'label_exchange' privatises numbers"),
        ({"learner": {"kind": "knn"}}, r"learner\.kind = 'knn': takes .* 'ridge' takes these"),
        ({"mechanism": {"kind": "dp_sgd", "target_epsilon": 1.0}}, r"takes numbers, and .*'dp_sgd' releases none"),
        ({"mechanism": {"kind": "unbiased_values", "target_epsilon": 1e-6}}, r"no unbiased values at ε₀ = 1e-06"),
        ({"mechanism": {"kind": "unbiased_values", "target_epsilon": 11.0}}, r"less than or equal to 10"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(changes, says):
    with pytest.raises(InputError, match=says) as caught:
        p2p_sim.run(numbers(**changes))
    assert "\n" not in str(caught.value)
