"""Sixty replicates of the private histogram rules: `make validate`, half a minute."""

import numpy as np
import pytest
from scipy.special import ndtr

from p2p_sim.histograms.classifiers import PCL
from p2p_sim.histograms.densities import PCDE
from p2p_sim.histograms.semi_supervised import SemiSupervised
from p2p_sim.measures.exact_laws import Normal, ProductLaw, Sine, box_centres, half_l1

pytestmark = pytest.mark.slow
REPLICATES = 60


@pytest.mark.parametrize(("rows", "limit"), [(10_000, 0.006), (100_000, 0.0015)])
def test_pcl_on_a_smooth_law(rows, limit):
    law, rng, errors = ProductLaw(Sine(2)), np.random.default_rng(rows), []
    for seed in range(REPLICATES):
        model = PCL(1.0, random_state=seed).fit(*law.draw(rows, rng))
        edges = model.partition_.edges()
        errors.append(law.excess_error(edges, model.predict(box_centres(edges, 1))))
    assert np.mean(errors) < limit


def test_pcde_of_a_normal_law():
    law, rng, distances = Normal(), np.random.default_rng(1), []
    for seed in range(REPLICATES):
        model = PCDE(1.0, random_state=seed).fit(law.draw(100_000, rng))
        distances.append(half_l1(law, model.coordinates_.ravel(), model.cubes_.side, model.heights_))
    assert 0.16 < np.mean(distances) < 0.185


def test_thresholds_from_few_labels():
    rng, errors = np.random.default_rng(2), []
    for seed in range(REPLICATES):
        points = rng.standard_normal((400, 1))
        model = SemiSupervised(epsilon=1.0, random_state=seed)
        model.fit(points, points[:, 0] >= 0.0, rng.standard_normal((100_000, 1)))
        errors.append(abs(ndtr(model.net_.cuts[model.chosen_, 0]) - 0.5))
    assert np.mean(errors) <= 0.01
