"""The report in a browser: it is not blank, fits a phone, opens soon, sorts, folds, and breaks well on paper."""

import re
import subprocess
import time

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from docs.chromium import find_chromium
from p2p_sim.report.page import report_page
from p2p_sim.report.results_report import write_report
from tests.browser import required, violations
from tests.written_sweeps import AXES, Axes, made_rows, made_terms, manifest, write_sweep

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
    assert '<button type="button">' in dom


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


# -- a long report: 66 points along two axes -------------------------------------------------------------------------

LONG: Axes = [
    {"keys": ["mechanism.flip_prob"], "values": [[round(0.01 * k, 2)] for k in range(1, 34)]},
    {"keys": ["network.on_timeout.retry"], "values": [["never"], ["same_peer"]]},
]


@pytest.fixture(scope="module")
def long_report(tmp_path_factory):
    rows = pd.DataFrame(made_rows(LONG, 3, exact=False))
    failures = [{"point": "x", "replicate": k, "error": "ValueError: a fault"} for k in range(60)]
    path = tmp_path_factory.mktemp("long") / "report.html"
    path.write_text(report_page(rows, manifest(LONG, 3), failures, terms=made_terms()))
    return path


@pytest.fixture
def page(browser, long_report):
    opened = browser.new_page(viewport={"width": 390, "height": 844})
    opened.goto(long_report.as_uri())
    yield opened
    opened.close()


def box(page, selector, place=0):
    return page.locator(selector).nth(place).bounding_box()


def test_a_phone_shows_what_is_learned_without_scrolling(page):
    """The figure above is on the first screen, and its column of the table in sight of each line; the point too."""
    cards = page.locator(".cards div", has_text="accuracy").first.bounding_box()
    assert cards["y"] + cards["height"] <= 844
    column = page.locator("#points thead th").all_inner_texts().index("accuracy")
    for line in (page.locator("#points thead tr"), page.locator("#points tbody tr").nth(3)):
        cell = line.locator("th, td").nth(column).bounding_box()
        assert 0 <= cell["x"] < cell["x"] + cell["width"] <= 390
    assert page.inner_text("#points tbody tr:nth-child(4) th") == "0.02\nretry = same_peer"
    page.set_viewport_size({"width": 1280, "height": 844})
    assert page.inner_text("#points tbody tr:nth-child(4) th") == "0.02"  # the other axis has its column


def test_the_first_column_stays_and_hides_what_passes_under_it(page):
    before = box(page, "#points tbody tr > :first-child", 5)
    page.evaluate("document.querySelector('#points').closest('.scroll').scrollLeft = 200")
    assert box(page, "#points tbody tr > :first-child", 5) == before
    assert box(page, "#points tbody tr > :nth-child(3)", 5)["x"] < before["x"] + before["width"]
    colour = "getComputedStyle(document.querySelector('#points tbody tr > :first-child')).backgroundColor"
    assert page.evaluate(colour) != "rgba(0, 0, 0, 0)"
    page.add_style_tag(content=".sortable tr > :first-child { position: static !important; }")
    assert box(page, "#points tbody tr > :first-child", 5) != before  # the control


def test_more_than_fifty_lines_are_folded_but_not_on_paper_and_not_without_a_script(browser, page, long_report):
    def lines(table):
        return sum(row.is_visible() for row in page.locator(f"{table} tbody tr").all())

    button = page.locator("#results .unfold")
    assert (lines("#points"), lines("#failures table")) == (50, 50)
    assert button.inner_text() == "Show all 67 lines"  # a point of which nothing succeeded comes last
    page.locator("#points thead button").first.click()
    page.locator("#points thead button").first.click()  # the largest first: the fold is of the lines as they stand
    assert lines("#points") == 50
    assert page.inner_text("#points tbody tr >> nth=0").startswith("0.33")
    button.press("Enter")
    assert lines("#points") == 67
    assert button.get_attribute("aria-expanded") == "true"
    button.click()
    page.emulate_media(media="print")
    assert (lines("#points"), button.is_visible()) == (67, False)
    page.emulate_media(media="screen")
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto(long_report.as_uri())
    assert plain.locator("#points tbody tr:visible").count() == 67
    plain.context.close()


ORPHANS = """(height) => {
  const root = document.body;
  Object.assign(root.style, {height: `${height}px`, width: "700px", columns: "700px", columnGap: "40px",
    columnFill: "auto", margin: 0});
  const sheet = (node, last) => {
    const boxes = [...node.getClientRects()].filter((box) => box.width && box.height);
    return boxes.length ? Math.floor((boxes.at(last ? -1 : 0).left - root.getBoundingClientRect().left) / 740) : null;
  };
  const found = [];
  for (const heading of document.querySelectorAll("h2, h3, caption, thead, .heading")) {
    let next = heading.nextElementSibling;
    while (next && next.querySelector("p, tr, li, span, dt")) next = next.querySelector("caption, p, tr, li, span, dt");
    if (next && sheet(next, false) > sheet(heading, true)) found.push(heading.textContent.trim().slice(0, 30));
  }
  for (const body of document.querySelectorAll("tbody")) {
    const sheets = [...body.rows].map((row) => sheet(row, false)), size = sheets.length;
    if (size > 2 && (sheets[1] > sheets[0] || sheets[size - 1] > sheets[size - 2])) found.push(`a line alone: ${size}`);
  }
  return found;
}"""
"""What stands alone at an end of a sheet: the sheets are columns of the page, which break as sheets of paper do."""


@pytest.mark.slow
def test_no_heading_and_no_line_of_a_table_stands_alone_on_paper(page):
    page.emulate_media(media="print")
    heights = range(500, 1100, 23)
    assert [page.evaluate(ORPHANS, height) for height in heights] == [[]] * len(heights)
    page.add_style_tag(content="* { break-after: auto !important; break-inside: auto !important; }")
    assert any(page.evaluate(ORPHANS, height) for height in heights)  # the control


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_in_a_report(page, width, scheme):
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    assert violations(page) == []
    page.click("#results .unfold")
    assert violations(page) == []
    page.evaluate("document.querySelector('.unfold').textContent = ''")
    assert [rule for rule, _ in violations(page)] == ["button-name"]  # the control
