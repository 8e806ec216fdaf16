"""The few figures that a reader looks for first."""

import math
from typing import NamedTuple

import pandas as pd

from p2p_sim.figures.column_labels import loss_text, short
from p2p_sim.measures.point_means import HIGH, LOW
from p2p_sim.measures.quality_column import quality
from p2p_sim.report.cell_text import number, with_interval
from p2p_sim.report.privacy_statement import rounded_up


class Card(NamedTuple):
    """A figure under a heading, with a remark in small letters."""

    heading: str
    figure: str
    remark: str = ""


def key_figures(points: pd.DataFrame) -> list[Card]:
    """ε and what is learned: of one point with intervals, of several as ranges.

    Args:
        points: one line a point, from `with_failures`.
    """
    done = points[points["replicates"] > 0]
    shown = quality(done)
    exact, heading = shown == "excess_risk", short(shown)
    unit = f", {loss_text(done).removeprefix('log loss, ')}" if exact else ""
    epsilon = done["epsilon_upper"].fillna(math.inf).astype(float)
    if len(done) > 1:
        values = done[shown].dropna().astype(float)
        low, high = rounded_up(float(epsilon.min())), rounded_up(float(epsilon.max()))
        least, most = number(float(values.min())), number(float(values.max()))
        return [
            Card("points", f"{len(done):,d}", f"{int(done['replicates'].sum()):,d} replicates in all"),
            Card("ε, learner, at most", low if low == high else f"{low} to {high}", "by point, worst replicate"),
            *_coalition(done, "the largest, worst replicate"),
            Card(f"{heading}{unit}", f"{least} to {most}", "means, by point"),
        ]
    point = done.iloc[0]
    reference, at = f"nonprivate_{shown}", f"δ = {number(float(point['delta']))}, worst cluster"
    cards = [Card("ε, learner, at most", rounded_up(float(epsilon.iloc[0])), at), *_coalition(done, at)]
    cards.append(Card(f"{heading}{unit}", *_mean(point, shown)))
    if math.isfinite(point[reference]):
        cards.append(Card(f"{heading} without privacy", *_mean(point, reference)))
    baseline, said = ("constant_excess_risk", "best constant") if exact else ("majority_accuracy", "majority class")
    if shown in ("excess_risk", "accuracy") and baseline in point and math.isfinite(point[baseline]):
        cards.append(Card(f"{heading}, always the {said}", *_mean(point, baseline)))
    alone = point["epsilon_local"]
    if pd.notna(alone):  # a curator's users put no noise on their own labels
        cards.append(Card("ε₀, the noise alone", rounded_up(float(alone)), "whoever sees a noisy label and its owner"))
    return cards


def _coalition(done: pd.DataFrame, remark: str) -> list[Card]:
    """ε of a learner who is one of the coalition, where there is one."""
    known = done["epsilon_coalition_upper"].dropna().astype(float)
    heading = "ε, learner with the coalition, at most"
    return [Card(heading, rounded_up(float(known.max())), remark)] if len(known) else []


def _mean(point: pd.Series, name: str) -> tuple[str, str]:
    value, low, high = (float(point[name + end]) for end in ("", LOW, HIGH))
    return with_interval(value, low, high)
