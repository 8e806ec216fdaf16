"""Computes and draws the figures of docs/how-private.md: `make figures`."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from p2p_sim.figures.curves import Curve, Panel, plot_panels
from p2p_sim.privacy import (
    Coalition,
    Eavesdropper,
    LabelExchange,
    Peer,
    calibrate_flip_prob,
    lemma9_epsilon,
    local_epsilon,
    sufficient_flip_prob,
)
from p2p_sim.privacy.dominating_law import LossLaw

OUT = Path(__file__).parent / "figures"
DELTA = 1e-6
ALONE = "noise alone (first panel: α = 0.2)"


def exact(label: str, x: Sequence[float], exchanges: Sequence[LabelExchange]) -> Curve:
    """ε of several exchanges with its bracket as a band."""
    bounds = [exchange.epsilon(DELTA) for exchange in exchanges]
    low, high = [b.epsilon_lower for b in bounds], [b.epsilon_upper for b in bounds]
    return Curve(label, x, high, low, high)


def parameters(sizes: Sequence[int], points: int) -> list[Panel]:
    """ε against n, α and θ."""
    alphas = np.geomspace(0.01, 0.45, points)
    thetas = np.geomspace(0.01, 1.0, points)
    size = "users in the cluster, n"
    lemma = [(n, lemma9_epsilon(n, 0.2, 0.5, DELTA)) for n in sizes]
    valid = [(n, e) for n, e in lemma if e is not None]
    by_size = [exact(f"α = {a}", sizes, [LabelExchange(n, a, 0.5) for n in sizes]) for a in (0.05, 0.1, 0.2)]
    if valid:
        by_size.append(Curve("paper's Lemma 9, α = 0.2", *zip(*valid, strict=True)))
    by_size.append(Curve(ALONE, sizes, [local_epsilon(0.2)] * len(sizes), dashed=True, marked=False))
    by_noise = [exact(f"n = {n}", alphas, [LabelExchange(n, float(a), 0.5) for a in alphas]) for n in (50, 200, 1000)]
    by_noise.append(Curve(ALONE, alphas, [local_epsilon(float(a)) for a in alphas], dashed=True, marked=False))
    by_rate = [exact(f"n = {n}", thetas, [LabelExchange(n, 0.1, float(t)) for t in thetas]) for n in (50, 200, 1000)]
    label = "ε, learner"
    return [
        Panel(size, label, by_size, title="more users (θ = 0.5)"),
        Panel("flip probability α", label, by_noise, title="more noise (θ = 0.5)"),
        Panel("sampling rate θ", label, by_rate, title="fewer submissions (α = 0.1)"),
    ]


def observers(n: int, members: int, points: int) -> Panel:
    """Trade-off curves, what each leak costs."""
    exchange, a = LabelExchange(n, 0.1, 0.5), np.linspace(0.0, 1.0, 101)

    def curve(label: str, observer: LabelExchange | Peer | Coalition | Eavesdropper) -> Curve:
        grid = np.linspace(0.0, observer.epsilon(1e-4).epsilon_upper, points).tolist()
        law = LossLaw.of(grid, [observer.delta(epsilon).upper for epsilon in grid])
        return Curve(label, a, law.tradeoff(a), marked=False)

    curves = [
        Curve("nothing learned", a, 1.0 - a, dashed=True, marked=False),
        curve("one curious peer", Peer(n, 0.1)),
        curve("learner", exchange),
        curve("learner and one user", Coalition(exchange, 1)),
        curve(f"learner and {members} users", Coalition(exchange, members)),
        curve("eavesdropper, or learner who sees who asked whom", Eavesdropper(0.1)),
    ]
    return Panel("type I error", "type II error, at least", curves, log_x=False, log_y=False)


def colluders(sizes: Sequence[int], members: Sequence[int], epsilon: float) -> Panel:
    """δ at a fixed ε against the size of the coalition."""
    curves = []
    for n in sizes:
        exchange = LabelExchange(n, 0.1, 0.5)
        brackets = [exchange.delta(epsilon), *(Coalition(exchange, c).delta(epsilon) for c in members)]
        low, high = [b.lower for b in brackets], [b.upper for b in brackets]
        curves.append(Curve(f"n = {n}", [0, *members], high, low, high))
    return Panel("users who collude with the learner, c", f"δ at ε = {epsilon:g}", curves, log_x=False)


def demanded(sizes: Sequence[int], epsilon: float) -> Panel:
    """The flip probability that each way of accounting demands."""
    local = 1.0 / (1.0 + math.exp(epsilon))
    lemma = [(n, a) for n in sizes if (a := smallest_by_lemma9(n, 0.1, epsilon)) is not None]
    curves = [
        Curve("exact accounting", sizes, [calibrate_flip_prob([n], 2, 0.1, epsilon, DELTA) for n in sizes]),
        Curve("closed form (docs/theorem.md)", sizes, [sufficient_flip_prob(n, 0.1, epsilon, DELTA) for n in sizes]),
        Curve("noise alone", sizes, [local] * len(sizes), dashed=True, marked=False),
    ]
    if lemma:
        curves.append(Curve("paper's Lemma 9, where it applies", *zip(*lemma, strict=True)))
    return Panel("users in the cluster, n", f"α for ε = {epsilon:g} at δ = {DELTA:g}, θ = 0.1", curves)


def smallest_by_lemma9(n: int, theta: float, epsilon: float) -> float | None:
    """The smallest α on a fine grid at which Lemma 9 promises ε, or None."""
    for alpha in np.geomspace(1e-4, 0.5, 400):
        promised = lemma9_epsilon(n, float(alpha), theta, DELTA)
        if promised is not None and promised <= epsilon:
            return float(alpha)
    return None


def main(out: Path = OUT, small: bool = False) -> list[Path]:
    """Draw all figures; `small` computes a few points only, for the tests."""
    sizes = [20, 100] if small else [20, 50, 100, 200, 500, 1000, 2000]
    demand = [100, 10_000] if small else [10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000]
    clusters, members = ([20], [1, 3]) if small else ([50, 200], [1, 2, 5, 10, 15, 20])
    drawn = {
        "how-private": (parameters(sizes, 3 if small else 12), f"δ = {DELTA:g}; bands: certified brackets"),
        "observers": ([observers(*((20, 2, 4) if small else (100, 10, 30)))], "α = 0.1, θ = 0.5, n = 100"),
        "colluders": ([colluders(clusters, members, 0.3)], "α = 0.1, θ = 0.5; bands: certified brackets"),
        "demanded": ([demanded(demand, 0.5)], ""),
    }
    for name, (panels, note) in drawn.items():
        plot_panels(panels, out / f"{name}.png", note)
    return [out / f"{name}.png" for name in drawn]


if __name__ == "__main__":
    for path in main():
        print(path)
