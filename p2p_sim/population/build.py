"""From a source and a clustering to the population of one replicate."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError
from p2p_sim.base.plugins import POPULATIONS, PlugIns, method_of, offer_of
from p2p_sim.base.streams import Streams
from p2p_sim.population.branches import BranchesConfig
from p2p_sim.population.clustering import ClustersConfig, GivenClusters
from p2p_sim.population.digits_and_adult import AdultConfig, DigitsConfig
from p2p_sim.population.gaussian_circle import CircleConfig
from p2p_sim.population.heart import HeartConfig
from p2p_sim.population.images import Cifar10Config, FashionMnistConfig, MnistConfig
from p2p_sim.population.linear_law import LinearConfig
from p2p_sim.population.measured_groups import CLASS, CLUSTER_SIZE, by_size, nearest_cluster
from p2p_sim.population.plug_in_sample import check_sample
from p2p_sim.population.population import Examples, Population, Sample
from p2p_sim.population.real_line import RealLineConfig
from p2p_sim.population.scikit_tables import BreastCancerConfig, DiabetesConfig, WineConfig
from p2p_sim.population.source import Source
from p2p_sim.population.streamed_users import DrawnPeople
from p2p_sim.population.synthetic import SyntheticConfig
from p2p_sim.population.table import TableConfig
from p2p_sim.population.unit_cube import UnitCubeConfig

PopulationConfig = Annotated[
    SyntheticConfig
    | CircleConfig
    | DigitsConfig
    | MnistConfig
    | FashionMnistConfig
    | Cifar10Config
    | AdultConfig
    | HeartConfig
    | BreastCancerConfig
    | WineConfig
    | LinearConfig
    | DiabetesConfig
    | UnitCubeConfig
    | BranchesConfig
    | RealLineConfig
    | TableConfig,
    PlugIns(POPULATIONS, Source),
]


def build_population(
    source: PopulationConfig,
    clusters: ClustersConfig,
    places: tuple[Path, ...],
    streams: Streams,
    groups: tuple[str, ...] = (),
) -> Population:
    """Draw the users of one replicate and store them cluster by cluster.

    Args:
        source: where the users come from.
        clusters: how they are grouped.
        places: directories in which data files are looked for, first match wins.
        streams: the replicate's random streams.
        groups: groupings of the rows that are held out, or of the points of the law.
    """
    sample = source.sample(places, streams)
    if (offer := offer_of(POPULATIONS, source.kind)) is not None:
        check_sample(f"{method_of(offer, source, 'sample')}population.kind = {source.kind!r}: ", sample)
    _check(source.kind, sample)
    cluster = clusters.assign(sample.users, streams)
    sizes = np.bincount(cluster)
    users, point = sample.users, sample.point
    if np.any(cluster[1:] < cluster[:-1]):
        order = np.argsort(cluster, kind="stable")
        users = users.take(order)
        point = None if point is None else point[order]
    people = Population(
        users.features,
        users.labels,
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        sample.num_classes,
        _placed(sample) if isinstance(clusters, GivenClusters) else sample.holdout,
        sample.law,
        point,
        law_clusters=sample.law is not None and isinstance(clusters, GivenClusters),
        row=users.row,
        source_rows=users.source_rows,
        values=sample.values,
        line_law=sample.line_law,
    )
    columns = [kind for kind in groups if kind not in (CLASS, CLUSTER_SIZE)]
    groupings = {column: source.grouping(column, places, streams) for column in columns}
    if CLUSTER_SIZE in groups:
        own = isinstance(clusters, GivenClusters)
        groupings[CLUSTER_SIZE] = by_size(people.cluster_sizes, _measured_clusters(people, own))
    return replace(people, groupings=groupings) if groupings else people


def _measured_clusters(people: Population, own: bool) -> NDArray[np.int64]:
    """The cluster of each row of the holdout, or of each point of the law, -1 for none, (m,).

    own: whether the clusters are the source's. Other rows are in the cluster whose users' mean is nearest.
    """
    law, held = people.law, people.holdout
    if law is not None and own and people.point is not None:
        place = np.full(int(law.cluster.max()) + 1, -1, dtype=np.int64)
        place[law.cluster[people.point[people.cluster_offsets[:-1]]]] = np.arange(len(people.cluster_sizes))
        return place[law.cluster]
    if held is not None and own and held.cluster is not None:
        return held.cluster
    assert law is not None or held is not None
    rows = law.points if law is not None else held.features  # type: ignore[union-attr]
    return nearest_cluster(rows, people.features, people.cluster_offsets)


def draw_people(source: SyntheticConfig, clusters: GivenClusters, streams: Streams) -> DrawnPeople:
    """The users of `build_population`, drawn shard by shard when they are asked for."""
    users = source.drawn(streams)
    sizes = np.bincount(users.law.cluster, weights=users.counts).astype(np.int64)  # exact: below 2**53
    sizes = sizes[sizes > 0]
    clusters.check_sizes(sizes)
    return DrawnPeople(users, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), users.law)


def _placed(sample: Sample) -> Examples | None:
    """The holdout with the clusters of its rows, numbered as those of users; -1: of a cluster without users."""
    held, given = sample.holdout, sample.users.cluster
    if held is None or held.cluster is None or given is None:
        return held
    names = np.unique(given)
    place = np.minimum(np.searchsorted(names, held.cluster), len(names) - 1)
    return replace(held, cluster=np.where(names[place] == held.cluster, place, -1))


def _check(kind: str, sample: Sample) -> None:
    """Refuse rows that no mechanism knows how to privatise."""
    for name, rows in (("users", sample.users), ("holdout", sample.holdout)):
        if rows is not None and (fault := _fault(rows, sample.num_classes)):
            raise InputError(f"population.kind = {kind!r}: {name}: {fault}")


def _fault(rows: Examples, num_classes: int) -> str | None:
    if rows.features.ndim != 2 or rows.features.dtype.kind != "f":
        return "features must be floating-point numbers (n, d)"
    if rows.labels.dtype != np.uint8 or rows.labels.shape != (len(rows.features),):
        return "labels must be uint8 (n,), one a row of features"
    if not len(rows.labels) or rows.labels.max() >= num_classes:
        return f"labels must lie in 0..{num_classes - 1}, and there must be some"
    return None
