"""Every public accountant takes numbers of NumPy for what they are: with all digits, and with no error of types."""

import inspect
import math

import numpy as np
import pytest

from p2p_sim import privacy
from p2p_sim.privacy import (
    Accountant,
    BinomialRuns,
    CappedFetch,
    ClusterResampling,
    Coalition,
    DpSgd,
    Eavesdropper,
    FetchDistribution,
    KaryExchange,
    LabelExchange,
    MajorityCoalition,
    MajorityExchange,
    NoisyScore,
    ObjectivePerturbation,
    Peer,
    PluralityExchange,
    PoissonRuns,
    Selection,
    ShuffledMessages,
    ShuffledResponse,
    ThresholdStop,
    TimedLearner,
    TruncatedNegativeBinomial,
    UniformSources,
    calibrate_each,
    calibrate_flip_prob,
    calibrate_majority,
    calibrate_noise,
    calibrate_perturbation,
    compose,
    lemma9_epsilon,
    local_epsilon,
    sufficient_flip_prob,
    theorem3,
)
from p2p_sim.privacy.bound import PlainNumbers, plain
from p2p_sim.privacy.conversions import gdp, renyi
from p2p_sim.privacy.guessing_advantage import advantage
from p2p_sim.privacy.rivals.noisy_counts import NoisyCounts
from p2p_sim.privacy.rivals.pate import Pate

RING = np.full((4, 4), 0.25)
MADE = [
    (LabelExchange, (40, 0.125, 0.5)),
    (KaryExchange, (4, 0.125, 0.5, 3)),
    (MajorityExchange, (40, 0.125, 0.5, 3)),
    (MajorityCoalition, (40, 0.125, 2, 3)),
    (PluralityExchange, (4, 0.125, 0.5, 3)),
    (ShuffledResponse, (40, 0.125)),
    (ShuffledMessages, (40, 0.5)),
    (Eavesdropper, (0.125,)),
    (Peer, (40, 0.125)),
    (UniformSources, (20, 1, 10, 0.125)),
    (CappedFetch, (np.full(8, 0.25), 0.125)),
    (FetchDistribution, (RING, 0.125, 0.5)),
    (ClusterResampling, (20, 2, 0.5, 4.0, 0.25, True)),
    (DpSgd, (2.0, 0.125, 3)),
    (NoisyScore, (5.0,)),
    (NoisyCounts, (2, 4.0)),
    (Pate, (4.0, 2.0, 3, 4)),
    (TimedLearner, (LabelExchange(20, 0.125, 0.5),)),
    (Coalition, (LabelExchange(20, 0.125, 0.5), 2)),
    (Selection, (LabelExchange(20, 0.125, 0.5), PoissonRuns(2.0))),
]
LAWS = [
    (PoissonRuns, (2.0,)),
    (TruncatedNegativeBinomial, (1.0, 0.125)),
    (BinomialRuns, (4, 0.25)),
    (ThresholdStop, (0.25,)),
]


def numpy_of(value):
    """The number in the narrowest type of NumPy that has it."""
    if isinstance(value, float):
        return np.float32(value)
    return np.int16(value) if isinstance(value, int) else value


@pytest.mark.parametrize(("kind", "given"), MADE, ids=lambda part: getattr(part, "__name__", ""))
def test_every_accountant_takes_numbers_of_numpy(kind, given):
    plainly, narrow = kind(*given), kind(*map(numpy_of, given))
    for epsilon in (0.25, 1.5):
        assert narrow.delta(np.float32(epsilon)) == plainly.delta(epsilon)
    delta = np.float32(1e-3)
    assert narrow.epsilon(delta).epsilon_upper == plainly.epsilon(float(delta)).epsilon_upper
    assert narrow.satisfies(np.float32(1.5), np.float32(0.5)) == plainly.satisfies(1.5, 0.5)
    assert type(narrow.epsilon(delta).delta) is float


def test_every_public_accountant_is_tried():
    public = [getattr(privacy, name) for name in privacy.__all__]
    kinds = {kind for kind in public if inspect.isclass(kind) and issubclass(kind, PlainNumbers)}
    assert kinds == {kind for kind, _ in MADE + LAWS if kind.__name__ in privacy.__all__} | {
        Accountant,
        ObjectivePerturbation,
    }


