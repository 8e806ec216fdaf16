"""Randomizers of regression labels: messages whose payload names an output value.

A label is a place in a public grid of values, so the exchange carries it as it carries a class. The payload is the
place of an output value among the randomizer's own; `values_of` turns payloads into numbers.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange.randomizer import Message, PayloadKind, check_labels
from p2p_sim.mechanisms.noise_law import Source, ValueLaw
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.conditions import PUBLIC_GRID, PUBLIC_PRIOR
from p2p_sim.privacy.exchange.calibration import largest_local_epsilon
from p2p_sim.privacy.randomized_response import attained_epsilon, drawn_from_rows, law_delta, local_flip_prob
from p2p_sim.privacy.rivals.rr_on_bins import Bins, LossName, best_bins, bins_law
from p2p_sim.privacy.rivals.unbiased_values import UnbiasedLaw, best_unbiased
from p2p_sim.privacy.stated_accountants import Under

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ValueMessage(Message):
    """A randomizer of label values: its input is the place of a value in a public grid of k values.

    Args:
        target_epsilon: ε, above 0.
        values: (k,) label values, increasing, public.
        prior: (k,) probabilities that depend on no label of this release; absent: all the same.
    """

    target_epsilon: float
    values: tuple[float, ...]
    prior: tuple[float, ...] | None = None

    noun: ClassVar[str] = "number"
    releases: ClassVar[PayloadKind] = "values"
    parameters: ClassVar[dict[str, float]] = {}
    """Nothing that a row has a column for."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """Conditions of the bounds: the grid must be public, and a prior where there is one."""
        return (PUBLIC_GRID,) if self.prior is None else (PUBLIC_GRID, PUBLIC_PRIOR)

    @property
    def common_prior(self) -> tuple[float, ...]:
        """The prior (k,), the same probability for every value where none is given."""
        return (1.0 / len(self.values),) * len(self.values) if self.prior is None else self.prior

    @property
    @abstractmethod
    def outputs(self) -> Floats:
        """The output values (m,) that a message can name."""

    @property
    @abstractmethod
    def law(self) -> Floats:
        """The probability of each output given each label value, (k, m)."""

    @property
    def payload_bits(self) -> int:
        """Size of a message in bits: as many as name one of m outputs."""
        return (len(self.outputs) - 1).bit_length()

    @property
    def numbers(self) -> Floats:
        """The number that the learner takes for each output, (m,): its value."""
        return self.outputs

    def published(self, source: Source) -> ValueLaw:
        """The public law of the numbers; source: whose labels they are of."""
        return ValueLaw(np.array(self.values), self.numbers, self.law, np.array(self.common_prior), source)

    def released(self, payload: NDArray[np.generic]) -> NDArray[np.generic]:
        """The numbers that the learner gets for some payloads."""
        return self.numbers[payload.astype(np.intp)]

    def attained(self, delta: float) -> float:
        """An ε below which no ε holds at δ: where δ(ε) of the table is still above δ."""
        return attained_epsilon(self.law, delta, self.local_epsilon)

    def values_of(self, payload: NDArray[np.integer]) -> Floats:
        """Output values (n,) of payloads (n,)."""
        return np.asarray(self.outputs[payload])


@dataclass(frozen=True)
class RrOnBins(ValueMessage):
    """RR-on-Bins (Ghazi et al. 2023): randomised response over the bins that suit the prior and the loss best.

    Once the bins are fixed a message is a flipped label among b classes, and every bound for these holds.

    Args:
        loss: "squared" or "absolute", of which the expectation under the prior is smallest.
        debias: tell the learner the numbers of `debiased`, instead of the bins' output values.
    """

    loss: LossName = "squared"
    debias: bool = False

    kind: ClassVar[str] = "bin"

    @cached_property
    def bins(self) -> Bins:
        """The bins and their output values."""
        return best_bins(np.array(self.values), np.array(self.common_prior), self.target_epsilon, self.loss)

    @cached_property
    def noise(self) -> RandomizedResponse:
        """Randomised response over the bins."""
        return RandomizedResponse(local_flip_prob(self.target_epsilon, len(self.bins)), len(self.bins))

    @property
    def outputs(self) -> Floats:
        """(b,) output value of each bin."""
        return np.array(self.bins.outputs)

    @property
    def numbers(self) -> Floats:
        """(b,) the bins' output values, or those that undo the noise."""
        return self.debiased(np.arange(len(self.bins))) if self.debias else self.outputs

    @property
    def law(self) -> Floats:
        """The probability of each bin given each label value, (k, b)."""
        return bins_law(self.bins.bin_of, len(self.bins), self.target_epsilon)

    @property
    def local_epsilon(self) -> float:
        """ε₀ of randomised response over the bins."""
        return self.noise.local_epsilon

    @property
    def total_variation(self) -> float:
        """The largest total variation between the laws of two labels: 1 - αb/(b-1), of labels in different bins."""
        return self.noise.total_variation

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Bins (n,) after noise, of labels (n,) in 0..k-1."""
        check_labels(labels, len(self.values))
        return self.noise.randomize(np.array(self.bins.bin_of, dtype=np.uint8)[labels], rng)

    def debiased(self, payload: NDArray[np.integer]) -> Floats:
        """Numbers (n,) whose mean, given a label, is the mean of the label's bin under the prior."""
        prior, bin_of = np.array(self.common_prior), np.array(self.bins.bin_of)
        mass = np.bincount(bin_of, weights=prior)
        middle = np.bincount(bin_of, weights=np.array(self.values)) / np.bincount(bin_of)
        weighted = np.bincount(bin_of, weights=prior * np.array(self.values))
        means = np.where(mass > 0, weighted / np.where(mass > 0, mass, 1.0), middle)
        every = self.noise.debiased(np.arange(len(means), dtype=np.uint8)) @ means
        return np.asarray(every[payload])

    def alone(self, epsilon: float) -> Bracket:
        """δ(ε) of a message seen with its owner: that of a flipped label among b classes."""
        return self.noise.alone(epsilon)

    def exchanged(self, size: int, sampling_rate: float) -> Accountant:
        """The learner's accountant in an exchange of messages among `size` users: that of flipped labels of b
        classes.
        """
        return Under(self.noise.exchanged(size, sampling_rate), self.caveats)

    def fetched(self, sources: int, submissions: int) -> Accountant:
        """The learner's accountant if so many messages arrived, each fetched from one of `sources` users: that of b
        classes.
        """
        return Under(self.noise.fetched(sources, submissions), self.caveats)


