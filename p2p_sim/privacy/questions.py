"""Privacy questions as the command line asks them, answered by the accountant."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from p2p_sim.base.errors import InputError, nearest
from p2p_sim.base.threads import one_thread
from p2p_sim.privacy import (
    Accountant,
    Coalition,
    Eavesdropper,
    KaryExchange,
    LabelExchange,
    Peer,
    PrivacyBound,
    TimedLearner,
    compose,
    conversions,
    local_epsilon,
)
from p2p_sim.privacy.bound import check_delta, check_positive_epsilon
from p2p_sim.privacy.exchange.calibration import few_digits, smallest_flip_prob
from p2p_sim.privacy.exchange.majority_exchange import MajorityExchange, PluralityExchange, peer_weights
from p2p_sim.privacy.exchange.observers import Observer
from p2p_sim.privacy.exchange.paper_bounds import Lemma9
from p2p_sim.privacy.overlays.regular_overlay import LARGEST_DEGREE, RegularExchange, smallest_degree
from p2p_sim.privacy.randomized_response import local_flip_prob
from p2p_sim.privacy.stated_accountants import OnePoint
from p2p_sim.privacy.where_bounds_hold import Situation, Stated

OBSERVERS = ("learner", "learner-times", "peer", "coalition", "eavesdropper")
RATED = ("learner", "coalition")
"""Observers whose figures depend on the sampling rate."""


@dataclass(frozen=True)
class Question:
    """About whom, in which exchange; cluster_size: None where it plays no part.

    degree: neighbours whom each user may ask, on a random regular overlay; None: she may ask everybody. peers: k, whom
    each user asks.
    """

    cluster_size: int | None
    flip_prob: float
    sampling_rate: float
    observer: str = "learner"
    members: int | None = None
    rounds: int = 1
    fresh: bool = False
    num_classes: int = 2
    degree: int | None = None
    peers: int = 1


@dataclass(frozen=True)
class Answer:
    """A bracket of ε at δ (δ given) or of δ at ε (ε given), and figures beside it. gained: how `advantage` is found."""

    bound: PrivacyBound
    delta_lower: float | None
    delta_upper: float | None
    local: float
    lemma9: Stated
    gained: Callable[[], float]

    @cached_property
    def advantage(self) -> float:
        """How much more often the observer guesses a label right, at most, if all labels are equally likely to it.

        It may take longer than the bracket, so it is computed when it is first asked for.
        """
        with answering():
            return self.gained()


def answer(question: Question, delta: float | None, epsilon: float | None) -> Answer:
    """Exactly one of δ and ε is given.

    Raises:
        InputError: a value outside its range, an unknown observer, or a combination with no known figure.
    """
    with answering():
        return _answer(question, delta, epsilon)


@contextmanager
def answering() -> Iterator[None]:
    """On one thread; a parameter outside its range becomes an `InputError` that names its option."""
    try:
        with one_thread():
            yield
    except ValueError as error:
        raise InputError(_option(str(error))) from None


def check_given(q: Question, delta: float | None, epsilon: float | None) -> None:
    """Refuse a question without its cluster size, and with none or both of δ and ε."""
    if (delta is None) == (epsilon is None):
        raise InputError("give either --delta or --epsilon")
    if q.cluster_size is None and q.observer != "eavesdropper":
        raise InputError("--cluster-size: is missing; the ε of every observer but the eavesdropper depends on it")


def _answer(q: Question, delta: float | None, epsilon: float | None) -> Answer:
    check_given(q, delta, epsilon)
    local = local_epsilon(q.flip_prob, q.num_classes)
    faults = () if q.degree is None else ("the overlay",)
    situation = Situation(q.num_classes, "label", faults, (), q.rounds, q.fresh, False, q.observer, q.peers != 1)
    lemma9 = Stated(None)
    if delta is not None and q.cluster_size is not None:
        lemma9 = Lemma9(q.cluster_size, q.flip_prob, q.sampling_rate, delta).stated(situation)
    if q.fresh and q.rounds > 1:
        if q.observer != "learner" or delta is None or q.num_classes > 2 or q.degree is not None or q.peers != 1:
            raise InputError("--fresh: is known for --observer learner, --delta, two classes, one peer, no --degree")
        assert q.cluster_size is not None
        one = LabelExchange(q.cluster_size, q.flip_prob, q.sampling_rate)
        bound = compose([one] * q.rounds, delta)  # total variations of rounds with new noise add up
        return Answer(
            bound, None, None, local, lemma9, lambda: min(q.rounds * _gain(one, q), _gain(OnePoint(bound), q))
        )
    observer = observer_of(q)
    gained = partial(_gain, observer, q)
    if delta is not None:
        return Answer(observer.epsilon(delta), None, None, local, lemma9, gained)
    assert epsilon is not None
    bracket = observer.delta(epsilon)
    basis = bracket.worded(observer.basis)
    bound = PrivacyBound(
        epsilon,
        epsilon,
        bracket.upper,
        observer=q.observer,
        adjacency="label",
        basis=basis,
        conditions=observer.conditions,
    )
    return Answer(bound, bracket.lower, bracket.upper, local, lemma9, gained)


def advantage(question: Question, delta: float | None, epsilon: float | None) -> float:
    """The `advantage` of an answer, without its bracket where it does not depend on that."""
    if question.fresh and question.rounds > 1:
        return answer(question, delta, epsilon).advantage
    check_given(question, delta, epsilon)
    with answering():
        return _gain(observer_of(question), question)


def _gain(accountant: Accountant, q: Question) -> float:
    """The observer's advantage if all labels are equally likely to it, at most."""
    return conversions.advantage(accountant, np.full(q.num_classes, 1.0 / q.num_classes)).upper


