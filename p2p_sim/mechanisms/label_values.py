"""Randomizers of labels that are numbers: RR-on-Bins and the optimal unbiased randomizer.

A label is an index into a public grid of values. The payload of a message is an index into the randomizer's output
values. The method `values_of` turns payloads into these output values.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import Config, InputError
from p2p_sim.exchange import Message, PayloadKind, check_labels
from p2p_sim.mechanisms.channels import UP, LocalAccountant, LocalChannel
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.noise_law import Source, ValueLaw
from p2p_sim.mechanisms.outcome import Floats, Outcome, ReleaseKind
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.mechanisms.rr_with_prior import check_prior
from p2p_sim.privacy import (
    LOCAL_CONDITIONS,
    PUBLIC_GRID,
    PUBLIC_PRIOR,
    Accountant,
    Bracket,
    Under,
    attained_epsilon,
    drawn_from_rows,
    law_delta,
    local_flip_prob,
)
from p2p_sim.privacy.rivals import LARGEST_EPSILON, Bins, LossName, UnbiasedLaw, best_bins, best_unbiased, bins_law


@dataclass(frozen=True)
class ValueMessage(Message):
    """A randomizer of numeric labels. A label is an index into a public grid of k values.

    Args:
        target_epsilon: ε, above 0.
        values: (k,) label values, increasing, public.
        prior: (k,) probabilities of the label values; they depend on no label of this release. None: all equal.
    """

    target_epsilon: float
    values: tuple[float, ...]
    prior: tuple[float, ...] | None = None

    noun: ClassVar[str] = "number"
    releases: ClassVar[PayloadKind] = "values"
    parameters: ClassVar[dict[str, float]] = {}

    @property
    def caveats(self) -> tuple[str, ...]:
        """Further conditions of ε₀, the ε of one message: the grid is public, and a given prior is public."""
        return (PUBLIC_GRID,) if self.prior is None else (PUBLIC_GRID, PUBLIC_PRIOR)

    @property
    def common_prior(self) -> tuple[float, ...]:
        """Prior probability (k,) of each label value; uniform if no prior is given."""
        return (1.0 / len(self.values),) * len(self.values) if self.prior is None else self.prior

    @property
    @abstractmethod
    def outputs(self) -> Floats:
        """Output values (m,). A payload is an index into these values."""

    @property
    @abstractmethod
    def law(self) -> Floats:
        """Matrix (k, m): the probability of each output value given each label value."""

    @property
    def payload_bits(self) -> int:
        return (len(self.outputs) - 1).bit_length()

    @property
    def numbers(self) -> Floats:
        """The numbers (m,) that the learner uses for the m outputs; by default the output values."""
        return self.outputs

    def published(self, source: Source) -> ValueLaw:
        """The public law of a released number, for learners: probabilities given each label value, and the prior.

        Args:
            source: whose label the number is made from. "user": the user's own label. "cluster": the label of a random
            user of her cluster.
        """
        return ValueLaw(np.array(self.values), self.numbers, self.law, np.array(self.common_prior), source)

    def released(self, payload: NDArray[np.generic]) -> NDArray[np.generic]:
        return self.numbers[payload.astype(np.intp)]

    def attained(self, delta: float) -> float:
        """A lower bound of ε at δ = `delta` for one message whose sender is known. No smaller ε is valid."""
        return attained_epsilon(self.law, delta, self.local_epsilon)

    def values_of(self, payload: NDArray[np.integer]) -> Floats:
        """The output values (n,) whose indices are the payloads."""
        return np.asarray(self.outputs[payload])


@dataclass(frozen=True)
class RrOnBins(ValueMessage):
    """RR-on-Bins (Ghazi et al. 2023): randomised response over bins of label values.

    A message is a flipped label. Its classes are the bins, so every bound for flipped labels holds.

    Args:
        loss: "squared" or "absolute"; the bins minimise the expected loss under the prior.
        debias: true: the learner gets numbers that undo the noise on average; false: the output values of the bins.
    """

    loss: LossName = "squared"
    debias: bool = False

    kind: ClassVar[str] = "bin"

    @cached_property
    def bins(self) -> Bins:
        """The bin of each of the k label values, and the output value of each of the b bins.

        The bins minimise the expected loss between label and output under the prior, at the target ε. Each bin holds
        consecutive label values.
        """
        return best_bins(np.array(self.values), np.array(self.common_prior), self.target_epsilon, self.loss)

    @cached_property
    def noise(self) -> RandomizedResponse:
        """Randomised response over the bins."""
        return RandomizedResponse(local_flip_prob(self.target_epsilon, len(self.bins)), len(self.bins))

    @property
    def outputs(self) -> Floats:
        return np.array(self.bins.outputs)

    @property
    def numbers(self) -> Floats:
        """The numbers (b,) that the learner uses for the b bins: output values, or debiased numbers with `debias`."""
        return self.debiased(np.arange(len(self.bins))) if self.debias else self.outputs

    @property
    def law(self) -> Floats:
        return bins_law(self.bins.bin_of, len(self.bins), self.target_epsilon)

    @property
    def local_epsilon(self) -> float:
        return self.noise.local_epsilon

    @property
    def total_variation(self) -> float:
        """Largest total variation distance of two labels' messages: 1 - αb/(b-1) for b bins and flip probability α."""
        return self.noise.total_variation

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draws the messages (n,), which are noisy bins, for labels (n,) in 0..k-1."""
        check_labels(labels, len(self.values))
        return self.noise.randomize(np.array(self.bins.bin_of, dtype=np.uint8)[labels], rng)

    def debiased(self, payload: NDArray[np.integer]) -> Floats:
        """Numbers (n,) for n noisy bins. The numbers undo the noise on average.

        The mean of a bin is the mean of its label values, weighted by the prior. Given a true label, the expected
        number is the mean of the label's bin. If a bin has prior probability 0, its values have equal weights.

        Args:
            payload: (n,) noisy bins, 0 to b-1.
        """
        prior, bin_of = np.array(self.common_prior), np.array(self.bins.bin_of)
        mass = np.bincount(bin_of, weights=prior)
        middle = np.bincount(bin_of, weights=np.array(self.values)) / np.bincount(bin_of)
        weighted = np.bincount(bin_of, weights=prior * np.array(self.values))
        means = np.where(mass > 0, weighted / np.where(mass > 0, mass, 1.0), middle)
        return np.asarray((self.noise.debiased(np.arange(len(means), dtype=np.uint8)) @ means)[payload])

    def alone(self, epsilon: float) -> Bracket:
        return self.noise.alone(epsilon)

    def exchanged(self, size: int, sampling_rate: float) -> Accountant:
        return Under(self.noise.exchanged(size, sampling_rate), self.caveats)

    def fetched(self, sources: int, submissions: int) -> Accountant:
        return Under(self.noise.fetched(sources, submissions), self.caveats)


@dataclass(frozen=True)
class UnbiasedValues(ValueMessage):
    """The optimal unbiased randomizer (Badanidiyuru et al. 2023): given a label, the mean output is its value."""

    kind: ClassVar[str] = "value"

    @cached_property
    def best(self) -> UnbiasedLaw:
        """The output values, and their probabilities given each label value.

        A linear programme gives them. The expected squared error exceeds the smallest possible one by about 1% at most.
        """
        return best_unbiased(np.array(self.values), np.array(self.common_prior), self.target_epsilon)

    @property
    def outputs(self) -> Floats:
        return self.best.outputs

    @property
    def law(self) -> Floats:
        return self.best.law

    @cached_property
    def local_epsilon(self) -> float:
        """ε₀ of one message: the largest log-ratio of two entries in a column of `law`, rounded up."""
        return self.best.epsilon * UP

    @cached_property
    def total_variation(self) -> float:
        """Largest total variation distance between the messages of two labels, rounded up."""
        return min(1.0, law_delta(self.best.law, 0.0) * UP)

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draws the messages (n,), which are indices of output values, for labels (n,) in 0..k-1."""
        check_labels(labels, len(self.values))
        return drawn_from_rows(self.best.law, labels, rng)


