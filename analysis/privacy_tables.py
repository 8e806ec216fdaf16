"""Tables of the values of ε and δ that the guides print.

Run it as `python -m analysis.privacy_tables` or by `make published`; this takes three CPU minutes.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sparse

from analysis.attained import Fetchers, attained_epsilon
from analysis.study import Frame, command
from p2p_sim.audit import audit_curator
from p2p_sim.mechanisms import ClusterResponse
from p2p_sim.privacy import (
    ClusterResampling,
    FetchDistribution,
    Floats,
    LabelExchange,
    PrivacyBound,
    lemma9_epsilon,
    theorem3,
)

Rows = Iterator[dict[str, object]]
DELTA = 1e-6
SIZES = (100, 1_000, 2_048, 5_000, 20_000, 50_000, 200_000, 1_000_000)
EXCHANGES = ((0.1, 0.5), (0.05, 0.1), (0.2, 1.0))
"""Pairs of flip probability α and sampling rate θ in the table brackets.csv."""
OVERLAY, DEGREES = (1000, 0.1), (10, 20, 50, 100, 200, 400)
"""`OVERLAY`: the number n of users and α of random regular overlays. An overlay is a graph of who may fetch from whom.
`DEGREES`: numbers of neighbours of a user."""
COMPLETE = ((400, 0.2, 0.1), (1000, 0.1, 0.1), (1000, 0.1, 1.0))
"""n, α and θ of complete overlays, in which each user may fetch from all users."""
DENSE = (100, 400, 2000)
"""Numbers n of users for the tables of nearly uniform fetch probabilities."""
RESAMPLED = ((1000, 2.0, 0.1, 1.0), (2000, 1.0, 0.1, 1.0), (1000, 2.0, 0.1, 0.9), (1000, 8.0, 0.1, 0.98))
"""Arguments of `resampled`: number n of users, noise scale σ, threshold τ and resampling probability λ."""
CLASSES = (
    *((1000, 3, 1.0, 2.0, 0.1, 1e-6), (1000, 3, 1.0, 1.0, 0.1, 1e-6), (10_000, 3, 0.9, 2.0, 0.1, 1e-6)),
    *((1000, 10, 0.9, 2.0, 0.05, 1e-5), (1000, 10, 1.0, 2.0, 0.01, 1e-6), (1000, 3, 0.98, 8.0, 0.1, 1e-6)),
)
"""Arguments of `resampled_classes`: n, number K of classes, λ, σ, τ and δ."""
AUDITED = ClusterResampling(4, 3, 0.9, 1.0, 0.25, released=True)


def main(frame: Frame) -> list[Path]:
    """Computes every table of ε and δ that the guides quote; returns the tables' files."""
    # for each table: a function, and the function's arguments in the whole study and in a test
    tables: dict[str, tuple[Callable[..., Rows], list[Any], list[Any]]] = {
        "brackets": (brackets, [SIZES], [SIZES[:1]]),
        "overlays": (overlays, [OVERLAY[0], DEGREES, 10], [60, DEGREES[:2], 1]),
        "overlays-attained": (attained, [OVERLAY[0], DEGREES], [60, DEGREES[:2]]),
        "dense": (dense, [DENSE], [(12,)]),
        "complete": (complete, [COMPLETE], [[(40, *rest) for _, *rest in COMPLETE]]),
        "data-sets": (data_sets, [50], [10]),
        "paper": (paper, [2_000], [400]),
        "rounds": (rounds, [20], [6]),
        "released": (released, [], []),
        "resampled": (resampled, [RESAMPLED], [[(40, 0.5, 0.1, 1.0)]]),
        "resampled-classes": (resampled_classes, [CLASSES], [[(40, 3, 1.0, 0.5, 0.1, 1e-5)]]),
        "audit": (audited, [100_000], [20_000]),
    }
    rows = frame.each(_computed, [(table, *(few if frame.small else whole)) for table, whole, few in tables.values()])
    return [frame.table(f"{name}.csv", table) for name, table in zip(tables, rows, strict=True)]


def _computed(task: tuple[Any, ...]) -> list[dict[str, object]]:
    """The rows of one table. task: a function that yields the rows, and the function's arguments."""
    return list(task[0](*task[1:]))


