"""Builds the population of one replicate from a source and a clustering. A plug-in's sample is checked first."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import POPULATIONS, InputError, PlugIns, Streams, is_array, method_of, offer_of, require
from p2p_sim.population.branches import BranchesConfig, HeartConfig
from p2p_sim.population.clustering import ClustersConfig, GivenClusters
from p2p_sim.population.digits_and_adult import AdultConfig, DigitsConfig
from p2p_sim.population.drawn_features import CircleConfig, LinearConfig, RealLineConfig, UnitCubeConfig
from p2p_sim.population.images import Cifar10Config, FashionMnistConfig, MnistConfig
from p2p_sim.population.measured_groups import CLASS, CLUSTER_SIZE, by_size, nearest_cluster
from p2p_sim.population.population import Examples, FiniteLaw, Population, Sample, Source
from p2p_sim.population.scikit_tables import BreastCancerConfig, DiabetesConfig, WineConfig
from p2p_sim.population.synthetic import DrawnPeople, SyntheticConfig
from p2p_sim.population.table import TableConfig

MOST_CLASSES = 256
"""Largest number of classes; a label is a byte."""
_OFF = 1e-6
"""Largest allowed difference between 1 and a sum of probabilities."""


def check_sample(method: str, sample: Any) -> None:
    """Raise InputError if a plug-in's sample has wrong types, shapes or ranges.

    method: the beginning of the message, which names the plug-in's method. sample: what the method returned.
    """
    require(method, isinstance(sample, Sample), f"must give a Sample, not {type(sample).__name__}")
    classes = sample.num_classes
    counted = isinstance(classes, int | np.integer) and not isinstance(classes, bool) and 2 <= classes <= MOST_CLASSES
    require(method, bool(counted), f"num_classes must be a whole number from 2 to {MOST_CLASSES}, not {classes!r}")
    _check_rows(f"{method}users: ", sample.users, int(classes))
    # errors are measured on held-out rows, or exactly under the known law
    users, columns = len(sample.users.labels), sample.users.features.shape[1]
    if sample.holdout is not None:
        _check_rows(f"{method}holdout: ", sample.holdout, int(classes))
        same = sample.holdout.features.shape[1] == columns
        require(method, same, f"holdout: features must have {columns} columns, as the users' features have")
    elif sample.law is None:
        raise InputError(f"{method}must hold rows out, or give the law, by which errors are measured")
    if sample.law is not None:
        _check_law(f"{method}law: ", sample.law, columns, int(classes))
        point, points = sample.point, len(sample.law.mass)
        placed = is_array(point, "iu", (users,)) and point.min() >= 0 and point.max() < points
        require(method, placed, f"point must be integers ({users},) in 0..{points - 1}, with a law")
    if sample.values is not None:
        grid = np.asarray(sample.values)
        right = is_array(grid, "iuf", (int(classes),)) and np.isfinite(grid).all() and (np.diff(grid) > 0).all()
        require(method, bool(right), f"values must be {classes} finite numbers, increasing")


def _check_rows(method: str, rows: Any, classes: int) -> None:
    """Raise InputError unless `rows` are Examples with finite features, and a label below `classes` for each row.

    method: the beginning of the message. classes: K, number of classes; labels are 0 to K-1.
    """
    require(method, isinstance(rows, Examples), f"must be Examples, not {type(rows).__name__}")
    features, labels = rows.features, rows.labels
    require(method, is_array(features, "f", (None, None)), "features must be floating-point numbers (n, d)")
    require(method, bool(np.isfinite(features).all()), "features must be finite")
    count = len(features)
    right = is_array(labels, "u", (count,)) and labels.dtype == np.uint8
    require(method, right, "labels must be uint8 (n,), one for each row of features")
    lie = bool(count) and int(labels.max()) < classes
    require(method, lie, f"labels must lie in 0..{classes - 1}, and there must be some")
    for name, kinds in (("cluster", "iu"), ("row", "iu"), ("target", "f")):
        value, numbers = getattr(rows, name), "numbers" if kinds == "f" else "integers"
        right = value is None or (is_array(value, kinds, (count,)) and bool(np.isfinite(value).all()))
        require(method, right, f"{name} must be {numbers} ({count},)")


def _check_law(method: str, law: Any, columns: int, classes: int) -> None:
    """Raise InputError unless `law` is a well-formed law (distribution) of features and labels on P points.

    A `FiniteLaw` has finite features, (P, d), and the points' probabilities, (P,). It also has class probabilities, (P,
    K), and clusters, (P,). Probabilities must not be negative and must sum to 1, up to 1e-6.

    Args:
        method: the beginning of the message. columns: d, number of features. classes: K, number of classes.
    """
    require(method, isinstance(law, FiniteLaw), f"must be a FiniteLaw, not {type(law).__name__}")
    points = len(law.mass)
    shapes = (
        is_array(law.points, "f", (points, columns))
        and is_array(law.mass, "f", (points,))
        and is_array(law.label_distribution, "f", (points, classes))
        and is_array(law.cluster, "iu", (points,))
    )
    require(
        method, shapes, f"must have points (P, {columns}), mass (P,), label_distribution (P, {classes}), cluster (P,)"
    )
    require(method, bool(np.isfinite(law.points).all()), "points must be finite")
    # Σ mass = 1, and Σ_k p(k|x) = 1 at each point
    for name, values, sums in (
        ("mass", law.mass, law.mass.sum(keepdims=True)),
        ("label_distribution", law.label_distribution, law.label_distribution.sum(axis=1)),
    ):
        right = bool((values >= 0).all() and (np.abs(sums - 1.0) <= _OFF).all())
        require(method, right, f"{name} must be probabilities, at least 0 and with the sum 1")


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
    """Draws the users of one replicate, groups the users into clusters, and stores them cluster by cluster. The
    population also has the rows (or the known law) on which errors are measured. Groupings divide these rows into
    groups; reports state errors for each group.

    Args:
        source: draws the users. clusters: decides the users' clusters. places: directories in which data files are
        looked for, in this order. streams: the replicate's random streams. groups: names of the groupings: "class",
        "cluster_size" (the size of the row's cluster), or the name of a column. "class" is accepted but not stored,
        since labels give it.
    """
    sample = source.sample(places, streams)
    if (offer := offer_of(POPULATIONS, source.kind)) is not None:
        check_sample(f"{method_of(offer, source, 'sample')}population.kind = {source.kind!r}: ", sample)
    cluster, own = clusters.assign(sample.users, streams), isinstance(clusters, GivenClusters)
    sample = sample.sort_users(cluster)
    users, held = sample.users, sample.holdout
    if own and held is not None and held.cluster is not None and users.cluster is not None:
        # held-out rows' cluster numbers are mapped to the users' new numbers; -1: no user is in the cluster
        numbers = np.unique(users.cluster)
        index = np.minimum(np.searchsorted(numbers, held.cluster), len(numbers) - 1)
        held = replace(held, cluster=np.where(numbers[index] == held.cluster, index, -1))
    people = Population(
        users.features,
        users.labels,
        np.concatenate([[0], np.cumsum(np.bincount(cluster))]).astype(np.int64),
        sample.num_classes,
        holdout=held,
        law=sample.law,
        point=sample.point,
        law_clusters=sample.law is not None and own,
        row=users.row,
        source_rows=users.source_rows,
        values=sample.values,
        line_law=sample.line_law,
    )
    groupings = {
        column: source.grouping(column, places, streams) for column in groups if column not in (CLASS, CLUSTER_SIZE)
    }
    if CLUSTER_SIZE in groups:
        groupings[CLUSTER_SIZE] = by_size(people.cluster_sizes, _measured_clusters(people, own))
    return replace(people, groupings=groupings) if groupings else people


def _measured_clusters(people: Population, own: bool) -> NDArray[np.int64]:
    """The cluster (m,) of each of the m rows on which errors are measured; -1 for a cluster without users.

    These rows are the points of the known law of the features or, without a law, the held-out rows.

    Args:
        people: the population. own: whether the source of the data gives the users' clusters. If the source gives the
        rows' clusters, too, the rows keep these clusters. Otherwise a row belongs to the cluster whose users have the
        nearest mean features.
    """
    law, held = people.law, people.holdout
    if law is not None and own and people.point is not None:
        number = np.full(int(law.cluster.max()) + 1, -1, dtype=np.int64)
        number[law.cluster[people.point[people.cluster_offsets[:-1]]]] = np.arange(len(people.cluster_sizes))
        return number[law.cluster]
    if held is not None and own and held.cluster is not None:
        return held.cluster
    # errors are measured on held-out rows or on the law's points; a sample has at least one of these
    rows = law.points if law is not None else cast(Examples, held).features
    return nearest_cluster(rows, people.features, people.cluster_offsets)


def draw_people(source: SyntheticConfig, clusters: GivenClusters, streams: Streams) -> DrawnPeople:
    """The users that `build_population` draws from this source and these streams. To save memory, labels are not
    stored. Whenever labels are asked for, they are drawn again, with the same result.

    Args:
        source: draws the users. clusters: states that users stay in the source's clusters. streams: the replicate's
        random streams.

    Raises:
        InputError: a cluster has fewer users than `clusters.min_size`.
    """
    people = source.drawn(streams)
    clusters.check_sizes(people.cluster_sizes)
    return people
