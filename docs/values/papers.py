"""What holds of the papers, beyond the verdicts that tests/privacy/test_claims.py holds."""

from analysis.vector import CLASSES, EPSILON, NEIGHBOURS, VECTOR
from docs.values.forms import published
from docs.values.vector import SOURCE  # noqa: F401  # for docs.values.pages

_points = published("vector").set_index(["panel", EPSILON, NEIGHBOURS, CLASSES, "mechanism"])["accuracy"].unstack()
_best = _points[VECTOR] > _points.drop(columns=VECTOR).max(axis=1)
_classes = _points.index.get_level_values(CLASSES)
few = _classes[_classes < _classes[_best].min()]
"""The number of classes of every setting up to which vector approximation is nowhere better than all others."""
