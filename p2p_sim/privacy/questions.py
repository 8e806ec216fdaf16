"""Questions about privacy, with the options of `p2p-sim privacy`, and their answers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import cast

import numpy as np

from p2p_sim.base import InputError, nearest, one_thread
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
    guessing_advantage,
    local_epsilon,
)
from p2p_sim.privacy.bound import OBSERVERS
from p2p_sim.privacy.exchange import MajorityExchange, Observer, PluralityExchange, lemma9_stated, peer_weights
from p2p_sim.privacy.overlays import LARGEST_DEGREE, RegularExchange
from p2p_sim.privacy.rivals import MajorityCoalition
from p2p_sim.privacy.stated_accountants import OnePoint
from p2p_sim.privacy.where_bounds_hold import Situation, Stated


@dataclass(frozen=True)
class Question:
    """A question about the privacy of a label exchange: its parameters, and who observes.

    cluster_size: n; may be None for the eavesdropper. flip_prob: α. sampling_rate: θ.
    observer: one of `OBSERVERS`. members: number of members if the observer is a coalition, else None.
    rounds: number of exchanges; all use the same noisy labels unless `fresh` is True. num_classes: K.
    degree: number of neighbours whom each user may ask, on any regular overlay. None: she may ask everybody.
    peers: k, how many peers each user asks.
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
    """The answer to a question: bounds of ε at a given δ, or bounds of δ at a given ε.

    bound: the statement of ε at δ. local: ε₀ of the noisy label alone, for comparison.
    lemma9: for comparison, the ε that the clustering paper's Lemma 9 states, if there is such an ε.
    gained: a function that computes `advantage`. delta_lower, delta_upper: bounds of δ if ε is given, else None.
    """

    bound: PrivacyBound
    local: float
    lemma9: Stated
    gained: Callable[[], float]
    delta_lower: float | None = None
    delta_upper: float | None = None

    @cached_property
    def advantage(self) -> float:
        """Upper bound of the observer's advantage in guessing a label.

        All K labels are equally likely. The advantage is the probability that her best guess is right, minus 1/K. The
        bound is computed when first used, because this may take longer than the bounds of ε or δ.
        """
        with answering():
            return self.gained()


@contextmanager
def answering() -> Iterator[None]:
    """A context or decorator for computing answers: it uses one thread, and its errors name the wrong option.

    A ValueError that names an accountant's parameter becomes an `InputError` that names the corresponding option.
    """
    try:
        with one_thread():
            yield
    except ValueError as error:
        # The message gets the option's name: "flip_prob = 2: ..." becomes "--flip-prob 2: ...".
        name, equals, rest = str(error).partition(" = ")
        raise InputError(f"--{name.replace('_', '-')} {rest}" if equals else name) from None


def check_given(q: Question, delta: float | None, epsilon: float | None) -> None:
    """Raise `InputError` unless exactly one of δ and ε is given.

    The cluster size must also be given, unless the observer is the eavesdropper.
    """
    if (delta is None) == (epsilon is None):
        raise InputError("give either --delta or --epsilon")
    if q.observer != "eavesdropper":
        users_of(q)


def users_of(q: Question) -> int:
    """The number of users in the cluster of a question; raises `InputError` if it is missing."""
    if q.cluster_size is None:
        raise InputError("--cluster-size: is missing; every observer but the eavesdropper needs it")
    return q.cluster_size


@answering()
def answer(q: Question, delta: float | None, epsilon: float | None) -> Answer:
    """The answer to a question. Exactly one of δ and ε is given.

    Raises:
        InputError: a value is outside its range, the observer is unknown, or no bound is known for these options
        together.
    """
    check_given(q, delta, epsilon)
    local, lemma9 = local_epsilon(q.flip_prob, q.num_classes), Stated(None)
    if delta is not None and q.cluster_size is not None:
        lemma9 = lemma9_stated(
            q.cluster_size,
            q.flip_prob,
            q.sampling_rate,
            delta,
            Situation(
                num_classes=q.num_classes,
                faults=() if q.degree is None else ("the overlay",),
                rounds=q.rounds,
                fresh=q.fresh,
                observer=q.observer,
                several=q.peers != 1,
            ),
        )
    if q.fresh and q.rounds > 1:
        return _fresh_rounds(q, delta, local, lemma9)
    # Given δ, the answer has bounds of ε. Given ε, the answer has bounds of δ, and states the given ε.
    observer = observer_of(q)
    completed = partial(Answer, local=local, lemma9=lemma9, gained=partial(_gain, observer, q))
    if epsilon is None:
        return completed(observer.epsilon(cast(float, delta)))
    bracket = observer.delta(epsilon)
    return completed(
        PrivacyBound(
            epsilon,
            epsilon,
            bracket.upper,
            observer=q.observer,
            adjacency="label",
            basis=bracket.worded(observer.basis),
            conditions=observer.conditions,
        ),
        delta_lower=bracket.lower,
        delta_upper=bracket.upper,
    )