def _exchange(n: int, alpha: float, theta: float) -> dict[str, object]:
    """The columns that describe a label exchange: number n of users, flip probability α, sampling rate θ, and δ."""
    return {"n": n, "flip_prob": alpha, "sampling_rate": theta, "delta": DELTA}


def _ends(bound: PrivacyBound) -> dict[str, object]:
    """The columns with both ends of the interval that is known to contain ε."""
    return {"epsilon_lower": bound.epsilon_lower, "epsilon_upper": bound.epsilon_upper}


def brackets(sizes: Sequence[int]) -> Rows:
    """Rows of a table: both ends of the interval known to contain the learner's ε at δ = 1e-6. There is a row for each
    number n of users and each pair (α, θ) in `EXCHANGES`.

    The column width is the upper end divided by the lower end, minus 1. The column factor is the upper end divided by
    √(θ/((1+θ)nα)). sizes: the values of n.
    """
    for n, (alpha, theta) in itertools.product(sizes, EXCHANGES):
        bound = LabelExchange(n, alpha, theta).epsilon(DELTA)
        scale = math.sqrt(theta / ((1.0 + theta) * n * alpha))
        yield _exchange(n, alpha, theta) | _ends(bound) | {
            "width": bound.epsilon_upper / bound.epsilon_lower - 1.0, "factor": bound.epsilon_upper / scale,
        }  # fmt: skip


def data_sets(n: int, alpha: float = 0.05, epsilon: float = 0.92) -> Rows:
    """Rows of a table: δ(ε) at the learner for each data set of a label exchange among n users. The sampling rate θ is
    1. A data set is a number: how many users besides the target hold label 1. By symmetry, half of these numbers
    suffice.

    n: number of users. alpha: flip probability. epsilon: ε at which δ is computed.
    """
    exchange = LabelExchange(n, alpha, 1.0)
    for ones in range((n + 1) // 2):
        p, q = (np.fromiter(pmf.values(), float) for pmf in exchange.privacy_loss_pmfs(ones))
        delta = max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) for a, b in ((p, q), (q, p)))
        yield {"n": n, "flip_prob": alpha, "epsilon": epsilon, "ones": ones, "delta": delta}


def paper(largest: int, alpha: float = 0.2, theta: float = 0.5) -> Rows:
    """Rows of a table: the learner's ε at δ = 1e-6 in a cluster of n users. One ε is by Lemma 9 of the clustering
    paper, the other ε is exact. One n is the smallest that meets the conditions of Lemma 9. The other n is `largest`.

    Theorem 3 of the paper bounds the learner's ε at δ = 1/n² for a flip probability that the theorem prescribes. The
    column theorem3_from has the smallest n at which this flip probability is at most 1/2, for θ = 1.

    largest: the larger n. alpha: flip probability. theta: sampling rate.
    """
    first = next(n for n in range(2, largest) if lemma9_epsilon(n, alpha, theta, DELTA) is not None)
    theorem = next(n for n in range(2, 20_000) if theorem3(n, 1.0) is not None)
    for n in (first, largest):
        exact = LabelExchange(n, alpha, theta).epsilon(DELTA).epsilon_upper
        yield _exchange(n, alpha, theta) | {
            "epsilon_lemma9": lemma9_epsilon(n, alpha, theta, DELTA), "epsilon_exact": exact, "theorem3_from": theorem,
        }  # fmt: skip


def overlays(users: int, degrees: Sequence[int], sample: int) -> Rows:
    """Rows of a table: the certified ε of a label exchange on random regular overlays. All users have the same number
    of neighbours, and fetch from a random neighbour. The certified ε is the largest among the first `sample` users.
    There is a row for each number of neighbours, each θ (0.1 and 1) and each δ (1e-6 and 1e-4). α is 0.1.

    users: number of users. degrees: numbers of neighbours of a user. sample: number of users with a computed ε.
    """
    for degree in degrees:
        graph = nx.random_regular_graph(degree, users, seed=1)
        weights = sparse.csr_array(nx.to_scipy_sparse_array(graph, dtype=float) / degree)
        for theta in (0.1, 1.0):
            fetch = FetchDistribution(weights, OVERLAY[1], theta)
            for delta in (1e-6, 1e-4):
                worst = max(fetch.user_epsilon(user, delta) for user in range(sample))
                yield {
                    "n": users, "neighbours": degree, "sampling_rate": theta, "delta": delta,
                    "users": sample, "epsilon_upper": worst,
                }  # fmt: skip


