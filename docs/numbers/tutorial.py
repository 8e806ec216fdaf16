"""docs/tutorial.md: how many rows its data sets have; what its commands print is held by tests/test_tutorial.py."""

from collections.abc import Iterator

from docs.numbers.page import ROOT, Page, Source
from p2p_sim.base.streams import Streams
from p2p_sim.population.table import TableConfig
from p2p_sim.scenario import load_scenario


def digits() -> Iterator[str]:
    """How many people hold a digit."""
    scenario = load_scenario(ROOT / "scenarios" / "quickstart.toml")
    users = len(scenario.population.sample((), Streams(scenario.seed, 0)).users.labels)
    yield f"Each of {users:,} people holds one handwritten digit"


def tumours() -> Iterator[str]:
    """How many rows the table has, and how many are left for users."""
    from sklearn.datasets import load_breast_cancer

    rows = len(load_breast_cancer().target)
    yield f"one that comes with scikit-learn, of {rows} tumours"
    held_out = round(TableConfig.model_fields["test_fraction"].default * rows)
    yield f"is held out to measure accuracy, which leaves {rows - held_out} users"


TEST = "test_tutorial.py::test_every_command_runs_and_prints_what_the_page_shows"
PAGE = Page(
    "docs/tutorial.md",
    (
        Source("p2p-sim run scenarios/quickstart.toml --set replicates=3", TEST, digits),
        Source("p2p-sim run tumours.toml", TEST, tumours),
    ),
)
