"""A mechanism of one's own, for p2p-sim."""

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from p2p_sim import extend


class UnevenResponseConfig(extend.LocalMechanism):
    """Randomised response in which labels of class 0 are flipped with a probability of their own."""

    kind: Literal["uneven_response"] = "uneven_response"
    described: ClassVar[str] = "randomised response that flips class 0 with a probability of its own"
    conditions: ClassVar[tuple[str, ...]] = ("each user answers once, with noise of her own",)
    columns: ClassVar[tuple[extend.Column, ...]] = (
        extend.Column("flip_prob", "flip probability α"),
        extend.Column("first_flip_prob", "flip probability of class 0"),
    )
    flip_prob: float = Field(gt=0, le=0.5)
    """α: probability that a label of any other class is sent as another one, above 0 and at most 0.5."""
    first_flip_prob: float = Field(default=0.1, gt=0, le=0.5)
    """Probability that a label of class 0 is sent as another one, above 0 and at most 0.5."""

    def transition(self, num_classes: int) -> Any:
        flips = np.full(num_classes, self.flip_prob)
        flips[0] = self.first_flip_prob
        matrix = np.tile(flips[:, None] / (num_classes - 1), num_classes)
        np.fill_diagonal(matrix, 1.0 - flips)
        return matrix
