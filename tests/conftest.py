"""Fixtures shared by all tests."""

import functools
import gc
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported: several workers' threads wait for
os.environ.setdefault("OMP_NUM_THREADS", "1")  # each other

import pytest
import typer.main
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from analysis.study import Frame
from docs.chromium import chromium
from p2p_sim.figures import style
from tests.browser import required

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parent.parent
collect_ignore_glob = ["validation/mutation/*", "validation/crate_check.py"]  # programs with libraries of their own
collect_ignore = ["wrong_results.py"]  # the source of a plug-in that tests install

typer.main.get_command = functools.cache(typer.main.get_command)  # the commands do not change between two calls
gc.disable()  # until all tests are collected: what that makes stays to the end


def pytest_collection_finish() -> None:
    """Leave what was made so far out of garbage collection, which walks over hundreds of thousands of objects else."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow the parameters that meet the condition of `slow_where`, before slow ones are left out."""
    for item in items:
        for mark in item.iter_markers("slow_where"):
            (condition,), known = mark.args, item.callspec.params  # type: ignore[attr-defined]
            if condition(**{name: known[name] for name in inspect.signature(condition).parameters}):
                item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Pictures are blank in tests without the mark `figures`; with P2P_SIM_DRAW=all every one is drawn."""
    drawn = style.save
    if not item.get_closest_marker("figures") and os.environ.get("P2P_SIM_DRAW") != "all":
        style.save = blank
    try:
        return (yield)
    finally:
        style.save = drawn


def blank(figure: Figure, path: Path) -> None:
    """Write a white picture in place of a PNG, and the figure's texts in place of an SVG; a PDF is drawn."""
    if path.suffix == ".pdf":
        return DRAWN(figure, path)
    if path.suffix == ".png":
        return Image.new("RGB", (8, 8), "white").save(path)
    texts = "".join(f"<text>{escape(text.get_text())}</text>" for text in figure.findobj(Text))
    path.write_text(
        f'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8">{texts}</svg>',
        encoding="utf-8",
    )


DRAWN = style.save


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator["Browser"]:
    """Chromium; without it tests are skipped, and slow ones fail."""
    slow = any(item.get_closest_marker("slow") for item in request.session.items if item.path == request.path)
    required(slow)
    with chromium() as found:
        yield found


@pytest.fixture
def data_dir() -> Path:
    """The directory of benchmark data; without it the test is skipped."""
    named = os.environ.get("P2P_SIM_DATA")
    if not named or not Path(named).is_dir():
        pytest.skip("P2P_SIM_DATA names no directory of benchmark data")
    return Path(named)


@pytest.fixture
def scenarios() -> Path:
    """The directory of shipped scenario files."""
    return ROOT / "scenarios"


@pytest.fixture
def frame(tmp_path: Path) -> Frame:
    """Where a study runs at reduced size, in one process."""
    return Frame(tmp_path / "out", tmp_path / "work", workers=1, small=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder on the import path; what is installed there is forgotten afterwards."""
    from p2p_sim.base import plugins
    from p2p_sim.sweeps import tasks

    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(place)
    before = set(sys.modules)
    plugins.offers.cache_clear()
    tasks._scenario.cache_clear()
    yield place
    plugins.offers.cache_clear()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(place)):
            del sys.modules[name]


@pytest.fixture
def installed(folder):
    """The same with the example package in it."""
    from tests.plug_ins import install_example

    install_example(folder)
    return folder
