"""Configurations of exchange messages that carry something other than flipped labels."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import Config, InputError
from p2p_sim.exchange import Message, PayloadKind
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.label_values import (
    BinsConfig,
    UnbiasedConfig,
    ValueMessage,
    ValuesConfig,
    randomizer_at,
)
from p2p_sim.mechanisms.noisy_vectors import Alibi, AlibiConfig, VectorApproximation, VectorApproximationConfig
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.mechanisms.rr_with_prior import RRWithPrior, RRWithPriorConfig, check_prior
from p2p_sim.privacy.exchange import largest_local_epsilon
from p2p_sim.privacy.rivals import LARGEST_EPSILON, bit_flip_prob_of, noise_scale_of

SomeMessage = TypeVar("SomeMessage", bound=Message)


def exchanged_at(
    randomizer: Callable[[float], SomeMessage],
    target: float,
    sizes: NDArray[np.int64],
    *,
    sampling_rate: float,
    delta: float,
    most: float = LARGEST_EPSILON,
) -> SomeMessage:
    """The randomizer with the largest sufficient ε₀ of three significant digits. ε₀ is the ε of one message.

    A sufficient ε₀ keeps the learner's certified ε at δ within the target, in every cluster of a label exchange. The
    certificate holds if no message is lost and all users follow the protocol. The returned ε₀ is never below the
    smaller one of the target and `most`.

    Args:
        randomizer: a function that makes the randomizer at a given ε₀. target: largest ε of the learner. sizes: (C,)
        number of users of each cluster. sampling_rate: θ, probability that a user submits the message she fetched.
        delta: δ. most: largest ε₀ allowed; by default 10, the limit for labels that are numbers.
    """

    def certified(local: float, size: int) -> bool:
        return local <= most and randomizer(local).exchanged(size, sampling_rate).satisfies(target, delta)

    return randomizer(largest_local_epsilon(certified, sizes.tolist(), min(target, most)))


class MessageConfig(Config, ABC):
    """Base of the configurations of a message. Each configuration makes a randomizer."""

    epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε₀ of a single message, above 0 and at most 100. Give this or `mechanism.target_epsilon`, which chooses the
    largest sufficient ε₀ of three digits."""
    releases: ClassVar[PayloadKind]
    """The kind of release that the learner gets."""
    most: ClassVar[float] = math.inf
    """Largest ε₀ that `mechanism.target_epsilon` may choose."""

    def check(self, num_classes: int) -> None:
        """Raise InputError if a key, such as a prior over classes, does not fit the number of classes. By default
        nothing is checked.

        Args:
            num_classes: K.
        """

    @abstractmethod
    def randomizer(self, epsilon: float, setup: Setup) -> Message:
        """The randomizer that makes a user's message from her label. `epsilon` is ε₀, the ε of one message.

        Args:
            setup: facts of the scenario. The number of classes K is used, or the grid of numeric labels.
        """

    def calibrated(self, target: float | None, sampling_rate: float, setup: Setup) -> Message:
        """The randomizer with its noise fixed. If this configuration states ε₀, this ε₀ is used. Otherwise the largest
        ε₀ of three significant digits is chosen at which the learner's ε is certified to be at most `target` in every
        cluster. The chosen ε₀ is at least the target, or `most` (the largest allowed ε₀) if `most` is smaller.

        Args:
            target: largest ε of the learner at the scenario's δ; not used if the configuration states ε₀.
            sampling_rate: θ, probability that a user submits the message she fetched. setup: facts of the scenario:
            cluster sizes, K and δ.
        """
        self.check(setup.num_classes)
        if self.epsilon is not None:
            return self.randomizer(self.epsilon, setup)
        return exchanged_at(
            lambda local: self.randomizer(local, setup),
            cast(float, target),  # one of the two is given
            setup.sizes,
            sampling_rate=sampling_rate,
            delta=setup.delta,
            most=self.most,
        )


class VectorMessages(MessageConfig):
    """A message carries the K bits of the one-hot label, each through randomised response."""

    kind: Literal["vector_approximation"] = "vector_approximation"
    releases: ClassVar[PayloadKind] = "bits"

    def randomizer(self, epsilon: float, setup: Setup) -> VectorApproximation:
        """The randomizer that applies randomised response at ε₀/2 to each bit of the one-hot label. Two labels differ
        in two bits, so a message has ε₀.

        Args:
            epsilon: ε₀ of a message. setup: facts of the scenario; only the number of classes K is used.
        """
        return VectorApproximation(bit_flip_prob_of(epsilon), setup.num_classes)


