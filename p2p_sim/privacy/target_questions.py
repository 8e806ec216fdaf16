"""For `p2p-sim calibrate`: the flip probability, or the number of neighbours, that brings ε to a target."""

from collections.abc import Sequence
from dataclasses import dataclass

from p2p_sim.base import InputError
from p2p_sim.privacy import Accountant, PrivacyBound, local_epsilon
from p2p_sim.privacy.bound import RATED, check_delta, check_positive_epsilon
from p2p_sim.privacy.exchange import NO_ERROR, MajorityKernel, few_digits, missed, smallest_flip_prob
from p2p_sim.privacy.overlays import RegularExchange, smallest_degree
from p2p_sim.privacy.questions import Question, answering, largest_degree, observer_of, on_overlay, users_of
from p2p_sim.privacy.randomized_response import local_flip_prob

MOST_COMPARED = 10_000
"""Largest cluster for which `compared_peers` compares how many peers to ask. In larger clusters, the majority of
submissions is nearly always the label that more users hold."""


@dataclass(frozen=True)
class Calibration:
    """The flip probabilities α that bring an observer's ε to a target.

    sampling_rate: θ; None: the observer's ε holds for every θ. epsilon: the target.
    flip_prob: α for all clusters. each: α by cluster size. Each α is rounded up to few digits, as printed, and the
        target holds for the rounded α.
    bound: the statement at `flip_prob`. local: ε₀, the ε of the noise on one label alone, at `flip_prob`.
    noise_alone: whether α must be so large that ε₀ itself is at most the target. The exchange then adds nothing.
    members: number of members if the observer is a coalition, else None.
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
    *,
    epsilon: float,
    delta: float,
    observer: str = "learner",
    members: int | None = None,
    degree: int | None = None,
    peers: int = 1,
) -> Calibration:
    """For each cluster size, the smallest flip probability α found to bring an observer's ε at δ to the target.

    Each α is rounded up to few digits. The largest α serves for all clusters; the result also has ε at this α.

    Args:
        sizes: sizes of the clusters. num_classes: K. sampling_rate: θ, the probability that a user passes a label to
        the learner; θ may be None for observers other than the learner and coalitions. epsilon, delta: the target.
        observer: learner, learner-times (sees arrival times too), peer, coalition or eavesdropper. members: number of
        members if the observer is a coalition, else None. degree: number of neighbours (the only users whom a user may
        ask) on a random regular overlay; None: users may ask everybody in their cluster. peers: k, the number of peers
        whom each user asks. She submits the commonest of their noisy labels.

    Raises:
        InputError: a value is missing or outside its range, or no ε is known for this combination of observer, classes,
        degree and peers.
    """
    if sampling_rate is None and observer in RATED:
        raise InputError(
            f"--sampling-rate: is missing, and the {observer}'s ε depends on it; "
            "give θ, above 0 and at most 1 (1: every user passes a label on)"
        )
    theta = 1.0 if sampling_rate is None else sampling_rate

    def sees(alpha: float, size: int) -> Accountant:
        return observer_of(
            Question(size, alpha, theta, observer, members, num_classes=num_classes, degree=degree, peers=peers)
        )

    def certified(alpha: float, size: int) -> bool:
        # no bound is known for a majority of labels without noise
        return (alpha > 0.0 or peers == 1) and sees(alpha, size).satisfies(epsilon, delta)

    with answering():
        check_delta(delta)
        check_positive_epsilon(epsilon)
        # the smallest α of each size, and the same rounded up to the few digits that are printed
        exact = {size: smallest_flip_prob(certified, [size], num_classes, epsilon) for size in sorted(set(sizes))}
        each = {size: few_digits(alpha, num_classes) for size, alpha in exact.items()}
        alpha = max(each.values())
        bounds = [sees(alpha, size).epsilon(delta) for size in each]
    return Calibration(
        sampling_rate=sampling_rate if observer in RATED else None,
        epsilon=epsilon,
        flip_prob=alpha,
        each=each,
        bound=max(bounds, key=lambda bound: bound.epsilon_upper),
        local=local_epsilon(alpha, num_classes),
        noise_alone=max(exact.values()) >= local_flip_prob(epsilon, num_classes),
        members=members,
    )


@dataclass(frozen=True)
class PeersComparison:
    """For several numbers of peers: the noise that brings ε to the same target, and the probability of an error.

    An error means that the majority of submissions is not the label that more users hold. A tie counts half.
    majority: share of a cluster's users who hold the commoner label. calibrations: the noise, by number of peers.
    errors: the probability of an error, by number of peers; the largest over the cluster sizes.
    """

    majority: float
    calibrations: dict[int, Calibration]
    errors: dict[int, float]

    @property
    def best(self) -> int:
        """The number of peers with the smallest probability of an error.

        Probabilities up to 1e-12 count as equal. Among equal probabilities, the smallest number of peers is taken.
        """
        return min(self.errors, key=lambda k: (max(self.errors[k], NO_ERROR), k))


def compared_peers(
    sizes: Sequence[int],
    numbers: Sequence[int],
    sampling_rate: float | None,
    *,
    epsilon: float,
    delta: float,
    majority: float = 0.6,
) -> PeersComparison:
    """Compare how many peers each user should ask, from public values alone, for labels of two classes.

    For each number of peers, the result has the smallest α found to bring the learner's ε at δ to the target. It
    also has the probability of an error at this α. An error means that the majority of submissions is not the label
    that more users of the cluster hold; a tie counts half.

    Args:
        sizes: sizes of the clusters, at most 10,000; the largest error over the sizes counts. numbers: numbers of
        peers, odd. sampling_rate: θ, the probability that a user submits. epsilon, delta: the target. majority: share
        of a cluster's users who hold its commoner label, above 1/2 and at most 1.

    Raises:
        InputError: a value is missing or outside its range.
    """
    if not 0.5 < majority <= 1.0:
        raise InputError(f"--majority {majority:g}: must be above 0.5 and at most 1")
    if max(sizes) > MOST_COMPARED:
        raise InputError(
            f"--cluster-size {max(sizes)}: numbers of peers are compared in clusters of at most {MOST_COMPARED:,} "
            "users; give one --peers"
        )
    calibrations, errors = {}, {}
    for k in sorted(set(numbers)):
        calibrations[k] = calibrated(sizes, 2, sampling_rate, epsilon=epsilon, delta=delta, peers=k)
        alpha, kernel, rate = calibrations[k].flip_prob, MajorityKernel(((k, 1.0),)), sampling_rate or 1.0
        errors[k] = max(missed(size, alpha, kernel, rate, majority) for size in set(sizes))
    return PeersComparison(majority, calibrations, errors)


@dataclass(frozen=True)
class EnoughNeighbours:
    """The smallest number of neighbours found to bring the learner's ε to a target.

    degree: number of neighbours on a regular overlay; None: no number up to `most` was found that reaches the target.
    target: ε.
    bound: the statement with `degree` neighbours, or with `most` neighbours if `degree` is None. everybody: the
        statement if users may ask everybody. local: ε₀, the ε of the noise on one label alone.
    """

    degree: int | None
    most: int
    target: float
    bound: PrivacyBound
    everybody: PrivacyBound
    local: float


def enough_neighbours(q: Question, epsilon: float, delta: float) -> EnoughNeighbours:
    """The smallest number of neighbours found by bisection at which (ε, δ) is certified against the learner.

    Users may ask only their neighbours. All have the same number of neighbours, on a random overlay. The result also
    has ε at this number, or at the largest number tried if no number reaches the target. Two values serve for
    comparison: ε if users may ask everybody, and ε₀ of the noisy label alone.

    Args:
        q: cluster size, α, θ and observer; the number of neighbours must be None. epsilon, delta: the target.

    Raises:
        InputError: a value is missing or outside its range, or the question is about an observer other than the
        learner, more than two classes, several peers or several rounds.
    """
    users = users_of(q)
    with answering():
        check_delta(delta)
        check_positive_epsilon(epsilon)
        # values for comparison: the bound where users may ask everybody, and the bound with the largest degree
        everybody = observer_of(q).epsilon(delta)
        most = largest_degree(users)
        widest = on_overlay(q, users, most)
        rates = {"flip_prob": q.flip_prob, "sampling_rate": q.sampling_rate}
        degree = smallest_degree(most, **rates, epsilon=epsilon, delta=delta)
        return EnoughNeighbours(
            degree=degree,
            most=most,
            target=epsilon,
            bound=(widest if degree is None else RegularExchange(degree, **rates)).epsilon(delta),
            everybody=everybody,
            local=local_epsilon(q.flip_prob),
        )
