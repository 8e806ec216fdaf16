"""Histogram estimators: cells, packings, the face of scikit-learn, bad input, and how well they learn.

Statistical tests have a false-alarm rate of 1e-9.
"""

import warnings

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from p2p_sim.base.errors import InputError
from p2p_sim.histograms.classifiers import (
    PCL,
    PCL2,
    CellCounts,
    HistogramClassifier,
    LabelPrivateHistogram,
    PCL2b,
    packing_cells,
)
from p2p_sim.histograms.densities import PCDE, HistogramDensity
from p2p_sim.histograms.partitions import CellTable, Cubes, Voronoi, addresses, cube_side, even_side, greedy_packing
from p2p_sim.histograms.semi_supervised import HalfSpaces, Intervals, SemiSupervised
from p2p_sim.learning.exchange_histogram import ExchangeHistogram
from p2p_sim.measures.exact_laws import Normal, ProductLaw, Sine, box_centres, half_l1

SIGMAS = 6.11
CLASSIFIERS = [HistogramClassifier, PCL, PCL2, PCL2b, LabelPrivateHistogram, ExchangeHistogram]
SMOOTH = ProductLaw(Sine(2))


def excess(law, model):
    edges = model.partition_.edges()
    return law.excess_error(edges, model.predict(box_centres(edges, law.dimension)))


@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_the_table_of_cells_agrees_with_a_dictionary(dimensions):
    rng = np.random.default_rng(dimensions)
    cells = rng.integers(-3, 4, (300, dimensions)) * 10**12
    table = CellTable.of(cells)
    place = table.find(cells)
    counts = {}
    for row in map(tuple, cells.tolist()):
        counts[row] = counts.get(row, 0) + 1
    assert sorted(counts) == list(map(tuple, table.coordinates.tolist()))
    assert np.array_equal(table.coordinates[place], cells)
    others = rng.integers(-4, 5, (500, dimensions)) * 10**12
    wanted = [counts.get(row, 0) for row in map(tuple, others.tolist())]
    assert table.look_up(np.bincount(place).astype(float), others).tolist() == wanted


def test_cells_of_a_plane_have_addresses_of_their_own():
    cells = np.stack(np.meshgrid(np.arange(-250, 250), np.arange(-250, 250)), -1).reshape(-1, 2)
    assert len(np.unique(addresses(cells))) == 250_000


@pytest.mark.parametrize("dimensions", [1, 3, 6])
def test_the_grid_is_a_maximal_packing_whose_voronoi_cells_are_the_cubes(dimensions):
    from scipy.spatial import cKDTree

    rng, radius = np.random.default_rng(3), 0.4
    cubes = Cubes(radius, -radius / 2, unit_cube=True)
    points = rng.random((2000, dimensions))
    axis = radius * np.arange(cubes.per_axis)
    assert axis[1] - axis[0] >= radius  # a packing
    centres = np.stack(np.meshgrid(*[axis] * dimensions, indexing="ij"), -1).reshape(-1, dimensions)
    distance, nearest = cKDTree(centres).query(points, p=np.inf)
    assert distance.max() < radius  # maximal, in the supremum norm
    euclidean = cKDTree(centres).query(points)[1]
    assert np.array_equal(centres[euclidean], cubes.cells(points) * radius)
    assert np.allclose(distance, np.abs(centres[nearest] - points).max(axis=1))


def on_a_circle(one, two):
    """A metric that no tree of scikit-learn has a name for."""
    gap = abs(float(one[0] - two[0])) % 1.0
    return min(gap, 1.0 - gap)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", on_a_circle])
def test_a_greedy_packing_is_a_maximal_packing_of_its_reference_set(metric):
    from sklearn.metrics import pairwise_distances

    rng, radius = np.random.default_rng(4), 0.15
    reference = rng.random((150, 1 if callable(metric) else 2))
    centres = greedy_packing(reference, radius, metric)
    between = pairwise_distances(centres, metric=metric) + np.eye(len(centres))
    distance = pairwise_distances(reference, centres, metric=metric)
    assert between.min() >= radius
    assert distance.min(axis=1).max() < radius
    assert np.array_equal(distance.argmin(axis=1), Voronoi(centres, metric).cells(reference)[:, 0])


