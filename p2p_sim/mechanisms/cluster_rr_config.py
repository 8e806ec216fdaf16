"""What a scenario says of the centralised mechanism: its parameters, or an ε and a way to spend it."""

from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base.errors import InputError
from p2p_sim.measures.rehearsal import Choice, best_choice, corollary2, split_budget, uniform
from p2p_sim.mechanisms.cluster_rr import ClusterResponse, ClusterRR
from p2p_sim.mechanisms.mechanism import OwnMechanism, Setup
from p2p_sim.mechanisms.outcome import ReleaseKind
from p2p_sim.privacy.rivals.centralised import CURATOR_CONDITIONS, ClusterResampling

Split = Literal["optimised", "half", "uniform", "as-printed"]
_GIVEN = ("resampling_prob", "noise_scale", "threshold")


class ClusterRRConfig(OwnMechanism):
    """A trusted curator resamples labels from the clusters' noisy label distributions (clustering paper, Algorithm 1).

    Give `target_epsilon` and a `split`, or the parameters themselves.
    """

    kind: Literal["cluster_rr"] = "cluster_rr"
    described: ClassVar[str] = "a trusted curator who resamples them within clusters"
    conditions: ClassVar[tuple[str, ...]] = CURATOR_CONDITIONS
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε of distributions and labels together, above 0 and at most 100."""
    split: Split = "optimised"
    """How ε is spent. "optimised": threshold and budget split that do best on made-up labels with the given φ; "half":
    half of it on the distributions, with threshold φ (at most 1/K); "uniform": uniform randomised response (Corollary
    1); "as-printed": Corollary 2, which costs up to 3ε."""
    heterogeneity: float | None = Field(default=None, ge=0, le=2)
    """φ that the split assumes: a public guess, 0 to 2. Needed unless `oracle` or split = "uniform"."""
    oracle: bool = False
    """Take φ from the population: from its law or even its labels. This choice is not private; rows record it."""
    decisions: int = Field(default=4, ge=1, le=1_000_000)
    """Assumed number of decisions of a learner within a cluster, at least 1 (split = "optimised")."""
    resampling_prob: float | None = Field(default=None, ge=0, le=1)
    """λ: probability that a label is drawn anew from its cluster's noisy distribution, 0 to 1."""
    noise_scale: float | None = Field(default=None, gt=0)
    """σ: scale of the Laplace noise on a cluster's label counts, above 0; absent: infinite."""
    threshold: float | None = Field(default=None, ge=0, le=0.5)
    """τ: smallest probability in a noisy distribution, 0 to 1/K."""
    bias_correction: float = Field(default=0.0, ge=0, lt=1)
    """β: how much of the resampling signed weights undo, 0 to below 1; above 0 the noisy distributions are released.
    split = "uniform" sets it to λ."""

    approximate: bool = False
    """Use the scenario's δ, too: account for what resampling hides of the noisy distributions, and add less noise for
    the same ε. For β = 0; takes up to seconds for each cluster size."""

    @property
    def releases(self) -> ReleaseKind:
        corrected = self.bias_correction > 0 or (self.target_epsilon is not None and self.split == "uniform")
        return "signed" if corrected else "hard"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        given = [name for name in _GIVEN if getattr(self, name) is not None]
        if self.approximate and (self.releases == "signed" or self.split == "as-printed"):
            raise ValueError("approximate: nothing is hidden where the distributions are released or ε is nominal")
        if self.target_epsilon is None:
            missing = [name for name in ("resampling_prob", "threshold") if name not in given]
            if missing:
                raise ValueError(f"give target_epsilon, or resampling_prob and threshold; {missing[0]} is missing")
            return self
        if given:
            raise ValueError(f"give either target_epsilon or {given[0]}")
        if self.split == "uniform" and self.bias_correction > 0:
            raise ValueError("bias_correction: split = 'uniform' sets it to λ; leave it out")
        if self.oracle and self.heterogeneity is not None:
            raise ValueError("give either heterogeneity, a public guess, or oracle = true")
        if self.split != "uniform" and self.heterogeneity is None and not self.oracle:
            raise ValueError(f"split = '{self.split}' needs heterogeneity, a public guess of φ, or oracle = true")
        return self

    @property
    def asks_oracle(self) -> bool:
        return self.oracle

    def with_oracle_values(self, heterogeneity: Callable[[], float]) -> Self:
        """The same with the oracle's φ, where it is asked."""
        return self.model_copy(update={"heterogeneity": heterogeneity()}) if self.oracle else self

    def check(self, num_classes: int) -> None:
        if num_classes < 2:
            raise InputError(f"population: has {num_classes} class; a label needs two at least")
        if self.threshold is not None and self.threshold > 1.0 / num_classes:
            raise InputError(
                f"mechanism.threshold = {self.threshold:g}: must be at most 1/K = {1 / num_classes:.4g} for "
                f"{num_classes} classes"
            )

    def built(self, setup: Setup) -> ClusterRR:
        """The mechanism for clusters of these sizes.

        Raises:
            InputError: τ is above 1/K.
        """
        self.check(setup.num_classes)
        if self.target_epsilon is None:
            assert self.resampling_prob is not None
            assert self.threshold is not None
            scale = np.inf if self.noise_scale is None else self.noise_scale
            choice, beta = Choice(self.resampling_prob, scale, self.threshold), self.bias_correction
        else:
            choice = self._choice(self.target_epsilon, setup.sizes, setup.num_classes)
            if self.approximate:
                choice = self._stretched(self.target_epsilon, setup.delta, setup.sizes, setup.num_classes)
            beta = choice.resampling_prob if self.split == "uniform" else self.bias_correction
        chosen = (choice.resampling_prob, choice.noise_scale, choice.threshold)
        return ClusterRR(ClusterResponse(*chosen, beta, setup.num_classes), self.approximate)

    def _choice(self, epsilon: float, sizes: NDArray[np.int64], num_classes: int) -> Choice:
        """How a pure ε is spent."""
        size = _two_digits(float(np.mean(sizes)))
        return _choose(self.split, epsilon, self.heterogeneity or 0.0, num_classes, size, self.decisions)

    def _stretched(self, epsilon: float, delta: float, sizes: NDArray[np.int64], num_classes: int) -> Choice:
        """The choice for the largest pure ε, up to twice the given one, that is certified for (ε, δ) everywhere."""
        for factor in (2.0, 1.7, 1.4, 1.25, 1.15, 1.1, 1.05):
            choice = self._choice(factor * epsilon, sizes, num_classes)
            parameters = (num_classes, choice.resampling_prob, choice.noise_scale, choice.threshold, False)
            if all(ClusterResampling(int(n), *parameters).satisfies(epsilon, delta) for n in np.unique(sizes)):
                return choice
        return self._choice(epsilon, sizes, num_classes)


@lru_cache(maxsize=4_096)
def _choose(split: Split, epsilon: float, phi: float, classes: int, size: int, decisions: int) -> Choice:
    """The parameters that a split asks for."""
    if split == "uniform":
        return uniform(epsilon, classes)
    if split == "optimised":
        return best_choice(epsilon, classes, size, decisions, phi)
    threshold = min(phi, 1.0 / classes)
    return corollary2(epsilon, threshold) if split == "as-printed" else split_budget(epsilon, 0.5, threshold)


def _two_digits(size: float) -> int:
    """The size to two significant digits, so that replicates whose clusters differ a little choose alike."""
    return max(2, int(float(f"{size:.2g}")))