class AlibiMessages(MessageConfig):
    """A message carries class probabilities, made from the one-hot label by Laplace noise and Bayes' rule."""

    kind: Literal["alibi"] = "alibi"
    releases: ClassVar[PayloadKind] = "soft"
    prior: Literal["uniform"] = "uniform"
    """Prior of Bayes' rule: "uniform", since a user has only her own message."""

    def randomizer(self, epsilon: float, setup: Setup) -> Alibi:
        """The ALIBI randomizer (Malek Esmaeili et al. 2021). Each entry of the one-hot label gets Laplace noise of
        scale 2/ε₀. Bayes' rule turns the noisy vector into class probabilities.

        Args:
            epsilon: ε₀ of a message. setup: facts of the scenario; only the number of classes K is used.
        """
        return Alibi(noise_scale_of(epsilon), setup.num_classes)


class PriorMessages(MessageConfig):
    """A message carries a label after RRWithPrior: randomised response among the likely classes of a public prior."""

    kind: Literal["rr_with_prior"] = "rr_with_prior"
    releases: ClassVar[PayloadKind] = "hard"
    stages: Literal[1] = 1
    """1: a user's message does not depend on other users' messages."""
    prior: tuple[float, ...] | None = Field(default=None, min_length=2, max_length=256)
    """Common prior: K public probabilities that do not come from the labels; absent: equal."""

    def check(self, num_classes: int) -> None:
        """Raise InputError unless `prior` is absent or a distribution over K classes.

        Args:
            num_classes: K.
        """
        check_prior("mechanism.randomizer.prior", self.prior, num_classes)

    def randomizer(self, epsilon: float, setup: Setup) -> RRWithPrior:
        """Randomised response at ε₀ among the k most likely classes of the public prior. The number k maximises the
        probability that the true label is kept.

        Args:
            epsilon: ε₀ of a message. setup: facts of the scenario; only the number of classes K is used.
        """
        return RRWithPrior(epsilon, setup.num_classes, self.prior)


class _ValueMessages(MessageConfig, ValuesConfig):
    """Base of the configurations of messages that carry numbers."""

    releases: ClassVar[PayloadKind] = "values"
    most: ClassVar[float] = LARGEST_EPSILON
    epsilon: float | None = Field(default=None, gt=0, le=LARGEST_EPSILON)
    """ε₀ of a single message, above 0 and at most 10. Give this or `mechanism.target_epsilon`, which chooses the
    largest sufficient ε₀ of three digits."""

    def check(self, num_classes: int) -> None:
        """Raise InputError unless `prior` is absent or a distribution over the k label values.

        Args:
            num_classes: k, the number of label values.
        """
        check_prior("mechanism.randomizer.prior", self.prior, num_classes)

    def randomizer(self, epsilon: float, setup: Setup) -> ValueMessage:
        """The randomizer of numeric labels. One message has ε₀ = `epsilon`.

        Args:
            setup: facts of the scenario; only the public grid of label values is used.

        Raises:
            InputError: labels are classes, or ε₀ is too small for the solver.
        """
        return randomizer_at(self, epsilon, setup.values)


class BinMessages(_ValueMessages, BinsConfig):
    """A message carries a noisy bin. Labels are numbers, and each bin holds consecutive label values (RR-on-Bins)."""

    kind: Literal["rr_on_bins"] = "rr_on_bins"


class UnbiasedMessages(_ValueMessages, UnbiasedConfig):
    """A message carries a random number whose mean is the user's label (optimal unbiased randomizer)."""

    kind: Literal["unbiased_values"] = "unbiased_values"


MessagesConfig = Annotated[
    VectorMessages | AlibiMessages | PriorMessages | BinMessages | UnbiasedMessages, Field(discriminator="kind")
]


OF_MESSAGES = (*VectorApproximationConfig.columns, *AlibiConfig.columns, *RRWithPriorConfig.columns)
"""Results columns that hold the noise parameters of the messages above."""


def flipped_labels(noise: Message, purpose: str) -> RandomizedResponse:
    """Returns `noise` itself if it flips labels. Some code is valid only for flipped labels.

    Args:
        noise: any randomizer. purpose: what needs flipped labels, for the error message.

    Raises:
        InputError: the randomizer does not flip labels.
    """
    if not isinstance(noise, RandomizedResponse):
        raise InputError(f"mechanism.randomizer: {purpose} is known for flipped labels alone; give mechanism.flip_prob")
    return noise
