"""Where a bound of the label exchange holds: the situation it is asked about, and what it requires of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context

from p2p_sim.privacy.conditions import Condition


@dataclass(frozen=True)
class Situation:
    """How labels reach the learner, and who observes: this decides whether a bound applies, besides its parameters.

    num_classes: K. message: what a message carries, "label" for flipped labels.
    faults: configuration keys by which the network differs from a network on which every user gets the label of a
        uniform member of her cluster and every submission arrives; every key counts unless it is known to be harmless.
    roles: configuration keys by which users differ from users who follow the protocol and tell others nothing.
    rounds: R, exchanges that repeat the same noisy labels. fresh: whether every round draws new noise.
    oracle: whether the choice of a parameter used the labels. several: whether a user asks several peers and submits
        the majority of their labels.
    observer: one of `bound.OBSERVERS`.
    """

    num_classes: int = 2
    message: str = "label"
    faults: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    rounds: int = 1
    fresh: bool = False
    oracle: bool = False
    observer: str = "learner"
    several: bool = False


Requirement = Callable[[Situation], Condition | None]
"""Says which condition fails in a situation; None where it holds."""


def _two_classes(asked: Situation) -> Condition | None:
    text = f"it is for two classes, not {asked.num_classes}"
    return Condition("two-classes", text) if asked.num_classes != 2 else None


def _flipped_labels(asked: Situation) -> Condition | None:
    text = f"it is for flipped labels, not for messages of kind {asked.message!r}"
    return Condition("flipped-labels", text) if asked.message != "label" else None


def _complete_fetching(asked: Situation) -> Condition | None:
    text = "it needs everybody to fetch from her whole cluster, without a fault"
    return Condition("complete-fetching", f"{text} ({asked.faults[0]} differs)") if asked.faults else None


def _one_peer(asked: Situation) -> Condition | None:
    text = "it is for users who ask one peer, not for the majority of several"
    return Condition("one-peer", text) if asked.several else None


def _nobody_else(asked: Situation) -> Condition | None:
    text = "it needs everybody to follow the protocol and to tell nobody"
    return Condition("no-onlooker", f"{text} ({asked.roles[0]} differs)") if asked.roles else None


def _single_round(asked: Situation) -> Condition | None:
    return Condition("single-round", f"it is for one exchange, not {asked.rounds}") if asked.rounds > 1 else None


def _same_noise(asked: Situation) -> Condition | None:
    text = "it is for users who repeat their noisy label, not for new noise in every round"
    return Condition("same-noise", text) if asked.fresh and asked.rounds > 1 else None


def _fixed_parameters(asked: Situation) -> Condition | None:
    text = "it is for parameters that do not depend on labels"
    return Condition("fixed-parameters", text) if asked.oracle else None


def _for_learner(asked: Situation) -> Condition | None:
    text = f"it is about a learner who sees the set of submissions, not about the observer {asked.observer!r}"
    return Condition("for-learner", text) if asked.observer != "learner" else None


def _unlisted(asked: Situation) -> Condition | None:
    return Condition("unlisted", "nobody has said where it applies")


UNLISTED: tuple[Requirement, ...] = (_unlisted,)
"""What is required of a situation while nothing has been said of it: no situation fits."""
ANYWHERE: tuple[Requirement, ...] = ()
"""What a mechanism requires that exchanges nothing."""
PLURALITY: tuple[Requirement, ...] = (
    *(_flipped_labels, _for_learner, _complete_fetching, _nobody_else, _same_noise, _single_round),
)
"""What a bound for the plurality of peers' flipped labels requires."""
MAJORITY: tuple[Requirement, ...] = (
    *(_flipped_labels, _two_classes, _for_learner, _complete_fetching, _nobody_else, _same_noise),
)
"""What the exact bound for the majority of peers' labels requires, of any number of rounds."""
ANY_MESSAGE: tuple[Requirement, ...] = (_one_peer, *PLURALITY[1:])
"""What a bound for messages of any kind requires."""
ANY_CLASSES: tuple[Requirement, ...] = (_one_peer, *PLURALITY)
"""What a bound for flipped labels of any number of classes requires."""
LEARNER: tuple[Requirement, ...] = (_one_peer, *MAJORITY)
"""What the exact bound requires, of any number of rounds."""
REALISED: tuple[Requirement, ...] = (_flipped_labels, _two_classes, _one_peer, _same_noise)
"""What the bounds for realised networks require: faults and roles are in what they are built from."""
INSIDERS: tuple[Requirement, ...] = (*REALISED, _complete_fetching)
"""What the bounds for peers, coalitions and learners who see times require."""
PAPER: tuple[Requirement, ...] = (*LEARNER, _single_round, _fixed_parameters)
"""What the clustering paper's bounds on the exchange require."""

MODELS: tuple[Requirement, ...] = (_two_classes, _nobody_else, _single_round, _fixed_parameters)
"""What the bound for private models of organisations requires: faults of the network are none of its business."""


def first_failure(requirements: Sequence[Requirement], situation: Situation) -> Condition | None:
    """The first condition that fails; None if the bound applies."""
    return next((fails for requirement in requirements if (fails := requirement(situation)) is not None), None)


@dataclass(frozen=True)
class Stated:
    """A paper's ε, or why it does not apply.

    epsilon: ε as the paper states it; None if a condition fails. fails: the first condition that fails.
    """

    epsilon: float | None
    fails: Condition | None = None

    def __str__(self) -> str:
        """Four digits, rounded up, or why the bound does not apply."""
        if self.epsilon is not None:
            rounded = Context(prec=4, rounding=ROUND_CEILING).create_decimal_from_float(self.epsilon)
            return f"{float(rounded):.4g}"
        return "not applicable" if self.fails is None else f"not applicable: {self.fails}"