def test_cubes_cover_the_unit_cube_to_its_boundary():
    cubes = Cubes(cube_side(10_000, 1), unit_cube=True)
    assert cubes.per_axis == 100
    assert cubes.cells(np.array([[0.0], [0.995], [1.0]])).ravel().tolist() == [0, 99, 99]
    sliver = Cubes(0.3, unit_cube=True)
    assert np.allclose(sliver.edges(), [0.0, 0.3, 0.6, 0.9, 1.0])
    assert 1.0 / even_side(1000, 1) == 31.0


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_classifiers_have_the_face_of_scikit_learn(estimator):
    points, labels = SMOOTH.draw(3000, np.random.default_rng(5))
    model = clone(estimator()).fit(points, labels)
    shares = model.predict_proba(points)
    assert shares.shape == (3000, 2)
    assert shares.min() >= 0.0
    assert np.allclose(shares.sum(axis=1), 1.0)
    assert np.array_equal(model.predict(points), shares[:, 1] > 0.5)
    assert model.classes_.tolist() == [0, 1]
    assert cross_val_score(estimator(), points, labels, cv=3).mean() > 0.6
    with pytest.raises(InputError, match="X has 2 features: fitted on 1"):
        model.predict(np.zeros((2, 2)))


def test_private_rules_learn_as_well_as_accounted_for():
    rng = np.random.default_rng(6)
    errors = [excess(SMOOTH, PCL(random_state=i).fit(*SMOOTH.draw(10_000, rng))) for i in range(12)]
    assert np.mean(errors) < 0.006
    errors = [excess(SMOOTH, PCL(random_state=i).fit(*SMOOTH.draw(100_000, rng))) for i in range(4)]
    assert np.mean(errors) < 0.0015
    noise_alone = [excess(SMOOTH, PCL(1e-6, random_state=i).fit(*SMOOTH.draw(10_000, rng))) for i in range(4)]
    assert np.mean(noise_alone) > 0.1  # control: votes drowned in noise


def test_rules_on_other_cells_learn():
    rng = np.random.default_rng(7)
    sample = SMOOTH.draw(100_000, rng)
    assert excess(SMOOTH, PCL2().fit(*sample)) < 0.02
    reference = rng.random((5000, 1))
    grid = (np.arange(2000)[:, None] + 0.5) / 2000
    best = SMOOTH.positive(grid) > 0.5
    for model in (PCL2(reference=reference), PCL2b(delta=1e-10), PCL2b(delta=1e-10, reference=reference)):
        assert np.mean(model.fit(*sample).predict(grid) == best) > 0.9
    assert np.mean(PCL2b(delta=1e-10, epsilon=1e-3).fit(*sample).predict(grid)) == 0.0  # nothing passes


def test_the_exchange_undoes_its_flips_on_average():
    points, labels = np.random.default_rng(8).random((100_000, 1)) * 0.999, np.ones(100_000, dtype=int)
    model = ExchangeHistogram(None, 0.3, side=1.0).fit(points, labels)
    deviation = SIGMAS * np.sqrt(2 * 0.3 * 0.7 * 100_000) / 0.4  # flips, and sampling with replacement
    assert abs(model.votes_[0] - 50_000) < deviation
    assert abs(0.4 * model.votes_[0] - 50_000) > deviation  # planted: no division by 1-2α
    assert model.predict_proba([[0.5]])[0, 1] > 0.97


def test_small_cells_send_nothing():
    points = np.concatenate([np.full((50, 1), 0.25), np.full((3, 1), 0.75)])
    model = ExchangeHistogram(None, 0.0, delta=0.1, side=0.5, smallest_cell=5).fit(points, np.ones(53, dtype=int))
    assert model.sizes_.tolist() == [50]
    assert model.predict([[0.25], [0.75]]).tolist() == [1, 0]
    with pytest.raises(InputError, match="no cell"):
        ExchangeHistogram(None, 0.1, delta=0.1, smallest_cell=100).fit(points, np.ones(53, dtype=int))


