"""Lower ends for any fetch distribution: against enumeration, with planted mistakes."""

import numpy as np
import pytest

from p2p_sim.analysis.privacy.networks.fetch import FetchDistribution
from tests.fetch_enumeration import FewUsers, random_laws
from tests.reference import fetch as reference

LAWS = random_laws(50)


def fetch_of(law: FewUsers) -> FetchDistribution:
    return FetchDistribution(law.weights, law.flip_prob, law.rates)


@pytest.mark.parametrize("index", range(50))
def test_the_upper_end_lies_above_the_truth(index):
    law = LAWS[index]
    fetch = fetch_of(law)
    for epsilon in (0.1, 0.5, 1.5):
        assert fetch.delta(epsilon).upper >= law.delta(epsilon) * (1.0 - 1e-12)


def test_both_enumerations_agree():
    for law in [law for law in LAWS if len(law.weights) <= 4][:5]:
        for epsilon in (0.1, 0.7):
            expected = reference.delta(law.weights, law.flip_prob, law.rates, epsilon)
            assert law.delta(epsilon) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_laws_are_the_same_each_time_and_of_all_sizes():
    again = random_laws(50)
    assert all(np.array_equal(a.weights, b.weights) for a, b in zip(LAWS, again, strict=True))
    assert {len(law.weights) for law in LAWS} == {3, 4, 5, 6}


@pytest.mark.parametrize("index", range(50))
def test_the_lower_end_of_few_users_is_the_truth(index):
    law = LAWS[index]
    for delta in (1e-3, 0.05):
        truth = law.epsilon(delta)
        lower = fetch_of(law).lower_epsilon(delta)
        assert lower <= truth
        exposed = (law.rates @ law.weights**2).argmax()
        assert lower >= law.user_epsilon(int(exposed), delta) - 1e-5