def prior_of(payload: NDArray[np.integer], noise: RandomizedResponse) -> tuple[float, ...]:
    """A prior (k,) over label values, estimated from the noisy labels of n users. These users send nothing else.

    The messages of all other users may use this prior. The shares of the values are estimated without bias. Estimates
    below 1/(n k) are raised to 1/(n k). Then all estimates are scaled to the sum 1. If n is 0, all shares are equal.

    The prior depends on no label of the other users. Let the two groups of users be public and independent of the
    labels. Then the total ε is the larger ε of the two groups (parallel composition).

    Args:
        payload: (n,) noisy labels, indices into the k values. noise: the randomizer that made the noisy labels.
    """
    k = noise.num_classes
    if not len(payload):
        return (1.0 / k,) * k
    shares = noise.debiased(payload.astype(np.uint8, copy=False)).mean(axis=0)
    shares = np.maximum(shares, 1.0 / (len(payload) * k))
    return tuple((shares / shares.sum()).tolist())


class ValuesConfig(Config):
    """Base of the configurations of randomizers of numeric labels, for local mechanisms and exchanges."""

    prior: tuple[float, ...] | None = Field(default=None, min_length=2, max_length=64)
    """Prior over the k label values: k public probabilities that do not come from the labels; absent: equal."""

    @abstractmethod
    def at(self, epsilon: float, values: tuple[float, ...]) -> ValueMessage:
        """The randomizer with ε₀ = `epsilon` for one message. `values` (k,) is the public grid of label values.

        Raises:
            InputError: ε₀ is too small for the solver.
        """


