"""Compares clusterings on the same users: heterogeneity, size of the smallest cluster, ε and accuracy.

Heterogeneity is how much labels vary within clusters. Each scenario runs twice: at a fixed flip probability α, and at
the α for a target ε. Run the study as `python -m analysis.clusterings --data-dir DIR`; the same command continues a
stopped study.
"""

import itertools
import time
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.study import EPSILON, Frame, command, curves, means
from p2p_sim import run
from p2p_sim.base import Streams, one_thread
from p2p_sim.figures import Panel, plot_study
from p2p_sim.population import BalancedClusters, Examples, HdbscanClusters, KMeansClusters, density_clusters
from p2p_sim.replicate import Replicate
from p2p_sim.scenario import Scenario

NAME, REPLICATES = "clusterings", 10
USERS, LEAST = 5_000, 36
"""Number of users of each data set, and the least number of users of a cluster (min_size). The digits data use all
users that are not held out."""
COUNTS = (5, 10, 20, 40)
"""Numbers of clusters that the study asks for."""
MANY = (10_000, 100_000)
"""Numbers of users for which the cost of a clustering is measured."""
ALPHA, THETA, DELTA, TARGET = 0.1, 0.5, 1e-6, 0.2
"""α, θ and δ of the exchange, and the target ε for the comparison of accuracy."""
DATA: dict[str, dict[str, Any]] = {
    "synthetic": {"kind": "synthetic", "users": USERS, "num_clusters": 20, "points_per_cluster": 20},
    "digits": {"kind": "digits"},
    "adult": {"kind": "adult", "users": USERS},
    "mnist": {"kind": "mnist", "task": "even-odd", "pca_dims": 50, "users": USERS},
}
TITLES = {
    "synthetic": "synthetic law", "digits": "digits, even or odd", "adult": "Adult", "mnist": "MNIST, even or odd",
}  # fmt: skip
COUNTED: dict[str, dict[str, Any]] = {
    "k-means": {"kind": "kmeans"},
    "mini-batch k-means": {"kind": "kmeans", "minibatch": True},
    "agglomerative": {"kind": "agglomerative"},
    "balanced": {"kind": "balanced"},
}
"""Clusterings that must be told a number of clusters: each name, with keys of the [clusters] section of a
scenario."""
DENSE, GIVEN = "HDBSCAN", "given"
"""`DENSE` chooses the number of clusters itself. `GIVEN` means the clusters that the synthetic law has."""
MEASURES = (
    "num_clusters", "min_cluster_size", "moved", "heterogeneity", "epsilon_upper", "target_flip_prob",
    "accuracy_at_target",
)  # fmt: skip
Task = tuple[str, str, int, int]
"""A task of the study: the data set, the clustering, the number of clusters asked for (0: none), and the replicate."""


def main(frame: Frame, replicates: int = REPLICATES) -> list[Path]:
    """Runs the exchange under each clustering of each data set. Returns the files of a figure and two tables. One table
    has means with 95% intervals. The other table has the CPU time and memory of the clusterings `KINDS`.

    Args:
        frame: runs the study and writes its files. replicates: number of replicates for each data set, clustering and
        number of clusters.
    """
    counts = (5, 20) if frame.small else COUNTS
    tasks: list[Task] = []
    for source in ("synthetic", "digits") if frame.small else DATA:
        # only the synthetic law comes with clusters
        ways = [*itertools.product(COUNTED, counts), (DENSE, 0), *[(GIVEN, 0)] * (source == "synthetic")]
        tasks += [(source, *way, replicate) for way in ways for replicate in range(2 if frame.small else replicates)]
    rows = pd.DataFrame(frame.each(partial(_measured, frame.data_dir), tasks))
    frame.rows(
        rows, name=NAME, data=DATA, clusterings=COUNTED, min_size=LEAST, flip_prob=ALPHA, sampling_rate=THETA,
        delta=DELTA, target_epsilon=TARGET, rows=len(rows),
    )  # fmt: skip
    points = means(rows, ("population", "clusters", "count"), MEASURES)
    sizes = (2_000,) if frame.small else MANY
    costs = frame.each(cost, [(label, users) for users, label in itertools.product(sizes, KINDS)], alone=True)
    return [_figure(points, frame), frame.table("table.csv", points), frame.table("cost.csv", costs)]


def _measured(data_dir: Path | None, task: Task) -> dict[str, Any]:
    """Measures one clustering of a data set in one replicate. The returned row has cluster sizes, the heterogeneity,
    and the share of users moved to another cluster. For the label exchange it has ε and accuracy at α = 0.1, and α and
    accuracy at ε = 0.2.

    data_dir: folder of data files. task: the data set, the clustering, the number of clusters asked for (0: none), and
    the replicate.
    """
    source, label, count, replicate = task
    scenario = _scenario(source, label, count)
    fixed = run(scenario, replicate, data_dir=data_dir).row
    aimed = run(scenario.replace(**{EPSILON: TARGET}), replicate, data_dir=data_dir).row
    return {
        "population": source, "clusters": label, "count": count, "replicate": replicate,
        **{key: fixed[key] for key in ("num_users", "num_clusters", "min_cluster_size", "max_cluster_size")},
        "moved": _moved(scenario, replicate, data_dir),
        **{key: fixed[key] for key in ("heterogeneity", "heterogeneity_basis", "epsilon_upper")},
        "accuracy": 1.0 - fixed["error_rate"],
        "target_flip_prob": aimed["flip_prob"],
        "accuracy_at_target": 1.0 - aimed["error_rate"],
    }  # fmt: skip


