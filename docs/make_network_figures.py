"""Computes and draws the figures of docs/network.md: `make figures`."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import networkx as nx
import numpy as np
import scipy.sparse as sparse

from p2p_sim.figures.curves import Curve, Panel, plot_panels
from p2p_sim.privacy import LabelExchange, local_epsilon
from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
from p2p_sim.replicate.network_figures import draw
from p2p_sim.replicate.observed_network import observe
from p2p_sim.replicate.run import run
from p2p_sim.scenario import Scenario, load_scenario

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "figures"
ALPHA = 0.1
GALLERY = {"churn": ("timeline", "coverage", "sampling"), "scale-free": ("load", "overlay", "epsilon")}
"""Figures of `p2p-sim network` that the guide shows, by scenario."""
POLICIES = {
    "skip": {},
    "ask the same peer again": {"retry": "same_peer", "attempts": 3},
    "ask somebody else": {"retry": "redraw", "attempts": 3},
    "own label": {"fallback": "own_label"},
}


def neighbours(users: int, degrees: Sequence[int], rates: Sequence[float], sample: int) -> Panel:
    """ε against the number of neighbours: the worst of some users on random regular overlays."""
    delta, curves = 1e-6, []
    for rate in rates:
        values = []
        for degree in degrees:
            graph = nx.random_regular_graph(degree, users, seed=1)
            weights = sparse.csr_array(nx.to_scipy_sparse_array(graph, dtype=float) / degree)
            fetch = FetchDistribution(weights, ALPHA, rate)
            values.append(max(fetch.user_epsilon(user, delta) for user in range(sample)))
        complete = LabelExchange(users, ALPHA, rate).epsilon(delta).epsilon_upper
        curves.append(Curve(f"θ = {rate:g}: certified, worst of {sample} users", degrees, values))
        curves.append(Curve(f"θ = {rate:g}: complete overlay, exact", degrees, [complete] * len(degrees), dashed=True))
    local = [local_epsilon(ALPHA)] * len(degrees)
    curves.append(Curve("noise alone, ε₀", degrees, local, dashed=True, marked=False))
    return Panel("neighbours of a user, of 1,000", f"ε, learner, at δ = {delta:g}", curves, title="fewer neighbours")


def policies(losses: Sequence[float], replicates: int, users: int) -> list[Panel]:
    """What arrives, and what it costs, against the loss of messages: worst ε, mean share, over replicates."""
    base = load_scenario(ROOT / "scenarios" / "network" / "loss.toml")
    base = base.replace(**{"population.users": users, "network.request_timeout_s": 0.3, "mechanism.sampling_rate": 1.0})
    arrived, leaked = [], []
    for name, policy in POLICIES.items():
        rows = [[_row(base, loss, policy, i) for i in range(replicates)] for loss in losses]
        share = [np.array([row["effective_sampling_rate"] for row in point]) for point in rows]
        mean, low, high = ([float(f(s)) for s in share] for f in (np.mean, np.min, np.max))
        arrived.append(Curve(name, losses, mean, low, high))
        worst = [max(row["epsilon_others_upper"] for row in point) for point in rows]
        leaked.append(Curve(name if policy.get("fallback") is None else "own label: the others", losses, worst))
    own = [local_epsilon(ALPHA)] * len(losses)
    leaked.append(Curve("own label: who fell back", losses, own, dashed=True, marked=False))
    return [
        Panel("probability that a message is lost", "share of labels that arrive", arrived, log_x=False, log_y=False,
              title="what arrives (θ = 1)"),
        Panel("probability that a message is lost", f"ε, learner, at δ = {base.privacy.delta:g}", leaked, log_x=False,
              title="what it costs, worst replicate"),
    ]  # fmt: skip


def _row(base: Scenario, loss: float, policy: dict[str, object], replicate: int) -> dict[str, float]:
    return run(base.replace(**{"network.loss": loss, "network.on_timeout": policy}), replicate).row


def main(out: Path = OUT, small: bool = False) -> list[Path]:
    """Draw all figures; `small` computes a few points only, for the tests."""
    degrees = (10, 20) if small else (10, 20, 50, 100, 200, 400, 600)
    panel = neighbours(60 if small else 1000, degrees, (0.1,) if small else (0.1, 1.0), 1 if small else 10)
    paths = [out / "topology.png", out / "policies.png"]
    plot_panels([panel], paths[0], f"random regular overlays, α = {ALPHA:g}")
    losses = (0.0, 0.2) if small else (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)
    replicates = 2 if small else 10
    note = f"{replicates} replicates with common random numbers; bands: smallest and largest; α = {ALPHA:g}"
    plot_panels(policies(losses, replicates, 200 if small else 4000), paths[1], note)
    with tempfile.TemporaryDirectory() as scratch:
        for name, wanted in GALLERY.items():
            scenario = load_scenario(ROOT / "scenarios" / "network" / f"{name}.toml")
            if small:
                scenario = scenario.replace(**{"population.users": 120, "population.num_clusters": 2})
            for path in draw(observe(scenario), Path(scratch)):
                if path.stem in wanted:
                    paths.append(Path(shutil.copy(path, out / f"network-{path.name}")))
    return paths


if __name__ == "__main__":
    for path in main():
        print(path)
