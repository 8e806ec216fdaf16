"""How many intervals of clusters' sampling rates miss θ by chance, and what the figure says of it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from matplotlib.axes import Axes

from p2p_sim.figures.message_times import plot_sampling
from p2p_sim.measures.intervals import expected_misses
from p2p_sim.privacy.audit_statistics.power import clopper_pearson

pytestmark = pytest.mark.figures


def enumerated(size: int, asked: float, true: float, tail: float) -> float:
    """The same for one interval, over every number of hits."""
    total = Fraction(0)
    p = Fraction(true)
    for hits in range(size + 1):
        ends = clopper_pearson(hits, size, tail)
        if not ends.lower <= asked <= ends.upper:
            total += math.comb(size, hits) * p**hits * (1 - p) ** (size - hits)
    return float(total)


@pytest.mark.parametrize("size", [1, 2, 7, 40, 183])
@pytest.mark.parametrize("asked", [0.02, 0.1, 0.5, 0.93])
@pytest.mark.parametrize("true", [0.0, 0.1, 0.37, 1.0])
def test_it_agrees_with_every_number_of_hits(size, asked, true):
    for tail in (0.025, 0.2):
        assert math.isclose(
            expected_misses([size], asked, true, tail), enumerated(size, asked, true, tail), rel_tol=1e-9, abs_tol=1e-15
        )


def test_at_the_true_rate_no_more_miss_than_the_level_says():
    sizes = np.arange(1, 400)
    assert expected_misses(sizes, 0.3, 0.3, 0.025) <= 0.05 * sizes.size
    assert expected_misses(sizes, 1.0, 1.0, 0.025) == 0.0
    assert expected_misses(sizes, 1.0, 0.5, 0.025) > 390  # all but the intervals of the smallest clusters


def test_the_figure_says_how_many_were_expected_with_and_without_loss(tmp_path, monkeypatch):
    titles, labels = [], []
    monkeypatch.setattr(Axes, "set_title", lambda self, text, **_: titles.append(text))
    line = Axes.axhline
    monkeypatch.setattr(
        Axes, "axhline", lambda self, *a, **look: labels.append(look["label"]) or line(self, *a, **look)
    )
    sizes = np.full(20, 180)
    submissions = np.array([72] * 10 + [78] * 6 + [66] * 4)  # .40, .433 and .367: 14 of 20 miss θ = .5
    plot_sampling(sizes, submissions, 0.5, tmp_path / "sampling.png", "")
    [title] = titles
    whole = submissions.sum() / 3600
    assert title.startswith("Effective sampling rate: 14 of 20 intervals miss θ\n")
    without, lossy = expected_misses(sizes, 0.5, 0.5, 0.025), expected_misses(sizes, 0.5, whole, 0.025)
    assert f"expected: {without:.2g} if all submissions arrived, {lossy:.2g} at the effective rate" in title
    assert without < 1 < 12 < lossy
    assert any(f"{whole:.4g}: 0 intervals miss this rate" in label for label in labels)
