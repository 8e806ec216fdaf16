"""Private stacking as scikit-learn estimators: solver, noise, groups, transfer, and what they refuse."""

import math

import numpy as np
import pytest
from scipy.stats import gamma, kstest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from p2p_sim.stacking import FeatureStacking, PrivateLogisticRegression, SampleStacking, TransferStacking, pphtl
from p2p_sim.stacking.clipped_rows import clip_rows
from p2p_sim.stacking.plr import PerturbedObjective, draw_noise


@pytest.fixture
def data():
    """Rows of norm 1, labels from a known law: weights fall by half from feature to feature."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4000, 10))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    scores = rows @ (12.0 * 0.5 ** np.arange(10))
    return rows, np.where(scores + rng.logistic(size=4000) > 0, "ill", "healthy")


def test_the_gradient_is_that_of_the_objective():
    rng = np.random.default_rng(1)
    rows, prior, noise, weights = rng.standard_normal((7, 3)), *rng.standard_normal((3, 3))
    problem = PerturbedObjective(rows, 0.3, 0.2, prior)

    def value(w):
        loss = np.logaddexp(0.0, -(rows @ w)).mean() + noise @ w / 7
        return loss + 0.1 * (w @ w) + 0.15 * ((w - prior) @ (w - prior))

    numeric = [(value(weights + 1e-6 * e) - value(weights - 1e-6 * e)) / 2e-6 for e in np.eye(3)]
    assert problem.gradient(weights, noise) == pytest.approx(numeric, abs=1e-8)
    many = problem.gradient(weights, np.stack([noise, -noise]))
    assert many.shape == (2, 3)
    assert many[0] == pytest.approx(problem.gradient(weights, noise), abs=1e-15)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("l2", [1e-6, 0.1])
def test_the_solver_brings_the_gradient_to_nought(l2, scale):
    rng = np.random.default_rng(2)
    problem = PerturbedObjective(clip_rows(rng.standard_normal((50, 4))), l2, 0.0, 100.0 * rng.standard_normal(4))
    noise = draw_noise(4, scale, rng)[0]
    size = np.linalg.norm(problem.gradient(problem.minimise(noise), noise))
    assert size <= max(1e-10, 1e-13 * np.linalg.norm(noise))


def test_without_noise_it_is_scikit_learns(data):
    rows, labels = data
    ours = PrivateLogisticRegression(math.inf, l2=1e-3).fit(rows, labels)
    theirs = LogisticRegression(C=1.0 / (1e-3 * len(rows)), fit_intercept=False, tol=1e-10, max_iter=2000)
    assert ours.coef_ == pytest.approx(theirs.fit(rows, labels).coef_, abs=1e-5)
    assert ours.predict_proba(rows) == pytest.approx(theirs.predict_proba(rows), abs=1e-6)
    assert (ours.predict(rows) == theirs.predict(rows)).all()
    assert math.isinf(ours.privacy_.epsilon_upper)


def test_the_norm_of_the_noise_is_gamma_and_its_direction_uniform():
    """Kolmogorov-Smirnov at 1e-9 each; independent Laplace entries of the same scale fail."""
    rng, scale, d = np.random.default_rng(3), 2.0 / 0.7, 5
    noise = draw_noise(d, scale, rng, 80_000)
    planted = rng.laplace(scale=scale, size=(80_000, d))
    law = gamma(d, scale=scale).cdf
    assert kstest(np.linalg.norm(noise, axis=1), law).pvalue > 1e-9
    assert kstest(np.linalg.norm(planted, axis=1), law).pvalue < 1e-9
    # A uniform direction in five dimensions: (1 + u·e)/2 is Beta(2, 2), along the diagonal too.
    for axis in (np.eye(d)[0], np.full(d, d**-0.5)):
        cosine = noise @ axis / np.linalg.norm(noise, axis=1)
        assert kstest((1.0 + cosine) / 2.0, "beta", args=(2, 2)).pvalue > 1e-9
    cosine = planted[:, 0] / np.linalg.norm(planted, axis=1)
    assert kstest((1.0 + cosine) / 2.0, "beta", args=(2, 2)).pvalue < 1e-9


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateLogisticRegression(),
        SampleStacking(),
        FeatureStacking(),
        FeatureStacking(combiner="mean", low_share=1.0),
    ],
    ids=["plr", "pst-s", "pst-f", "mean"],
)
def test_scikit_learns_checks(estimator):
    """All of them, but for array-API input, which asks for an environment variable; the tag `poor_score` is set."""
    results = check_estimator(estimator, on_skip=None)
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= {"check_array_api_input"}
    assert len(results) > 40


def test_a_pipeline_with_public_scaling(data):
    rows, labels = data
    model = make_pipeline(FunctionTransformer(lambda x: 2.0 * x), PrivateLogisticRegression(4.0, random_state=1))
    model.fit(rows, labels)
    assert roc_auc_score(labels == "ill", model.predict_proba(rows)[:, 1]) > 0.8
    assert set(model.predict(rows)) == {"ill", "healthy"}


GROUPS = [[0, 1], [2, 3], [4, 5, 6, 7, 8, 9]]


@pytest.mark.parametrize("combiner", ["stacked", "majority", "weighted", "mean"])
@pytest.mark.parametrize("kind", ["samples", "features"])
def test_every_combiner_learns_and_costs_at_most_epsilon(data, combiner, kind):
    rows, labels = data
    if kind == "samples":
        model = SampleStacking(20.0, 3, combiner=combiner, random_state=4)
    else:
        model = FeatureStacking(20.0, groups=GROUPS, importance=[0.6, 0.3, 0.1], importance_is_public=True,
                                combiner=combiner, random_state=4)  # fmt: skip
    model.fit(rows[:3000], labels[:3000])
    assert roc_auc_score(labels[3000:] == "ill", model.decision_function(rows[3000:])) > 0.7
    assert 19.0 < model.privacy_.epsilon_upper <= 20.0
    assert model.privacy_.adjacency == "example"
    copy = clone(model).fit(rows[:3000], labels[:3000])
    assert (copy.decision_function(rows) == model.decision_function(rows)).all()


def test_votes_count_as_they_should(data):
    rows, labels = data
    model = FeatureStacking(math.inf, groups=GROUPS, importance=[0.6, 0.3, 0.1], importance_is_public=True,
                            combiner="weighted", low_share=1.0).fit(rows, labels)  # fmt: skip
    signs = np.sign(model.models_.margins(rows[:50]))
    assert model.decision_function(rows[:50]) == pytest.approx(signs @ [0.6, 0.3, 0.1])
    model.combiner = "majority"
    assert model.decision_function(rows[:50]) == pytest.approx(signs.mean(axis=1))


def test_votes_with_equal_sums_tie(data):
    """.1 + .3 - .2 - .4 and its like are equal as numbers, and differ in their last bits as sums."""
    rows, labels = data
    groups, importance = [[0], [1], [2], [3]], [0.4, 0.3, 0.2, 0.1]
    model = FeatureStacking(math.inf, groups=groups, importance=importance, importance_is_public=True,
                            combiner="weighted", low_share=1.0).fit(rows, labels)  # fmt: skip
    scores = np.unique(model.decision_function(rows))
    assert np.diff(scores).min() > 1e-6
    sums = np.unique(np.sign(model.models_.margins(rows)) @ importance)
    assert np.diff(sums).min() < 1e-15  # the control: unrounded, some differ


def test_groups_are_alone_with_their_part_of_epsilon(data):
    """With λ_k = λ q_k² a group's model is a PLR of its features, its noise divided by q_k: basic composition."""
    rows, labels = data
    signs = np.where(labels == "ill", 1.0, -1.0)
    model = FeatureStacking(1.0, groups=GROUPS, importance=[0.6, 0.3, 0.1], importance_is_public=True, low_share=1.0,
                            combiner="mean", random_state=5).fit(rows, labels)  # fmt: skip
    assert model.perturbation_.noise_epsilon == pytest.approx(1.0 - 6.0 * math.log1p(1.0 / (4.0 * 4000 * 0.01)))
    rng = np.random.default_rng(5)
    order = rng.permutation(4000)
    for k, (group, q) in enumerate(zip(GROUPS, (0.6, 0.3, 0.1), strict=True)):
        noise = draw_noise(len(group), model.perturbation_.noise_scale, rng)[0]
        part = PerturbedObjective((rows[:, group] * signs[:, None])[order], 0.01, 0.0, np.zeros(len(group)))
        assert q * model.models_.coefficients[k] == pytest.approx(part.minimise(noise / q), abs=1e-8)