def observer_of(q: Question) -> Observer | KaryExchange | MajorityExchange | RegularExchange:
    """The accountant of the observer that a question names.

    Raises:
        InputError: a combination with no known figure.
    """
    if q.observer not in OBSERVERS:
        hint = nearest(q.observer, OBSERVERS)
        raise InputError(f"--observer {q.observer}: must be one of {', '.join(OBSERVERS)}{hint}")
    if q.members is not None and q.observer != "coalition":
        raise InputError(f"--members {q.members}: goes with --observer coalition")
    if q.members is None and q.observer == "coalition":
        raise InputError("--observer coalition: needs --members, the number of users in the coalition, at least 1")
    peer_weights(q.peers)
    if q.observer == "eavesdropper" and (q.cluster_size is None or q.num_classes > 2):
        return Eavesdropper(q.flip_prob, q.num_classes)
    assert q.cluster_size is not None
    if q.degree is not None:
        return _on_overlay(q, q.cluster_size, q.degree)
    if q.num_classes > 2 or q.peers != 1:
        if q.observer == "coalition" and not 1 <= (q.members or 0) < q.cluster_size:
            raise InputError(f"--members {q.members}: must lie in 1..{q.cluster_size - 1}")
        if q.observer != "learner":  # nothing sharper than the noise alone is known, as in a run
            return Eavesdropper(q.flip_prob, q.num_classes, q.observer)
        if q.num_classes == 2:
            return MajorityExchange(q.cluster_size, q.flip_prob, q.sampling_rate, q.peers, q.rounds)
        if q.rounds > 1:
            raise InputError(
                f"--num-classes {q.num_classes}: the learner's ε is known for a single round; --observer eavesdropper "
                "has an ε for any number of rounds, which holds against the learner too"
            )
        several = KaryExchange if q.peers == 1 else PluralityExchange
        return several(q.cluster_size, q.flip_prob, q.sampling_rate, q.num_classes)
    any_flip_prob = q.observer in ("peer", "eavesdropper")  # whose figures hold for the smallest, too
    exchange = LabelExchange(q.cluster_size, 0.5 if any_flip_prob else q.flip_prob, q.sampling_rate, q.rounds)
    if q.observer == "peer":
        if q.rounds > 1:
            raise InputError(f"--rounds {q.rounds}: a peer's figure is known for a single round")
        return Peer(q.cluster_size, q.flip_prob)
    if q.observer == "coalition":
        assert q.members is not None
        return Coalition(exchange, q.members)
    if q.observer == "learner-times":
        return TimedLearner(exchange)
    return Eavesdropper(q.flip_prob) if q.observer == "eavesdropper" else exchange


def _on_overlay(q: Question, users: int, degree: int) -> RegularExchange:
    """The accountant of the learner where each user asks one of her neighbours."""
    if q.observer != "learner" or q.num_classes > 2 or q.rounds > 1 or q.peers != 1:
        raise InputError(f"--degree {degree}: is known for --observer learner, two classes, one peer and one round")
    if not 1 <= degree <= largest_degree(users):
        raise InputError(f"--degree {degree}: must be a whole number from 1 to {largest_degree(users):,}")
    return RegularExchange(degree, q.flip_prob, q.sampling_rate)


def largest_degree(users: int) -> int:
    """Most neighbours that a user of a cluster may have here."""
    return min(LARGEST_DEGREE, users - 1)


@dataclass(frozen=True)
class Calibration:
    """The flip probability for all clusters, and one for each size, with the ε it is certified for.

    flip_prob, each: numbers of few digits, rounded up, so that the target holds at them as they are printed.
    sampling_rate: θ; None for an observer whose figure holds for every θ. members: of a coalition, else None.
    local: ε₀, which the noise on a label alone gives at `flip_prob`. noise_alone: whether no flip probability of
    three digits below that of the noise alone is certified.
    """

    sampling_rate: float | None
    epsilon: float
    flip_prob: float
    each: dict[int, float]
    bound: PrivacyBound
    local: float
    noise_alone: bool
    members: int | None = None


