"""Runs what README.md shows, and keeps its figures: `make figures`."""

import shutil
import tempfile
from pathlib import Path

from analysis.study import ROOT, Frame
from p2p_sim.results.plots import draw_plots
from p2p_sim.scenario import load_scenario
from p2p_sim.sweeps.run_scenario import FIGURE, run_point

OUT = ROOT / "docs" / "figures"
SHOWN = ("privacy-utility", "heterogeneity")
"""Sweeps whose first figure README shows."""
REDUCED = {"privacy-utility": ("replicates=2",), "heterogeneity": ("replicates=2", "population.users=800")}


def quickstart(work: Path, small: bool) -> Path:
    """Accuracy of the quickstart beside ε, as `p2p-sim run scenarios/quickstart.toml` draws it."""
    scenario = load_scenario(ROOT / "scenarios" / "quickstart.toml")
    if small:
        scenario = scenario.replace(replicates=2, engine="vectorised")
    return run_point(scenario, work).directory / FIGURE


def main(out: Path = OUT, small: bool = False, workers: int = 2) -> list[Path]:
    """Draw all figures; `small` computes few points and replicates, for the tests."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        found = {"quickstart": quickstart(work / "quickstart", small)}
        for name in SHOWN:
            Frame(out, work, workers=workers, small=small).swept(f"{name}.toml", REDUCED[name], keep=False)
            found[f"sweep-{name}"] = draw_plots(work / name)[0]
        return [Path(shutil.copy(path, out / f"{name}.png")) for name, path in found.items()]


if __name__ == "__main__":
    for path in main():
        print(path)