def test_transfer_starts_from_the_source(data):
    rows, labels = data
    source = FeatureStacking(math.inf, groups=GROUPS, importance=[0.6, 0.3, 0.1], importance_is_public=True,
                             combiner="mean", low_share=1.0).fit(rows, labels).models_  # fmt: skip
    pulled = TransferStacking(1.0, source, l2=1e6, combiner="mean", low_share=1.0).fit(rows[:100], labels[:100])
    for mine, theirs in zip(pulled.models_.coefficients, source.coefficients, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-3)
    assert pulled.privacy_.epsilon_upper <= 1.0
    other = TransferStacking(
        1.0, source, importance=[0.2, 0.2, 0.6], importance_is_public=True, l2=1e6, combiner="mean", low_share=1.0
    )
    other.fit(rows[:100], labels[:100])
    assert other.models_.margins(rows) == pytest.approx(pulled.models_.margins(rows), abs=1e-2)
    assert clone(other).fit(rows[:100], labels[:100]).source.privacy == source.privacy


def test_the_same_seed_is_the_same_noise_and_the_conditions_say_so(data):
    """Whoever knows one of two organisations' rows could tell its noise, and with it the other's."""

    def noise(seed, rows, labels):
        model = PrivateLogisticRegression(1.0, random_state=seed).fit(rows, labels)
        signed, setting = np.where(labels == "ill", 1.0, -1.0)[:, None] * rows, model.perturbation_
        problem = PerturbedObjective(signed, setting.l2[0], setting.extra_l2[0], np.zeros(rows.shape[1]))
        zero = np.zeros(rows.shape[1])
        return -len(rows) * problem.gradient(model.coef_[0], zero) / setting.noise_scale, model.privacy_.conditions

    rows, labels = data
    (one, conditions), (other, _), (fresh, _) = (
        noise(seed, rows[part], labels[part])
        for seed, part in ((7, slice(900)), (7, slice(900, 3000)), (8, slice(900)))
    )
    assert one == pytest.approx(other, abs=1e-4)
    assert np.linalg.norm(one - fresh) > 0.1
    for word in ("seed", "come from other data"):
        assert any(word in condition for condition in conditions)