def test_counts_and_densities():
    cells = np.repeat([[0, 5], [3, -2], [0, 6]], [400, 200, 1], axis=0)
    histogram = CellCounts.noisy(cells, 1.0, 1e-6, seed=1)
    assert histogram.table.coordinates.tolist() == [[0, 5], [3, -2]]
    assert np.abs(histogram.counts - [400, 200]).max() < 50
    assert histogram.at(np.array([[0, 6], [3, -2], [9, 9]])).tolist() == [0.0, histogram.counts[1], 0.0]
    rng = np.random.default_rng(9)
    points = rng.standard_normal((100_000, 1))
    normalised, raw, exact = PCDE(), PCDE(normalise=False), HistogramDensity()
    masses = [clone(model).fit(points).masses_.sum() for model in (normalised, raw, exact)]
    assert masses[0] == pytest.approx(1.0)
    assert 0.8 < masses[1] < 1.0
    assert masses[2] == pytest.approx(1.0)
    normalised.fit(points)
    assert normalised.score_samples([[0.0], [50.0]])[1] == -np.inf
    assert np.exp(normalised.score_samples([[0.0]])[0]) == pytest.approx(0.4, abs=0.15)
    drawn = normalised.sample(100_000, rng)
    assert abs(np.mean(drawn < 0.0) - np.sum(normalised.masses_[normalised.coordinates_[:, 0] < 0])) < SIGMAS * 0.0016


def test_density_estimates_are_as_near_as_measured():
    rng, law = np.random.default_rng(10), Normal()
    distances = []
    for seed in range(4):
        model = PCDE(random_state=seed).fit(law.draw(100_000, rng))
        distances.append(half_l1(law, model.coordinates_.ravel(), model.cubes_.side, model.heights_))
    assert 0.16 < np.mean(distances) < 0.185


def test_few_labels_suffice_where_many_unlabelled_points_are_known():
    errors, rng = [], np.random.default_rng(11)
    for seed in range(8):
        points = rng.standard_normal((400, 1))
        model = SemiSupervised(random_state=seed)
        model.fit(points, points[:, 0] >= 0.3, rng.standard_normal((100_000, 1)))
        errors.append(abs(ndtr(model.net_.cuts[model.chosen_, 0]) - ndtr(0.3)))
    assert np.mean(errors) < 0.015


@pytest.mark.parametrize(
    ("concepts", "dimensions", "truth"),
    [
        (Intervals(), 1, lambda x: np.abs(x[:, 0] + 0.2) < 0.7),
        (HalfSpaces(32), 2, lambda x: x @ [0.6, 0.8] >= 0.3),
    ],
)
def test_nets_count_errors_and_learn(concepts, dimensions, truth):
    rng = np.random.default_rng(12)
    points = rng.standard_normal((60, dimensions))
    labels = rng.integers(0, 2, 60).astype(np.uint8)
    net = concepts.net(rng.standard_normal((12, dimensions)))
    errors = net.errors(points, labels)
    assert errors.tolist() == [np.sum(net.predict(i, points) != labels) for i in range(len(errors))]
    fresh = rng.standard_normal((5000, dimensions))
    points = rng.standard_normal((2000, dimensions))
    model = SemiSupervised(concepts, net_points=200, delta=1e-6).fit(
        points, truth(points), rng.standard_normal((200_000, dimensions))
    )
    assert model.score(fresh, truth(fresh)) > 0.95


def test_every_interval_is_in_the_net_once():
    net = Intervals().net(np.array([[0.0], [1.0], [2.0]]))
    said = {tuple(net.predict(i, np.array([[0.0], [1.0], [2.0]])).tolist()) for i in range(len(net.low))}
    assert len(said) == len(net.low) == 6  # all non-empty runs of three points


