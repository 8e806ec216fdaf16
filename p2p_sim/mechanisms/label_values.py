"""Labels that are numbers: RR-on-Bins and the optimal unbiased randomizer, as messages and as local mechanisms.

A label is an index into a public grid of values, so the exchange carries it like a class. The payload of a message is
an index into the randomizer's output values. The method `values_of` turns payloads into numbers.
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
    """A randomizer of numeric labels; a label is an index into a public grid of k values.

    Args:
        target_epsilon: ε, above 0.
        values: (k,) label values, increasing, public.
        prior: (k,) probabilities of the label values, which depend on no label of this release; absent: all equal.
    """

    target_epsilon: float
    values: tuple[float, ...]
    prior: tuple[float, ...] | None = None

    noun: ClassVar[str] = "number"
    releases: ClassVar[PayloadKind] = "values"
    parameters: ClassVar[dict[str, float]] = {}

    @property
    def caveats(self) -> tuple[str, ...]:
        """Further conditions under which the ε of one message (ε₀) holds: the grid is public, and so is the prior if
        one is given.
        """
        return (PUBLIC_GRID,) if self.prior is None else (PUBLIC_GRID, PUBLIC_PRIOR)

    @property
    def common_prior(self) -> tuple[float, ...]:
        """Prior probability of each of the k label values; uniform if no prior is given."""
        return (1.0 / len(self.values),) * len(self.values) if self.prior is None else self.prior

    @property
    @abstractmethod
    def outputs(self) -> Floats:
        """Output values (m,); the payload of a message is an index into them."""

    @property
    @abstractmethod
    def law(self) -> Floats:
        """Matrix (k, m): probability of each output value given each label value."""

    @property
    def payload_bits(self) -> int:
        return (len(self.outputs) - 1).bit_length()

    @property
    def numbers(self) -> Floats:
        """The number (m,) that the learner uses for each output; by default the output value."""
        return self.outputs

    def published(self, source: Source) -> ValueLaw:
        """The public law of a released number, for learners: its probabilities given each label value, and the prior of
        the label values.

        Args:
            source: "user" if the number released under a user's name is made from her own label, "cluster" if it is
            made from the label of a random user of her cluster.
        """
        return ValueLaw(np.array(self.values), self.numbers, self.law, np.array(self.common_prior), source)

    def released(self, payload: NDArray[np.generic]) -> NDArray[np.generic]:
        return self.numbers[payload.astype(np.intp)]

    def attained(self, delta: float) -> float:
        """A lower bound of ε at δ = `delta` for one message whose sender is known: no smaller ε is valid. The certified
        upper bound is too large by at most its distance from this lower bound.
        """
        return attained_epsilon(self.law, delta, self.local_epsilon)

    def values_of(self, payload: NDArray[np.integer]) -> Floats:
        """Returns the output values (n,) whose indices are the payloads (n,)."""
        return np.asarray(self.outputs[payload])


@dataclass(frozen=True)
class RrOnBins(ValueMessage):
    """RR-on-Bins (Ghazi et al. 2023): randomised response over the best bins of labels for a prior and a loss.

    A message is a flipped label whose classes are the bins, so every bound for flipped labels holds.

    Args:
        loss: "squared" or "absolute"; the bins minimise its expectation under the prior.
        debias: whether the learner gets numbers that undo the noise on average, not the bins' output values.
    """

    loss: LossName = "squared"
    debias: bool = False

    kind: ClassVar[str] = "bin"

    @cached_property
    def bins(self) -> Bins:
        """The best bins: for each of the k label values the number of its bin (consecutive values share a bin), and for
        each of b bins an output value. They minimise the expected loss between label and output under the prior, at the
        target ε.
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
        """The number (b,) that the learner uses for each of b bins: with `debias` a number that undoes the noise on
        average, else the bin's output value.
        """
        return self.debiased(np.arange(len(self.bins))) if self.debias else self.outputs

    @property
    def law(self) -> Floats:
        return bins_law(self.bins.bin_of, len(self.bins), self.target_epsilon)

    @property
    def local_epsilon(self) -> float:
        return self.noise.local_epsilon

    @property
    def total_variation(self) -> float:
        """Largest total variation distance between the messages of two labels: 1 - αb/(b-1) for b bins and the flip
        probability α.
        """
        return self.noise.total_variation

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draws the users' messages: a noisy bin (n,) for each of the labels (n,) in 0..k-1."""
        check_labels(labels, len(self.values))
        return self.noise.randomize(np.array(self.bins.bin_of, dtype=np.uint8)[labels], rng)

    def debiased(self, payload: NDArray[np.integer]) -> Floats:
        """Numbers (n,) for n noisy bins, which undo the noise on average. Given a true label, the mean of the number
        that the learner gets equals another mean: that of all label values in the label's bin, weighted by the prior.
        In a bin of prior probability 0, all values have equal weights.

        Args:
            payload: (n,), the noisy bins, 0 to b-1.
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
    """The optimal unbiased randomizer (Badanidiyuru et al. 2023): given a label, the mean output is the label."""

    kind: ClassVar[str] = "value"

    @cached_property
    def best(self) -> UnbiasedLaw:
        """The output values, and their probabilities given each label value; computed by a linear programme, and
        corrected for rounding. The expected squared error exceeds the smallest possible one by about 1% at most.
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
        """Draws the users' messages: the index (n,) of an output value for each of the labels (n,) in 0..k-1."""
        check_labels(labels, len(self.values))
        return drawn_from_rows(self.best.law, labels, rng)


def prior_of(payload: NDArray[np.integer], noise: RandomizedResponse) -> tuple[float, ...]:
    """A prior (k,) over label values, estimated from the noisy labels of n users who send these labels and nothing
    else. The prior may then be used in the messages of all other users.

    The prior is the unbiased estimate of the shares of the values, raised to at least 1/(n k) and then scaled so that
    they sum to 1; if n is 0, all values have equal probabilities. No label of the other users enters the prior. So, if
    the division into the two groups of users is public and independent of the labels, the total ε is the larger one of
    the two groups' values of ε (parallel composition).

    Args:
        payload: (n,) noisy labels, indices into the k values. noise: the randomizer that made them.
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
        """The randomizer whose single message has ε₀ = `epsilon`, for the public grid `values` (k,) of label values.

        Raises:
            InputError: ε₀ is too small for the solver.
        """


class BinsConfig(ValuesConfig):
    """Keys of RR-on-Bins: randomised response over bins of the label values."""

    loss: LossName = "squared"
    """"squared" or "absolute": the bins and their output values minimise its expectation under the prior."""
    debias: bool = False
    """Give the learner numbers that undo the noise on average, not the output values of the bins."""

    def at(self, epsilon: float, values: tuple[float, ...]) -> RrOnBins:
        return RrOnBins(epsilon, values, self.prior, self.loss, self.debias)


class UnbiasedConfig(ValuesConfig):
    """Keys of the optimal unbiased randomizer, whose mean output, given a label, is the label's value."""

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
    """The randomizer that a configuration describes, with ε₀ = `epsilon`; cached, since its optimisation is slow.

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

    The label is a number on a public grid. The squared error under the prior is within about 1% of the smallest of any
    unbiased randomizer with this ε (Badanidiyuru et al., NeurIPS 2023). There is no trusted party and no amplification.
    """

    kind: Literal["unbiased_values"] = "unbiased_values"
    described: ClassVar[str] = "optimal unbiased values, every user on her own"
