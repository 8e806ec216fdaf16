"""Laws on the real line whose density is known: those of the consistency study."""

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from p2p_sim.base.streams import Streams
from p2p_sim.measures.exact_laws import LINE_LAWS, LineLaw
from p2p_sim.population.population import Examples, Sample
from p2p_sim.population.source import Source


class RealLineConfig(Source):
    """One feature x on the real line, drawn from a law whose density is known, and a label that says on which side of
    the law's median x lies.

    The law is what a density is measured against. The label is the threshold of the study of *Private Bayes
    consistency*: each class has probability 1/2, and nothing but x is random.
    """

    kind: Literal["real_line"] = "real_line"
    clustered: ClassVar[bool] = True
    known_classes: ClassVar[int | None] = 2
    row_by_row: ClassVar[frozenset[str]] = frozenset(("users", "law", "holdout"))
    users: int = Field(default=10_000, ge=2, le=10_000_000)
    """n: number of users, each drawn independently from the law; 2 to 10,000,000."""
    law: Literal["normal", "cauchy", "spikes"] = "normal"
    """Of x: "normal": N(0, 1); "cauchy": the standard Cauchy law, which has no mean; "spikes": half of the mass uniform
    on [0, 1], half on ten equal intervals in it of width 0.002."""
    holdout: int = Field(default=10_000, ge=1, le=10_000_000)
    """Number of rows that belong to no user, drawn from the same law to measure error, 1 to 10,000,000."""

    @property
    def line_law(self) -> LineLaw:
        """The law of x."""
        return LINE_LAWS[self.law]

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draw the users and the holdout of one replicate."""
        users = self._draw(self.users, streams.generator("population"))
        return Sample(users, 2, self._draw(self.holdout, streams.generator("holdout")), line_law=self.line_law)

    def _draw(self, count: int, rng: np.random.Generator) -> Examples:
        """Rows in a single cluster."""
        x = self.line_law.draw(count, rng)
        labels = (self.line_law.cdf(x[:, 0]) >= 0.5).astype(np.uint8)
        return Examples(x, labels, np.zeros(count, dtype=np.int64))