def calibrated(
    sizes: Sequence[int],
    num_classes: int,
    sampling_rate: float | None,
    epsilon: float,
    delta: float,
    observer: str = "learner",
    members: int | None = None,
    degree: int | None = None,
    peers: int = 1,
) -> Calibration:
    """Calibrate against an observer and verify.

    Args:
        sizes: of the clusters. num_classes: K. sampling_rate: θ; needed for the observers in `RATED`.
        epsilon, delta: the target. observer: one of `OBSERVERS`. members: of a coalition.
        degree: neighbours whom each user may ask, on a random regular overlay; None: everybody. peers: k.

    Raises:
        InputError: a value outside its range or missing, or a combination with no known figure.
    """
    if sampling_rate is None and observer in RATED:
        raise InputError(
            f"--sampling-rate: is missing, and the {observer}'s ε depends on it; "
            "give θ, above 0 and at most 1 (1: every user passes a label on)"
        )
    theta = 1.0 if sampling_rate is None else sampling_rate

    def sees(alpha: float, size: int) -> Observer | KaryExchange | MajorityExchange | RegularExchange:
        return observer_of(
            Question(size, alpha, theta, observer, members, num_classes=num_classes, degree=degree, peers=peers)
        )

    def certified(alpha: float, size: int) -> bool:
        # of a majority without noise no figure is known
        return (alpha > 0.0 or peers == 1) and sees(alpha, size).satisfies(epsilon, delta)

    with answering():
        check_delta(delta)
        check_positive_epsilon(epsilon)
        found = sorted(set(sizes))
        exact = {size: smallest_flip_prob(certified, [size], num_classes, epsilon) for size in found}
        noise_alone = max(exact.values()) >= local_flip_prob(epsilon, num_classes)
        each = {size: few_digits(alpha, num_classes) for size, alpha in exact.items()}
        alpha = max(each.values())
        bounds = [sees(alpha, size).epsilon(delta) for size in each]
    worst = max(bounds, key=lambda bound: bound.epsilon_upper)
    theta_or_any = sampling_rate if observer in RATED else None
    local = local_epsilon(alpha, num_classes)
    return Calibration(theta_or_any, epsilon, alpha, each, worst, local, noise_alone, members)


@dataclass(frozen=True)
class EnoughNeighbours:
    """The smallest number of neighbours found that brings the learner's ε to a target.

    degree: of a regular overlay; None: none of up to `most` does. target: ε. bound: what is certified with this
    degree, with `most` neighbours where there is none. everybody: what is certified if users may ask everybody.
    local: ε₀, which the noise on a label alone gives.
    """

    degree: int | None
    most: int
    target: float
    bound: PrivacyBound
    everybody: PrivacyBound
    local: float


def enough_neighbours(q: Question, epsilon: float, delta: float) -> EnoughNeighbours:
    """The smallest degree found for the learner's (ε, δ); q.degree plays no part.

    Raises:
        InputError: a value outside its range, or another observer than the learner of two classes.
    """
    assert q.cluster_size is not None
    with answering():
        check_delta(delta)
        check_positive_epsilon(epsilon)
        everybody = observer_of(q).epsilon(delta)
        most = largest_degree(q.cluster_size)
        widest = _on_overlay(q, q.cluster_size, most)
        rates = {"flip_prob": q.flip_prob, "sampling_rate": q.sampling_rate}
        degree = smallest_degree(most, **rates, epsilon=epsilon, delta=delta)
        accountant = widest if degree is None else RegularExchange(degree, **rates)
        return EnoughNeighbours(degree, most, epsilon, accountant.epsilon(delta), everybody, local_epsilon(q.flip_prob))


def certified(q: Question, delta: float, epsilon: float | None) -> str:
    """The text of a certificate for the learner; ε is by default the one that the accountant certifies.

    Raises:
        InputError: a value outside its range, or (ε, δ) is not proved.
    """
    from p2p_sim.privacy import certificate

    with answering():
        return certificate(LabelExchange(q.cluster_size or 0, q.flip_prob, q.sampling_rate, q.rounds), delta, epsilon)


def verifier_source() -> Path:
    """The program that proves certificates, one file."""
    from p2p_sim.privacy.certificates import verify_certificate

    return Path(verify_certificate.__file__)


def _option(message: str) -> str:
    """The accountant's message, its parameter spelled as an option: flip_prob = 2: ... -> --flip-prob 2: ..."""
    name, equals, rest = message.partition(" = ")
    return f"--{name.replace('_', '-')} {rest}" if equals else message
