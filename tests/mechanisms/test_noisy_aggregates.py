"""Noisy counts of bags as a mechanism: the sampler against its law, an attack, who sees what. False alarm 1e-9."""

import math

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import chi2

from p2p_sim.audit.local_attack import audit_aggregates
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.noisy_aggregates import (
    Bags,
    NoiseSharesConfig,
    NoisyAggregatesConfig,
    helper_sums,
    noise_share,
    secret_shares,
    shares_of,
    totals,
)
from p2p_sim.population.population import Shard
from p2p_sim.privacy.audit_statistics.power import epsilon_lower
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare, run
from p2p_sim.scenario import Scenario
from tests.privacy.test_noisy_counts import share_law

FALSE_ALARM = 1e-9
COPIES = 40_000


def one_shard(size: int, copies: int = COPIES) -> Shard:
    """Copies of one cluster."""
    return Shard(0, 0, size * copies, np.arange(copies + 1, dtype=np.int64) * size)


def counts_of(mechanism, labels, copies: int = COPIES, seed: int = 1):
    """Noisy counts (B, k) of copies of one bag with these labels, and who is counted (B, n)."""
    shard, streams = one_shard(len(labels), copies), Streams(seed, 0)
    bags = Bags.dealt(shard.offsets, None, streams.generator("bags"))
    noisy, counted = mechanism.noisy_counts(np.tile(np.array(labels, np.uint8), copies), bags, streams)
    return noisy, counted.reshape(copies, -1)


def curator(scale: float, classes: int) -> NoisyAggregatesConfig:
    return NoisyAggregatesConfig(noise_scale=scale).deployed(Setup(np.array([5]), classes, 1e-5))


def shares(colluders: int, leavers: int, leaving: float = 0.0, kind=NoiseSharesConfig) -> NoiseSharesConfig:
    config = kind(noise_scale=2.0, colluders=colluders, leavers=leavers, leaving=leaving)
    return config.deployed(Setup(np.array([50]), 2, 1e-5))


def misfit(values: np.ndarray, law: np.ndarray, least: int = 20) -> float:
    """p-value of a χ² test of whole numbers against a law at -N..N; rare values are lumped."""
    span = len(law) // 2
    found = np.bincount(np.clip(values + span, 0, 2 * span), minlength=len(law))
    common = law * len(values) >= least
    seen, expected = np.append(found[common], found[~common].sum()), np.append(law[common], law[~common].sum())
    expected = expected * len(values)
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), common.sum()))


# -- the sampler -------------------------------------------------------------------------------------------------------


def test_the_curator_adds_two_sided_geometric_noise():
    noisy, counted = counts_of(curator(2.0, 3), (0, 1, 1, 2))
    assert counted.all()
    for noise in (noisy - [1, 2, 1]).T:
        assert misfit(noise, share_law(1.0, 2.0, 200)) > FALSE_ALARM
        assert misfit(noise, share_law(1.0, 2.3, 200)) < FALSE_ALARM  # control
    assert abs(np.corrcoef(noisy.T)[0, 1]) < 6.2 / math.sqrt(COPIES)


@pytest.mark.parametrize(("colluders", "leavers"), [(0, 0), (1, 1), (2, 0)])
def test_users_add_as_many_shares_as_their_law_says(colluders, leavers):
    labels = (1, 0, 0, 1, 1)
    noisy, _ = counts_of(shares(colluders, leavers), labels)
    honest = 5 - colluders - leavers
    assert misfit(noisy[:, 0] - 3, share_law(5 / honest, 2.0, 200)) > FALSE_ALARM
    assert misfit(noisy[:, 0] - 3, share_law(5 / (honest + 1), 2.0, 200)) < FALSE_ALARM  # control


def test_secret_shares_sum_to_the_values_of_a_bag():
    rng = np.random.default_rng(1)
    values, bag = rng.integers(-1_000, 1_000, (50, 3)), rng.integers(0, 4, 50)
    for helpers in (2, 5):
        sums = helper_sums(secret_shares(values, helpers, rng), bag, 4)
        expected = [values[bag == one].sum(axis=0) for one in range(4)]
        assert totals(sums).tolist() == np.array(expected).tolist()
        assert totals(sums[1:]).tolist() != np.array(expected).tolist()


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_all_helpers_but_one_see_uniform_numbers(missing):
    """The words of any two of three helpers together: 64 cells of their leading bits, whatever is shared."""
    sent = secret_shares(np.full((COPIES, 1), 7, np.int64), 3, np.random.default_rng(5))
    first, second = (sent[i, :, 0] >> np.uint64(61) for i in range(3) if i != missing)
    seen = np.bincount((first * np.uint64(8) + second).astype(int), minlength=64)
    assert chi2.sf(((seen - COPIES / 64) ** 2).sum() / (COPIES / 64), 63) > FALSE_ALARM
    known = sent.sum(axis=0, dtype=np.uint64)[:, 0]
    assert (known == 7).all()  # control: all three together


# -- an attack ---------------------------------------------------------------------------------------------------------


