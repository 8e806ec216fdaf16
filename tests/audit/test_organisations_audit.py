"""Audits of organisations that release models: sound ones pass, too little noise and rows that are too long fail.

Each audit fails a sound mechanism with probability at most 1e-9; seeds are fixed.
"""

from dataclasses import replace

import numpy as np
import pytest

from p2p_sim import run
from p2p_sim.audit.organisations_attack import OrganisationTargets, audit_organisations
from p2p_sim.base.errors import InputError
from p2p_sim.cli.printing.numbers import print_output
from p2p_sim.cli.printing.one_run_audits import one_run_output
from p2p_sim.mechanisms.organisations import Organisations
from p2p_sim.privacy.rivals.objective_perturbation import ObjectivePerturbation, RowLabel, calibrate_perturbation
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.scenario import Scenario
from p2p_sim.stacking import clipped_rows, pst

LAW = {"kind": "synthetic", "users": 240, "num_clusters": 12}
FAULTS = {"loss": 0.3, "request_timeout_s": 1.0, "on_timeout": {"retry": "same_peer", "attempts": 2}}


def case(kind: str = "private_stacking", epsilon: float = 2.0, **keys) -> Replicate:
    mechanism = {"kind": kind, "epsilon": epsilon, "norm_bound": 1.7, "l2": 0.5, "tight": True} | keys
    tree = {"name": "models", "population": LAW, "mechanism": mechanism, "network": FAULTS}
    return Replicate(Scenario.from_tree(tree))


def with_epsilon(asked: Replicate, epsilon: float) -> Organisations:
    """The mechanism with the noise of another ε."""
    sound = prepare(asked).mechanism
    assert isinstance(sound, Organisations)
    return replace(sound, plan=replace(sound.plan, epsilon=epsilon))


@pytest.mark.parametrize("n", [1, 3])
def test_the_label_moves_the_density_by_its_own_epsilon(n):
    """The density of w in one dimension: |b'(w)| e^(-|b(w)|/scale), for both labels of the first of n rows."""
    setting = calibrate_perturbation(1.0, n, [0.3], tight=True)
    w, others = np.linspace(-30.0, 30.0, 20_001), np.array([0.5, -0.8])[: n - 1]
    densities = []
    for first in (1.0, -1.0):
        z = np.append(first, others)[:, None]
        pull = 1.0 / (1.0 + np.exp(w * z))
        noise = (z * pull).sum(axis=0) - n * (setting.l2[0] + setting.extra_l2[0]) * w
        slope = (z**2 * pull * (1.0 - pull)).sum(axis=0) + n * (setting.l2[0] + setting.extra_l2[0])
        densities.append(np.log(slope) - np.abs(noise) / setting.noise_scale)
    assert np.abs(densities[0] - densities[1]).max() == pytest.approx(setting.label_epsilon, rel=1e-9)
    assert setting.label_epsilon < 0.5 * setting.epsilon_upper


def test_the_statement_about_a_label_has_its_own_condition():
    privacy = RowLabel(ObjectivePerturbation(10, (0.5, 0.5), (1.0, 1.0), 2.0, (0.0, 0.0)), (1, 1))
    assert (privacy.pure_epsilon, privacy.epsilon(1e-5).adjacency) == (1.0, "label")
    assert "the label of one row differs" in privacy.conditions[0]


STACKED = case(epsilon=6.0, groups=[[0, 1], [2]], combiner="stacked")


@pytest.mark.parametrize(
    ("asked", "trials"),
    [(case("hypothesis_transfer", 4.0), 1_000), pytest.param(STACKED, 8_000, marks=pytest.mark.slow)],
)
def test_the_score_is_the_exact_likelihood_ratio(asked, trials):
    """So e^score has mean 1 where the label is 0, and e^-score where it is 1; twice the score does not."""
    sound = prepare(asked)
    seen = OrganisationTargets(sound.mechanism, sound.mechanism, asked, sound.population).sample(trials, 3, ())
    assert seen.users >= 20 * len(seen.labels)
    for label, sign in ((False, 1.0), (True, -1.0)):
        score = sign * seen.scores[0][seen.labels == label]
        for factor, holds in ((1.0, True), (2.0, False)):
            ratio = np.exp(factor * score)
            assert bool(abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / np.sqrt(len(ratio))) is holds


def test_private_stacking_passes_and_a_third_of_the_noise_is_caught():
    asked = case()
    assert audit_organisations(asked, 300).passed
    assert not audit_organisations(asked, 300, mechanism=with_epsilon(asked, 6.0)).passed


@pytest.mark.slow
def test_the_attack_on_private_stacking_proves_half_of_what_is_certified():
    done = audit_organisations(case(), 3_000)
    assert done.passed
    assert done.bound.epsilon_upper == pytest.approx(2.0)
    assert done.bound.adjacency == "example"
    assert 0.5 * done.certified[0] < done.attacked[0] < done.certified[0]
    assert done.smallest_rise == pytest.approx(2.0)


@pytest.mark.slow
def test_transfer_passes_and_a_quarter_of_the_noise_is_caught():
    asked = case("hypothesis_transfer", 4.0, groups=[[0], [1]])
    assert audit_organisations(asked, 2_000).passed
    assert not audit_organisations(asked, 2_000, mechanism=with_epsilon(asked, 16.0)).passed


@pytest.mark.slow
def test_rows_that_are_not_clipped_are_caught(monkeypatch):
    asked = case()
    monkeypatch.setattr(clipped_rows, "clip_rows", lambda given: given)
    assert not audit_organisations(asked, 500).passed


def test_whole_rows_are_replaced_and_a_long_one_that_scales_all_is_caught(monkeypatch):
    """Two labels of one row would have the same length."""
    sound = pst.train_groups

    def scaled(given, *others, **named):
        return sound(given / max(1.0, np.linalg.norm(given, axis=1).max() / 5.0), *others, **named)

    asked = Replicate(case().scenario.replace(**{"population.users": 2_400}))
    monkeypatch.setattr(pst, "train_groups", scaled)
    assert not audit_organisations(asked, 300).passed


def test_an_audit_prints_the_statement_of_the_run(capsys):
    asked = case()
    done = audit_organisations(asked, 200)
    assert done.bound.epsilon_upper == pytest.approx(run(asked.scenario).row["epsilon_upper"])
    print_output(one_run_output(done), False)
    assert "each whole row one of two by a fair coin" in " ".join(capsys.readouterr().out.split())


def test_the_stated_bound_is_that_of_an_organisation_that_learns():
    asked = case("hypothesis_transfer", 2.0, groups=[[0], [1]], source=1, target=3)
    done = audit_organisations(asked, 200)
    assert done.bound.epsilon_upper == with_epsilon(asked, 2.0).spends(3) > 1.9
    assert done.passed


def test_other_mechanisms_are_refused():
    other = Replicate(
        Scenario.from_tree({"name": "other", "mechanism": {"kind": "randomized_response", "flip_prob": 0.2}})
    )
    with pytest.raises(InputError, match="there are no organisations"):
        audit_organisations(other, 1_000)
