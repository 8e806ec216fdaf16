"""The exchange of bits, soft labels and labels chosen with a prior: its law, its ε, its bytes and what it refuses.

Every statistical test has a false-alarm rate of 1e-9 and a control that must fail.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

from p2p_sim.audit.small_exchange_attack import audit
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.exchange.randomizer import Randomizer
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.message_payloads import AlibiMessages, PriorMessages, VectorMessages
from p2p_sim.mechanisms.noisy_vectors import VectorApproximation
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.population.population import Population
from p2p_sim.privacy.randomized_response import law_delta
from p2p_sim.privacy.rivals.rr_with_prior import top_k_law
from p2p_sim.privacy.rivals.shuffled_messages import ShuffledMessages
from p2p_sim.privacy.rivals.vector_approximation import bit_flip_prob_of, vector_law
from p2p_sim.replicate.observed_network import observe
from p2p_sim.replicate.run import run
from p2p_sim.results.release_export import export_release, export_transcript
from p2p_sim.scenario import Scenario
from tests.privacy.test_shuffle_bound import exact_delta, multiset_law

FALSE_ALARM = 1e-9
CIRCLE = {"kind": "circle", "num_classes": 5, "users": 400, "holdout": 50}
PRIOR = [0.5, 0.2, 0.1, 0.1, 0.1]
MESSAGES = {
    "vector_approximation": {"kind": "vector_approximation"},
    "alibi": {"kind": "alibi"},
    "rr_with_prior": {"kind": "rr_with_prior", "prior": PRIOR},
}


def classes(number: int) -> Setup:
    return Setup(np.array([200]), number, 1e-5)


def scenario(kind: str = "vector_approximation", engine: str = "events", **more: object) -> Scenario:
    mechanism = {"sampling_rate": 0.7, "randomizer": {**MESSAGES[kind], "epsilon": 1.0}, **more.pop("mechanism", {})}
    learner = {"kind": "knn"}
    tree = {"name": "messages", "engine": engine, "population": CIRCLE, "mechanism": mechanism, "learner": learner}
    return Scenario.from_tree({**tree, **more})


# -- the release -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "release"), [("vector_approximation", "bits"), ("alibi", "soft"), ("rr_with_prior", "hard")]
)
def test_both_engines_release_the_same_bytes(kind, release):
    events, drawn = (run(scenario(kind, engine)) for engine in ("events", "vectorised"))
    assert events.release.kind == drawn.release.kind == release
    assert events.release.payload.dtype == drawn.release.payload.dtype
    assert events.release.payload.shape == drawn.release.payload.shape
    assert events.release.payload.tobytes() == drawn.release.payload.tobytes()
    assert np.array_equal(events.release.user, drawn.release.user)
    assert 0 < len(events.release) < 400


@pytest.mark.parametrize(("kind", "size"), [("vector_approximation", 1), ("alibi", 20), ("rr_with_prior", 1)])
def test_bytes_are_those_of_the_payload(kind, size):
    found = scenario(kind, network={"header_bytes": 10})
    row = run(found).row
    assert row["learner_bytes"] == row["submissions"] * (10 + size)
    assert row["bytes_sent"] == 400 * 10 + 400 * (10 + size) + row["submissions"] * (10 + size)


def test_more_classes_than_a_byte_has_bits_and_clusters_of_several_shards():
    rng, k, n = np.random.default_rng(1), 12, 70_000
    labels = rng.integers(0, k, n).astype(np.uint8)
    people = Population(np.zeros((n, 1)), labels, np.array([0, 40_000, n]), k)
    noise = VectorApproximation(0.2, k)
    releases = [
        LabelExchangeMechanism(noise, 0.5, engine).run(people, NetworkConfig(), Streams(1, 0))
        for engine in ("events", "vectorised")
    ]
    assert releases[0].labels.payload.shape == (len(releases[0].labels), 2)
    assert releases[0].labels.payload.tobytes() == releases[1].labels.payload.tobytes()
    messages = {row.tobytes() for row in noise.randomize(labels[:40_000], Streams(1, 0).generator("flip", 0))}
    first = releases[0].labels.payload[releases[0].labels.user < 40_000]
    assert {row.tobytes() for row in first} <= messages


# -- the law ---------------------------------------------------------------------------------------------------------


def view_law(channel: np.ndarray, labels: tuple[int, ...], theta: float) -> np.ndarray:
    """Pr[what each user submits, or nothing], by going through every combination of messages."""
    users, outputs = len(labels), channel.shape[1]
    law = np.zeros((outputs + 1) ** users)
    for messages in itertools.product(range(outputs), repeat=users):
        each = np.append(theta * np.bincount(messages, minlength=outputs) / users, 1.0 - theta)
        views = np.ones(1)
        for _ in labels:
            views = np.multiply.outer(views, each).ravel()
        law += math.prod(channel[label, z] for label, z in zip(labels, messages, strict=True)) * views
    return law


@pytest.mark.parametrize("theta", [0.5, 1.0])
def test_what_the_learner_sees_of_three_users_is_as_private_as_certified(theta):
    noise = VectorApproximation(bit_flip_prob_of(1.5), 3)
    channel = vector_law(noise.bit_flip_prob, 3)
    laws = {labels: view_law(channel, labels, theta) for labels in itertools.product(range(3), repeat=3)}
    worst = {0.0: 0.0, 0.4: 0.0, 1.0: 0.0}
    for labels, law in laws.items():
        assert law.sum() == pytest.approx(1.0)
        for own in range(3):
            pair = np.stack([law, laws[(own, *labels[1:])]])
            for epsilon in worst:
                worst[epsilon] = max(worst[epsilon], law_delta(pair, epsilon))
    for epsilon, delta in worst.items():
        assert delta <= noise.shuffled(3).delta(epsilon).upper
    assert worst[0.4] > ShuffledMessages(3, 0.75, 0.5 * noise.total_variation).delta(0.4).upper


def view_p_value(submitted: np.ndarray, law: np.ndarray) -> float:
    """Chi-squared test of what three users submit (clusters, 3); rare views count as one."""
    views = submitted @ np.array([64, 8, 1])
    counts, expected = np.bincount(views, minlength=512), law * len(views)
    often = expected >= 20
    counts, expected = (np.append(x[often], x[~often].sum()) for x in (counts, expected))
    return float(chi2.sf(np.sum((counts - expected) ** 2 / expected), counts.size - 1))


@pytest.mark.parametrize("engine", ["events", "vectorised"])
def test_submissions_follow_the_law(engine):
    """Detects noise that is drawn afresh for every request: the control, of the same one-user law."""
    labels, clusters, flip = (0, 1, 1), 40_000, bit_flip_prob_of(2.0)
    truth = np.tile(np.array(labels, np.uint8), clusters)
    people = Population(np.zeros((truth.size, 1)), truth, 3 * np.arange(clusters + 1), 3)
    noise = VectorApproximation(flip, 3)
    mechanism = LabelExchangeMechanism(noise, 1.0, engine)
    release = mechanism.run(people, NetworkConfig(), Streams(2, 0)).labels
    channel = vector_law(flip, 3)
    law = view_law(channel, labels, 1.0).reshape((9,) * 3)[:8, :8, :8].ravel()
    # the enumeration has bit j of class j as 2^j, packing as 2^(7-j)
    place = np.unpackbits(release.payload, axis=1, count=3) @ np.array([1, 2, 4])
    assert view_p_value(place.reshape(-1, 3), law) > FALSE_ALARM
    peer = 3 * np.repeat(np.arange(clusters), 3) + np.random.default_rng(1).integers(0, 3, truth.size)
    fresh = noise.randomize(truth[peer], np.random.default_rng(2))
    place = np.unpackbits(fresh, axis=1, count=3) @ np.array([1, 2, 4])
    assert view_p_value(place.reshape(-1, 3), law) < FALSE_ALARM


# -- its privacy -----------------------------------------------------------------------------------------------------


def channels() -> dict[str, tuple[Randomizer, np.ndarray, int]]:
    """Randomizers, their laws, and how many users can be enumerated."""
    vector = VectorMessages(kind="vector_approximation")
    prior = PriorMessages(kind="rr_with_prior", prior=(0.5, 0.3, 0.2))
    two, three = vector.randomizer(1.0, classes(2)), vector.randomizer(1.5, classes(3))
    some = prior.randomizer(1.0, classes(3))
    return {
        "bits of 2": (two, vector_law(two.bit_flip_prob, 2), 5),
        "bits of 3": (three, vector_law(three.bit_flip_prob, 3), 3),
        "prior": (some, top_k_law(np.array([0.5, 0.3, 0.2]), some.candidates, 1.0), 6),
    }


@pytest.mark.parametrize("name", ["bits of 2", "bits of 3", "prior"])
def test_the_total_variation_is_that_of_the_law_and_the_bound_holds(name):
    noise, channel, users = channels()[name]
    assert noise.total_variation == pytest.approx(law_delta(channel, 0.0), rel=1e-12)
    for epsilon in (0.0, 0.3, 0.7):
        exact = exact_delta(channel, users, epsilon)
        assert exact <= noise.shuffled(users).delta(epsilon).upper
        assert (
            noise.shuffled(users).delta(epsilon).upper
            <= ShuffledMessages(users, noise.local_epsilon).delta(epsilon).upper
        )
    assert exact_delta(channel, users, 0.1) > ShuffledMessages(users, 0.9, 0.5 * noise.total_variation).delta(0.1).upper


def test_soft_labels_differ_by_their_total_variation():
    """Detects one off by 0.015; the control is half of it. The best test of two labels compares their two entries."""
    noise, n = AlibiMessages(kind="alibi").randomizer(2.0, classes(4)), 400_000
    rng = np.random.default_rng(5)
    more = [
        np.sign(soft[:, 0] - soft[:, 1]) for soft in (noise.randomize(np.full(n, y, np.uint8), rng) for y in (0, 1))
    ]
    gap = np.count_nonzero(more[0] > 0) / n - np.count_nonzero(more[1] > 0) / n
    doubt = math.sqrt(math.log(2.0 / FALSE_ALARM) / n)  # Hoeffding, of the difference of two shares
    assert abs(gap - noise.total_variation) < doubt < 0.0075 < abs(gap - 0.5 * noise.total_variation)


@pytest.mark.parametrize("users", [1, 2, 4, 7])
@pytest.mark.parametrize("variation", [0.05, 0.3, 0.5, 1.0])
def test_the_walk_is_added_up_correctly(users, variation):
    local, epsilon = 1.3, 0.2
    beta = min(variation, math.tanh(local / 2))
    side = beta / math.expm1(local)
    third = math.exp(-local) * (1 - side * (math.exp(local) + 1))
    worth = [
        math.exp(local) - math.exp(epsilon),
        1 - math.exp(local + epsilon),
        -math.exp(local) * math.expm1(epsilon),
        0,
    ]
    chance = [side, side, third, 1 - 2 * side - third]
    total = sum(
        math.prod(chance[i] for i in walk) * max(0.0, sum(worth[i] for i in walk))
        for walk in itertools.product(range(4), repeat=users)
    )
    expected = total / users if users > 1 else 1.0
    assert ShuffledMessages(users, local, variation).delta(epsilon).upper == pytest.approx(expected, rel=1e-9)


def test_messages_have_no_lower_end():
    """Of an unknown randomizer nothing is known from below."""
    assert ShuffledMessages(500, 2.0, 0.3).epsilon(1e-4).epsilon_lower == 0.0


PRIOR = PriorMessages(prior=(0.4, 0.3, 0.2, 0.1))
MORE = [(VectorMessages(), 1.0), (AlibiMessages(), 1.0), (PRIOR, 0.2)]


@pytest.mark.parametrize(
    ("config", "rate"),
    [
        (VectorMessages(), 0.2),
        (AlibiMessages(), 0.2),
        (PRIOR, 1.0),
        *(pytest.param(*o, marks=pytest.mark.slow) for o in MORE),
    ],
)
@pytest.mark.slow_where(lambda config, rate: isinstance(config, AlibiMessages))
def test_a_target_is_met_and_hardly_a_larger_message_would_meet_it(config, rate):
    sizes, delta = np.array([80, 200]), 1e-5
    noise = config.calibrated(0.3, rate, Setup(sizes, 4, delta))
    assert all(noise.exchanged(int(n), rate).epsilon(delta).epsilon_upper <= 0.3 * (1 + 1e-6) for n in sizes)
    assert noise.local_epsilon > 0.5
    more = config.randomizer(noise.local_epsilon * 1.03, classes(4))
    assert not more.exchanged(80, rate).satisfies(0.3, delta)


@pytest.mark.slow
def test_a_smaller_rate_leaves_room_for_less_noise():
    often, seldom = (VectorMessages().calibrated(0.3, rate, Setup(np.array([200]), 4, 1e-5)) for rate in (1.0, 0.1))
    assert seldom.local_epsilon > 1.2 * often.local_epsilon


def test_rows_state_the_message_and_the_certified_figure():
    result = run(scenario(engine="vectorised"))
    smallest = int(result.population.cluster_sizes.min())
    noise = VectorApproximation(bit_flip_prob_of(1.0), 5)
    assert result.row["epsilon_upper"] == noise.exchanged(smallest, 0.7).epsilon(1e-5).epsilon_upper
    assert result.row["epsilon_upper"] < noise.shuffled(smallest).epsilon(1e-5).epsilon_upper < 1.0
    assert result.row["epsilon_local"] == pytest.approx(1.0)
    assert result.row["bit_flip_prob"] == pytest.approx(1 / (1 + math.exp(0.5)))
    for name in ("flip_prob", "epsilon_paper_lemma9", "epsilon_paper_theorem3", "excess_risk_floor"):
        assert result.row[name] is None


def test_on_a_lossy_network_the_sources_count_and_elsewhere_the_message_alone():
    quiet = run(scenario(adversaries={"free_riders": {"share": 0.3}}))
    sources = [np.count_nonzero(answers) for answers in _answering(quiet)]
    noise = VectorApproximation(bit_flip_prob_of(1.0), 5)
    ends = np.cumsum(quiet.population.cluster_sizes)
    arrived = np.bincount(np.searchsorted(ends, quiet.release.user, side="right"), minlength=ends.size)
    expected = [
        ShuffledMessages(int(n), 1.0, noise.total_variation, submissions=int(t)).epsilon(1e-5).epsilon_upper
        for n, t in zip(sources, arrived, strict=True)
    ]
    assert [bound.epsilon_upper for bound in quiet.privacy] == pytest.approx(expected, rel=1e-9)
    shuffled = [noise.shuffled(int(n)).epsilon(1e-5).epsilon_upper for n in sources]
    assert all(bound.epsilon_upper < most for bound, most in zip(quiet.privacy, shuffled, strict=True))
    assert all(bound.epsilon_lower == 0.0 for bound in quiet.privacy)
    ring = run(scenario(network={"overlay": {"kind": "regular", "degree": 4}}))
    assert ring.row["epsilon_upper"] == ring.row["epsilon_local"]
    watched = run(scenario(adversaries={"coalition": {"share": 0.05}}))
    assert watched.row["epsilon_upper"] < watched.row["epsilon_local"] == watched.row["epsilon_coalition_upper"]


def test_soft_labels_are_as_private_as_their_noise_is_real():
    for network in ({}, {"loss": 0.1}, {"overlay": {"kind": "regular", "degree": 4}}):
        bounds = run(scenario("alibi", network=network)).privacy
        assert all(any("floating-point" in condition for condition in bound.conditions) for bound in bounds)


def _answering(result) -> list[np.ndarray]:
    """Each cluster's users who answer: all but the free riders, 30% of each cluster to the nearest whole user."""
    sizes = result.population.cluster_sizes
    return [np.arange(n) >= np.rint(0.3 * n) for n in sizes]


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ({"flip_prob": 0.1}, "mechanism: flip_prob is for flipped labels; leave it out, or randomizer.kind"),
        ({"debias": True}, "mechanism: debias is for flipped labels"),
        ({"target_epsilon": 1.0}, "mechanism: give either randomizer.epsilon or target_epsilon"),
        ({"randomizer": {"kind": "alibi"}}, "mechanism: give either randomizer.epsilon or target_epsilon"),
        ({"randomizer": {"kind": "alibi", "epsilon": 0.0}}, "mechanism.randomizer.epsilon = 0.0: should be greater"),
        ({"randomizer": {"kind": "alibi", "epsilon": 1.0, "prior": "cluster"}}, "mechanism.randomizer.prior = "),
        ({"randomizer": {"kind": "rr_with_prior", "epsilon": 1.0, "stages": 2}}, "mechanism.randomizer.stages = 2"),
        ({"randomizer": {"kind": "rr_with_prior", "epsilon": 1.0, "prior": [0.5, 0.5]}}, "2 probabilities .*5 c"),
        ({"randomizer": {"kind": "bits", "epsilon": 1.0}}, "mechanism.randomizer.kind = \"bits\": must be"),
        ({"randomizer": {"epsilon": 1.0}}, "mechanism.randomizer.kind is missing: must be one of 'alibi', "),
        ({"randomizer": {"kind": "alibi", "epsilo": 1.0}}, "mechanism.randomizer.epsilo: unknown key; did you mean"),
    ],
)  # fmt: skip
def test_tables_that_make_no_sense_are_refused_in_one_line(mechanism, message):
    with pytest.raises(InputError, match=message) as refused:
        scenario(mechanism=mechanism)
    assert "\n" not in str(refused.value)


