"""The comparison of protocols: attacks stay below what is certified, and a planted one does not."""

import numpy as np
import pandas as pd
import pytest

from analysis import protocols
from analysis.study import PUBLISHED, Frame

TRIALS = 200_000


@pytest.mark.parametrize("way", [*protocols.ASKED, protocols.PUSH, protocols.GOSSIP])
def test_no_attack_proves_more_than_is_certified(way):
    line = protocols.views((way, 20, 1.0, TRIALS))
    for observer in ("learner", "peer", "coalition", "eavesdropper"):
        assert 0.0 <= line[f"{observer}_attack"] <= line[f"{observer}_certified"]
    assert line["eavesdropper_attack"] > 0.9 * line["eavesdropper_certified"]


def test_less_noise_than_is_certified_is_caught(monkeypatch):
    """Planted: labels are flipped half as often as the accountant is told."""
    certified = protocols._learner(protocols.EXCHANGE, 20, 1.0).epsilon(protocols.DELTA).epsilon_upper
    draw = protocols.learner_counts(protocols.EXCHANGE, 20, 1.0, 0)
    monkeypatch.setattr(protocols, "FLIP_PROB", 0.02)
    assert protocols.attacked([draw], 2_000_000, 1) > certified


def test_the_study_runs_in_small(tmp_path):
    files = protocols.main(Frame(tmp_path / "out", tmp_path / "work", None, 1, True))
    assert all(path.is_file() for path in files)
    table = pd.read_csv(tmp_path / "out" / "table.csv")
    same = table[(table["equal"] == protocols.SAME_EPSILON)]
    assert (same["epsilon_upper"] <= protocols.TARGET * (1 + 1e-9)).all()
    assert table["replicates"].eq(2).all()


def test_published_attacks_stay_below_their_bounds():
    table = pd.read_csv(PUBLISHED / "protocols" / "views.csv")
    for observer in ("learner", "peer", "coalition", "eavesdropper"):
        assert (table[f"{observer}_attack"] <= table[f"{observer}_certified"]).all()
    assert set(table["cluster_size"]) == set(protocols.SIZES)
    assert np.isfinite(table["learner_certified"]).all()