def test_points_outside_the_cube_and_many_dimensions_are_said_aloud():
    with pytest.warns(UserWarning, match=r"2 of 3 points lie outside \[0, 1\]\^1: moved to its boundary"):
        model = PCL(side=0.5).fit([[0.2], [1.5], [-1.0]], [0, 1, 1])
    assert model.table_.coordinates.ravel().tolist() == [0, 1]
    rng = np.random.default_rng(13)
    points, labels = rng.random((1000, 20)), rng.integers(0, 2, 1000)
    with pytest.warns(UserWarning, match="most of them empty; an empty cell answers by noise alone"):
        model = PCL().fit(points, labels)
    assert 0.3 < model.predict(rng.random((1000, 20))).mean() < 0.7
    with pytest.warns(UserWarning, match="no cell of 100 rows passed the threshold"):
        empty = PCDE().fit(rng.random((100, 1)))
    assert empty.score_samples([[0.5]]).tolist() == [-np.inf]
    with pytest.raises(InputError, match="no cell passed"):
        empty.sample(1, rng)
    with warnings.catch_warnings(action="error"):
        PCL().fit(points[:, :2], labels)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (PCL(epsilon=0.0), "epsilon = 0.0"),
        (PCL(side=-1.0), "side = -1.0"),
        (PCL(random_state=None), "random_state = None"),
        (PCL2(radius=0.0), "radius = 0.0"),
        (PCL2(dimension=-1), "dimension = -1"),
        (PCL2(reference=np.zeros((0, 1))), "X of shape|reference"),
        (PCL2b(delta=1.0), "delta = 1.0"),
        (ExchangeHistogram(None, 0.5), "flip_prob = 0.5"),
        (ExchangeHistogram(None, None), "either"),
        (ExchangeHistogram(-1.0), "target_epsilon = -1.0"),
        (ExchangeHistogram(sampling_rate=0.0), "sampling_rate = 0.0"),
        (ExchangeHistogram(smallest_cell=1), "smallest_cell = 1"),
    ],
)
def test_bad_parameters_are_named(model, message):
    points, labels = SMOOTH.draw(100, np.random.default_rng(14))
    with pytest.raises(InputError, match=message):
        model.fit(points, labels)


def test_bad_data_are_named():
    points, labels = SMOOTH.draw(100, np.random.default_rng(15))
    for X, y, message in (
        (points[:, 0], labels, "shape"),
        (np.full_like(points, np.nan), labels, "NaN"),
        (points, labels[:-1], r"y of shape \(99,\)"),
        (points, labels + 1, "0 or 1"),
    ):
        with pytest.raises(InputError, match=message):
            PCL().fit(X, y)
    for reference in (points, points.copy(), points[:50]):
        with pytest.raises(InputError, match="reference"):
            PCL2(reference=reference).fit(points, labels)
    with pytest.raises(InputError, match="delta"):
        PCDE(delta=1.5).fit(points)
    with pytest.raises(InputError, match="single row"):
        PCDE().fit(points[:1])
    with pytest.raises(InputError, match="directions"):
        HalfSpaces(2).net(points)
    with pytest.raises(InputError, match="intervals need"):
        Intervals().net(np.zeros((2, 2)))
    with pytest.raises(InputError, match="unlabelled has 2"):
        SemiSupervised().fit(points, labels, np.zeros((10, 2)))
    with pytest.raises(InputError, match="label privacy alone"):
        LabelPrivateHistogram().fit(points, labels).privacy("example")


@pytest.mark.filterwarnings("ignore:n = ")
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("radius", [0.13, 0.17, 0.3, 0.37, 0.6, 0.99, 2.0])
def test_the_cells_of_a_packing_are_those_nearest_to_centres_within_the_cube(radius, centred):
    """A centre beyond 1 is no point of the space; its sliver belongs to the last centre."""
    centres = np.arange(radius / 2.0 if centred else 0.0, 1.0, radius)
    centres = centres if len(centres) else np.array([0.5])
    points = np.random.default_rng(0).random((2000, 1))
    cells = packing_cells(PCL2(radius=radius, centred=centred), points, bounded=True).cells(points)[:, 0]
    assert (cells == np.abs(points - centres).argmin(axis=1)).all()
