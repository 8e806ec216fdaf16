"""The published privacy figures at reduced size, and those of the README's example."""

import re

import numpy as np
import pandas as pd
import pytest

from analysis import closed_form as closed_form
from analysis import privacy_tables as privacy
from p2p_sim.privacy import LabelExchange, local_epsilon
from tests.conftest import ROOT


@pytest.mark.slow
def test_the_privacy_study(frame):
    tables = {path.stem: pd.read_csv(path) for path in privacy.main(frame)}
    for table in tables.values():
        assert not table.isna().any(axis=None)
        if {"epsilon_lower", "epsilon_upper"} <= set(table):
            assert (table["epsilon_lower"] <= table["epsilon_upper"]).all()
    overlays, complete = tables["overlays"], tables["complete"]
    both = overlays.merge(tables["overlays-attained"], on=["n", "neighbours", "sampling_rate", "delta"])
    assert len(both) == len(overlays)
    assert both["epsilon_lower"].between(0.3 * both["epsilon_upper"], (1 + 1e-5) * both["epsilon_upper"]).all()
    assert (overlays["epsilon_upper"] <= local_epsilon(0.1) * (1 + 1e-5)).all()
    assert (complete["epsilon_exact"] < complete["epsilon_upper"]).all()
    [audit] = tables["audit"].itertuples()
    assert audit.printed < audit.proved < audit.true
    assert (tables["paper"]["epsilon_lemma9"] > tables["paper"]["epsilon_exact"]).all()
    sets = tables["data-sets"]
    exact = LabelExchange(10, 0.05, 1.0).delta(0.92)
    assert sets["delta"].max() == pytest.approx(exact.upper, rel=1e-5)


def test_composing_rounds_that_repeat_noise_is_wrong_at_the_published_size():
    [found] = pd.DataFrame(privacy.rounds(20)).itertuples()
    assert (round(found.composed, 4), round(found.true, 4)) == (0.0247, 0.0365)


@pytest.mark.slow
def test_the_closed_form_study(frame):
    [path] = closed_form.main(frame, targets=1, largest=150)
    table = pd.read_csv(path)
    assert not table.duplicated(["regime", "delta"]).any()
    assert set(closed_form.REGIMES) >= set(table["regime"]) >= {closed_form.HIGH, closed_form.SMALL}
    assert (table["n"] < 100).equals(table["regime"] == closed_form.SMALL)
    assert (table["factor"] > 0.99).all()  # α* suffices, and the smallest α has three digits
    assert np.isfinite(table["factor"]).all()
    local = 1.0 / (1.0 + np.exp(table["epsilon"]))
    assert ((table["sufficient"] >= 0.999 * local) == table["local"]).all()


def test_the_bound_that_the_readme_prints():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [call] = re.findall(r"bound = LabelExchange\((.*)\)\.epsilon\(delta=1e-6\)", text)
    assert call == "cluster_size=1000, flip_prob=0.1, sampling_rate=0.1"
    bound = LabelExchange(cluster_size=1000, flip_prob=0.1, sampling_rate=0.1).epsilon(delta=1e-6)
    assert f"# {bound.epsilon_lower:.4f}, {bound.epsilon_upper:.4f}\n" in text
