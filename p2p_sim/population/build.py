"""From a source and a clustering to the population of one replicate."""

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from p2p_sim.population.circle import CircleConfig
from p2p_sim.population.clustering import ClustersConfig, GivenClusters
from p2p_sim.population.datasets import AdultConfig, DigitsConfig
from p2p_sim.population.images import Cifar10Config, FashionMnistConfig, MnistConfig
from p2p_sim.population.population import Population
from p2p_sim.population.synthetic import SyntheticConfig
from p2p_sim.population.table import TableConfig
from p2p_sim.streams import Streams

PopulationConfig = Annotated[
    SyntheticConfig
    | CircleConfig
    | DigitsConfig
    | MnistConfig
    | FashionMnistConfig
    | Cifar10Config
    | AdultConfig
    | TableConfig,
    Field(discriminator="kind"),
]


def build_population(
    source: PopulationConfig, clusters: ClustersConfig, places: tuple[Path, ...], streams: Streams
) -> Population:
    """Draw the users of one replicate and store them cluster by cluster.

    Args:
        source: where the users come from.
        clusters: how they are grouped.
        places: directories in which data files are looked for, first match wins.
        streams: the replicate's random streams.
    """
    sample = source.sample(places, streams)
    cluster = clusters.assign(sample.users, streams)
    sizes = np.bincount(cluster)
    users, point = sample.users, sample.point
    if np.any(cluster[1:] < cluster[:-1]):
        order = np.argsort(cluster, kind="stable")
        users = users.take(order)
        point = None if point is None else point[order]
    return Population(
        users.features,
        users.labels,
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        sample.num_classes,
        sample.holdout,
        sample.law,
        point,
        law_clusters=sample.law is not None and isinstance(clusters, GivenClusters),
        row=users.row,
        source_rows=users.source_rows,
    )
