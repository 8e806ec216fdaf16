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
"""Largest cluster in which numbers of peers are compared. In larger clusters the majority of submissions is nearly
always the commoner label."""


@dataclass(frozen=True)
class Calibration:
    """The flip probabilities that bring an observer's ε to a target.

    sampling_rate: θ; None for an observer whose ε holds for every θ. epsilon: the target.
    flip_prob: α for all clusters. each: α by cluster size. Each α is rounded up to few significant digits, so that the
        target holds for α as it is printed.
    bound: the statement at `flip_prob`. local: ε₀ of a noisy label alone at `flip_prob`.
    noise_alone: whether α must be so large that already ε₀, the ε of the noise alone, is at most the target; then the
        exchange adds nothing.
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
    """The smallest flip probabilities α found that bring an observer's ε at δ to the target: one for each cluster size,
    and their maximum for all clusters. Each is rounded up to few digits. The result also has the ε that is certified at
    the maximum.

    Args:
        sizes: sizes of the clusters. num_classes: K. sampling_rate: θ, the probability that a user passes a label to
        the learner; needed if the observer is the learner or a coalition, else None is allowed. epsilon, delta: the
        target. observer: learner, learner-times (sees arrival times too), peer, coalition or eavesdropper. members:
        number of members if the observer is a coalition, else None. degree: number of neighbours whom each user may
        ask, on a random regular overlay; None: everybody in her cluster. peers: k, how many peers each user asks; if
        she asks several, she submits the commonest of their noisy labels.

    Raises:
        InputError: when a value is missing or outside its range, or no ε is known for this combination of observer,
        classes, degree and peers.
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
        # for a majority of labels without noise no bound is known
        return (alpha > 0.0 or peers == 1) and sees(alpha, size).satisfies(epsilon, delta)

    with answering():
        check_delta(delta)
        check_positive_epsilon(epsilon)
        # the smallest α of each size, then rounded up to the few digits that are printed
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
    """For several numbers of peers at the same target: the noise that each number needs, and its probability of error.

    majority: share of a cluster's users who hold its commoner label. calibrations: by number of peers, the noise.
    errors: by number of peers, the probability that the commoner label is not the majority of submissions, where a tie
        counts half; the largest over the cluster sizes.
    """

    majority: float
    calibrations: dict[int, Calibration]
    errors: dict[int, float]

    @property
    def best(self) -> int:
        """The number of peers with the smallest error: the smallest probability that the majority of submissions is not
        the commoner label of the cluster. Errors up to 1e-12 count as equal; if errors are equal, the smallest number
        of peers is taken.
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
    """Compare how many peers each user should ask. For each number of peers, the result has the smallest α found that
    brings the learner's ε at δ to the target, and the error at this α: the probability that the majority of submissions
    is not the label that more users of the cluster hold; a tie counts half. Only public values are
    used; labels have two classes.

    Args:
        sizes: sizes of the clusters, at most 10,000; the error is the largest over them. numbers: numbers of peers,
        odd. sampling_rate: θ, the probability that a user submits. epsilon, delta: the target. majority: share of a
        cluster's users who hold its commoner label, above 1/2 and at most 1.

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
    """The smallest number of neighbours, among those tried, that brings the learner's ε to a target.

    degree: number of neighbours on a regular overlay; None if no number up to `most` was found that reaches the target.
    target: ε.
    bound: the statement with this degree, or with `most` neighbours if `degree` is None. everybody: the statement if
        users may ask everybody. local: ε₀ of a noisy label alone.
    """

    degree: int | None
    most: int
    target: float
    bound: PrivacyBound
    everybody: PrivacyBound
    local: float


def enough_neighbours(q: Question, epsilon: float, delta: float) -> EnoughNeighbours:
    """The smallest number of neighbours per user, among those that bisection tries, at which (ε, δ) is certified
    against the learner. Users may ask only their neighbours, on a random overlay in which all have the same number of
    neighbours. The result also has ε at this number (or, if no number reaches the target, at the largest number tried),
    ε if users may ask everybody, and ε₀ of the noisy label alone.

    Args:
        q: cluster size, α, θ and observer; its number of neighbours must be None, since the ε if users may ask
        everybody is that of this question. epsilon, delta: the target.

    Raises:
        InputError: when a value is missing or outside its range, or the question is about another observer than the
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