def _scenario(source: str, label: str, count: int) -> Scenario:
    """The label exchange on a data set under a clustering that is asked for `count` clusters.

    source: name of the data set. label: the clustering: `DENSE`, `GIVEN` or a key of `COUNTED`.
    """
    clusters = {**COUNTED[label], "count": count} if label in COUNTED else {"kind": label.lower()}
    return Scenario.from_tree(
        {
            "name": NAME,
            "seed": 1,
            "engine": "vectorised",
            "population": DATA[source],
            "clusters": {**clusters, "min_size": LEAST},
            "mechanism": {"kind": "label_exchange", "flip_prob": ALPHA, "sampling_rate": THETA},
            "learner": {"kind": "logistic_regression"},
            "privacy": {"delta": DELTA},
        }
    )


def _moved(scenario: Scenario, replicate: int, data_dir: Path | None) -> float:
    """The share of users who are moved to another cluster. A cluster with fewer than 36 users is merged into another,
    and its users are moved. HDBSCAN instead moves users whom it first assigns to no cluster. Balanced clusters are
    never too small: their share is 0. data_dir: folder of data files.
    """
    case = Replicate(scenario, replicate, data_dir)
    users: Examples = scenario.population.sample(case.places, case.streams).users
    if isinstance(scenario.clusters, HdbscanClusters):
        return float(np.mean(density_clusters(users, scenario.clusters.min_size) < 0))
    if isinstance(scenario.clusters, BalancedClusters):
        return 0.0  # fewer clusters are made instead
    cluster = scenario.clusters.model_copy(update={"min_size": 1}).assign(users, case.streams)
    return float(np.mean(np.bincount(cluster)[cluster] < LEAST))


def _figure(points: pd.DataFrame, frame: Frame) -> Path:
    """Draws a row of four panels for each data set, with a curve for each clustering; returns the figure's file. The
    panels show the heterogeneity φ, the users in the smallest cluster, ε at α = 0.1, and accuracy at ε = 0.2. The
    horizontal axis is the number of clusters.

    Args:
        points: a row for each data set, clustering and number of clusters asked for. A row has means with 95%
        intervals. frame: writes the figure.
    """
    panels_of = {  # for each measure, the panel's title and whether its scale is logarithmic
        "heterogeneity": ("heterogeneity φ", False),
        "min_cluster_size": ("users in the smallest cluster", True),
        "epsilon_upper": (f"ε at α = {ALPHA}", True),
        "accuracy_at_target": (f"accuracy at ε = {TARGET:g}", False),
    }
    panels = []
    for source, part in points.groupby("population", sort=False):
        for measure, (title, log) in panels_of.items():
            lines = curves(part, "num_clusters", measure, "clusters")
            panels.append(Panel("clusters", title, lines, log_y=log, title=TITLES[str(source)]))
    note = (
        f"Each point: {points['replicates'].max()} replicates of the same users, bands: 95% t-intervals. α = {ALPHA}, "
        f"θ = {THETA}, δ = {DELTA:g}, clusters of at least {LEAST} users. Right: α calibrated to ε = {TARGET:g}."
    )
    return frame.figure(
        plot_study, panels, "clusterings.png", "What a clustering decides", note, columns=len(panels_of)
    )


CLUSTERS, FEATURES, BLOBS = 100, 20, 30
"""For the measurement of cost: the number of clusters asked for, the number of features, and the number of Gaussian
blobs. Users are drawn from the blobs."""
KINDS: dict[str, KMeansClusters | BalancedClusters] = {
    "k-means": KMeansClusters(count=CLUSTERS),
    "mini-batch k-means": KMeansClusters(count=CLUSTERS, minibatch=True),
    "balanced": BalancedClusters(count=CLUSTERS),
}


def cost(task: tuple[str, int]) -> dict[str, Any]:
    """Measures the cost of one clustering on users from Gaussian blobs of very unequal size. Returns a row with the CPU
    seconds, the peak of allocated memory, and the sizes of the smallest and largest cluster.

    Args:
        task: name of the clustering (a key of `KINDS`), and number of users.
    """
    label, users = task
    rng = np.random.default_rng(1)
    blob = np.minimum(rng.geometric(0.2, users) - 1, BLOBS - 1)
    features = (4.0 * rng.normal(size=(BLOBS, FEATURES))[blob] + rng.normal(size=(users, FEATURES))).astype(np.float32)
    people = Examples(features, np.zeros(users, dtype=np.uint8))
    with one_thread():
        # the first use loads libraries; this time is not measured
        KINDS[label].assign(Examples(features[:CLUSTERS], people.labels[:CLUSTERS]), Streams(1, 0))
        begin = time.process_time()
        sizes = np.bincount(KINDS[label].assign(people, Streams(1, 0)))
        seconds = time.process_time() - begin
        tracemalloc.start()
        KINDS[label].assign(people, Streams(1, 0))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return {
        "clusters": label, "num_users": users, "count": CLUSTERS, "features": FEATURES, "cpu_s": seconds,
        "peak_mib": peak / 2**20, "min_cluster_size": int(sizes.min()), "max_cluster_size": int(sizes.max()),
    }  # fmt: skip


if __name__ == "__main__":
    command(NAME, main)