def _fresh_rounds(q: Question, delta: float | None, local: float, lemma9: Stated) -> Answer:
    """The answer at δ for several exchanges with new noise on the labels in each exchange.

    Composition of the exchanges gives the bound of ε.

    Args:
        q: the question; its `rounds` is the number of exchanges. delta: δ, must not be None. local, lemma9: see
        `Answer`.

    Raises:
        InputError: δ is None, or the question is about another observer than the learner, more than two classes,
        several peers for each user, or an overlay.
    """
    covered = q.observer == "learner" and q.num_classes == 2 and q.degree is None and q.peers == 1
    if delta is None or not covered:
        raise InputError("--fresh: needs --observer learner, --delta, two classes, one peer and no --degree")
    exchange = LabelExchange(users_of(q), q.flip_prob, q.sampling_rate)
    bound = compose([exchange] * q.rounds, delta)
    return Answer(
        bound,
        local=local,
        lemma9=lemma9,
        # The total variation of all rounds with new noise is at most the sum over the rounds.
        gained=lambda: min(q.rounds * _gain(exchange, q), _gain(OnePoint(bound), q)),
    )


@answering()
def advantage(q: Question, delta: float | None, epsilon: float | None) -> float:
    """Upper bound of the observer's advantage in guessing a label; see `Answer.advantage`.

    Args:
        q: the question.
        delta, epsilon: the question's δ or ε; exactly one is given, the other is None. They matter only for several
            rounds with new noise. The advantage may then follow from the bound of ε at δ.
    """
    if q.fresh and q.rounds > 1:
        return answer(q, delta, epsilon).advantage
    check_given(q, delta, epsilon)
    return _gain(observer_of(q), q)


def _gain(accountant: Accountant, q: Question) -> float:
    """Upper bound of an observer's advantage in guessing a label; see `Answer.advantage`.

    Args:
        accountant: computes the privacy of what the observer sees. q: the question; only its K is used.
    """
    return guessing_advantage.advantage(accountant, np.full(q.num_classes, 1.0 / q.num_classes)).upper


def observer_of(q: Question) -> Accountant:
    """The accountant that answers a question: it computes the privacy against the observer named by `q.observer`.

    Raises:
        InputError: the observer is unknown, or no bound is known for these options together.
        ValueError: a value is outside its range.
    """
    if q.observer not in OBSERVERS:
        raise InputError(
            f"--observer {q.observer}: must be one of {', '.join(OBSERVERS)}{nearest(q.observer, OBSERVERS)}"
        )
    if q.members is None and q.observer == "coalition":
        raise InputError("--observer coalition: needs --members, the number of users in the coalition, at least 1")
    if q.members is not None and q.observer != "coalition":
        raise InputError(f"--members {q.members}: goes with --observer coalition")
    peer_weights(q.peers)
    if q.observer == "eavesdropper" and (q.cluster_size is None or q.num_classes > 2):
        return Eavesdropper(q.flip_prob, q.num_classes)
    if q.degree is not None:
        return on_overlay(q, users_of(q), q.degree)
    if q.num_classes > 2 or q.peers != 1:
        return _of_classes_or_peers(q, users_of(q))
    return _of_labels(q, users_of(q))


