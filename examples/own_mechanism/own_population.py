"""A population of one's own, for p2p-sim."""

from typing import Any, Literal

import numpy as np
from pydantic import Field

from p2p_sim import extend


class MoonsConfig(extend.Source):
    """scikit-learn's two moons; a user's label is her moon."""

    kind: Literal["moons"] = "moons"
    users: int = Field(default=2_000, ge=2, le=10**7)
    """n: number of users, 2 to 10,000,000; half as many rows more are held out."""
    noise: float = Field(default=0.2, ge=0)
    """Standard deviation of the noise on features, at least 0."""

    @property
    def known_classes(self) -> int:
        return 2

    def sample(self, places: Any, streams: Any) -> extend.Sample:
        from sklearn.datasets import make_moons

        count, seed = self.users + self.users // 2, streams.integer_seed("population")
        features, labels = make_moons(count, noise=self.noise, random_state=seed)
        users, held_out = (
            extend.Examples(features[part], labels[part].astype(np.uint8))
            for part in (slice(self.users), slice(self.users, None))
        )
        return extend.Sample(users, 2, held_out)
