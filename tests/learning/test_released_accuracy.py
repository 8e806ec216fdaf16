"""The accuracy estimated from released labels: intervals cover it, planted mistakes do not, no true label is used.

Coverage is judged by a binomial band: a true coverage of 93% falls below it once in 1e9. With 300 runs the band begins
at 83%, so that it detects a coverage of 70% nearly always; planted mistakes have 1,000 runs, and a band from 87%.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy

import p2p_sim
from analysis import validation as validation
from analysis.study import PUBLISHED
from analysis.validation import (
    MECHANISMS,
    OFFSETS,
    RANGES,
    UNBIASED,
    Judged,
    coverage,
    estimates,
    judged,
    mechanism_of,
)
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.learning.released_accuracy import validated
from p2p_sim.mechanisms.noise_law import Evidence, bounding_scores
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.population.population import Population

RUNS, PLANTED = 200, 500


def fewest(runs: int, share: float = 0.93) -> float:
    """The share of runs that cover, at least, but once in 1e9."""
    return float(scipy.stats.binom.ppf(1e-9, runs, share)) / runs


@pytest.mark.parametrize(("name", "kind"), UNBIASED)
def test_unbiased_intervals_cover_the_accuracy(name, kind):
    given = judged(kind)
    found = estimates(mechanism_of(name), given, range(RUNS))
    assert all(one.identified for one in found)
    assert coverage(found, given.accuracy) >= fewest(RUNS)
    values = np.array([one.value for one in found])
    assert abs(values.mean() - given.accuracy) < 6.1 * values.std() / RUNS**0.5
    assert all(one.upper - one.lower < 0.5 for one in found)


@pytest.mark.parametrize(("name", "kind"), RANGES)
@pytest.mark.slow_where(lambda name, kind: (name, kind) == ("two stages", "best"))
def test_ranges_cover_the_accuracy_at_their_ends(name, kind):
    runs, given = 150 if name == "two stages" else RUNS, judged(kind)
    found = estimates(mechanism_of(name), given, range(runs))
    assert not any(one.identified or one.value is not None for one in found)
    assert coverage(found, given.accuracy) >= fewest(runs)


@pytest.mark.slow
def test_the_study_of_coverage(frame, monkeypatch):
    monkeypatch.setattr(validation, "RANGES", (("two stages", "best"), ("ClusterRR", "worst")))
    [path] = validation.main(frame, replicates=60)
    table = pd.read_csv(path)
    assert len(table) == len(UNBIASED) + 2
    assert (table["replicates"] == 60).all()
    assert (table["coverage"] >= fewest(60)).all()
    assert table["unbiased"].sum() == len(UNBIASED)
    assert table["accuracy"].between(table["lower"], table["upper"]).all()


def test_the_published_coverage():
    table = pd.read_csv(PUBLISHED / "validation" / "table.csv")
    assert set(zip(table["mechanism"], table["predictor"], strict=True)) == {*UNBIASED, *RANGES}
    assert (table["replicates"] == 10_000).all()
    assert (table["coverage"] >= 0.93).all()
    assert (table.query("unbiased")["coverage"] <= 0.97).all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [*UNBIASED, *RANGES])
def test_coverage_in_ten_thousand_runs(name, kind):
    """Of a coverage of 95% the share of 10,000 runs is outside 93% to 97% less than once in 1e9."""
    given, unbiased = judged(kind), (name, kind) in UNBIASED
    share = coverage(estimates(mechanism_of(name), given, range(10_000), seed=2), given.accuracy)
    print(f"{name}, {kind}: {share:.4f}")
    assert 0.93 <= share <= (0.97 if unbiased else 1.0)


def planted(name: str, given: Judged, wrong) -> float:
    """The coverage when every release's evidence is spoilt."""
    mechanism, found = mechanism_of(name), []
    for run in range(PLANTED):
        outcome = mechanism.run(given.people, NetworkConfig(), Streams(0, run))
        found.append(validated(given.predicted, wrong(mechanism.evidence(outcome, OFFSETS), outcome), OFFSETS))
    return coverage(found, given.accuracy)


