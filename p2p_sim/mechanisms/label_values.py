"""Randomizers of regression labels: messages whose payload names an output value.

A label is an index into a public grid of values, so the exchange carries it like a class. The payload is an index
into the randomizer's own output values; `values_of` turns payloads into numbers.
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
    """A randomizer of numeric labels; a label is an index into a public grid of k values.

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
        """Conditions of ε₀ beyond those of any message: the grid is public, and so is the prior if there is one."""
        return (PUBLIC_GRID,) if self.prior is None else (PUBLIC_GRID, PUBLIC_PRIOR)

    @property
    def common_prior(self) -> tuple[float, ...]:
        """Prior probabilities (k,) of the label values; uniform if no prior is given."""
        return (1.0 / len(self.values),) * len(self.values) if self.prior is None else self.prior

    @property
    @abstractmethod
    def outputs(self) -> Floats:
        """The m values (m,) that a message can name."""

    @property
    @abstractmethod
    def law(self) -> Floats:
        """Matrix (k, m): probability of each output value given each label value."""

    @property
    def payload_bits(self) -> int:
        """Size of one message in bits: enough to name one of m output values."""
        return (len(self.outputs) - 1).bit_length()

    @property
    def numbers(self) -> Floats:
        """The number (m,) that the learner uses for each output; by default the output value."""
        return self.outputs

    def published(self, source: Source) -> ValueLaw:
        """The public law of the released numbers; `source`: whose label each is, the user's or a cluster member's."""
        return ValueLaw(np.array(self.values), self.numbers, self.law, np.array(self.common_prior), source)

    def released(self, payload: NDArray[np.generic]) -> NDArray[np.generic]:
        """Returns the numbers (n,) that the learner gets for payloads (n,)."""
        return self.numbers[payload.astype(np.intp)]

    def attained(self, delta: float) -> float:
        """Returns an ε at which δ(ε) of one message is still above δ: no valid ε at δ is smaller."""
        return attained_epsilon(self.law, delta, self.local_epsilon)

    def values_of(self, payload: NDArray[np.integer]) -> Floats:
        """Returns the output values (n,) that payloads (n,) name."""
        return np.asarray(self.outputs[payload])


@dataclass(frozen=True)
class RrOnBins(ValueMessage):
    """RR-on-Bins (Ghazi et al. 2023): randomised response over bins of labels, the best for the prior and the loss.

    Once the bins are fixed, a message is a flipped label among b classes, and every bound for these holds.

    Args:
        loss: "squared" or "absolute"; the bins minimise its expectation under the prior.
        debias: give the learner the numbers of `debiased`, instead of the bins' output values.
    """

    loss: LossName = "squared"
    debias: bool = False

    kind: ClassVar[str] = "bin"

    @cached_property
    def bins(self) -> Bins:
        """The bins of the label values, and the output value of each."""
        return best_bins(np.array(self.values), np.array(self.common_prior), self.target_epsilon, self.loss)

    @cached_property
    def noise(self) -> RandomizedResponse:
        """Randomised response over the bins."""
        return RandomizedResponse(local_flip_prob(self.target_epsilon, len(self.bins)), len(self.bins))

    @property
    def outputs(self) -> Floats:
        """Output value (b,) of each bin."""
        return np.array(self.bins.outputs)

    @property
    def numbers(self) -> Floats:
        """The number (b,) that the learner uses for each bin: its output value, or the debiased one."""
        return self.debiased(np.arange(len(self.bins))) if self.debias else self.outputs

    @property
    def law(self) -> Floats:
        """Matrix (k, b): probability of each bin given each label value."""
        return bins_law(self.bins.bin_of, len(self.bins), self.target_epsilon)

    @property
    def local_epsilon(self) -> float:
        """ε₀ of randomised response over the bins."""
        return self.noise.local_epsilon

    @property
    def total_variation(self) -> float:
        """Largest total variation between the messages of two labels: 1 - αb/(b-1), for labels in different bins."""
        return self.noise.total_variation

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Returns the users' messages: a noisy bin (n,) for each of the labels (n,) in 0..k-1."""
        check_labels(labels, len(self.values))
        return self.noise.randomize(np.array(self.bins.bin_of, dtype=np.uint8)[labels], rng)

    def debiased(self, payload: NDArray[np.integer]) -> Floats:
        """Numbers (n,) for payloads (n,) whose mean, given a label, is the prior mean of the label's bin."""
        prior, bin_of = np.array(self.common_prior), np.array(self.bins.bin_of)
        mass = np.bincount(bin_of, weights=prior)
        middle = np.bincount(bin_of, weights=np.array(self.values)) / np.bincount(bin_of)
        weighted = np.bincount(bin_of, weights=prior * np.array(self.values))
        means = np.where(mass > 0, weighted / np.where(mass > 0, mass, 1.0), middle)
        every = self.noise.debiased(np.arange(len(means), dtype=np.uint8)) @ means
        return np.asarray(every[payload])

    def alone(self, epsilon: float) -> Bracket:
        """Bracket of δ(ε) of one message seen with its sender's name."""
        return self.noise.alone(epsilon)

    def exchanged(self, size: int, sampling_rate: float) -> Accountant:
        """Accountant of the learner for an exchange of these messages among `size` users with sampling rate θ."""
        return Under(self.noise.exchanged(size, sampling_rate), self.caveats)

    def fetched(self, sources: int, submissions: int) -> Accountant:
        """Accountant of the learner for a realised network: `submissions` messages fetched from `sources` users."""
        return Under(self.noise.fetched(sources, submissions), self.caveats)