def proved(mechanism, left: int = 0, classes: int = 2, trials: int = 200_000) -> float:
    """Lower bound of ε by the event that each moved count is on the target's side, of bags that exactly so many left.

    The target is the first of five users; she stays. All bags are independent trials.
    """
    hits, kept = [], []
    for world, label in enumerate((1, 0)):
        labels = np.array([label, 0, 1, 1, 0])
        noisy, counted = counts_of(mechanism, labels, trials, seed=world + 1)
        chosen = counted[:, 0] & (counted.sum(axis=1) == 5 - left)
        others = (counted[:, 1:] * (labels[1:] == 1)).sum(axis=1)
        event = noisy[:, -1 if classes == 2 else 1] > others
        if classes > 2:
            event &= noisy[:, 0] <= (counted[:, 1:] * (labels[1:] == 0)).sum(axis=1)
        kept.append(np.flatnonzero(chosen))
        hits.append(event)
    count = min(map(len, kept))
    first, second = (int(event[rows[:count]].sum()) for event, rows in zip(hits, kept, strict=True))
    return epsilon_lower(first, second, count, 0.0, FALSE_ALARM)


@pytest.mark.parametrize("classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_an_attack_on_the_curator_proves_no_more_than_epsilon(classes):
    sound, claimed = curator(2.0, classes), 0.5 if classes == 2 else 1.0
    assert 0.85 * claimed < proved(sound, classes=classes) <= claimed
    assert proved(curator(1.5, classes), classes=classes) > claimed  # the error: less noise than charged


def test_the_noise_of_one_moved_count_is_too_little_for_two():
    few, enough = (
        NoisyAggregatesConfig(target_epsilon=0.5).deployed(Setup(np.array([5]), moved, 1e-5)).scale for moved in (2, 3)
    )
    assert proved(curator(few, 3), classes=3) > 0.5
    assert proved(curator(enough, 3), classes=3) <= 0.5


class SizedForAll(NoiseSharesConfig):
    """The error: the noise is shared among all n users, also those who leave."""

    def sharers(self, sizes):
        return sizes


@pytest.mark.slow
def test_noise_shares_survive_who_may_leave_and_an_error_there_is_found():
    assert 0.8 * 0.5 < proved(shares(0, 3, 0.5), left=3) <= 0.5
    assert proved(shares(0, 3, 0.5, SizedForAll), left=3) > 0.5


def test_a_bag_that_too_many_leave_releases_nothing():
    mechanism = shares(0, 2, 0.5)
    noisy, counted = counts_of(mechanism, (1, 0, 1, 1, 0), 2_000)
    assert set(counted.sum(axis=1).tolist()) == {0, 3, 4, 5}
    assert not noisy[~counted.any(axis=1)].any()
    _, others = counts_of(mechanism, (0, 0, 0, 0, 0), 2_000)
    assert np.array_equal(counted, others)  # who leaves depends on no label
    expected = sum(math.comb(5, k) * 0.5**5 for k in range(3))
    assert abs(counted.any(axis=1).mean() - expected) < 6.2 * math.sqrt(expected * (1 - expected) / 2_000)


# -- bags and releases -------------------------------------------------------------------------------------------------


def test_bags_are_dealt_within_clusters_and_evenly():
    offsets = np.array([0, 25, 25 + 7, 25 + 7 + 40])
    bags = Bags.dealt(offsets, 10, np.random.default_rng(1))
    assert bags.sizes.tolist() == [12, 13, 7, 10, 10, 10, 10] or bags.sizes.tolist() == [13, 12, 7, 10, 10, 10, 10]
    assert set(bags.bag[:25].tolist()) == {0, 1}
    assert set(bags.bag[25:32].tolist()) == {2}
    assert len(set(bags.bag[:13].tolist())) == 2  # not in the order of users
    assert Bags.dealt(offsets, None, np.random.default_rng(1)).bag.tolist() == [0] * 25 + [1] * 7 + [2] * 40


@pytest.mark.parametrize("classes", [2, 3])
def test_shares_lie_on_the_simplex(classes):
    noisy = np.random.default_rng(1).integers(-20, 20, (500, 1 if classes == 2 else 3))
    shares = shares_of(noisy, np.full(500, 10), classes)
    assert (shares >= 0).all()
    assert np.allclose(shares.sum(axis=1), 1.0)
    if classes == 2:
        assert np.allclose(shares[:, 1], np.clip(noisy[:, 0] / 10, 0, 1))


def tree(mechanism: dict, classes: int = 3, **more) -> dict:
    return {
        "name": "bags",
        "population": {"kind": "circle", "num_classes": classes, "users": 600, "holdout": 200},
        "mechanism": mechanism,
        "learner": {"kind": "soft_logistic_regression"},
        **more,
    }


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("mechanism", [{"kind": "noisy_aggregates"}, {"kind": "noise_shares", "helpers": 4}])
def test_almost_no_noise_releases_the_shares_of_each_bag(mechanism, classes):
    ready = prepare(Replicate(Scenario.from_tree(tree({**mechanism, "noise_scale": 1e-3, "bag_size": 12}, classes))))
    release = ready.mechanism.release_on(ready.network, ready.population).labels
    people = ready.population
    assert release.kind == "soft"
    assert len(release) == people.num_users
    streams = ready.network.streams
    for shard in people.shards:
        bags = Bags.dealt(shard.offsets, 12, streams.generator("bags", shard.index))
        own = np.eye(classes)[people.labels[shard.start : shard.stop]]
        sums = np.stack([np.bincount(bags.bag, one) for one in own.T], axis=1) / bags.sizes[:, None]
        assert np.allclose(release.payload[shard.start : shard.stop], sums[bags.bag], atol=1e-6)


@pytest.mark.parametrize("mechanism", [{"kind": "noisy_aggregates"}, {"kind": "noise_shares", "leavers": 2}])
def test_a_scenario_spends_its_epsilon(mechanism):
    row = run(Scenario.from_tree(tree({**mechanism, "target_epsilon": 1.0}))).row
    assert 0.99 < row["epsilon_upper"] <= 1.0
    assert 0.8 < row["epsilon_lower"] <= row["epsilon_upper"]
    assert row["noise_scale"] == pytest.approx(2.0)
    local = row["epsilon_local"]
    assert (row["trust"], local is None or local > 4.0) == (
        ("curator", True) if mechanism["kind"] == "noisy_aggregates" else ("nobody", True)
    )
    assert (local is None) == (row["trust"] == "curator")


def test_those_who_leave_have_no_label_in_the_release():
    given = {"kind": "noise_shares", "target_epsilon": 4.0, "leavers": 60, "leaving": 0.1}
    result = run(Scenario.from_tree(tree(given)))
    assert 480 < len(result.release) < 590
    assert result.row["epsilon_lower"] < result.row["epsilon_upper"]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"kind": "noisy_aggregates"}, "give either target_epsilon or noise_scale"),
        ({"kind": "noisy_aggregates", "target_epsilon": 1.0, "noise_scale": 1.0}, "give either target_epsilon or"),
        ({"kind": "noisy_aggregates", "noise_scale": 0.0}, "mechanism.noise_scale = 0.0: should be"),
        ({"kind": "noisy_aggregates", "noise_scale": 1.0, "colluders": 1}, "mechanism.colluders: unknown key"),
        ({"kind": "noise_shares", "noise_scale": 1.0, "colluders": 3, "helpers": 3}, "helpers = 3: must be above"),
        ({"kind": "noise_shares", "noise_scale": 1.0, "leaving": 1.0}, "mechanism.leaving = 1.0: should be"),
    ],
)
def test_impossible_keys_are_refused_in_one_line(given, what):
    with pytest.raises((InputError, ValidationError)) as refused:
        Scenario.from_tree(tree(given))
    assert what in str(refused.value)


