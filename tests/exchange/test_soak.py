"""The soak at reduced size: memory stays flat, and a planted leak is caught."""

import gc
import json
import weakref
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from p2p_sim.base.streams import Streams
from p2p_sim.exchange.batched_exchange import ShardExchange
from p2p_sim.network.overlay import OverlayInput, RegularOverlay, ScaleFreeOverlay, SmallWorldOverlay
from tests.conftest import ROOT
from tests.small_networks import Case
from tests.validation.soak import NETWORKS, slope, soak

BOUND = 8.0
"""Bytes an event: at this size, a page more or less in each block is below one byte an event."""


def rise(keep=lambda events: None):
    table = soak(900_000, 12, 4_000, keep)
    return slope(table["events"].to_numpy(float), table["rss_bytes"].to_numpy(float), BOUND)


def leaking_rise():
    held = [np.ones(0)]
    return rise(lambda events: held.append(np.ones(2 * events - sum(part.size for part in held))))


@pytest.mark.slow
def test_memory_is_flat_and_a_leak_is_caught():
    """Each in a process of its own: what earlier tests have freed would hide a leak."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as fresh:
        clean, leaking = (fresh.submit(what).result() for what in (rise, leaking_rise))
    assert clean.flat
    assert not leaking.flat
    assert 12.0 < leaking.estimate < 20.0  # two numbers of eight bytes an event are held


@pytest.mark.parametrize(("rising", "flat"), [(0.0, True), (0.09, True), (0.12, False), (-1.0, True)])
def test_the_verdict_on_known_lines(rising, flat):
    """Bound: 0.105 bytes an event; 40 blocks to 10⁸ events whose memory scatters by 50 kB."""
    events = np.linspace(2.5e6, 1e8, 40)
    rss = 2e8 + rising * events + np.random.default_rng(1).normal(0, 5e4, 40)
    rss[:10] += np.linspace(1e8, 0, 10)  # the warm-up does not count
    found = slope(events, rss)
    assert found.low < rising < found.high
    assert found.flat == flat


@pytest.mark.parametrize(
    "overlay", [RegularOverlay(degree=3), SmallWorldOverlay(degree=4, rewire_prob=0.5), ScaleFreeOverlay(attachments=2)]
)
def test_the_graphs_of_an_overlay_are_gone_once_their_edges_are_known(monkeypatch, overlay):
    def graphs() -> int:
        return sum(isinstance(thing, nx.Graph) for thing in gc.get_objects())

    def build() -> None:
        overlay.build(OverlayInput(np.arange(0, 201, 20), Streams(1, 0)))

    gc.collect()
    before = graphs()
    gc.disable()
    try:
        build()
        assert graphs() == before
        monkeypatch.setattr(  # control: the edges alone are read
            "p2p_sim.network.overlay.edges_of", lambda graph: np.array(graph.edges, dtype=np.int64).reshape(-1, 2)
        )
        build()
        assert graphs() == before + 10 * isinstance(overlay, ScaleFreeOverlay)  # others are drawn without NetworkX
    finally:
        gc.enable()
        gc.collect()


def test_an_exchange_is_gone_as_soon_as_nobody_holds_it():
    """The engine and its handler's owner must not keep each other until a collection."""
    gone = []
    gc.disable()
    try:
        for network in NETWORKS:
            made = Case(network, (20, 30)).exchange()
            made.run()
            gone.append(weakref.ref(made))
            del made
        assert [reference() for reference in gone] == [None, None]
        kept = Case(NETWORKS[0], (20, 30)).exchange()
        kept.run()
        kept.engine._handler = kept._handle  # control: the circle is not broken
        seen = weakref.ref(kept)
        del kept
        assert isinstance(seen(), ShardExchange)
    finally:
        gc.enable()
        gc.collect()


def test_memory_that_never_changes_is_flat():
    constant = slope(np.arange(10) * 1e6, np.full(10, 2.0**27))
    assert constant.flat
    assert (constant.low, constant.estimate, constant.high) == (0.0, 0.0, 0.0)


def test_the_guide_says_how_the_published_run_ended():
    place = ROOT / "results" / "published" / "soak"
    said, table = json.loads((place / "summary.json").read_text()), pd.read_csv(place / "blocks.csv")
    found = slope(table["events"].to_numpy(float), table["rss_bytes"].to_numpy(float))
    assert found.flat
    assert said["slope_mib_in_1e7_events"][1] == pytest.approx(1e7 * found.estimate / 2**20, abs=1e-4)
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"{said['events']:,} protocol events" in text
    assert f"at most {said['largest_rss_mib']} MiB" in text