@dataclass(frozen=True)
class UnbiasedValues(ValueMessage):
    """The optimal unbiased randomizer (Badanidiyuru et al. 2023): the mean of an output is the label's value."""

    kind: ClassVar[str] = "value"

    @cached_property
    def best(self) -> UnbiasedLaw:
        """The optimal law of output values that the linear programme finds, corrected for rounding; solved once."""
        return _best(self.values, self.common_prior, self.target_epsilon)

    @property
    def outputs(self) -> Floats:
        """Output values (m,), which extend beyond the labels' range at both ends."""
        return self.best.outputs

    @property
    def law(self) -> Floats:
        """Matrix (k, m): probability of each output value given each label value."""
        return self.best.law

    @cached_property
    def local_epsilon(self) -> float:
        """ε₀ of one message: the largest log-ratio in the matrix of probabilities, rounded up."""
        return self.best.epsilon * (1.0 + 2.0**-45)

    @cached_property
    def total_variation(self) -> float:
        """Largest total variation between the messages of two labels, rounded up."""
        return min(1.0, law_delta(self.best.law, 0.0) * (1.0 + 2.0**-45))

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Returns the users' messages: an index (n,) of an output value for each of the labels (n,) in 0..k-1."""
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
    """The randomizer with the largest ε₀ of three digits that keeps the learner's (ε, δ) in an exchange.

    Args:
        randomizer: makes the randomizer at an ε₀. target, delta: the learner's (ε, δ) in every cluster, ε below `most`.
        sizes: of the clusters. sampling_rate: θ. most: largest ε₀ allowed.
    """

    def certified(local: float, size: int) -> bool:
        return local <= most and randomizer(local).exchanged(size, sampling_rate).satisfies(target, delta)

    return randomizer(largest_local_epsilon(certified, sizes.tolist(), target))


def prior_of(payload: NDArray[np.integer], noise: RandomizedResponse) -> tuple[float, ...]:
    """A prior (k,) over label values, estimated from noisy labels (n,) of users who do nothing else.

    It holds their unbiased shares, with at least 1/(n k) for each value before scaling. These users pay with their own
    ε; the labels of all others take no part. So the total is the larger ε (parallel composition), if who pays is public
    and drawn without the labels.
    """
    k = noise.num_classes
    if not len(payload):
        return (1.0 / k,) * k
    shares = noise.debiased(payload.astype(np.uint8, copy=False)).mean(axis=0)
    shares = np.maximum(shares, 1.0 / (len(payload) * k))
    return tuple((shares / shares.sum()).tolist())
