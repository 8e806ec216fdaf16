"""The lower bound and the utility theorems' terms, measured."""

import math

import numpy as np
import pandas as pd
from scipy.special import ndtr

from docs.values.forms import ROOT, interval, short, up

SOURCE = (
    "python -m docs.make_clustering_figures",
    "analysis/test_published.py::test_the_figures_of_the_clustering_guide_come_with_their_numbers",
)

_whole = pd.read_csv(ROOT / "docs" / "figures" / "label-association.csv").set_index(["panel", "curve", "x"])
_points = _whole.loc["ε = 3"].sort_index()


def _cell(curve: str, ratio: float) -> str:
    point = _points.loc[(curve, ratio)]
    if point["y"] >= 1.0:
        return "above 1"
    if ratio > 0.01 or "proof" in curve:
        return short(point["y"])
    return short(point["y"], 4) if point["low"] == point["high"] else interval(*point, 4)


CURVES = ("Theorem 5's proof: e^ε s/(K-s)", "exact maximum", "subset of each cluster",
          "noisy histogram", "subset of each example", "randomised response")  # fmt: skip
association = [[_cell(curve, ratio) for ratio in (0.5, 0.1, 0.01)] for curve in CURVES]
above = _whole.loc[("ε = 1", "exact maximum", 0.01), "y"] / 0.01 - 1.0

terms = pd.read_csv(ROOT / "docs" / "figures" / "theory-terms.csv")
_by = {(term, place): line for term, part in terms.groupby("term") for place, (_, line) in enumerate(part.iterrows())}


def constant(term: str, place: int = 0, digits: int = 3) -> str:
    """Of a term's fit, with its interval."""
    return interval(*_by[term, place][["constant", "constant_low", "constant_high"]], digits)


def rounded(term: str, place: int) -> str:
    """Of a term's fit to squares."""
    return f"{_by[term, place]['constant']:.2f}"


def hundredths(term: str, place: int = 0) -> str:
    """Of a term's fit, in two digits."""
    return short(_by[term, place]["constant"], 2)


alpha, slope, theta_slope = _by["α", 0], _by["K", 3], short(_by["θ", 0]["slope"], 2)
[beta] = {hundredths("|κ|", place) for place in (0, 2)}
[beta_squares] = {rounded("|κ|", place) for place in (1, 3)}
largest = short(max(m * ndtr(-m) for m in np.linspace(0.0, 2.0, 2001)), 2)
low, high = sorted((hundredths("|κ|"), hundredths("φ")))
factors = [up(limit / _by[term, 0]["constant"], 1) for term, limit in (("|κ|", 1.0), ("τ", 2.0))]
noise = 2.0 * math.sqrt(2.0) / _by["σ/s", 0]["constant"]