def attained(users: int, degrees: Sequence[int]) -> Rows:
    """Rows of a table: a lower bound of the learner's ε on random regular overlays and on the complete overlay. A data
    set and an event attain this bound. The target is a badly placed user, explained at `worst_placed`. The bound is
    computed by sampling; it is too large with probability at most 1e-9. There is a row for each number of neighbours,
    each θ (0.1 and 1) and each δ (1e-6 and 1e-4). α is 0.1.

    users: number of users of the overlay. degrees: numbers of neighbours of a user.
    """
    for degree in (*degrees, users):
        graph = nx.random_regular_graph(degree, users, seed=1) if degree < users else None
        table = np.full((users, users), 1.0) if graph is None else nx.to_scipy_sparse_array(graph, dtype=float)
        weights = sparse.csr_array(table / degree)
        for theta, delta in itertools.product((0.1, 1.0), (1e-6, 1e-4)):
            lower = attained_epsilon(worst_placed(weights, OVERLAY[1], theta), delta)
            yield {
                "n": users, "neighbours": degree, "sampling_rate": theta, "delta": delta, "epsilon_lower": lower,
            }  # fmt: skip


def worst_placed(table: sparse.csr_array, flip_prob: float, theta: float) -> Fetchers:
    """The fetchers of one user, the target: the users who may fetch her noisy label. The result holds α and, for each
    fetcher, θ times the fetch probabilities. Few users fetch the target's label, but often: the sum of squared
    probabilities of fetching from her is the largest of all users.

    Args:
        table: (n, n) sparse; table[i, j] is the probability that user i fetches from user j. flip_prob: α. theta: θ.
    """
    target = int(np.argmax(table.power(2).sum(axis=0)))
    rows = theta * table[np.flatnonzero(table[:, [target]].toarray())].toarray()
    own = rows[:, target].copy()
    rows[:, target] = 0.0
    return Fetchers(rows[:, rows.any(axis=0)], own, flip_prob)


def complete(exchanges: Sequence[tuple[int, float, float]]) -> Rows:
    """Rows of a table: two values of ε on complete overlays, the bound for any fetch distribution and the exact ε.

    exchanges: n, α and θ of each overlay.
    """
    for n, alpha, theta in exchanges:
        yield _exchange(n, alpha, theta) | _against_exact(np.full((n, n), 1.0 / n), alpha, theta)


def _against_exact(table: Floats, alpha: float, theta: float) -> dict[str, object]:
    """Two columns with the learner's ε at δ = 1e-6. epsilon_upper is the bound for a table of fetch probabilities; it
    holds for every user. epsilon_exact is the exact ε if all fetch probabilities are 1/n.

    table: (n, n); row i has user i's probabilities of fetching from each user. alpha: flip probability. theta: sampling
    rate.
    """
    return {
        "epsilon_upper": FetchDistribution(table, alpha, theta).epsilon(DELTA).epsilon_upper,
        "epsilon_exact": LabelExchange(len(table), alpha, theta).epsilon(DELTA).epsilon_upper,
    }


def dense(sizes: Sequence[int], alpha: float = 0.1) -> Rows:
    """Rows of a table: a bound of ε at δ = 1e-6 for three tables of fetch probabilities. The exact ε for uniform
    probabilities stands beside it. The table "same" is uniform. The table "others" is uniform over all users except
    oneself. The table "disturbed" is the uniform one, disturbed by up to 20% and normalised. The sampling rates are θ =
    0.1 and 1.

    sizes: numbers n of users. alpha: flip probability.
    """
    for n in sizes:
        factors = np.random.default_rng(1).uniform(0.8, 1.2, (n, n))
        tables = {
            "same": np.full((n, n), 1.0 / n),
            "others": (np.ones((n, n)) - np.eye(n)) / (n - 1),
            "disturbed": factors / factors.sum(axis=1, keepdims=True),
        }
        for (name, table), theta in itertools.product(tables.items(), (0.1, 1.0)):
            yield {"table": name, "n": n, "sampling_rate": theta, "delta": DELTA, **_against_exact(table, alpha, theta)}


