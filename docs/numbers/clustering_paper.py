"""docs/clustering-paper.md: the clustering paper, measured."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import ndtr

from docs.numbers.page import ROOT, WORDS, Page, Source, interval, published, short, table

RESPONSE, EXCHANGE, SGD = "UniformRR (nobody)", "label exchange (nobody)", "DP-SGD (curator)"
HONEST, PRINTED = "ClusterRR, honest ε (curator)", "ClusterRR as printed: costs up to 3ε"
OPTIMISED, HALF = "ClusterRR, optimised split (curator)", "ClusterRR, half each, τ = φ (curator)"
SETS = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar-10": "CIFAR-10"}
EPSILON, GUESS = "mechanism.target_epsilon", "mechanism.heterogeneity"
RELATIVE = "relative_accuracy"


def _figure1() -> pd.DataFrame:
    """Points of Figure 1 by panel, mechanism and ε."""
    whole = published("clustering-figure1")
    return whole[whole[EPSILON].notna()].set_index(["panel", "mechanism", EPSILON]).sort_index()


def _first(panel: str, one: str, other: str) -> float:
    """The smallest ε at which one mechanism is above another."""
    means = _figure1()[RELATIVE]
    above = means[panel, one] > means[panel, other]
    return float(above.idxmax())


def summary() -> Iterator[str]:
    """What the first table says of Figure 1."""
    points, fashion = _figure1(), _first("fashion-mnist", RESPONSE, HONEST)
    response, honest = (points.loc[("fashion-mnist", name, fashion), RELATIVE] for name in (RESPONSE, HONEST))
    yield f"overtakes it by ε = {fashion:g} on Fashion-MNIST ({short(response)} against {short(honest)})"
    yield f"by ε = {_first('cifar-10', RESPONSE, HONEST):g} on CIFAR-10"
    better = [points[RELATIVE][p, HONEST] > points[RELATIVE][p, RESPONSE] for p in SETS]
    yield f"**yes, up to ε = {max(e for e in better[0].index if all(b[:e].all() for b in better)):g}**"
    means = points[RELATIVE].unstack("mechanism").loc[list(SETS), [HONEST, RESPONSE, EXCHANGE, SGD]]
    leads = (means.idxmax(axis=1) == SGD).groupby(level=EPSILON).all()
    yield f"DP-SGD leads from ε = {leads[leads].index.min():g} to {leads[leads].index.max():g} on all three"
    yield f"better choice from ε = {leads[leads].index.min():g} to {leads[leads].index.max():g}"


def figure1() -> Iterator[str]:
    """The table of Figure 1, and what the text says of it."""
    means = _figure1()[RELATIVE]
    rows = [
        [title if epsilon == 0.1 else "", f"{epsilon:g}", *(short(means[panel, m, epsilon]) for m in columns)]
        for columns in [(HONEST, RESPONSE, EXCHANGE, SGD)]
        for panel, title in SETS.items()
        for epsilon in (0.1, 0.5, 2.0)
    ]
    header = ("ten classes", "ε", "ClusterRR, curator", "UniformRR, nobody", "exchange, nobody", "DP-SGD, curator")
    yield table(header, rows).replace("|  |", "| |")
    mnist = means["mnist"].map(lambda mean: short(mean, 2))
    yield f"has lost nearly everything: {mnist[EXCHANGE, 0.1]} against {mnist[RESPONSE, 0.1]} on MNIST"
    yield f"over the exchange**: {mnist[HONEST, 0.1]} against {mnist[EXCHANGE, 0.1]} at ε = 0.1, "
    yield f"at ε = 0.1, {mnist[HONEST, 0.5]} against {mnist[EXCHANGE, 0.5]} at 0.5 (MNIST)"
    loss = max((means[p, PRINTED] - means[p, HONEST]).max() for p in ("mnist", "fashion-mnist"))
    yield f"the honest curve is at most {short(math.ceil(1000 * loss) / 1000)} below it"
    two = means[["even-odd", "one-against-rest"]].drop(RESPONSE, level="mechanism")
    yield f"everything is within {math.ceil(1000 * (1.0 - two.min())) / 10:.1f}% of no privacy from ε = 0.1 on"


def sizes() -> Iterator[str]:
    """What Figure 1 is drawn from, and its last panel."""
    rows = published("clustering-figure1/mnist", "rows.parquet")
    users, count = rows["num_users"].unique().item(), rows["num_clusters"].unique().item()
    yield f"hardly matter in clusters of {users // count}."
    yield f"with all its noise on all {users:,} labels"
    cifar = published("clustering-figure1/cifar-10", "rows.parquet")
    yield f"the {cifar['num_users'].unique().item():,} images of CIFAR-10's first two files; {count} clusters by"
    whole = published("clustering-figure1")
    means = whole[(whole["panel"] == "clusters") & (whole["population"] == "mnist")]
    by = means.set_index(["mechanism", "clusters.count"])[RELATIVE].map(lambda mean: short(mean, 2))
    honest, exchange = by["ClusterRR, honest ε"], by["label exchange"]
    yield f"from 100 clusters down to 10 ClusterRR falls from {honest[100]} to {honest[10]} on MNIST, "
    yield f"on MNIST, the exchange from {exchange[100]} to {exchange[10]}."


def choices() -> Iterator[str]:
    """Debiased labels beside those as they are, and the guess of φ."""
    whole = published("clustering-choices")
    debiased, plain = whole[whole["panel"] == "debiased"].iloc[0], _figure1().loc[("mnist", RESPONSE, 1.0)]
    ends = [interval(*(point["accuracy" + end] for end in ("", "_low", "_high"))) for point in (debiased, plain)]
    yield f"debiased labels has an accuracy of {ends[0]}, that of the plain noisy ones {ends[1]}"
    guess = whole[whole["panel"] == "guess"]
    tried = [f"{phi:g}" for phi in sorted(guess[GUESS].unique())]
    yield f"was made after runs at {', '.join(tried[:-1])} and {tried[-1]} on"
    means = guess.set_index(["population", EPSILON, GUESS])[RELATIVE]
    kept = means[means.index.get_level_values(GUESS) < 0.5].groupby(level=["population", EPSILON])
    moves = (kept.max() - kept.min()).map(lambda move: short(move, 2))
    assert moves["mnist", 1.0] == moves["mnist", 2.0]
    yield f"({WORDS[guess['replicates'].unique().item()]} trials at ε = 1 and 2: up to 0.3 the relative accuracy moves"
    yield f"moves by {moves['mnist', 1.0]} on MNIST and, at ε = 2, by {moves['fashion-mnist', 2.0]} on Fashion-MNIST; "
    loss = means["mnist", 1.0, 0.2] - means["mnist", 1.0, 0.5]
    yield f"at 0.5 MNIST loses {short(loss, 2)} at ε = 1)"


def known_law() -> Iterator[str]:
    """Who wins where."""
    points = published("clustering-synthetic").set_index(["mechanism", "population.heterogeneity", EPSILON])
    points = points.sort_index()
    risk = points["excess_risk"]

    def said(mechanism: str, phi: float, epsilon: float) -> str:
        return short(risk[mechanism, phi, epsilon], 4)

    gain = risk[RESPONSE, 0.0, 0.5] - risk[OPTIMISED, 0.0, 0.5]
    yield f"beat randomised response by {short(gain)} ({said(OPTIMISED, 0, 0.5)} and {said(RESPONSE, 0, 0.5)})"
    yield f"{said(EXCHANGE, 0, 0.25)} at ε = 0.25 and {said(EXCHANGE, 0, 1)} at 1, where they have "
    yield f"where they have {said(OPTIMISED, 0, 0.25)} and {said(OPTIMISED, 0, 1)}"
    loss = risk[HALF, 0.4, 2.0] - risk[RESPONSE, 0.4, 2.0]
    yield f"is beaten by randomised response by {short(loss)} ({said(HALF, 0.4, 2)} and {said(RESPONSE, 0.4, 2)})"
    floor = points.loc[EXCHANGE].xs(4.0, level=EPSILON)
    measured = [interval(*floor.loc[0.4, ["excess_risk", "excess_risk_low", "excess_risk_high"]])]
    ends = ["excess_risk_floor", "excess_risk_floor_low", "excess_risk_floor_high"]
    drawn = [interval(*floor.loc[phi, ends], digits) for phi, digits in ((0.4, 3), (0.2, 3), (0.1, 4))]
    known = [short(phi**2 / 2.4, 4) for phi in (0.4, 0.2, 0.1)]
    yield f"At φ = 0.4 that is {known[0]}; measured at ε = 4: {measured[0]}"
    yield f"{drawn[0]} at φ = 0.4, {drawn[1]} at 0.2, {drawn[2]} at 0.1, around {known[0]}, {known[1]} and {known[2]}"


def association() -> Iterator[str]:
    """The table of the lower bound."""
    whole = pd.read_csv(ROOT / "docs" / "figures" / "label-association.csv").set_index(["panel", "curve", "x"])
    points = whole.loc["ε = 3"].sort_index()
    names = {
        "the proof's curve": "Theorem 5's proof: $e^ε$ s/(K-s)",
        "exact maximum": "exact maximum",
        "subset of each cluster": "subset of each cluster, best ω",
        "noisy histogram": "noisy histogram, best threshold",
        "subset of each example": "subset of each example, best ω",
        "randomised response": "randomised response",
    }

    def cell(curve: str, ratio: float) -> str:
        point = points.loc[(curve, ratio)]
        if point["y"] >= 1.0:
            return "above 1"
        if ratio > 0.01 or "proof" in curve:
            return short(point["y"])
        return short(point["y"], 4) if point["low"] == point["high"] else interval(*point, 4)

    rows = [[name, *(cell(curve, ratio) for ratio in (0.5, 0.1, 0.01))] for name, curve in names.items()]
    yield table(("ε = 3, s/K", "1/2", "1/10", "1/100"), rows)
    above = whole.loc[("ε = 1", "exact maximum", 0.01), "y"] / 0.01 - 1.0
    yield f"the maximum is {above:.0%} above that at s/K = 1/100"


def terms() -> Iterator[str]:
    """The table of the utility theorems' terms."""
    found = pd.read_csv(ROOT / "docs" / "figures" / "theory-terms.csv")
    by = {
        (term.split(" ")[0].rstrip(","), place): line
        for term, part in found.groupby("term")
        for place, (_, line) in enumerate(part.iterrows())
    }

    def constant(term: str, place: int = 0, digits: int = 3) -> str:
        return interval(*by[term, place][["constant", "constant_low", "constant_high"]], digits)

    def rounded(term: str, place: int) -> str:
        return f"{by[term, place]['constant']:.2f}"

    yield f"| √(d/(θn)) | {constant('n')} along n, {constant('θ')} along θ | {rounded('n', 2)} d/(θn) |"
    yield f"| φ | {constant('φ', 0, 2)} | {rounded('φ', 1)} φ² |"
    cost = by["α", 0]
    yield f"| α | unequal costs: {short(cost['constant'], 2)} α, off by up to {cost['misfit']:.0%}; by design"
    yield f"| {rounded('α', 2)} α² | as in the bound for unequal costs"
    yield f"β = λ | {constant('1/(1-β)')}, without K | {rounded('1/(1-β)', 1)} d/(n(1-β)²) |"
    sides = {short(by["β", place]["constant"], 2) for place in (0, 2)}
    squares = {rounded("β", place) for place in (1, 3)}
    yield f"| {' and '.join(sides)} on both sides of β = λ, without K | {' and '.join(squares)} φ²κ² |"
    yield f"| Kσ/s | {constant('σ/s')} at K = 4, without the leading K | {rounded('σ/s', 2)} (Kσ/s)² |"
    yield f"| K in Kσ/s | K/2 labels named: {constant('K')} |"
    slope = by["K", 3]
    ends = f"[{short(slope['slope_low'])}, {short(slope['slope_high'])}]"
    yield f"slope {slope['slope']:.3f} {ends} in K at fixed φ"
    yield f"| Kτ | unequal costs: {short(by['τ', 0]['constant'], 2)} at K = 2 | {rounded('τ', 1)} (Kτ)² |"
    yield f"with {found['replicates'].unique().item()} replicates of"
    yield f"The slope along θ is {short(by['θ', 0]['slope'], 2)} rather than"
    largest = max(m * ndtr(-m) for m in np.linspace(0.0, 2.0, 2001))
    yield f"The {short(largest, 2)} of the rate is the maximum of m Pr[N(0,1) > m]"
    factors = [f"{math.ceil(10 * bound / by[term, 0]['constant']) / 10:g}" for term, bound in (("β", 1.0), ("τ", 2.0))]
    noise = 2.0 * math.sqrt(2.0) / by["σ/s", 0]["constant"]
    low, high = sorted(short(by[term, 0]["constant"], 2) for term in ("β", "φ"))
    yield f"constants of φ, {low} and {high}, are within a factor of {factors[0]} of this bound, those of Kτ of"
    yield f"those of Kτ of {factors[1]}, that of Kσ/s (0-1 loss, K = 4) of {noise:.0f}."


FIGURE1 = (
    "python -m studies.clustering_figure1",
    "test_published.py::test_figure_1_of_the_clustering_paper_on_digits",
)
CHOICES = (
    "python -m studies.clustering_choices",
    "test_published.py::test_choices_of_the_clustering_guide_on_digits",
)
KNOWN = ("python -m studies.clustering_synthetic", "test_published.py::test_the_mechanisms_on_a_known_law")
FIGURES = (
    "python -m docs.make_clustering_figures",
    "test_published.py::test_the_figures_of_the_clustering_guide_come_with_their_numbers",
)
PAGE = Page(
    "docs/clustering-paper.md",
    (
        Source(*FIGURE1, summary),
        Source(*FIGURE1, figure1),
        Source(*FIGURE1, sizes),
        Source(*CHOICES, choices),
        Source(*KNOWN, known_law),
        Source(*FIGURES, association),
        Source(*FIGURES, terms),
    ),
    given=(
        r"φ²/2\.4",
        r"by design \.45 α",
        r"uniform on \[\.2, \.8\]",
        r"clusters of 1,000 users",
        r"1,000 clusters a point",
        r"100 clusters down to 10",
    ),
)
