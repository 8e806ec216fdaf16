"""The report in a browser: it is not blank, fits a phone, opens soon, sorts."""

import re
import subprocess
import time

import numpy as np
import pytest
from matplotlib.image import imread

from docs.chromium import find_chromium
from p2p_sim.outputs.report import write_report
from tests.browser import required
from tests.sweeps import AXES, write_sweep

pytestmark = pytest.mark.figures
LOOK = """
const root = document.documentElement;
root.dataset.wide = root.scrollWidth; root.dataset.inner = window.innerWidth;
const column = (n) => [...document.querySelectorAll("#points tbody tr")].map((row) => row.cells[n].dataset.v).join(" ");
const buttons = [...document.querySelectorAll("#points thead button")];
root.dataset.buttons = buttons.length;
buttons[CHOSEN].click(); root.dataset.up = column(CHOSEN);
root.dataset.said = buttons[CHOSEN].parentElement.getAttribute("aria-sort");
buttons[CHOSEN].click(); root.dataset.down = column(CHOSEN);
root.dataset.sorted = document.querySelector("#points").dataset.sorted;
document.addEventListener("securitypolicyviolation", () => { root.dataset.violated = "yes"; });
"""


def browse(*arguments):
    common = [find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    return subprocess.run([*common, *arguments], capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture(autouse=True)
def needed(request):
    """There is a Chromium."""
    required(request.node.get_closest_marker("slow") is not None)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    directory = tmp_path_factory.mktemp("report") / "s"
    failures = [{"point": "x", "replicate": 0, "error": "ValueError: " + "long" * 200}]
    write_sweep(directory, AXES, 3, failures)
    return write_report(directory)


def looked_at(report, tmp_path, chosen=3):
    """The attributes that a script leaves in the page; the policy is opened for it, and for nothing else."""
    script = LOOK.replace("CHOSEN", str(chosen))
    text = report.read_text().replace("script-src 'sha256-", "script-src 'unsafe-inline' 'x-")
    path = tmp_path / "looked-at.html"
    path.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    return path


def attributes(path, width, height, tmp_path):
    """What the script found in a frame of that size: a window itself may be no narrower than 500 pixels."""
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<body style="margin:0"><iframe id="f" src="{path.name}" width="{width}" height="{height}"></iframe><script>'
        "f.onload = () => Object.assign(document.body.dataset, f.contentDocument.documentElement.dataset);</script>"
    )
    dom = browse("--dump-dom", "--allow-file-access-from-files", "--virtual-time-budget=3000", f"file://{frame}")
    return dict(re.findall(r'data-([a-z]+)="(.*?)"', dom))


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_no_page_scrolls_sideways(report, tmp_path, width, height):
    found = attributes(looked_at(report, tmp_path), width, height, tmp_path)
    assert int(found["inner"]) == width
    assert int(found["wide"]) <= width
    assert "violated" not in found


def test_a_page_that_is_too_wide_is_seen(report, tmp_path):
    path = looked_at(report, tmp_path)
    path.write_text(path.read_text().replace("<main", '<div style="width:700px">wide</div><main'))
    assert int(attributes(path, 390, 844, tmp_path)["wide"]) > 390


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (500, 844)])
def test_the_page_is_not_blank(report, tmp_path, width, height):
    picture = tmp_path / "page.png"
    browse(f"--screenshot={picture}", f"--window-size={width},{height}", f"file://{report}")
    shown = imread(picture)[..., :3]
    assert shown.shape[:2] == (height, width)
    dark = np.mean(shown.mean(axis=2) < 0.5)
    assert 0.01 < dark < 0.5


def test_a_click_on_a_heading_sorts_by_number(report, tmp_path):
    found = attributes(looked_at(report, tmp_path), 1280, 900, tmp_path)
    up, down = ([float(value) for value in found[name].split()] for name in ("up", "down"))
    assert len(up) == 6
    assert up == sorted(up)
    assert down == sorted(up, reverse=True)
    assert found["said"] == "ascending"
    assert found["sorted"] == "3 descending"
    assert int(found["buttons"]) > 5


def test_the_policy_lets_the_pages_own_script_run_and_no_other(report, tmp_path):
    path = tmp_path / "closed.html"
    planted = "<script>document.documentElement.dataset.planted = 'yes'</script></body>"
    path.write_text(report.read_text().replace("</body>", planted))
    dom = browse("--dump-dom", "--virtual-time-budget=3000", f"file://{path}")
    assert "data-planted" not in dom
    assert '<th scope="col" class="number"><button type="button">' in dom


@pytest.mark.slow
def test_a_large_report_opens_soon(tmp_path):
    flips = [[float(f"{x:.4g}")] for x in np.linspace(0.01, 0.4, 500)]
    write_sweep(tmp_path / "s", [{"keys": ["mechanism.flip_prob"], "values": flips}], 20)
    large, small = write_report(tmp_path / "s"), tmp_path / "empty.html"
    small.write_text("<!DOCTYPE html><title>x</title>")
    times = {}
    for path in (small, large):
        begin = time.perf_counter()
        browse(f"--screenshot={tmp_path / 'x.png'}", "--window-size=1280,900", f"file://{path}")
        times[path] = time.perf_counter() - begin
    assert times[large] - times[small] < 2.0