@pytest.mark.parametrize("name", ["randomised response", "exchange"])
def test_labels_as_they_are_do_not_cover(name):
    def as_they_are(evidence: Evidence, outcome: Outcome) -> Evidence:
        return replace(evidence, weights=np.eye(3)[outcome.labels.payload])

    assert planted(name, judged("constant"), as_they_are) < fewest(PLANTED) / 2


def test_a_variance_that_ignores_repeated_labels_does_not_cover(monkeypatch):
    """With α = 0.35, and almost all submitting, the sample variance alone is little more than half of the variance."""
    given = judged("constant", 2)
    monkeypatch.setitem(MECHANISMS, "noisy", {"kind": "label_exchange", "flip_prob": 0.35, "sampling_rate": 0.98})
    mechanism = mechanism_of("noisy", 2)
    right, wrong = [], []
    for run in range(2 * PLANTED):
        outcome = mechanism.run(given.people, NetworkConfig(), Streams(0, run))
        evidence = mechanism.evidence(outcome, OFFSETS)
        assert len(evidence.user) < OFFSETS[-1]
        right.append(validated(given.predicted, evidence, OFFSETS))
        wrong.append(validated(given.predicted, replace(evidence, repeated=False), OFFSETS))
    assert coverage(right, given.accuracy) >= fewest(2 * PLANTED)
    assert coverage(wrong, given.accuracy) < fewest(2 * PLANTED)


def test_the_variance_of_exchanged_scores_is_that_of_the_formula():
    """Mean of the estimated variances against the variance of the estimates; 6.1 standard errors each, 1e-9."""
    given = judged("constant", 2)
    found = estimates(mechanism_of("exchange", 2), given, range(1_000))
    values = np.array([one.value for one in found])
    widths = np.array([one.upper - one.lower for one in found]) / (2 * scipy.stats.norm.ppf(0.975))
    assert np.mean(widths**2) == pytest.approx(values.var(), rel=6.1 * (2 / 1_000) ** 0.5)


def test_one_prediction_each_and_two_in_an_even_cluster():
    """A cluster of 20,000 users, half of each class: one prediction is right in half; two are right in any share."""
    truth = np.repeat(np.arange(2, dtype=np.uint8), 10_000)
    people, offsets = Population(np.zeros((20_000, 1)), truth, np.array([0, 20_000]), 2), np.array([0, 20_000])
    mechanism = mechanism_of("exchange", 2)
    outcome = mechanism.run(people, NetworkConfig(), Streams(0, 0))
    evidence = mechanism.evidence(outcome, offsets)
    one = validated(np.zeros(20_000, np.int64), evidence, offsets)
    assert one.identified
    assert one.lower < 0.5 < one.upper < one.lower + 0.05
    ends = [validated(said.astype(np.int64), evidence, offsets) for said in (truth, 1 - truth)]
    assert ends[0] == ends[1]
    assert (ends[0].lower, ends[0].upper) == (pytest.approx(0.0, abs=0.05), pytest.approx(1.0, abs=0.05))
    third = validated((np.arange(20_000) < 6_000).astype(np.int64), evidence, offsets)
    assert (third.lower, third.upper) == (pytest.approx(0.2, abs=0.05), pytest.approx(0.8, abs=0.05))


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_true_label_is_used(name):
    """Other true labels beside the same release change nothing."""
    given, mechanism = judged("mixed"), mechanism_of(name)
    outcome = mechanism.run(given.people, NetworkConfig(), Streams(0, 0))
    found = validated(given.predicted, mechanism.evidence(outcome, OFFSETS), OFFSETS)
    truth = given.people.labels.copy()
    given.people.labels[:] = np.random.default_rng(0).permutation(truth)
    again = validated(given.predicted, mechanism.evidence(outcome, OFFSETS), OFFSETS)
    given.people.labels[:] = truth
    assert again == found


TREE = {
    "name": "small", "engine": "vectorised", "population": {"kind": "synthetic", "users": 2_000, "num_clusters": 4},
    "mechanism": {"kind": "randomized_response", "flip_prob": 0.2},
}  # fmt: skip


class Says:
    """Says the same probabilities of everybody."""

    def __init__(self, *probabilities: float) -> None:
        self.given = probabilities

    def probabilities(self, features):
        return np.tile(self.given, (len(features), 1))