@pytest.mark.parametrize(("kind", "given"), LAWS, ids=lambda part: getattr(part, "__name__", ""))
def test_every_law_of_runs_takes_numbers_of_numpy(kind, given):
    plainly, narrow = kind(*given), kind(*map(numpy_of, given))
    assert narrow == plainly
    assert narrow.best_share(np.float32(0.125)) == plainly.best_share(0.125)
    assert narrow.mean == plainly.mean


def test_public_functions_take_numbers_of_numpy():
    cases = [
        (local_epsilon, (0.125, 3)),
        (lemma9_epsilon, (10_000, 0.25, 0.5, 0.125)),
        (theorem3, (20_000, 1.0)),
        (sufficient_flip_prob, (1000, 0.5, 0.5, 0.125)),
        (calibrate_noise, (1.0, 0.125, 0.5, 2)),
        *((function, (Eavesdropper(0.125), 1.5 - i)) for i, function in enumerate((renyi, gdp))),
        (advantage, (Eavesdropper(0.125), 0.25)),
    ]
    for function, given in cases:
        assert function(*map(numpy_of, given)) == function(*given)
    rest = (2, 0.5, 0.5, 0.125)
    narrow = tuple(map(numpy_of, rest))
    assert calibrate_flip_prob(np.array([20, 30]), *narrow) == calibrate_flip_prob([20, 30], *rest)
    assert calibrate_each(np.array([20, 30]), *narrow) == calibrate_each([20, 30], *rest)
    target = {"sampling_rate": 0.5, "peers": 3, "epsilon": 0.5, "delta": 0.125}
    narrow = {name: numpy_of(value) for name, value in target.items()}
    assert calibrate_majority(np.array([20, 30]), **narrow) == calibrate_majority([20, 30], **target)
    assert calibrate_perturbation(np.float32(1.0), np.int16(50), np.array([0.5])) == calibrate_perturbation(
        1.0, 50, [0.5]
    )
    one = ObjectivePerturbation(50, (1.0,), (0.5,), 1.0, (0.0,))
    narrow = [np.int16(50), *[(np.float32(x),) for x in (1.0, 0.5)], np.float32(1.0), (np.float32(0.0),)]
    assert ObjectivePerturbation(*narrow).epsilon_upper == one.epsilon_upper
    assert compose([Eavesdropper(0.125)] * 2, np.float32(0.125)) == compose([Eavesdropper(0.125)] * 2, 0.125)


def test_what_single_precision_would_lose():
    """0.1 in single precision is another number; a bound that were computed with its digits alone would be off."""
    alpha = np.float32(0.1)
    found = LabelExchange(40, alpha, 0.5).epsilon(1e-5)
    assert found == LabelExchange(40, float(alpha), 0.5).epsilon(1e-5)
    assert found != LabelExchange(40, 0.1, 0.5).epsilon(1e-5)
    assert type(np.float32(0.5) * 0.1) is np.float32  # control: NumPy would go on in single precision


def test_a_number_stays_the_number_that_it_is():
    assert plain(np.float32(0.1)) == 0.10000000149011612
    assert (plain(np.bool_(True)), plain(np.uint8(7)), plain("x"), plain(None)) == (True, 7, "x", None)
    assert type(plain(np.longdouble(0.5))) is type(plain(np.array(0.5))) is float
    assert plain((np.int64(3), 0.5)) == (3, 0.5)
    assert plain(np.zeros(2, np.float32)).dtype == np.float64
    exact = np.zeros(2)
    assert plain(exact) is exact
    assert math.isnan(plain(np.float32("nan")))


def test_what_is_no_number_in_range_is_still_refused():
    for given in ((np.int64(1), 0.1, 0.5), (40, np.float32(0.7), 0.5), (np.float64(40.0), 0.1, 0.5), (40, 0.1, np.nan)):
        with pytest.raises(ValueError, match=r"cluster_size|flip_prob|sampling_rate"):
            LabelExchange(*given)
