"""Which flip probability, or how many neighbours, bring an observer's ε to a target, as the command line asks."""

from collections.abc import Sequence
from dataclasses import dataclass

from p2p_sim.base.errors import InputError
from p2p_sim.privacy import Accountant, PrivacyBound, local_epsilon
from p2p_sim.privacy.bound import check_delta, check_positive_epsilon
from p2p_sim.privacy.exchange.best_peers import NO_ERROR, missed
from p2p_sim.privacy.exchange.calibration import few_digits, smallest_flip_prob
from p2p_sim.privacy.exchange.majority_kernel import MajorityKernel
from p2p_sim.privacy.overlays.regular_overlay import RegularExchange, smallest_degree
from p2p_sim.privacy.questions import RATED, Question, answering, largest_degree, observer_of, on_overlay, users_of
from p2p_sim.privacy.randomized_response import local_flip_prob

MOST_COMPARED = 10_000
"""Most users of a cluster in which numbers of peers are compared; in larger ones hardly any misses a majority."""


@dataclass(frozen=True)
class Calibration:
    """The flip probability that brings an observer's ε to a target: one for all clusters, and one for each cluster
    size.

    flip_prob, each: numbers of few digits, rounded up, so that the target holds at them as they are printed. bound:
    what is certified at `flip_prob`. sampling_rate: θ; None for an observer whose figure holds for every θ. members: of
    a coalition, else None. local: ε₀, which the noise on a label alone gives at `flip_prob`. noise_alone: whether no
    flip probability of three digits below that of the noise alone is certified.
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
    """The smallest flip probabilities that bring an observer's ε to the target, with the ε certified at them.

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

    def sees(alpha: float, size: int) -> Accountant:
        return observer_of(
            Question(size, alpha, theta, observer, members, num_classes=num_classes, degree=degree, peers=peers)
        )

    def certified(alpha: float, size: int) -> bool:
        # of a majority without noise no figure is known
        return (alpha > 0.0 or peers == 1) and sees(alpha, size).satisfies(epsilon, delta)

    with answering():
        check_delta(delta)
        check_positive_epsilon(epsilon)
        # the smallest α of each size, then the numbers of few digits that are printed
        exact = {size: smallest_flip_prob(certified, [size], num_classes, epsilon) for size in sorted(set(sizes))}
        noise_alone = max(exact.values()) >= local_flip_prob(epsilon, num_classes)
        each = {size: few_digits(alpha, num_classes) for size, alpha in exact.items()}
        alpha = max(each.values())
        bounds = [sees(alpha, size).epsilon(delta) for size in each]
    worst = max(bounds, key=lambda bound: bound.epsilon_upper)
    theta_or_any = sampling_rate if observer in RATED else None
    local = local_epsilon(alpha, num_classes)
    return Calibration(
        sampling_rate=theta_or_any,
        epsilon=epsilon,
        flip_prob=alpha,
        each=each,
        bound=worst,
        local=local,
        noise_alone=noise_alone,
        members=members,
    )


@dataclass(frozen=True)
class PeersComparison:
    """Numbers of peers at the same target, each with the noise that it needs and how often it misses a majority.

    majority: share of a cluster's users who hold its commoner label. calibrations: by the number of peers.
    errors: probability that most submissions are not that label, in the cluster where this is likeliest.
    """

    majority: float
    calibrations: dict[int, Calibration]
    errors: dict[int, float]

    @property
    def best(self) -> int:
        """The number of peers with the least error, the smallest of those whose errors are as good as 0."""
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
    """Calibrate each number of peers to the learner's (ε, δ); all that is looked at is public.

    Args:
        sizes: of the clusters. numbers: of peers, odd. sampling_rate, epsilon, delta: as of `calibrated`.
        majority: share of the users of a mixed cluster who hold its commoner label, above 1/2 and at most 1.

    Raises:
        InputError: a value outside its range or missing.
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
        calibration = calibrated(sizes, 2, sampling_rate, epsilon=epsilon, delta=delta, peers=k)
        kernel, rate = MajorityKernel(((k, 1.0),)), sampling_rate or 1.0
        calibrations[k] = calibration
        errors[k] = max(missed(size, calibration.flip_prob, kernel, rate, majority) for size in set(sizes))
    return PeersComparison(majority, calibrations, errors)


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
    """The smallest degree of a regular overlay found at which the learner's (ε, δ) holds; the question's own degree
    plays no part.

    Raises:
        InputError: a value outside its range, or another observer than the learner of two classes.
    """
    users = users_of(q)
    with answering():
        check_delta(delta)
        check_positive_epsilon(epsilon)
        # beside the smallest degree: everybody as a neighbour, and the most neighbours that are tried
        everybody = observer_of(q).epsilon(delta)
        most = largest_degree(users)
        widest = on_overlay(q, users, most)
        rates = {"flip_prob": q.flip_prob, "sampling_rate": q.sampling_rate}
        degree = smallest_degree(most, **rates, epsilon=epsilon, delta=delta)
        accountant = widest if degree is None else RegularExchange(degree, **rates)
        return EnoughNeighbours(
            degree=degree,
            most=most,
            target=epsilon,
            bound=accountant.epsilon(delta),
            everybody=everybody,
            local=local_epsilon(q.flip_prob),
        )