@pytest.mark.parametrize("kind", ["noisy_aggregates", "noise_shares"])
def test_faults_of_the_network_are_refused(kind):
    with pytest.raises((InputError, ValidationError), match=f"'{kind}': no messages of it are simulated; leave out"):
        Scenario.from_tree(tree({"kind": kind, "noise_scale": 1.0}, network={"loss": 0.1}))


def test_a_bag_must_have_room_for_colluders_leavers_and_helpers():
    config = NoiseSharesConfig(noise_scale=1.0, colluders=2, leavers=3)
    config.deployed(Setup(np.array([6, 20]), 2, 1e-5))
    with pytest.raises(InputError, match="a bag of 5 users has too few for colluders = 2, leavers = 3 and 3 helpers"):
        config.deployed(Setup(np.array([5, 20]), 2, 1e-5))


@pytest.mark.parametrize(
    ("kind", "classes"),
    [
        ("noisy_aggregates", 2),
        ("noise_shares", 3),
        pytest.param("noisy_aggregates", 3, marks=pytest.mark.slow),
        pytest.param("noise_shares", 2, marks=pytest.mark.slow),
    ],
)
def test_an_audit_in_one_run_passes_and_finds_too_little_noise(kind, classes):
    more = {"bag_size": 10, "target_epsilon": 1.0} | ({"colluders": 0} if kind == "noise_shares" else {})
    case = Replicate(Scenario.from_tree(tree({"kind": kind, **more}, classes)))
    sound = audit_aggregates(case, 20_000)
    assert sound.passed
    assert sound.attacked.max() > 0.5 * sound.certified.max()
    claimed = prepare(case).mechanism
    weak = claimed.model_copy(update={"noise_scale": claimed.noise_scale / 1.5})
    assert not audit_aggregates(case, 20_000, mechanism=weak).passed


def test_other_mechanisms_have_no_counts_to_attack():
    with pytest.raises(InputError, match="'alibi': releases no noisy counts of bags"):
        audit_aggregates(Replicate(Scenario.from_tree(tree({"kind": "alibi", "target_epsilon": 1.0}))), 1_000)


def test_noise_shares_of_many_are_not_slow_or_biased():
    noise = noise_share((COPIES, 1), 1_000, 2.0, np.random.default_rng(3))
    assert abs(noise.mean()) < 6.2 * noise.std() / math.sqrt(COPIES)