def test_a_result_judges_a_predictor_by_its_release():
    done = p2p_sim.run(p2p_sim.Scenario.from_tree(TREE))
    zero, one = done.validated(Says(0.9, 0.1)), done.validated(Says(0.1, 0.9))
    share = float((done.population.labels == 0).mean())
    assert zero.lower < share < zero.upper  # 95% of replicates; this one
    assert zero.value + one.value == pytest.approx(1.0)
    assert str(zero) == f"{zero.value:.4f} [{zero.lower:.4f}, {zero.upper:.4f}]"
    parts = [done.validated(Says(0.9, 0.1), [c]) for c in range(4)]
    assert sum(part.labels for part in parts) == 2_000
    assert sum(part.labels * part.value for part in parts) == pytest.approx(2_000 * zero.value)
    truth = done.population.labels.copy()
    done.population.labels[:] = 1 - truth
    again = done.validated(Says(0.9, 0.1))
    done.population.labels[:] = truth
    assert again == zero


def test_clusters_that_judge_are_taken_whole():
    """The estimate of two clusters from all of an exchange is that of an exchange of these two alone."""
    given, mechanism = judged("mixed"), mechanism_of("ClusterRR")
    outcome = mechanism.run(given.people, NetworkConfig(), Streams(0, 0))
    chosen, sizes = np.array([1, 5]), np.diff(OFFSETS)[[1, 5]]
    part = mechanism.evidence(outcome, OFFSETS).within(chosen, OFFSETS)
    rows = np.concatenate([np.arange(OFFSETS[c], OFFSETS[c + 1]) for c in chosen])
    alone = Outcome(LabelRelease(np.arange(len(rows), dtype=np.int32), outcome.labels.payload[rows]))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    expected = mechanism.evidence(alone, offsets)
    assert (part.user == expected.user).all()
    assert part.weights == pytest.approx(expected.weights)
    assert part.drift.mean == pytest.approx(expected.drift.mean)


def test_scores_of_a_law_without_an_inverse_bound_the_indicator():
    from p2p_sim.mechanisms.rr_with_prior import RRWithPrior

    noise = RRWithPrior(1.0, 4, (0.45, 0.4, 0.1, 0.05))
    assert 1 < noise.candidates < 4
    lower, upper = (noise.transition @ scores for scores in bounding_scores(noise.transition))
    assert (lower <= np.eye(4) + 1e-9).all()
    assert (upper >= np.eye(4) - 1e-9).all()
    kept = np.arange(noise.candidates)
    assert np.diag(lower)[kept] == pytest.approx(1.0)
    assert np.diag(upper)[kept] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changed", "asked", "says"),
    [
        ({"engine": "events", "network": {"loss": 0.1}, "mechanism": {"kind": "label_exchange", "flip_prob": 0.2}}, {},
         "validation: needs released labels whose law is known; leave out network"),
        ({"mechanism": {"kind": "pate", "target_epsilon": 5.0}}, {}, "validation: mechanism.kind = 'pate' releases"),
        ({}, {"clusters": [4]}, "clusters: must be numbers from 0 to 3, at least one"),
        ({}, {"clusters": []}, "clusters: must be numbers from 0 to 3, at least one"),
        ({}, {"confidence": 1.0}, "confidence = 1: must be above 0 and below 1"),
    ],
)  # fmt: skip
def test_what_says_nothing_is_refused_in_one_line(changed, asked, says):
    result = p2p_sim.run(p2p_sim.Scenario.from_tree({**TREE, **changed}))
    with pytest.raises(InputError) as refused:
        result.validated(Says(0.9, 0.1), **asked)
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


def test_wrong_predictions_are_refused():
    given, mechanism = judged("mixed"), mechanism_of("shuffled")
    outcome = mechanism.run(given.people, NetworkConfig(), Streams(0, 0))
    evidence = mechanism.evidence(outcome, OFFSETS)
    nobody = replace(evidence, user=evidence.user[:0], weights=evidence.weights[:0])
    for said, by, says in (
        (given.predicted[1:], evidence, "predictions: have shape"),
        (given.predicted + 1, evidence, "predictions: must lie in 0..2, found 1 to 3"),
        (given.predicted, nobody, "validation: no label was released"),
    ):
        with pytest.raises(InputError, match=says):
            validated(said, by, OFFSETS)
