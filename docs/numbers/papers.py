"""docs/papers.md: what holds of the papers; verdicts are held by tests/test_claims.py."""

from collections.abc import Iterator

from docs.numbers.page import WORDS, Page, Source, published
from studies.vector import CLASSES, EPSILON, NEIGHBOURS, VECTOR


def vectors() -> Iterator[str]:
    """Up to how many classes vector approximation is nowhere better than all others."""
    points = published("vector").set_index(["panel", EPSILON, NEIGHBOURS, CLASSES, "mechanism"])["accuracy"].unstack()
    best = points[VECTOR] > points.drop(columns=VECTOR).max(axis=1)
    classes = points.index.get_level_values(CLASSES)
    few = classes[classes < classes[best].min()]
    yield f"not for {WORDS[few.max()]} classes or fewer: in none of {len(few)} settings"


STUDY = (
    "python -m studies.vector",
    "test_published.py::test_the_synthetic_study_of_the_vector_approximation_paper",
)
PAGE = Page("docs/papers.md", (Source(*STUDY, vectors),))
