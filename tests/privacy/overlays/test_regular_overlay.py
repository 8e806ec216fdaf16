"""The learner's ε where every user asks one of a few neighbours, and the smallest number of neighbours for an ε."""

import itertools
import json

import numpy as np
import pytest
import scipy

from p2p_sim.network.random_graphs import regular_edges
from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
from p2p_sim.privacy.overlays.regular_overlay import RegularExchange, smallest_degree
from tests.commands import command

DEGREES = ("calibrate", "--cluster-size", 1000, "--flip-prob", 0.2, "--sampling-rate", 0.5, "--delta", "1e-5")


def weights(users, degree, seed):
    """The fetch probabilities on a random regular overlay."""
    edges = regular_edges(users, degree, np.random.default_rng(seed))
    rows, columns = np.concatenate([edges, edges[:, ::-1]]).T
    return scipy.sparse.csr_array((np.full(len(rows), 1.0 / degree), (rows, columns)), shape=(users, users))


def enumerated_delta(table, flip_prob, rate, epsilon):
    """δ(ε) against user 0 of a learner who sees what each user submits, over all labels of the others."""
    users, worst = len(table), 0.0
    laws = {}
    for labels in itertools.product((0, 1), repeat=users):
        law = {}
        for bits in itertools.product((0, 1), repeat=users):
            chance = np.prod([flip_prob if b != y else 1.0 - flip_prob for b, y in zip(bits, labels, strict=True)])
            ones = table @ np.array(bits)
            for sent in itertools.product((0, 1, None), repeat=users):  # None: she submits nothing
                each = [
                    1.0 - rate if s is None else rate * (p if s else 1.0 - p) for s, p in zip(sent, ones, strict=True)
                ]
                law[sent] = law.get(sent, 0.0) + chance * np.prod(each)
        laws[labels] = law
    for others in itertools.product((0, 1), repeat=users - 1):
        for mine in (0, 1):
            here, there = laws[mine, *others], laws[1 - mine, *others]
            worst = max(worst, sum(max(0.0, p - np.exp(epsilon) * there.get(view, 0.0)) for view, p in here.items()))
    return worst


@pytest.mark.parametrize(("users", "degree"), [(4, 2), (4, 3)])
@pytest.mark.parametrize(("flip_prob", "rate"), [(0.1, 1.0), (0.3, 0.5)])
def test_no_bound_is_below_the_enumerated_truth(users, degree, flip_prob, rate):
    table = weights(users, degree, 3).toarray()
    for epsilon in (0.0, 0.1, 0.3):
        truth = enumerated_delta(table, flip_prob, rate, epsilon)
        assert RegularExchange(degree, flip_prob, rate).delta(epsilon).upper >= truth * (1.0 - 1e-9)
        assert truth > 0.0
    more = RegularExchange(degree, 0.49, rate).delta(0.3).upper
    assert more < enumerated_delta(table, flip_prob, rate, 0.0)  # the comparison can fail: of other noise it does


@pytest.mark.parametrize("degree", [3, 40, 130])
def test_it_is_what_bounds_every_kind_of_place_of_a_drawn_overlay(degree):
    drawn = FetchDistribution(weights(400, degree, 7), 0.2, 0.5)
    [place] = drawn._bounds_by_kind(np.arange(400))
    assert RegularExchange(degree, 0.2, 0.5).epsilon(1e-5).epsilon_upper == pytest.approx(place.epsilon(1e-5), rel=1e-5)


def test_the_smallest_degree_is_certified_and_one_less_is_not():
    target = {"epsilon": 0.5, "delta": 1e-5}
    degree = smallest_degree(999, flip_prob=0.2, sampling_rate=0.5, **target)
    assert RegularExchange(degree, 0.2, 0.5).satisfies(**target)
    assert not RegularExchange(degree - 1, 0.2, 0.5).satisfies(**target)
    assert smallest_degree(degree - 1, flip_prob=0.2, sampling_rate=0.5, **target) is None


def test_the_command_answers_with_a_degree_that_privacy_confirms():
    status, out, err = command(*DEGREES, "--epsilon", 0.5, "--json")
    assert (status, err) == (0, "")
    degree = json.loads(out)["degree"]
    again = ("privacy", *DEGREES[1:], "--degree", degree, "--json")
    assert json.loads(command(*again)[1])["epsilon_upper"] == json.loads(out)["epsilon_upper"] <= 0.5
    assert f"smallest degree of the overlay  {degree} neighbours" in command(*DEGREES, "--epsilon", 0.5)[1]


def test_the_command_says_that_no_degree_is_enough():
    status, out, _ = command(*DEGREES, "--epsilon", 0.05)
    assert status == 0
    assert "none: 999 neighbours are not enough" in out
    assert json.loads(command(*DEGREES, "--epsilon", 0.05, "--json")[1])["degree"] is None


def test_calibration_for_a_degree_needs_more_noise_than_for_everybody():
    target = (
        "calibrate",
        "--cluster-size",
        1000,
        "--epsilon",
        0.5,
        "--delta",
        "1e-5",
        "--sampling-rate",
        0.5,
        "--json",
    )
    few, everybody = (json.loads(command(*target, *more)[1]) for more in (("--degree", 100), ()))
    assert few["epsilon_upper"] <= 0.5
    assert few["flip_prob"] > everybody["flip_prob"]


def test_the_papers_formula_is_for_everybody_and_is_not_printed_for_a_degree():
    asked = ("privacy", "--cluster-size", 5000, "--flip-prob", 0.1, "--delta", "1e-5")
    assert json.loads(command(*asked, "--json")[1])["epsilon_paper_lemma9"] > 0.0
    assert json.loads(command(*asked, "--degree", 8, "--json")[1])["epsilon_paper_lemma9"] is None


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (("--epsilon", 0.5, "--degree", 8), "--degree 8: does not go with --flip-prob"),
        (("--epsilon", 0.5, "--cluster-size", 50), "--flip-prob: needs one --cluster-size"),
        (("--epsilon", 0.5, "--observer", "peer"), "needs --observer learner"),
        (("--epsilon", 0.5, "--num-classes", 3), "needs --observer learner, two classes"),
    ],
)
def test_questions_about_degrees_that_have_no_answer_get_one_line(more, line):
    status, out, err = command(*DEGREES, *more)
    assert (status, out) == (2, "")
    assert line in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("degree", [0, 1000])
def test_a_degree_beyond_the_cluster_is_refused(degree):
    status, _, err = command("privacy", *DEGREES[1:], "--degree", degree)
    assert status == 2
    assert f"--degree {degree}: must be a whole number from 1 to 999" in err


@pytest.mark.parametrize("observer", ["coalition", "peer", "learner-times"])
def test_other_observers_of_three_classes_have_the_figure_of_the_noise(observer):
    more = ("--members", 3) if observer == "coalition" else ()
    asked = ("--cluster-size", 100, "--num-classes", 3, "--delta", "1e-6", "--observer", observer, *more, "--json")
    found = json.loads(command("calibrate", *asked, "--sampling-rate", 0.5, "--epsilon", 0.5)[1])
    assert found["observer"] == observer
    if observer == "coalition":  # which may have asked the user itself, so that the noise is nearly attained
        assert 0.99 * found["epsilon_local"] <= found["epsilon_lower"] <= found["epsilon_upper"]
    else:
        assert found["epsilon_lower"] == 0.0
    assert found["epsilon_local"] <= 0.5
    said = json.loads(command("privacy", *asked, "--flip-prob", found["flip_prob"])[1])
    assert said["epsilon_upper"] == found["epsilon_upper"] <= 0.5
