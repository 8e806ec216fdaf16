"""Error rates of groups. Metrics alone may look at true labels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from p2p_sim.learning.metrics import Predicted
from p2p_sim.measures.group_gaps import ERROR, REFERENCE, SHARE, Group
from p2p_sim.population.measured_groups import CLASS
from p2p_sim.population.population import People, Population

Floats = NDArray[np.float64]


def by_group(found: Predicted, kinds: Sequence[str]) -> dict[str, float | None]:
    """Share and error rates of each group, by the column of a row that holds them.

    The share is that of the rows held out, or of the probability under a known law. The error rate is the 0-1 loss
    within the group, None for a group without rows and for a predictor that there is not.

    Args:
        found: what was predicted. kinds: "class", or a grouping of the population.
    """
    if not kinds:
        return {}
    mass = _mass(found.population)
    whole = mass.sum()
    wrong = [_wrong(mass, probabilities) for probabilities in found.probabilities]
    row: dict[str, float | None] = {}
    for kind in kinds:
        names, (share, *errors) = _summed(found.population, kind, [mass, *wrong])
        for index, name in enumerate(names):
            group = Group(kind, name)
            row |= {
                group.column(SHARE): float(share[index] / whole),
                group.column(ERROR): None,
                group.column(REFERENCE): None,
            }
            if share[index] > 0.0:
                rates = [float(error[index] / share[index]) for error in errors]
                row |= {group.column(figure): rate for figure, rate in zip((ERROR, REFERENCE), rates, strict=False)}
    return row


def _mass(population: People) -> Floats:
    """Weight of each row and class, (m, K): the probability under a known law, else 1 for a held-out row's label."""
    if population.law is not None:
        return population.law.mass[:, None] * population.law.label_distribution
    assert isinstance(population, Population)
    assert population.holdout is not None
    labels = population.holdout.labels
    mass = np.zeros((len(labels), population.num_classes))
    mass[np.arange(len(labels)), labels] = 1.0
    return mass


def _wrong(mass: Floats, probabilities: Floats) -> Floats:
    """The part of the mass that is not of the most probable predicted class, (m, K)."""
    found = mass.copy()
    found[np.arange(len(mass)), probabilities.argmax(axis=1)] = 0.0
    return found


def _summed(population: People, kind: str, parts: Sequence[Floats]) -> tuple[Sequence[str], Sequence[Floats]]:
    """The groups of a kind, and the sums over each of them, (G,), of several arrays (m, K)."""
    if kind == CLASS:
        return [str(k) for k in range(population.num_classes)], [part.sum(axis=0) for part in parts]
    assert isinstance(population, Population)
    grouping = population.groupings[kind]
    there, size = grouping.of >= 0, len(grouping.names)
    of = grouping.of[there]
    return grouping.names, [np.bincount(of, part.sum(axis=1)[there], size).astype(np.float64) for part in parts]
