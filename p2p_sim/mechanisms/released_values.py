"""Labels that are numbers, privatised by every user on her own: RR-on-Bins and the optimal unbiased randomizer."""

from abc import abstractmethod
from functools import lru_cache
from typing import ClassVar, Literal, Self

from pydantic import Field

from p2p_sim.base.configuration import Config
from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.channels import LocalAccountant, LocalChannel
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.label_values import RrOnBins, UnbiasedValues, ValueMessage
from p2p_sim.mechanisms.noise_law import ValueLaw
from p2p_sim.mechanisms.outcome import Outcome, ReleaseKind
from p2p_sim.mechanisms.rr_with_prior import check_prior
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.conditions import LOCAL_CONDITIONS, PUBLIC_GRID, PUBLIC_PRIOR
from p2p_sim.privacy.rivals.rr_on_bins import LossName
from p2p_sim.privacy.rivals.unbiased_values import LARGEST_EPSILON


class ValuesConfig(Config):
    """Base of the configurations of randomizers of numeric labels, used in a local mechanism or in an exchange."""

    prior: tuple[float, ...] | None = Field(default=None, min_length=2, max_length=64)
    """Prior over the k label values: k public probabilities that do not come from the labels; absent: all the same."""

    @abstractmethod
    def at(self, epsilon: float, values: tuple[float, ...] | None) -> ValueMessage:
        """The randomizer at a local privacy parameter ε₀ for a public grid of values.

        Raises:
            InputError: labels are classes, or ε₀ is too small for the solver.
        """


class BinsConfig(ValuesConfig):
    """Keys of RR-on-Bins: randomised response over bins of the label values."""

    loss: LossName = "squared"
    """"squared" or "absolute": the loss whose expectation under the prior the bins and their output values minimise."""
    debias: bool = False
    """Tell the learner numbers that undo the noise on average, in place of the output values of the bins."""

    def at(self, epsilon: float, values: tuple[float, ...] | None) -> RrOnBins:
        return RrOnBins(epsilon, numbers_of(values), self.prior, self.loss, self.debias)


class UnbiasedConfig(ValuesConfig):
    """Keys of the optimal unbiased randomizer, whose output has the label's value as its mean."""

    def at(self, epsilon: float, values: tuple[float, ...] | None) -> UnbiasedValues:
        randomizer = UnbiasedValues(epsilon, numbers_of(values), self.prior)
        try:
            randomizer.best  # noqa: B018  # solves the linear programme
        except ValueError as error:
            raise InputError(f"mechanism: no unbiased values at ε₀ = {epsilon:g}: {error}; give a larger one") from None
        return randomizer


def numbers_of(values: tuple[float, ...] | None) -> tuple[float, ...]:
    """Returns the public grid of label values if labels are numbers.

    Raises:
        InputError: labels are classes, so that `values` is None.
    """
    if values is None:
        raise InputError(
            "mechanism: needs labels that are numbers, as population.kind = 'linear' or 'diabetes' has, or "
            "'table' with label_range"
        )
    return values


class LocalValues(LocalChannel, ValuesConfig):
    """Base of the local mechanisms that release numbers: every user randomizes her own label."""

    conditions: ClassVar[tuple[str, ...]] = (*LOCAL_CONDITIONS, PUBLIC_GRID, PUBLIC_PRIOR)
    releases: ClassVar[ReleaseKind] = "values"
    target_epsilon: float = Field(gt=0, le=LARGEST_EPSILON)
    """ε, above 0 and at most 10."""

    def check(self, num_classes: int) -> None:
        """Raise InputError if the prior is no distribution over the k label values."""
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
        """Conditions of ε₀ of a user's message, as sentences; the grid and the prior must be public."""
        return (*LOCAL_CONDITIONS, *self.noise.caveats)

    def value_law(self, outcome: Outcome) -> ValueLaw:
        """Public probabilities of each released number given the user's own label value."""
        return self.randomizer(self.setup).published("user")


@lru_cache(maxsize=256)
def randomizer_at(config: ValuesConfig, epsilon: float, values: tuple[float, ...] | None) -> ValueMessage:
    """The randomizer of a configuration at ε₀ for a public grid; cached, as solving for it takes long."""
    return config.at(epsilon, values)


class RrOnBinsConfig(LocalValues, BinsConfig):
    """Every user sends the bin of her label through randomised response, with her name (RR-on-Bins).

    The label is a number on a public grid. Bins and their output values suit the prior and the loss best (Ghazi et al.,
    ICLR 2023). No trusted party and no amplification.
    """

    kind: Literal["rr_on_bins"] = "rr_on_bins"
    described: ClassVar[str] = "RR-on-Bins, every user on her own"


class UnbiasedValuesConfig(LocalValues, UnbiasedConfig):
    """Every user sends a number whose mean is her label, with her name (optimal unbiased randomizer).

    The label is a number on a public grid. Among all unbiased randomizers with this ε the squared error under the prior
    is smallest (Badanidiyuru et al., NeurIPS 2023). No trusted party and no amplification.
    """

    kind: Literal["unbiased_values"] = "unbiased_values"
    described: ClassVar[str] = "optimal unbiased values, every user on her own"
