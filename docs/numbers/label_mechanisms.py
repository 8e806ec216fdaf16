"""docs/label-mechanisms.md: scalars, vectors and soft labels."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.privacy.shuffled_messages import ShuffledMessages
from analysis.privacy.vector import bit_flip_prob_of, vector_delta
from docs.numbers.page import WORDS, Page, Source, published, short, table
from studies.vector import ALIBI, PRINTED, RESPONSE, TWO_STAGES, VECTOR

EPSILON, CLASSES = "mechanism.target_epsilon", "population.num_classes"
LOCAL = (VECTOR, RESPONSE, TWO_STAGES, ALIBI)
EXCHANGED = ("exchanged vectors", "exchanged ALIBI", "exchanged labels")
ALONE = ("vectors", "ALIBI", "labels")


def _points(panel: str) -> pd.DataFrame:
    """Points of a sweep, with the standard error of the accuracy."""
    whole = published("vector-tables")
    points = whole[whole["panel"] == panel]
    quantile = stdtrit(points["replicates"] - 1, 0.975)
    return points.assign(error=(points["accuracy_high"] - points["accuracy"]) / quantile)


def synthetic() -> Iterator[str]:
    """The first table, and what the text says of it."""
    points = _points("vectors")
    by = points.set_index([CLASSES, "mechanism"])
    rows = []
    for classes in (3, 5, 10, 20, 30):
        of = [by.loc[(classes, mechanism)] for mechanism in LOCAL]
        rows.append([str(classes), *(f"{point['accuracy']:.3f} ± {short(point['error'])}" for point in of)])
    yield table(("K", VECTOR, RESPONSE, TWO_STAGES, ALIBI), rows)
    yield f"mean of {WORDS[points['replicates'].unique().item()]} replicates ± its standard error"
    means = by["accuracy"].unstack()
    yield f"come within {math.ceil(1000 * (means[VECTOR] - means[ALIBI]).max()) / 10:.1f} points of the bits"
    kept = math.e / (math.e + 29.0)
    yield f"randomised response keeps the true label once in {WORDS[round(1.0 / kept)]} times"


def theorem2() -> Iterator[str]:
    """Theorem 2 beside what is measured, and Bayes' rule."""
    points = published("vector", "theorem2.csv")
    points = points[(points["panel"] == "scaled") & (points[EPSILON] == 1.0) & (points["learner.neighbours"] == 200)]
    at = points.set_index(CLASSES).loc[[3, 10, 30]]
    bounds = [f"{bound:.2g}" if bound < 0.1 else f"{bound:.2f}" for bound in at["bound"]]
    yield f"and 200 neighbours it is {bounds[0]}, {bounds[1]} and {bounds[2]} for K = 3, 10 and 30, where "
    excess = [f"{value:.3f}" for value in at["excess"]]
    yield f"the measured excess risk is {excess[0]}, {excess[1]} and {excess[2]} (means of "
    yield f"(means of {WORDS[at['replicates'].unique().item()]} replicates)"
    whole = published("vector")
    bayes = whole[(whole["panel"] == "scaled") & (whole[CLASSES] == 30)]["bayes_accuracy"].unique().item()
    yield f"Bayes' rule has {bayes:.2f} at K = 30"


def images() -> Iterator[str]:
    """The table of networks on MNIST, with the paper's numbers in brackets."""
    parts = [published(f"vector/{folder}", "rows.parquet") for folder in ("mnist-eps05", "mnist-eps1")]
    assert all(len(part) == len(LOCAL) for part in parts)  # a single training each
    rows = []
    for part in parts:
        epsilon, reached = part["epsilon_upper"].max(), part.set_index("mechanism")["error_rate"].rsub(1.0)
        printed = [PRINTED["mnist", mechanism][round(epsilon, 6)] for mechanism in LOCAL]
        cells = [f"{reached[m]:.3f} ({paper:.3f})" for m, paper in zip(LOCAL, printed, strict=True)]
        rows.append([f"{epsilon:g}", *cells])
    yield table(("ε", VECTOR, RESPONSE, TWO_STAGES, ALIBI), rows)
    reference = 1.0 - pd.concat(parts)["nonprivate_error_rate"].unique().item()
    yield f"the same network without privacy reaches {reference:.3f}"