def _of_classes_or_peers(q: Question, users: int) -> Accountant:
    """The accountant of the question's observer for more than two classes, or for users who ask several peers.

    Args:
        q: the question, with its observer, classes, peers and rounds. users: the number of users in the cluster.

    Raises:
        InputError: a coalition's number of members is outside its range. Or the observer is the learner, and there are
            several rounds and more than two classes.
    """
    if q.observer == "coalition":
        if not 1 <= (q.members or 0) < users:
            raise InputError(f"--members {q.members}: must lie in 1..{users - 1}")
        return MajorityCoalition(users, q.flip_prob, q.members or 0, q.peers, q.num_classes, q.rounds)
    if q.observer == "peer" and q.num_classes == 2 and q.rounds == 1:
        return Peer(users, q.flip_prob, q.peers)
    if q.observer != "learner":  # only ε₀ is known, as in a run
        return Eavesdropper(q.flip_prob, q.num_classes, q.observer)
    if q.num_classes == 2:
        return MajorityExchange(users, q.flip_prob, q.sampling_rate, q.peers, q.rounds)
    if q.rounds > 1:
        raise InputError(
            f"--num-classes {q.num_classes}: the learner's ε is known for a single round; --observer eavesdropper "
            "has an ε for any number of rounds, which holds against the learner too"
        )
    exchange = KaryExchange if q.peers == 1 else PluralityExchange
    return exchange(users, q.flip_prob, q.sampling_rate, q.num_classes)


def _of_labels(q: Question, users: int) -> Observer:
    """The accountant of the question's observer for two classes, if every user asks one peer.

    Args:
        q: the question, with its observer and rounds. users: the number of users in the cluster.

    Raises:
        InputError: the observer is a peer, and there are several rounds.
    """
    any_flip_prob = q.observer in ("peer", "eavesdropper")  # their accountants allow α that `LabelExchange` refuses
    exchange = LabelExchange(users, 0.5 if any_flip_prob else q.flip_prob, q.sampling_rate, q.rounds)
    if q.observer == "peer" and q.rounds > 1:
        raise InputError(f"--rounds {q.rounds}: the ε against a peer is known for a single round only")
    match q.observer:
        case "peer":
            return Peer(users, q.flip_prob)
        case "coalition":
            return Coalition(exchange, q.members or 0)
        case "learner-times":
            return TimedLearner(exchange)
        case "eavesdropper":
            return Eavesdropper(q.flip_prob)
        case _:
            return exchange


def on_overlay(q: Question, users: int, degree: int) -> RegularExchange:
    """The accountant of the learner on a regular overlay: each user asks one of `degree` neighbours.

    Args:
        q: the question. users: the number of users in the cluster. degree: the number of neighbours of each user, at
        least 1.

    Raises:
        InputError: the question is about another observer, more than two classes, several peers or rounds, or too many
        neighbours.
    """
    if q.observer != "learner" or q.num_classes > 2 or q.rounds > 1 or q.peers != 1:
        raise InputError(f"--degree {degree}: needs --observer learner, two classes, one peer and one round")
    if not 1 <= degree <= largest_degree(users):
        raise InputError(f"--degree {degree}: must be a whole number from 1 to {largest_degree(users):,}")
    return RegularExchange(degree, q.flip_prob, q.sampling_rate)


def largest_degree(users: int) -> int:
    """The largest number of neighbours of each of n = `users` users on a regular overlay: n-1, but at most 4,000.

    The accountant's table has about as many entries as the square of the number of neighbours.
    """
    return min(LARGEST_DEGREE, users - 1)


@answering()
def certified(q: Question, delta: float, epsilon: float | None) -> str:
    """The text of a certificate that the exchange is (ε, δ)-private against the learner.

    The program at `verifier_source` checks certificates without the rest of this project.

    Args:
        q: the question, with the exchange's options. delta: δ. epsilon: ε; None: the ε that the accountant computes at
        δ.

    Raises:
        InputError: a value is outside its range, or (ε, δ) cannot be proved.
    """
    from p2p_sim.privacy import certificate

    return certificate(LabelExchange(q.cluster_size or 0, q.flip_prob, q.sampling_rate, q.rounds), delta, epsilon)


def verifier_source() -> Path:
    """The path of the stand-alone program that checks certificates."""
    from p2p_sim.privacy.certificates import verify_certificate

    return Path(verify_certificate.__file__)
