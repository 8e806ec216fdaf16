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


@dataclass(frozen=True)
class _Rule:
    """One requirement of a bound: a condition, and a test whether a situation violates it.

    identifier, text: of the condition that fails; the text may name fields of the situation, which is {0} in it. fails:
    whether it fails in a situation.
    """

    identifier: str
    text: str
    fails: Callable[[Situation], object]

    def __call__(self, situation: Situation) -> Condition | None:
        return Condition(self.identifier, self.text.format(situation)) if self.fails(situation) else None


_UNLISTED = _Rule("unlisted", "nobody has said where it applies", lambda s: True)
_TWO_CLASSES = _Rule("two-classes", "it is for two classes, not {0.num_classes}", lambda s: s.num_classes != 2)
_FLIPPED_LABELS = _Rule(
    "flipped-labels", "it is for flipped labels, not for messages of kind {0.message!r}", lambda s: s.message != "label"
)
_COMPLETE_FETCHING = _Rule(
    "complete-fetching",
    "it needs everybody to fetch from her whole cluster, without a fault ({0.faults[0]} differs)",
    lambda s: s.faults,
)
_ONE_PEER = _Rule("one-peer", "it is for users who ask one peer, not for the majority of several", lambda s: s.several)
_NOBODY_ELSE = _Rule(
    "no-onlooker",
    "it needs everybody to follow the protocol and to tell nobody ({0.roles[0]} differs)",
    lambda s: s.roles,
)
_SINGLE_ROUND = _Rule("single-round", "it is for one exchange, not {0.rounds}", lambda s: s.rounds > 1)
_SAME_NOISE = _Rule(
    "same-noise",
    "it is for users who repeat their noisy label, not for new noise in every round",
    lambda s: s.fresh and s.rounds > 1,
)
_FIXED_PARAMETERS = _Rule("fixed-parameters", "it is for parameters that do not depend on labels", lambda s: s.oracle)
_FOR_LEARNER = _Rule(
    "for-learner",
    "it is about a learner who sees the set of submissions, not about the observer {0.observer!r}",
    lambda s: s.observer != "learner",
)

UNLISTED: tuple[Requirement, ...] = (_UNLISTED,)
"""What is required of a situation while nothing has been said of it: no situation fits."""
ANYWHERE: tuple[Requirement, ...] = ()
"""What a mechanism requires that exchanges nothing."""
PLURALITY: tuple[Requirement, ...] = (
    *(_FLIPPED_LABELS, _FOR_LEARNER, _COMPLETE_FETCHING, _NOBODY_ELSE, _SAME_NOISE, _SINGLE_ROUND),
)
"""What a bound for the plurality of peers' flipped labels requires."""
MAJORITY: tuple[Requirement, ...] = (
    *(_FLIPPED_LABELS, _TWO_CLASSES, _FOR_LEARNER, _COMPLETE_FETCHING, _NOBODY_ELSE, _SAME_NOISE),
)
"""What the exact bound for the majority of peers' labels requires, of any number of rounds."""
ANY_MESSAGE: tuple[Requirement, ...] = (_ONE_PEER, *PLURALITY[1:])
"""What a bound for messages of any kind requires."""
ANY_CLASSES: tuple[Requirement, ...] = (_ONE_PEER, *PLURALITY)
"""What a bound for flipped labels of any number of classes requires."""
LEARNER: tuple[Requirement, ...] = (_ONE_PEER, *MAJORITY)
"""What the exact bound requires, of any number of rounds."""
REALISED: tuple[Requirement, ...] = (_FLIPPED_LABELS, _TWO_CLASSES, _ONE_PEER, _SAME_NOISE)
"""What the bounds for realised networks require: faults and roles are in what they are built from."""
INSIDERS: tuple[Requirement, ...] = (*REALISED, _COMPLETE_FETCHING)
"""What the bounds for peers, coalitions and learners who see times require."""
PLURALITY_INSIDERS: tuple[Requirement, ...] = (_FLIPPED_LABELS, _SAME_NOISE, _COMPLETE_FETCHING)
"""What the bound for a coalition among users who ask several peers requires."""
PAPER: tuple[Requirement, ...] = (*LEARNER, _SINGLE_ROUND, _FIXED_PARAMETERS)
"""What the clustering paper's bounds on the exchange require."""

MODELS: tuple[Requirement, ...] = (_TWO_CLASSES, _NOBODY_ELSE, _SINGLE_ROUND, _FIXED_PARAMETERS)
"""What the bound for private models of organisations requires: faults of the network are none of its business."""


def first_failure(requirements: Sequence[Requirement], situation: Situation) -> Condition | None:
    """The first of a bound's requirements that fails in a situation, as a condition; None if the bound applies."""
    return next((fails for requirement in requirements if (fails := requirement(situation)) is not None), None)


@dataclass(frozen=True)
class Stated:
    """A paper's ε, or why it does not apply.

    epsilon: ε as the paper states it; None if a condition fails. fails: the first condition that fails.
    """

    epsilon: float | None
    fails: Condition | None = None

    def __str__(self) -> str:
        """ε in four digits, rounded up, or why the bound does not apply."""
        if self.epsilon is not None:
            rounded = Context(prec=4, rounding=ROUND_CEILING).create_decimal_from_float(self.epsilon)
            return f"{float(rounded):.4g}"
        return "not applicable" if self.fails is None else f"not applicable: {self.fails}"