def shuffled() -> Iterator[str]:
    """What the total variation of vectors is worth where messages are shuffled."""
    beta = vector_delta(bit_flip_prob_of(1.0), epsilon=0.0).upper
    messages = (ShuffledMessages(10_000, 1.0), ShuffledMessages(10_000, 1.0, total_variation=beta))
    plain, vectors = (message.epsilon(1e-6).epsilon_upper for message in messages)
    yield f"their ε is then some {100 * round(1.0 - vectors / plain, 1):.0f}% smaller"


def _sent(panel: str, names: Sequence[str], digits: int) -> tuple[str, str]:
    """The table of one sweep through the exchange; its replicates in words, and the largest standard error."""
    points = _points(panel)
    by = points.set_index(["mechanism", EPSILON])["accuracy"]
    grid = sorted(points[EPSILON].unique())
    rows = [[name, *(f"{by[name, epsilon]:.{digits}f}" for epsilon in grid)] for name in names]
    count, error = WORDS[points["replicates"].unique().item()], math.ceil(100 * points["error"].max()) / 100
    header = ("ε, learner", *(f"{epsilon:g}" for epsilon in grid))
    return table(header, rows), f"{count} replicates (standard error at most {short(error, 2)})"


def exchange() -> Iterator[str]:
    """Where clusters are made for the exchange."""
    yield from _sent("exchange", (*EXCHANGED, *ALONE), 3)
    points = _points("exchange")
    yield f"{points['nonprivate_accuracy'].mean():.3f} without privacy"
    rows = published("vector-tables/exchange", "rows.parquet")
    yield f"in clusters of {rows['min_cluster_size'].min()} to {rows['max_cluster_size'].max()}, everybody"
    alone = points.set_index(["mechanism", EPSILON])["epsilon_local"]
    labels, vectors = alone["exchanged labels", 0.2], alone["exchanged vectors", 0.2]
    yield f"(at ε = 0.2 with ε₀ = {labels:.1f}, a vector with {vectors:.1f})"
    means = points.set_index(["mechanism", EPSILON])["accuracy"].unstack()
    worth = {_worth(means, epsilon) for epsilon in (0.1, 0.2)}
    yield f"the exchange is worth a factor of {' or '.join(WORDS[factor] for factor in sorted(worth))} in ε"


def _worth(means: pd.DataFrame, epsilon: float) -> int:
    """How many times ε the best local message needs to be as good as the best exchanged one, linear in log ε."""
    reached, local = means.loc[list(EXCHANGED), epsilon].max(), means.loc[list(ALONE)].max()
    return round(math.exp(np.interp(reached, local, np.log(local.index))) / epsilon)


def kmeans() -> Iterator[str]:
    """Where they are not."""
    yield from _sent("exchange-kmeans", EXCHANGED, 2)
    yield f"(φ = {_points('exchange-kmeans')['heterogeneity'].mean():.2f}), "
    exchanged = _points("exchange-kmeans").groupby(EPSILON)["accuracy_high"].max()
    alone = _points("exchange").query("mechanism in @ALONE").groupby(EPSILON)["accuracy_low"].max()
    yield f"above ε = {exchanged.index[alone <= exchanged].max():g} the local mechanisms win"


STUDY = (
    "python -m studies.vector",
    "test_published.py::test_the_synthetic_study_of_the_vector_approximation_paper",
)
TABLES = (
    "python -m studies.vector_tables",
    "test_published.py::test_the_tables_of_the_guide_to_label_mechanisms",
)
IMAGES = (
    "p2p-sim sweep scenarios/sweeps/vector/mnist.toml",
    "test_convolutional.py::test_the_reference_can_be_left_out_and_is_otherwise_trained_once",
)
SHUFFLED = (
    "pytest --doctest-glob='*.md' docs/label-mechanisms.md",
    "test_exchanged_vectors.py::test_the_total_variation_is_that_of_the_law_and_the_bound_holds",
)
PAGE = Page(
    "docs/label-mechanisms.md",
    (
        Source(*TABLES, synthetic),
        Source(*STUDY, theorem2),
        Source(*IMAGES, images),
        Source(*SHUFFLED, shuffled),
        Source(*TABLES, exchange),
        Source(*TABLES, kmeans),
    ),
    given=(r"10,000 users, 200 nearest", r"100 and 200 neighbours", r"128 hidden units", r"6,000 users"),
)
