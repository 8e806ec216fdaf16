"""Computes and draws the figure of docs/neighbour.md: `make figures`."""

from collections.abc import Sequence
from pathlib import Path

from docs.values.neighbour import ALPHA, MEMBERS, THETA
from p2p_sim.figures.curves import Curve, Panel, plot_panels
from p2p_sim.privacy import Accountant, Coalition, Eavesdropper, LabelExchange, Peer, advantage

OUT = Path(__file__).parent / "figures"
SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000)


def guesses(sizes: Sequence[int]) -> Panel:
    """Right guesses in 100, by observer, against the size of the cluster."""

    def curve(label: str, observers: Sequence[Accountant]) -> Curve:
        return Curve(label, sizes, [100.0 * (0.5 + advantage(observer).upper) for observer in observers])

    exchanges = [LabelExchange(n, ALPHA, THETA) for n in sizes]
    curves = [
        curve("somebody who reads every message", [Eavesdropper(ALPHA)] * len(sizes)),
        curve(f"learner together with {MEMBERS} neighbours", [Coalition(one, MEMBERS) for one in exchanges]),
        curve("learner", exchanges),
        curve("one neighbour, on average (at the top if she asked you)", [Peer(n, ALPHA) for n in sizes]),
        Curve("somebody who sees nothing tosses a coin", sizes, [50.0] * len(sizes), dashed=True, marked=False),
    ]
    return Panel("people in the cluster", "right guesses in 100, at most", curves, log_y=False)


def main(out: Path = OUT, small: bool = False) -> list[Path]:
    """Draw the figure; `small` computes a few points only, for the tests."""
    path = out / "neighbour.png"
    note = (
        f"Lower is safer for you; 100 is certainty. One noisy label in {1 / ALPHA:.0f} is false, half of the people "
        "pass a noisy label on, both values are equally likely, and there is one exchange."
    )
    plot_panels([guesses(SIZES[:3] if small else SIZES)], path, note)
    return [path]


if __name__ == "__main__":
    for drawn in main():
        print(drawn)
