"""Densities from a scenario: their population, what a curator releases, what a row says, what is never refused."""

import numpy as np
import pytest

from p2p_sim.analysis.utility.total_variation import LINE_LAWS, half_l1
from p2p_sim.base.streams import Streams
from p2p_sim.population.build import build_population
from p2p_sim.population.clustering import GivenClusters
from p2p_sim.population.real_line import RealLineConfig

LAWS = tuple(LINE_LAWS)


@pytest.mark.parametrize("law", LAWS)
def test_users_on_the_line_follow_the_law_and_their_labels_halve_it(law):
    people = build_population(RealLineConfig(law=law, users=20_000), GivenClusters(), (), Streams(1, 0))
    x = np.sort(people.features[:, 0])
    assert np.max(np.abs(LINE_LAWS[law].cdf(x) - np.arange(20_000) / 2e4)) < 0.02  # Kolmogorov: 1e-6 of chance
    assert people.line_law is LINE_LAWS[law]
    assert people.features[people.labels == 0].max() < people.features[people.labels == 1].min()
    assert abs(people.labels.mean() - 0.5) < 0.02
    assert people.holdout is not None


def test_every_key_of_the_line_is_harmless_to_private_rows():
    assert RealLineConfig.row_by_row == set(RealLineConfig.model_fields) - {"kind"}


def test_cells_may_begin_anywhere():
    """The same cells, named from another origin."""
    cells, heights = np.array([-2, 0, 1, 5]), np.array([0.1, 0.4, 0.3, 0.2])
    for law in LINE_LAWS.values():
        moved = half_l1(law, cells + 4, 0.25, heights, origin=-1.0)
        assert moved == pytest.approx(half_l1(law, cells, 0.25, heights), rel=1e-14)
        assert moved != pytest.approx(half_l1(law, cells + 4, 0.25, heights), rel=1e-3)  # planted
