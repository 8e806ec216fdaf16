"""Runs the search that docs/tune.md shows, and keeps its figure: `make figures`."""

import shutil
import tempfile
from pathlib import Path

from analysis.study import ROOT
from p2p_sim.scenario import load_scenario
from p2p_sim.sweeps.local_workers import at_a_time
from p2p_sim.tuning.goal import Goal
from p2p_sim.tuning.run_search import make_tuning, tune
from p2p_sim.tuning.search_outcome import FIGURE

OUT = ROOT / "docs" / "figures"
LEAST, TRIALS, REPLICATES = 0.85, 60, 5
"""Accuracy wanted, settings tried, replicates of each."""


def main(out: Path = OUT, small: bool = False, workers: int = 2) -> list[Path]:
    """Draw the figure of the least ε with an accuracy; `small` tries few settings, for the tests."""
    scenario = load_scenario(ROOT / "scenarios" / "quickstart.toml")
    scenario = scenario.replace(engine="vectorised", replicates=1 if small else REPLICATES)
    tuning = make_tuning(scenario, Goal("accuracy", accuracy=0.7 if small else LEAST), None)
    with tempfile.TemporaryDirectory() as work:
        done = tune(tuning, 4 if small else TRIALS, Path(work) / "tune", at_a_time(workers))
        return [Path(shutil.copy(done.directory / FIGURE, out / "tune.png"))]


if __name__ == "__main__":
    for path in main():
        print(path)
