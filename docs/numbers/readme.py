"""README.md."""

from collections.abc import Iterator

from analysis.privacy.setting import EXHAUSTIVE
from benchmarks.page import summary
from benchmarks.table import read
from docs.numbers.page import PUBLISHED, Page, Source, published
from p2p_sim.audit import LARGEST_CLUSTER


def quickstart() -> Iterator[str]:
    """What the first run ends with."""
    run = published("shipped").set_index("panel").loc["quickstart"]
    yield f"An accuracy of about {run['accuracy']:.3f} against {run['nonprivate_accuracy']:.3f} without privacy"
    yield f"at an exact ε of {run['epsilon_upper']:.3f} in the worst cluster"
    yield f"label alone would only justify ε = {run['epsilon_local']:.1f}"


def accountant() -> Iterator[str]:
    """What the privacy figure rests on."""
    found = published("privacy", "brackets.csv")
    yield f"Up to {EXHAUSTIVE:,} users a cluster every data set is evaluated"
    yield f"at a cost of about {100 * found[found['n'] > EXHAUSTIVE]['width'].mean():.0f}% in ε"


def audit() -> Iterator[str]:
    """Whom the audit attacks."""
    yield f"many small clusters (up to {LARGEST_CLUSTER} users)"


def how_fast() -> Iterator[str]:
    """Every row of the table of speeds."""
    lines = summary(read(PUBLISHED / "benchmarks" / "table.csv")).splitlines()
    yield from (line for line in lines if line.startswith("| ") and not line.startswith("| | "))


PAGE = Page(
    "README.md",
    (
        Source("make run", "test_cli.py::test_quickstart_shows_what_the_readme_says", quickstart),
        Source("python -m studies.privacy", "test_published_privacy.py::test_the_privacy_study", accountant),
        Source("p2p-sim audit SCENARIO.toml", "test_audit.py::test_mistakes_are_named", audit),
        Source("make bench", "test_benchmarks.py::test_the_pages_show_the_published_table", how_fast),
    ),
    given=(r"60,000 users",),
)