def test_what_is_not_known_for_such_messages_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"adversaries.liars: answers with a class; messages carry bits"):
        scenario(adversaries={"liars": {"share": 0.1}})
    with pytest.raises(InputError, match=r"with network.overlay, give randomizer.epsilon"):
        scenario(
            mechanism={"target_epsilon": 1.0, "randomizer": {"kind": "alibi"}},
            network={"overlay": {"kind": "regular", "degree": 4}},
        )
    with pytest.raises(InputError, match="a transcript holds one class a message, not bits"):
        export_transcript(scenario(), tmp_path / "t.csv")
    for network in ({}, {"loss": 0.1}):
        with pytest.raises(InputError, match=r"mechanism.randomizer: an audit is known for flipped labels alone"):
            audit(scenario(network=network), trials=10_000, cluster_size=5)
    with pytest.raises(InputError, match=r"takes hard labels.*releases bits ones"):
        scenario(learner={"kind": "logistic_regression"})


@pytest.mark.parametrize("role", ["liars", "sybil"])
def test_who_answers_with_the_next_class_is_refused_for_it_hides_nobody(role):
    """Labels 0 and 1 are likeliest and sent alone; who adds one says 1 or 2, and leaves her peers' 0 to them."""
    prior = (0.45, 0.45, 0.05, 0.05)
    noise = PriorMessages(prior=prior).randomizer(2.0, classes(4))
    channel = top_k_law(np.array(prior), noise.candidates, 2.0)
    shifted = np.vstack([channel, np.roll(channel, 1, axis=1)])  # labels 4 to 7 are those of liars
    hiders = (0,) * 3
    liars = (4,) * 6
    laws = [multiset_law(shifted, (own, *hiders, *liars)) for own in (0, 1)]
    exact = max(float(np.maximum(a - math.exp(0.6) * b, 0.0).sum()) for a, b in (laws, laws[::-1]))
    assert exact > noise.shuffled(10).delta(0.6).upper
    with pytest.raises(InputError, match=rf"adversaries.{role}.answer = 'inverted': .*give 'zero' or 'one'"):
        scenario("rr_with_prior", adversaries={role: {"share": 0.6, "answer": "inverted"}})


def test_what_goes_on_beside_the_labels_works_as_ever(tmp_path):
    found = observe(scenario(replicates=1))
    assert found.epsilon.max() < found.epsilon_local
    assert export_release(scenario(replicates=1), tmp_path / "bits.csv") == len(run(scenario()).release)
    lying = run(scenario("rr_with_prior", adversaries={"liars": {"share": 0.2, "answer": "zero"}}))
    assert lying.row["damage_error_rate"] is not None
    changed = scenario().replace(**{"mechanism.target_epsilon": 0.5})
    assert changed.mechanism.randomizer.epsilon is None
    assert changed.replace(**{"mechanism.randomizer.epsilon": 2.0}).mechanism.target_epsilon is None
