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
    """The randomizer with the largest sufficient ε₀ among numbers of three significant digits; ε₀ is the ε of a single
    message. A value of ε₀ is sufficient if the learner's ε at δ is certified to be at most a target in every cluster of
    a label exchange. The certificate holds if no message is lost and all users follow the protocol. If no such number
    above the target suffices, ε₀ is the target itself, or `most` if this is smaller.

    Args:
        randomizer: a function that makes the randomizer at a given ε₀. target: largest ε of the learner. sizes: (C,)
        number of users of each cluster. sampling_rate: θ, probability that a user submits the message she fetched.
        delta: δ. most: largest ε₀ allowed; by default 10, the limit for labels that are numbers.
    """

    def certified(local: float, size: int) -> bool:
        return local <= most and randomizer(local).exchanged(size, sampling_rate).satisfies(target, delta)

    return randomizer(largest_local_epsilon(certified, sizes.tolist(), min(target, most)))


class MessageConfig(Config, ABC):
    """Base of the configurations of a message; each makes the randomizer of the message."""

    epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε₀ of a single message, above 0 and at most 100. Give this or `mechanism.target_epsilon`, which chooses the
    largest sufficient ε₀ of three digits."""
    releases: ClassVar[PayloadKind]
    """The kind of release that the learner gets."""
    most: ClassVar[float] = math.inf
    """Largest ε₀ that `mechanism.target_epsilon` may choose."""

    def check(self, num_classes: int) -> None:
        """Raise InputError if keys of this configuration, such as a prior over classes, do not fit the number of
        classes K. By default nothing is checked; subclasses override this.

        Args:
            num_classes: K.
        """

    @abstractmethod
    def randomizer(self, epsilon: float, setup: Setup) -> Message:
        """The randomizer that makes a user's message from her label. `epsilon` is the ε₀ of a message, which is its ε
        against an observer who knows the sender.

        Args:
            setup: facts of the scenario, of which the number of classes K is used or, if labels are numbers, the grid
            of label values.
        """

    def calibrated(self, target: float | None, sampling_rate: float, setup: Setup) -> Message:
        """The randomizer with its noise fixed: at the ε₀ that this configuration states, or else at the largest ε₀ of
        three significant digits with which the learner's ε is at most `target` in every cluster (at least the target
        itself, as far as `most` allows it).

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
        """The randomizer that flips each of the K bits of the one-hot label with randomised response of parameter ε₀/2.
        Two labels differ in two bits, so the message has ε₀.

        Args:
            epsilon: ε₀ of a message. setup: facts of the scenario; only the number of classes K is used.
        """
        return VectorApproximation(bit_flip_prob_of(epsilon), setup.num_classes)


class AlibiMessages(MessageConfig):
    """A message carries a soft label: class probabilities that follow from the one-hot label with Laplace noise, by
    Bayes' rule under the uniform prior.
    """

    kind: Literal["alibi"] = "alibi"
    releases: ClassVar[PayloadKind] = "soft"
    prior: Literal["uniform"] = "uniform"
    """Prior of Bayes' rule: "uniform", since a user has only her own message."""

    def randomizer(self, epsilon: float, setup: Setup) -> Alibi:
        """The ALIBI randomizer (Malek Esmaeili et al. 2021): the one-hot label with Laplace noise of scale 2/ε₀ on each
        entry, turned into class probabilities by Bayes' rule.

        Args:
            epsilon: ε₀ of a message. setup: facts of the scenario; only the number of classes K is used.
        """
        return Alibi(noise_scale_of(epsilon), setup.num_classes)


class PriorMessages(MessageConfig):
    """A message carries a label after RRWithPrior: randomised response among the classes that are likely under a public
    prior, which all users share.
    """

    kind: Literal["rr_with_prior"] = "rr_with_prior"
    releases: ClassVar[PayloadKind] = "hard"
    stages: Literal[1] = 1
    """1: a user's message does not depend on other users' messages."""
    prior: tuple[float, ...] | None = Field(default=None, min_length=2, max_length=256)
    """Common prior: K public probabilities that do not come from the labels; absent: equal."""

    def check(self, num_classes: int) -> None:
        """Raise InputError if `prior`, the public class probabilities, is given but is no distribution over K classes.

        Args:
            num_classes: K.
        """
        check_prior("mechanism.randomizer.prior", self.prior, num_classes)

    def randomizer(self, epsilon: float, setup: Setup) -> RRWithPrior:
        """Randomised response at ε₀ among the k classes that are most likely under the public prior; k is chosen so
        that the true label is kept with the largest probability.

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
        """Raise InputError if `prior`, public probabilities of the label values, is given but is no distribution over
        them.

        Args:
            num_classes: k, the number of label values.
        """
        check_prior("mechanism.randomizer.prior", self.prior, num_classes)

    def randomizer(self, epsilon: float, setup: Setup) -> ValueMessage:
        """The randomizer of numeric labels whose message has `epsilon` as its ε₀.

        Args:
            setup: facts of the scenario; only the public grid of label values is used.

        Raises:
            InputError: labels are classes, so that there is no grid, or ε₀ is too small for the solver.
        """
        return randomizer_at(self, epsilon, setup.values)


class BinMessages(_ValueMessages, BinsConfig):
    """A message carries a noisy bin: labels are numbers, grouped in bins, and the bin is randomised (RR-on-Bins)."""

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
    """Returns `noise` itself if it flips labels; a check for code that is valid only for flipped labels.

    Args:
        noise: any randomizer. purpose: what needs flipped labels, for the error message.

    Raises:
        InputError: the randomizer does something else.
    """
    if not isinstance(noise, RandomizedResponse):
        raise InputError(f"mechanism.randomizer: {purpose} is known for flipped labels alone; give mechanism.flip_prob")
    return noise
