"""Where a privacy bound of the label exchange holds: situations, and what a bound requires of a situation."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context

from p2p_sim.privacy.conditions import Condition


@dataclass(frozen=True)
class Situation:
    """How labels reach the learner, and who observes.

    num_classes: K. message: what a message carries, "label" for flipped labels.
    faults: configuration keys that change the network. Without a fault, every user gets the label of a uniform member
        of her cluster, and every submission arrives. A key counts as a fault unless it is known to be harmless.
    roles: configuration keys that let users break the protocol or tell others what they know.
    rounds: number of exchanges. fresh: whether every exchange draws new noise; otherwise all use the same noisy labels.
    oracle: whether a parameter was chosen by looking at labels. observer: one of `bound.OBSERVERS`.
    several: whether a user asks several peers and submits the majority of their labels.
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


@dataclass(frozen=True)
class Requirement:
    """A requirement of a bound: a condition, and a test of whether a situation violates the condition.

    identifier, text: of the condition. In the text, {0} stands for the situation, as in "{0.rounds}".
    fails: a function that is true for a situation in which the condition fails.
    """

    identifier: str
    text: str
    fails: Callable[[Situation], object]


Requirements = tuple[Requirement, ...]

_TWO_CLASSES = Requirement("two-classes", "it is for two classes, not {0.num_classes}", lambda s: s.num_classes != 2)
_FLIPPED_LABELS = Requirement(
    "flipped-labels", "it is for flipped labels, not for messages of kind {0.message!r}", lambda s: s.message != "label"
)
_COMPLETE_FETCHING = Requirement(
    "complete-fetching",
    "it needs a network without faults, in which users may ask anybody in their cluster (changed: {0.faults[0]})",
    lambda s: s.faults,
)
_ONE_PEER = Requirement(
    "one-peer", "it is for users who ask one peer, not for the majority of several", lambda s: s.several
)
_NOBODY_ELSE = Requirement(
    "no-onlooker",
    "it needs everybody to follow the protocol and to tell nobody what they know (changed: {0.roles[0]})",
    lambda s: s.roles,
)
_SINGLE_ROUND = Requirement("single-round", "it is for one exchange, not {0.rounds}", lambda s: s.rounds > 1)
_SAME_NOISE = Requirement(
    "same-noise",
    "it is for users who repeat their noisy label, not for new noise in every round",
    lambda s: s.fresh and s.rounds > 1,
)
_FIXED_PARAMETERS = Requirement(
    "fixed-parameters", "it is for parameters that do not depend on labels", lambda s: s.oracle
)
_FOR_LEARNER = Requirement(
    "for-learner",
    "it is about a learner who sees the set of submissions, not about the observer {0.observer!r}",
    lambda s: s.observer != "learner",
)

UNLISTED: Requirements = (Requirement("unlisted", "nobody has said where it applies", lambda s: True),)
"""For an accountant (an object that bounds ε and δ) without stated requirements: a requirement that always fails."""
ANYWHERE: Requirements = ()
"""No requirements, as for a mechanism in which users exchange nothing."""
PLURALITY: Requirements = (_FLIPPED_LABELS, _FOR_LEARNER, _COMPLETE_FETCHING, _NOBODY_ELSE, _SAME_NOISE, _SINGLE_ROUND)
"""Requirements of a bound for users who submit the commonest of their peers' flipped labels."""
MAJORITY: Requirements = (_FLIPPED_LABELS, _TWO_CLASSES, _FOR_LEARNER, _COMPLETE_FETCHING, _NOBODY_ELSE, _SAME_NOISE)
"""Requirements of the exact bound for the majority of several peers' labels, in any number of rounds."""
ANY_MESSAGE: Requirements = (_ONE_PEER, *PLURALITY[1:])
"""Requirements of a bound for messages of any kind."""
ANY_CLASSES: Requirements = (_ONE_PEER, *PLURALITY)
"""Requirements of a bound for flipped labels of any number of classes."""
LEARNER: Requirements = (_ONE_PEER, *MAJORITY)
"""Requirements of the exact bound for the label exchange, in any number of rounds."""
REALISED: Requirements = (_FLIPPED_LABELS, _TWO_CLASSES, _ONE_PEER, _SAME_NOISE)
"""Requirements of the bounds for realised networks (what happened in a run), overlays (who may ask whom) and
eavesdroppers. The parameters of the first two bounds already include faults and roles."""
INSIDERS: Requirements = (*REALISED, _COMPLETE_FETCHING)
"""Requirements of the bounds for a peer, for a coalition, and for a learner who also sees when submissions arrive."""
PLURALITY_INSIDERS: Requirements = (_FLIPPED_LABELS, _SAME_NOISE, _COMPLETE_FETCHING)
"""Requirements of the bound for a coalition if users ask several peers."""
PAPER: Requirements = (*LEARNER, _SINGLE_ROUND, _FIXED_PARAMETERS)
"""Requirements of the clustering paper's bounds on the exchange."""
MODELS: Requirements = (_TWO_CLASSES, _NOBODY_ELSE, _SINGLE_ROUND, _FIXED_PARAMETERS)
"""Requirements of the bound for organisations that exchange differentially private models. No fault of the network
affects this bound."""


def first_failure(requirements: Requirements, situation: Situation) -> Condition | None:
    """The first condition of a privacy bound that fails in a situation; None if the bound applies.

    Args:
        requirements: the bound's requirements, in order. situation: how labels reach the learner, and who observes.
    """
    failed = next((requirement for requirement in requirements if requirement.fails(situation)), None)
    return None if failed is None else Condition(failed.identifier, failed.text.format(situation))


@dataclass(frozen=True)
class Stated:
    """A paper's ε, or the reason why the paper's bound does not apply.

    epsilon: ε as the paper states it; None if a condition fails or ε was not computed.
    fails: the first condition that fails, or None.
    """

    epsilon: float | None
    fails: Condition | None = None

    def __str__(self) -> str:
        """ε with four significant digits, rounded up, or the reason why the bound does not apply."""
        if self.epsilon is not None:
            rounded = Context(prec=4, rounding=ROUND_CEILING).create_decimal_from_float(self.epsilon)
            return f"{float(rounded):.4g}"
        return "not applicable" if self.fails is None else f"not applicable: {self.fails}"