@dataclass(frozen=True)
class UnbiasedValues(ValueMessage):
    """The optimal unbiased randomizer (Badanidiyuru et al. 2023): the mean of an output is the label's value."""

    kind: ClassVar[str] = "value"

    @cached_property
    def best(self) -> UnbiasedLaw:
        """The randomizer that the linear programme finds, with exact means and enumerated ε."""
        return _best(self.values, self.common_prior, self.target_epsilon)

    @property
    def outputs(self) -> Floats:
        """The output values (m,), which reach beyond the labels' range at both ends."""
        return self.best.outputs

    @property
    def law(self) -> Floats:
        """The probability of each output given each label value, (k, m)."""
        return self.best.law

    @cached_property
    def local_epsilon(self) -> float:
        """ε₀ of the table, enumerated and rounded up."""
        return self.best.epsilon * (1.0 + 2.0**-45)

    @cached_property
    def total_variation(self) -> float:
        """Largest total variation between two rows of the table, rounded up."""
        return min(1.0, law_delta(self.best.law, 0.0) * (1.0 + 2.0**-45))

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Places (n,) of output values, of labels (n,) in 0..k-1."""
        check_labels(labels, len(self.values))
        return drawn_from_rows(self.best.law, labels, rng)


@lru_cache(maxsize=256)
def _best(values: tuple[float, ...], prior: tuple[float, ...], epsilon: float) -> UnbiasedLaw:
    return best_unbiased(np.array(values), np.array(prior), epsilon)


def exchanged_at(
    randomizer: Callable[[float], ValueMessage],
    target: float,
    sizes: NDArray[np.int64],
    *,
    sampling_rate: float,
    delta: float,
    most: float = 10.0,
) -> ValueMessage:
    """The randomizer at the largest ε₀ of three digits, at most `most`, that certifies the learner's target.

    Args:
        randomizer: the randomizer at an ε₀. target, delta: the learner's (ε, δ) in every cluster, ε below `most`.
        sizes: of the clusters. sampling_rate: θ.
    """

    def certified(local: float, size: int) -> bool:
        return local <= most and randomizer(local).exchanged(size, sampling_rate).satisfies(target, delta)

    return randomizer(largest_local_epsilon(certified, sizes.tolist(), target))


def prior_of(payload: NDArray[np.integer], noise: RandomizedResponse) -> tuple[float, ...]:
    """A prior from noisy labels (n,) of users who do nothing else: their unbiased shares, none below 1/(n k).

    These users pay with their own ε; the labels of all others take no part, so the total is the larger ε (parallel
    composition) if who pays is public and drawn without the labels.
    """
    k = noise.num_classes
    if not len(payload):
        return (1.0 / k,) * k
    shares = noise.debiased(payload.astype(np.uint8, copy=False)).mean(axis=0)
    shares = np.maximum(shares, 1.0 / (len(payload) * k))
    return tuple((shares / shares.sum()).tolist())