def rounds(n: int, epsilon: float = 1.2) -> Rows:
    """The row of a table: the true δ(ε) of two rounds in which users repeat their noisy labels, and the δ by
    composition.

    Composition needs fresh noise in each round. Repeated noise is not fresh, and the δ by composition is too small. The
    sampling rate θ is 1.
    """
    exchange, claimed = LabelExchange(n, 0.1, 1.0), 0.0
    for ones in range(n):
        if_zero, if_one = (np.fromiter(pmf.values(), float) for pmf in exchange.privacy_loss_pmfs(ones))
        for p, q in ((if_zero, if_one), (if_one, if_zero)):
            claimed = max(claimed, float(np.maximum(np.outer(p, p) - math.exp(epsilon) * np.outer(q, q), 0.0).sum()))
    repeated = LabelExchange(n, 0.1, 1.0, rounds=2)
    yield {"n": n, "epsilon": epsilon, "composed": claimed, "true": repeated.delta(epsilon).lower}


def resampled(cases: Sequence[tuple[int, float, float, float]]) -> Rows:
    """Rows of a table about a curator who releases noisy labels of two classes, but no label distributions of clusters.
    A row has both ends of the interval known to contain ε at δ = 1e-6, and the pure ε (at δ = 0). The curator computes
    the shares of both labels in a cluster of n users. She adds Laplace noise of scale σ/n, and raises every share to at
    least τ. With probability λ a label is replaced by a draw from these shares.

    cases: n, σ, τ and λ of each row.
    """
    for n, sigma, tau, lam in cases:
        curator = ClusterResampling(n, 2, lam, sigma, tau, released=False)
        yield {
            "n": n, "noise_scale": sigma, "threshold": tau, "resampling_prob": lam, "delta": DELTA,
            "pure_epsilon": curator.pure_epsilon, **_ends(curator.epsilon(DELTA)),
        }  # fmt: skip


def resampled_classes(cases: Sequence[tuple[int, int, float, float, float, float]]) -> Rows:
    """Rows of a table about the curator of `resampled`, with three classes or more. A row has an upper bound of ε, and
    the pure ε (at δ = 0).

    cases: n, the number K of classes, λ, σ, τ and δ of each row.
    """
    for n, classes, lam, sigma, tau, delta in cases:
        curator = ClusterResampling(n, classes, lam, sigma, tau, released=False)
        yield {
            "n": n, "classes": classes, "noise_scale": sigma, "threshold": tau, "resampling_prob": lam, "delta": delta,
            "pure_epsilon": curator.pure_epsilon, "epsilon_upper": curator.epsilon(delta).epsilon_upper,
        }  # fmt: skip


def released() -> Rows:
    """Rows of a table about the curator of the clustering paper's Algorithm 1. She resamples labels from noisy label
    distributions of clusters. Here she also releases these distributions. A row has both ends of the interval known to
    contain the learner's ε at δ = 1e-5, and the ε that the paper's Theorem 1 prints.
    """
    for classes, lam, tau in ((10, 0.9, 0.01), (2, 0.7, 0.2)):
        curator, delta = ClusterResampling(1000, classes, lam, 2.0, tau, released=True), 1e-5
        ends = _ends(curator.epsilon(delta))
        yield {"n": 1000, "classes": classes, "delta": delta, **ends, "epsilon_paper": curator.epsilon_paper}


def audited(trials: int) -> Rows:
    """The row of a table about the curator of the clustering paper's Algorithm 1, for a small cluster with three
    labels. The noisy label distribution is released. The row has a lower bound of ε that an attack proves, and the
    certified pure ε. It also has the ε of the paper's Theorem 1, which is too small.

    Args:
        trials: number of clusters that the attack draws for each value of the target's label.
    """
    c = AUDITED
    response = ClusterResponse(c.resampling_prob, c.noise_scale, c.threshold, c.resampling_prob, c.num_classes)
    proved = audit_curator(response.draw, c, trials, seed=5).epsilon_lower_confidence
    yield {"trials": trials, "proved": proved, "printed": c.epsilon_paper, "true": c.pure_epsilon}


if __name__ == "__main__":
    command("privacy", main)
