"""Which flip probability, or how many neighbours, bring an observer's ε to a target, as the command line asks."""

from collections.abc import Sequence
from dataclasses import dataclass

from p2p_sim.base.errors import InputError
from p2p_sim.privacy import KaryExchange, PrivacyBound, local_epsilon
from p2p_sim.privacy.bound import check_delta, check_positive_epsilon
from p2p_sim.privacy.exchange.calibration import few_digits, smallest_flip_prob
from p2p_sim.privacy.exchange.majority_exchange import MajorityExchange
from p2p_sim.privacy.exchange.observers import Observer
from p2p_sim.privacy.overlays.regular_overlay import RegularExchange, smallest_degree
from p2p_sim.privacy.questions import RATED, Question, answering, largest_degree, observer_of, on_overlay, users_of
from p2p_sim.privacy.randomized_response import local_flip_prob


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