def test_pphtl_is_the_sum_of_both_penalties(data):
    rows, labels = data
    signs = np.where(labels == "ill", 1.0, -1.0)
    towards = np.arange(10.0)
    w = pphtl(towards, math.inf, l2=0.02, pull=0.03).fit(rows, labels).coef_[0]
    pull = (signs[:, None] * rows / (1.0 + np.exp(signs * (rows @ w)))[:, None]).mean(axis=0)
    assert pull == pytest.approx(0.02 * w + 0.03 * (w - towards), abs=1e-9)


def test_a_longer_row_counts_as_one_of_norm_one(data):
    rows, labels = data
    scaled = rows * np.random.default_rng(6).uniform(1.0, 1e200, size=(len(rows), 1))
    model = PrivateLogisticRegression(1.0, random_state=7)
    assert model.fit(scaled, labels).coef_ == pytest.approx(clone(model).fit(rows, labels).coef_, abs=1e-9)


HALF = {"groups": [[0], [1]], "importance_is_public": True}


@pytest.mark.parametrize(
    ("estimator", "line"),
    [
        (PrivateLogisticRegression(0.0), "epsilon = 0.0: must be above 0"),
        (PrivateLogisticRegression(math.nan), "epsilon = nan"),
        (PrivateLogisticRegression(l2=0.0), "l2 = 0.0"),
        (PrivateLogisticRegression(norm_bound=-1.0), "norm_bound = -1.0"),
        (PrivateLogisticRegression(prior=[1.0]), "prior of shape"),
        (SampleStacking(n_parts=9), "too few rows for 9 low-level parts"),
        (SampleStacking(combiner="vote"), "combiner = 'vote': must be one of stacked"),
        (SampleStacking(low_share=1.0), "low_share = 1.0"),
        (FeatureStacking(epsilon=-1.0), "epsilon = -1.0"),
        (FeatureStacking(groups=[[0], [0, 1]]), "feature 0 occurs twice"),
        (FeatureStacking(groups=[[0], [2]]), "feature 2 does not exist"),
        (FeatureStacking(groups=[[0], []]), "none may be empty"),
        (FeatureStacking(importance=[0.5, 0.5]), "importance_is_public=True"),
        (FeatureStacking(importance=[0.5, 0.6], **HALF), "must sum to 1, not to 1.1"),
        (FeatureStacking(importance=[1.0, 0.0], **HALF), "a value above 0 for each of the 2 groups"),
        (FeatureStacking(n_groups=0), "n_groups = 0"),
        (TransferStacking(), "source = None"),
        (TransferStacking(source=FeatureStacking()), "source = FeatureStacking: must be the released models"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)  # fmt: skip
def test_what_is_refused_in_one_clear_line(estimator, line):
    rows, labels = np.eye(2).repeat(5, axis=0), np.arange(10) % 2
    with pytest.raises(ValueError, match=line) as caught:
        estimator.fit(rows, labels)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("estimator", [PrivateLogisticRegression(), SampleStacking(2.0, 1), FeatureStacking()])
def test_data_that_are_refused(estimator):
    rows = np.eye(2).repeat(5, axis=0)
    with pytest.raises(ValueError, match=r"^labels: all are of one class, 1; two classes are needed$"):
        estimator.fit(rows, np.ones(10, dtype=int).tolist())
    rows[3, 1] = np.inf
    with pytest.raises(ValueError, match=r"^features: row 3 holds NaN or inf; every value must be finite$"):
        estimator.fit(rows, np.arange(10) % 2)
