"""Configurations of what messages of the exchange may carry instead of flipped labels."""

import math
from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field

from p2p_sim.base.configuration import Config
from p2p_sim.base.errors import InputError
from p2p_sim.exchange.randomizer import Message, PayloadKind
from p2p_sim.mechanisms.alibi import Alibi, AlibiConfig
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.label_values import ValueMessage
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.mechanisms.released_values import BinsConfig, UnbiasedConfig, ValuesConfig, randomizer_at
from p2p_sim.mechanisms.rr_with_prior import RRWithPrior, RRWithPriorConfig, check_prior
from p2p_sim.mechanisms.vector_approximation import VectorApproximation, VectorApproximationConfig
from p2p_sim.privacy.exchange.calibration import largest_local_epsilon
from p2p_sim.privacy.rivals.alibi import noise_scale_of
from p2p_sim.privacy.rivals.unbiased_values import LARGEST_EPSILON
from p2p_sim.privacy.rivals.vector_approximation import bit_flip_prob_of


class MessageConfig(Config, ABC):
    """Base of the configurations of a message's randomizer."""

    epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε₀ of a single message, above 0 and at most 100. Give this or `mechanism.target_epsilon`, which chooses the
    largest sufficient ε₀ of three digits."""
    releases: ClassVar[PayloadKind]
    """The kind of release that the learner gets."""
    most: ClassVar[float] = math.inf
    """Largest ε₀ that `mechanism.target_epsilon` may choose."""

    def check(self, num_classes: int) -> None:
        """Raise InputError if parameters do not fit K classes; by default all do."""

    @abstractmethod
    def randomizer(self, epsilon: float, setup: Setup) -> Message:
        """The randomizer of a message at a local privacy parameter ε₀."""

    def calibrated(self, target: float | None, sampling_rate: float, setup: Setup) -> Message:
        """The randomizer at the stated ε₀, or at the largest ε₀ that keeps the learner's ε at most `target`."""
        self.check(setup.num_classes)
        if self.epsilon is not None:
            return self.randomizer(self.epsilon, setup)
        epsilon = cast(float, target)  # one of the two is given

        def certified(local: float, size: int) -> bool:
            if local > self.most:
                return False
            return self.randomizer(local, setup).exchanged(size, sampling_rate).satisfies(epsilon, setup.delta)

        local = largest_local_epsilon(certified, setup.sizes.tolist(), min(epsilon, self.most))
        return self.randomizer(local, setup)


class VectorMessages(MessageConfig):
    """A message carries the K bits of the one-hot label, each through randomised response."""

    kind: Literal["vector_approximation"] = "vector_approximation"
    releases: ClassVar[PayloadKind] = "bits"

    def randomizer(self, epsilon: float, setup: Setup) -> VectorApproximation:
        """Randomised response on each of K bits at ε₀/2, since two labels differ in two bits."""
        return VectorApproximation(bit_flip_prob_of(epsilon), setup.num_classes)


class AlibiMessages(MessageConfig):
    """A message carries a soft label: the one-hot label with Laplace noise, by Bayes' rule under the uniform prior."""

    kind: Literal["alibi"] = "alibi"
    releases: ClassVar[PayloadKind] = "soft"
    prior: Literal["uniform"] = "uniform"
    """Prior of Bayes' rule: "uniform", since a user has only her own message."""

    def randomizer(self, epsilon: float, setup: Setup) -> Alibi:
        """The ALIBI randomizer at ε₀, with Laplace noise of scale 2/ε₀."""
        return Alibi(noise_scale_of(epsilon), setup.num_classes)


class PriorMessages(MessageConfig):
    """A message carries a label through RRWithPrior, under a prior that all users share."""

    kind: Literal["rr_with_prior"] = "rr_with_prior"
    releases: ClassVar[PayloadKind] = "hard"
    stages: Literal[1] = 1
    """1: a user's message must not depend on others' messages."""
    prior: tuple[float, ...] | None = Field(default=None, min_length=2, max_length=256)
    """Common prior: K public probabilities that do not come from the labels; absent: all the same."""

    def check(self, num_classes: int) -> None:
        """Raise InputError if the prior is no distribution over K classes."""
        check_prior("mechanism.randomizer.prior", self.prior, num_classes)

    def randomizer(self, epsilon: float, setup: Setup) -> RRWithPrior:
        """Randomised response at ε₀ among the labels that are most likely under the public prior."""
        return RRWithPrior(epsilon, setup.num_classes, self.prior)


class _ValueMessages(MessageConfig, ValuesConfig):
    """Base of the configurations of messages that carry numbers."""

    releases: ClassVar[PayloadKind] = "values"
    most: ClassVar[float] = LARGEST_EPSILON
    epsilon: float | None = Field(default=None, gt=0, le=LARGEST_EPSILON)
    """ε₀ of a single message, above 0 and at most 10. Give this or `mechanism.target_epsilon`, which chooses the
    largest sufficient ε₀ of three digits."""

    def check(self, num_classes: int) -> None:
        """Raise InputError if the prior is no distribution over the k label values."""
        check_prior("mechanism.randomizer.prior", self.prior, num_classes)

    def randomizer(self, epsilon: float, setup: Setup) -> ValueMessage:
        """The randomizer at ε₀ for the public grid of numbers; an InputError if labels are classes."""
        return randomizer_at(self, epsilon, setup.values)


class BinMessages(_ValueMessages, BinsConfig):
    """A message carries the bin of a label that is a number, by RR-on-Bins."""

    kind: Literal["rr_on_bins"] = "rr_on_bins"


class UnbiasedMessages(_ValueMessages, UnbiasedConfig):
    """A message carries a number whose mean is the label, by the optimal unbiased randomizer."""

    kind: Literal["unbiased_values"] = "unbiased_values"


MessagesConfig = Annotated[
    VectorMessages | AlibiMessages | PriorMessages | BinMessages | UnbiasedMessages, Field(discriminator="kind")
]


OF_MESSAGES = (*VectorApproximationConfig.columns, *AlibiConfig.columns, *RRWithPriorConfig.columns)
"""Results columns that hold the noise parameters of these messages."""


def flipped_labels(noise: Message, purpose: str) -> RandomizedResponse:
    """Returns the randomizer if it flips labels; a guard for features that need flipped labels.

    Raises:
        InputError: it is another randomizer; `purpose` names the feature in the message.
    """
    if not isinstance(noise, RandomizedResponse):
        raise InputError(f"mechanism.randomizer: {purpose} is known for flipped labels alone; give mechanism.flip_prob")
    return noise