class BinsConfig(ValuesConfig):
    """Keys of RR-on-Bins: randomised response over bins of the label values."""

    loss: LossName = "squared"
    """Loss, "squared" or "absolute". The bins and their output values minimise the expected loss under the prior."""
    debias: bool = False
    """Give the learner numbers that undo the noise on average, not the output values of the bins."""

    def at(self, epsilon: float, values: tuple[float, ...]) -> RrOnBins:
        return RrOnBins(epsilon, values, self.prior, self.loss, self.debias)


class UnbiasedConfig(ValuesConfig):
    """Keys of the optimal unbiased randomizer: given a label, the mean output is the label's value."""

    def at(self, epsilon: float, values: tuple[float, ...]) -> UnbiasedValues:
        randomizer = UnbiasedValues(epsilon, values, self.prior)
        try:
            randomizer.best  # noqa: B018  # solves the linear programme
        except ValueError as error:
            raise InputError(f"mechanism: no unbiased values at ε₀ = {epsilon:g}: {error}; give a larger ε₀") from None
        return randomizer


class LocalValues(LocalChannel, ValuesConfig):
    """Base of local mechanisms that release numbers: every user randomizes her own label."""

    conditions: ClassVar[tuple[str, ...]] = (*LOCAL_CONDITIONS, PUBLIC_GRID, PUBLIC_PRIOR)
    releases: ClassVar[ReleaseKind] = "values"
    target_epsilon: float = Field(gt=0, le=LARGEST_EPSILON)
    """ε, above 0 and at most 10."""

    def check(self, num_classes: int) -> None:
        check_prior("mechanism.prior", self.prior, num_classes)

    def calibrated(self, setup: Setup) -> Self:
        self.randomizer(setup)  # refuses labels that are classes
        return self

    def randomizer(self, setup: Setup) -> ValueMessage:
        return randomizer_at(self, self.target_epsilon, setup.values)

    def accountant(self, setup: Setup, size: int) -> Accountant:
        noise = self.randomizer(setup)
        return LocalAccountant(noise, noise.local_epsilon, (*LOCAL_CONDITIONS, *noise.caveats))

    @property
    def local_conditions(self) -> tuple[str, ...]:
        return (*LOCAL_CONDITIONS, *self.noise.caveats)

    def value_law(self, outcome: Outcome) -> ValueLaw:
        return self.randomizer(self.setup).published("user")


@lru_cache(maxsize=256)
def randomizer_at(config: ValuesConfig, epsilon: float, values: tuple[float, ...] | None) -> ValueMessage:
    """The randomizer of a configuration, with ε₀ = `epsilon`. It is cached, because its optimisation is slow.

    Args:
        values: (k,) public grid of label values; None: labels are classes.

    Raises:
        InputError: labels are classes, or ε₀ is too small for the solver.
    """
    if values is None:
        raise InputError(
            "mechanism: needs labels that are numbers, as population.kind = 'linear' or 'diabetes' has, or "
            "'table' with label_range"
        )
    return config.at(epsilon, values)


class RrOnBinsConfig(LocalValues, BinsConfig):
    """Every user sends the bin of her label through randomised response, with her name (RR-on-Bins).

    The label is a number on a public grid. The bins and their output values minimise the expected loss under the prior
    (Ghazi et al., ICLR 2023). There is no trusted party and no amplification.
    """

    kind: Literal["rr_on_bins"] = "rr_on_bins"
    described: ClassVar[str] = "RR-on-Bins, every user on her own"


class UnbiasedValuesConfig(LocalValues, UnbiasedConfig):
    """Every user sends a number whose mean is her label, with her name (optimal unbiased randomizer).

    The label is a number on a public grid. Among unbiased randomizers with this ε, the squared error under the prior is
    minimal up to about 1% (Badanidiyuru et al., NeurIPS 2023). There is no trusted party and no amplification.
    """

    kind: Literal["unbiased_values"] = "unbiased_values"
    described: ClassVar[str] = "optimal unbiased values, every user on her own"
