"""The report's sentences on the scenario and the sweep, and its most important numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from p2p_sim.base import count
from p2p_sim.figures import count_range, loss_text, short
from p2p_sim.measures import HIGH, LOW, points_not_above, quality, warnings_of
from p2p_sim.report.columns import MeanText, number, plain, span, with_interval
from p2p_sim.report.privacy_statement import Mechanisms, rounded_up

ENGINES = {
    "events": "sent as messages over a simulated network",
    "processes": "sent as messages over a simulated network, by a process for each user",
    "vectorised": "drawn at once from the law of the exchange, without messages",
}
POPULATIONS = {
    "synthetic": "a synthetic population whose law is known",
    "digits": "scikit-learn's handwritten digits",
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "adult": "UCI Adult",
    "uci-heart": "UCI Heart Disease",
    "table": "a table of the user's own",
}


def subtitle(table: pd.DataFrame, keys: Sequence[str]) -> str:
    """The line below the report's title: "A run", or "A sweep" with its number of points; then the replicates.

    table: one line for each point (a combination of swept values). keys: the swept keys; none for a run.
    """
    kind = f"A sweep of {count(len(table), 'point')}" if keys else "A run"
    return f"{kind}, {count_range(table['replicates'], 'replicate')}" + (" each" if len(table) > 1 else "")


def what_was_run(
    rows: pd.DataFrame,
    table: pd.DataFrame,
    axes: Sequence[Mapping[str, Any]],
    mechanisms: Mechanisms,
    scenario: Mapping[str, Any],
) -> list[str]:
    """One or two paragraphs that say what was simulated, measured and varied. Only a sweep has the second.

    Args:
        rows: one line for each point (a combination of swept values) and replicate. table: one line for each point.
        axes: the axes of the sweep, each a mapping with "keys" and "values"; empty for a run. mechanisms: for each kind
        of mechanism, words that follow "privatised by"; the label exchange needs none. scenario: the base scenario as a
        nested mapping.
    """
    varied = [str(key) for axis in axes for key in axis["keys"]]
    text = _describe_points(rows, varied, mechanisms, scenario=scenario)
    if not axes:
        return [text]
    # what the sweep varies: the keys of each axis with their values
    parts = [f"{' together with '.join(map(plain, axis['keys']))} ({_values(axis, table)})" for axis in axes]
    company = "" if len(axes) == 1 else ", in all combinations"
    sweep = f"The sweep varies {'; '.join(parts)}{company}. All else is as in the scenario below, for every point."
    return [text, sweep]


def _describe_points(
    rows: pd.DataFrame, varied: Sequence[str], mechanisms: Mechanisms, *, scenario: Mapping[str, Any]
) -> str:
    """The paragraph on what was simulated and measured at the points of a sweep, or in a run. `varied`: swept keys.

    The other arguments are as in `what_was_run`.
    """
    same = not any(key.startswith("clusters") for key in varied)
    users = _users(rows) + (_merged_clusters(rows, scenario.get("clusters")) if same else "")
    several = "mechanism.peers" in varied or scenario.get("mechanism", {}).get("peers", 1) != 1
    if "label_exchange" in set(rows["mechanism_kind"]):
        engine = f"The exchange was {_kinds(rows, 'engine', ENGINES)}."
    elif "protocol_events" in rows and rows["protocol_events"].notna().all():
        engine = "Models were sent as messages over a simulated network."
    else:
        engine = "No messages were simulated."
    return f"{users} {_mechanism(rows, mechanisms, several)} {engine} {_learner(rows)} {_measure(rows)}"


def unfinished(table: pd.DataFrame, axes: Sequence[Mapping[str, Any]], wanted: int | None) -> str:
    """A sentence on the points and replicates that are still missing; empty if nothing is missing.

    table: one line for each point. axes: the axes of the sweep, each with its values; empty for a run. wanted: how many
    replicates each point should have; None: unknown.
    """
    planned = math.prod(len(axis["values"]) for axis in axes)
    have = int((table["replicates"] > 0).sum())
    short = int((table["replicates"] < (wanted or 0)).sum())
    gaps = []
    if axes and have < planned:
        gaps.append(f"{have:,d} of {count(planned, 'point')} have results")
    if short > planned - have:
        gaps.append(f"{count(short, 'point')} with fewer than {count(wanted or 0, 'replicate')}")
    return f"Not everything is there: {'; '.join(gaps)}." if gaps else ""


def _users(rows: pd.DataFrame) -> str:
    kinds = _kinds(rows, "population", POPULATIONS)
    if set(rows["adjacency"].astype(str)) == {"example"}:
        return (
            f"{span(rows['num_users'])} private rows from {kinds} belong to {span(rows['num_clusters'])} organisations."
        )
    return (
        f"{span(rows['num_users'])} users from {kinds}, each with one private label, are grouped by their features "
        f"into {span(rows['num_clusters'])} clusters."
    )


def _merged_clusters(rows: pd.DataFrame, clusters: object) -> str:
    """A sentence which says that small clusters were merged into their nearest neighbours. The sentence is empty unless
    there are fewer clusters than the scenario asks for. `clusters`: the scenario's settings for clusters.
    """
    if not isinstance(clusters, Mapping):
        return ""
    requested = clusters.get("count")
    if not isinstance(requested, int) or rows["num_clusters"].min() >= requested:
        return ""
    return (
        f" {requested:,d} clusters were asked for; clusters of fewer than {plain(clusters.get('min_size'))} users were "
        "merged into their nearest neighbour."
    )


def learned_nothing(rows: pd.DataFrame) -> list[str]:
    """Warnings if the learned model is not clearly better than a prediction that uses no features; otherwise empty.

    A model is clearly more accurate if the 95% interval of its gain lies above 0; with one replicate, if the gain does.
    For several points, one sentence states how many of the points that can be judged lack such a model.
    """
    if rows["scenario"].nunique() == 1:
        return [f"{line[0].upper()}{line[1:]}." for line in warnings_of(rows)]
    low, comparable = points_not_above(rows)
    if not low:
        return []
    return [
        f"In {low:,d} of {count(comparable, 'point')}, what is learned is not clearly more accurate than always saying "
        "the majority class."
    ]


def _mechanism(rows: pd.DataFrame, mechanisms: Mechanisms, several: bool) -> str:
    if set(rows["mechanism_kind"]) != {"label_exchange"}:
        names = {kind: plain(text) for kind, text in mechanisms.items() if text}
        noun = "Rows" if set(rows["adjacency"].astype(str)) == {"example"} else "Labels"
        return f"{noun} are privatised by {_kinds(rows, 'mechanism_kind', names)}."
    noise, noun = f"user flips her label once, with probability α = {span(rows['flip_prob'])}", "noisy label"
    if rows["flip_prob"].isna().any():
        noise, noun = f"user makes a noisy message of her label once, ε₀ = {span(rows['epsilon_local'])}", "message"
    peers, passed = f"the {noun} of a random peer", f"that {noun}"
    if several:
        peers, passed = "the noisy labels of one or several random peers", "what most of these labels say"
    return (
        f"Each {noise}, fetches {peers} of her cluster, and passes {passed} on to a learner "
        f"with probability θ = {span(rows['sampling_rate'])}."
    )


def _learner(rows: pd.DataFrame) -> str:
    if rows["learner"].isna().all():
        return "No model is learned: the release is a density of the features."
    kinds = _kinds(rows, "learner", {}).replace("_", " ")
    return f"A learner ({kinds}) learns from what arrives, and predicts labels from features."


def _measure(rows: pd.DataFrame) -> str:
    if rows["learner"].isna().all():
        if rows["half_l1"].notna().all():
            return "The density's half-L1 distance follows from the known law."
        return "The law is not known, so the report counts the density's cells."
    exact = rows["excess_risk"].notna()
    if exact.all():
        return (
            f"Its accuracy and its excess risk (expected {loss_text(rows)}, above the best model of its class) "
            "follow from the known law; they are not estimated on a test set."
        )
    held_out = "Its accuracy is measured on rows that were held out"
    return f"{held_out}, except where the law is known." if exact.any() else f"{held_out}."


def _values(axis: Mapping[str, Any], table: pd.DataFrame) -> str:
    size = count(len(axis["values"]), "value")
    column = table[axis["keys"][0]].dropna() if axis["keys"][0] in table else pd.Series([], dtype=object)
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in column)
    if len(column) and numeric:
        return f"{size}, {number(float(column.min()))} to {number(float(column.max()))}"
    texts = [plain(value, 30) for value in dict.fromkeys(column)]
    return f"{size}: {', '.join(texts[:6])}{', …' if len(texts) > 6 else ''}" if texts else size


def _kinds(rows: pd.DataFrame, column: str, names: Mapping[str, str]) -> str:
    kinds = list(dict.fromkeys(map(str, rows[column])))
    return " or ".join(names.get(kind, plain(kind)) for kind in kinds[:6]) + (" or others" if len(kinds) > 6 else "")


class Card(NamedTuple):
    """A number, or a range of numbers, under a heading, with a remark in small letters."""

    heading: str
    figure: str
    remark: str = ""


def key_figures(points: pd.DataFrame) -> list[Card]:
    """The cards at the top of a report: ε and the quality of what is learned. One card has the learner's ε. If there is
    a coalition (colluding users), another card has the ε of the learner with the coalition. The quality is the excess
    risk if the law (distribution) of the data is known, else the accuracy. For a density it is half the L1 error or, if
    this is unknown, the number of cells. A single point has intervals and values to compare with; several have ranges.

    points: one line for each point, with its number of replicates.
    """
    # the measure of quality
    measured = points[points["replicates"] > 0]
    column = quality(measured)
    exact, heading = column == "excess_risk", short(column)
    unit = f", {loss_text(measured).removeprefix('log loss, ')}" if exact else ""
    epsilon = measured["epsilon_upper"].fillna(math.inf).astype(float)
    # several points: ranges over all points
    if len(measured) > 1:
        values = measured[column].dropna().astype(float)
        low, high = rounded_up(float(epsilon.min())), rounded_up(float(epsilon.max()))
        least, most = number(float(values.min())), number(float(values.max()))
        return [
            Card("points", f"{len(measured):,d}", f"{int(measured['replicates'].sum()):,d} replicates in all"),
            Card("ε, learner, at most", low if low == high else f"{low} to {high}", "by point, worst replicate"),
            *_coalition(measured, "the largest, worst replicate"),
            Card(f"{heading}{unit}", f"{least} to {most}", "means, by point"),
        ]
    # one point: values with intervals, and values to compare with
    point = measured.iloc[0]
    reference, at = f"nonprivate_{column}", f"δ = {number(float(point['delta']))}, worst cluster"
    cards = [Card("ε, learner, at most", rounded_up(float(epsilon.iloc[0])), at), *_coalition(measured, at)]
    cards.append(Card(f"{heading}{unit}", *_mean(point, column)))
    if math.isfinite(point[reference]):
        cards.append(Card(f"{heading} without privacy", *_mean(point, reference)))
    baseline, rival = ("constant_excess_risk", "best constant") if exact else ("majority_accuracy", "majority class")
    if column in ("excess_risk", "accuracy") and baseline in point and math.isfinite(point[baseline]):
        cards.append(Card(f"{heading}, always the {rival}", *_mean(point, baseline)))
    alone = point["epsilon_local"]
    if pd.notna(alone):  # a curator's users put no noise on their own labels
        cards.append(Card("ε₀, the noise alone", rounded_up(float(alone)), "whoever sees a noisy label and its owner"))
    return cards


def _coalition(measured: pd.DataFrame, remark: str) -> list[Card]:
    """A list with one card: the largest ε against the learner with a coalition (users who tell the learner what they
    see). The list is empty if there is no coalition.

    Args:
        measured: one line for each point that has results. remark: words in small letters below the ε.
    """
    epsilons = measured["epsilon_coalition_upper"].dropna().astype(float)
    heading = "ε, learner with the coalition, at most"
    return [Card(heading, rounded_up(float(epsilons.max())), remark)] if len(epsilons) else []


def _mean(point: pd.Series, name: str) -> MeanText:
    return with_interval(float(point[name]), float(point[name + LOW]), float(point[name + HIGH]))
