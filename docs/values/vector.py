"""The synthetic study of vector approximation, with Theorem 2."""

from analysis.vector import CLASSES, EPSILON
from docs.values.forms import published

SOURCE = (
    "python -m analysis.vector",
    "analysis/test_published.py::test_the_synthetic_study_of_the_vector_approximation_paper",
)

_points = published("vector", "theorem2.csv").query("panel == 'scaled'")
_points = _points[(_points[EPSILON] == 1.0) & (_points["learner.neighbours"] == 200)]
at = _points.set_index(CLASSES)
bounds = [f"{bound:.2g}" if bound < 0.1 else f"{bound:.2f}" for bound in at["bound"][[3, 10, 30]]]
_found = published("vector").query("panel == 'scaled'")
bayes = _found[_found[CLASSES] == 30]["bayes_accuracy"].unique().item()
