"""The study of asking several peers."""

import numpy as np
import pandas as pd
import pytest

from analysis import ask_several
from analysis.study import PUBLISHED
from p2p_sim.exchange.algorithm import label_exchange
from p2p_sim.privacy.exchange.majority_kernel import MajorityKernel


def test_the_study_gives_the_published_table():
    """The errors again, and ε of the smallest cluster."""
    table = pd.read_csv(PUBLISHED / "ask-several" / "table.csv")
    assert len(table) == len(ask_several.PEERS) * len(ask_several.SETTINGS)
    for row in table.to_dict("records"):
        kernel = MajorityKernel(tuple(sorted(ask_several.PEERS[row["way"]].items())))
        size, alpha = int(row["cluster_size"]), row["flip_prob"]
        assert ask_several.missed(size, alpha, kernel, 1.0, ask_several.SHARE) == pytest.approx(row["error"], rel=1e-5)
        if size == 50:
            again = ask_several.figures((row["way"], size, alpha))
            assert again["epsilon_upper"] == pytest.approx(row["epsilon_upper"], rel=1e-5)


@pytest.mark.parametrize("planted", [False, True])
def test_the_error_of_the_exchange_is_that_of_algorithm_2(planted):
    """6,000 runs of the definition; planted: the sum with α a third too small."""
    size, alpha, runs = 20, 0.2, 6_000
    rng, wrong = np.random.default_rng(7), 0.0
    labels = [1] * round(ask_several.SHARE * size) + [0] * (size - round(ask_several.SHARE * size))
    for _ in range(runs):
        got = label_exchange(labels, [range(size)], flip_prob=alpha, sampling_rate=1.0, num_classes=2, rng=rng)
        ones = sum(got.values())
        wrong += float(ones < size / 2) + 0.5 * float(ones == size / 2)
    law = ask_several.missed(
        size, alpha * (2 / 3 if planted else 1), MajorityKernel(((1, 1.0),)), 1.0, ask_several.SHARE
    )
    assert (abs(wrong / runs - law) < 4.5 * np.sqrt(law * (1 - law) / runs)) is not planted


def test_gains_are_paired_by_replicate():
    rows = pd.DataFrame({
        "mechanism.flip_prob": 0.1, "mechanism.peers": [1, 1, 1, 3, 3, 3], "replicate": [0, 1, 2, 2, 1, 0],
        "accuracy": [0.5, 0.6, 0.9, 0.95, 0.65, 0.55], "epsilon_upper": [1.0, 1.1, 1.0, 0.8, 0.9, 0.8],
    })  # fmt: skip
    [line] = ask_several.gains(rows)
    assert line["gain"] == pytest.approx(0.05)
    assert line["gain_high"] - line["gain_low"] < 1e-9
    assert (line["epsilon_one"], line["epsilon_several"]) == (1.1, 0.9)
