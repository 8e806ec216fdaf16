"""The values of a report's figures, in a browser: by pointer, by keys, without a script, on paper, for everyone."""

import html
import json
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from docs.make_report_figures import take
from p2p_sim.figures.point_series import View
from p2p_sim.measures.point_means import points
from p2p_sim.report.charts import MOST_POINTS, said_value, sweep_chart
from p2p_sim.report.columns import choices
from p2p_sim.report.page import TEMPLATES, report_page
from p2p_sim.report.results_report import write_report
from tests.browser import violations
from tests.written_sweeps import AXES, made_rows, manifest, write_sweep

KEYS = ["mechanism.flip_prob", "network.loss"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    directory = tmp_path_factory.mktemp("chart") / "s"
    write_sweep(directory, AXES, 3)
    plots = [{"x": "epsilon_upper", "y": "excess_risk"}, {"x": KEYS[0], "y": "epsilon_upper"}]
    (directory / "manifest.json").write_text(json.dumps(manifest(AXES, 3, plots=plots)))
    return write_report(directory)


def charts(path):
    return [json.loads(html.unescape(found)) for found in re.findall(r'data-chart="(.*?)"', path.read_text())]


def test_every_point_stands_in_every_chart_with_the_numbers_of_the_rows(report):
    rows = pd.DataFrame(made_rows(AXES, 3))
    found = charts(report)
    for chart, y in zip(found, ("excess_risk", "epsilon_upper"), strict=True):
        one = {tuple(point["said"][:2]): point for group in chart["groups"] for point in group["points"]}
        assert len(one) == 6
        for key, part in rows.groupby(KEYS, sort=False):
            point = one[f"loss = {key[1]:g}", f"α = {key[0]:g}"]
            value = part[y].max() if y == "epsilon_upper" else part[y].mean()
            assert point["at"][1] == pytest.approx(value, rel=1e-7)
            said = float(re.findall(r"[\d.]+", point["said"][-2 if y == "epsilon_upper" else -3])[0])
            assert said == pytest.approx(value, rel=0.1)
            assert y != "epsilon_upper" or said >= value


def test_bounds_are_rounded_to_the_side_on_which_they_hold():
    values = np.exp(np.random.default_rng(4).uniform(-9, 9, 300))
    for column, sign in (("epsilon_upper", 1), ("epsilon_lower", -1)):
        said = [said_value({column: value}, column) for value in values.tolist()]
        assert all(sign * (float(text.split()[-1]) - value) >= 0 for text, value in zip(said, values, strict=True))
    assert said_value({"epsilon_paper": 0.5}, "epsilon_paper") == "epsilon_paper 0.5"


def test_what_no_chart_can_hold_stays_a_picture():
    table = points(pd.DataFrame(made_rows(AXES, 2)), KEYS)
    view = View(KEYS[0], "excess_risk", (KEYS[1],))
    assert sweep_chart(table.assign(excess_risk=np.nan), view, KEYS, "") is None
    many = pd.concat([table] * (MOST_POINTS // len(table) + 1), ignore_index=True)
    assert sweep_chart(many, view, KEYS, "") is None
    holed = table.assign(excess_risk=[np.inf, *table["excess_risk"][1:]])
    chart = sweep_chart(holed, view, KEYS, "")
    assert sum(len(group["points"]) for group in chart["groups"]) == len(table) - 1
    json.dumps(chart, allow_nan=False)


def test_a_search_that_did_not_pay_says_so_everywhere(tmp_path):
    said = "Choices made with the true labels, not paid for by ε"
    rows = pd.DataFrame(made_rows(AXES, 2))
    text = report_page(rows.assign(look="oracle"), manifest(AXES, 2))
    assert text.count(said) == 2  # beside the first figures, and in the section on privacy
    for look in ("public", "released"):
        assert said not in report_page(rows.assign(look=look), manifest(AXES, 2))
    assert choices(rows) == []
    part = rows.assign(look=["oracle"] * 4 + ["public"] * 8)
    assert choices(part) == [f"{said} (at 2 of 6 points)."]
    assert "one run" in choices(rows.assign(look="curator"))[0]
    write_sweep(tmp_path / "s", [], 2)
    lines = [{**row, "look": "oracle"} for row in made_rows([], 2)]
    (tmp_path / "s" / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "s" / "rows.parquet").unlink()
    assert write_report(tmp_path / "s").read_text().count(f"{said}.</figcaption>") == 1


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_stand_out_in_light_and_dark():
    papers = re.findall(r"--paper: (#\w{6})", (TEMPLATES / "page.css").read_text())[:2]
    colours = re.findall(r"--c\d: (#\w{6})", (TEMPLATES / "page.css").read_text())
    assert len(colours) == 14
    for paper, seven in zip(papers, (colours[:7], colours[7:]), strict=True):
        assert min(contrast(paper, colour) for colour in seven) >= 3.0
    assert contrast("#ffffff", "#56B4E9") < 3.0  # the picture's light blue would not do


@pytest.fixture
def page(browser, report):
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    faults, asked = [], []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(report.as_uri())
    yield opened
    assert faults == []
    assert asked == [report.as_uri()]
    opened.close()


def values(page):
    return page.inner_text("#figure-1 .values")


def marks(page):
    return page.locator("#figure-1 .mark").count()


@pytest.mark.slow
def test_pointer_and_keys_show_the_same_values(page, report):
    said = ["; ".join(point["said"]) + "." for group in charts(report)[0]["groups"] for point in group["points"]]
    assert marks(page) == len(said) == 6
    assert "Tab" in values(page)
    page.locator("#figure-1 .panels > svg").scroll_into_view_if_needed()
    box = page.locator("#figure-1 .mark >> nth=4").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert values(page) == said[4]
    page.focus("#figure-1 .tools button >> nth=3")
    page.keyboard.press("Tab")
    assert values(page) == said[4]  # the one stop of the chart is the chosen point
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Home")
    seen = [values(page)]
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Home", "ArrowRight"):
        page.keyboard.press(key)
        seen.append(values(page))
    assert seen[:3] == said[:3]
    assert seen[3] in said[3:]
    assert seen[4:] == said[3:5]
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") + "." == said[4]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.legend') !== null")


@pytest.mark.slow
def test_lines_meet_their_markers(page):
    spot = "found => { const box = found.getBoundingClientRect(); return [box.x, box.x + box.width]; }"
    line = page.eval_on_selector("#figure-2 .line >> nth=0", spot)
    ends = [page.eval_on_selector(f"#figure-2 .mark >> nth={place}", spot) for place in (0, 2)]
    assert line == pytest.approx([(low + high) / 2 for low, high in ends], abs=1.5)


@pytest.mark.slow
def test_groups_hide_and_the_axes_zoom(page):
    legend = page.locator("#figure-1 .legend input")
    before = page.inner_html("#figure-1 .axes")
    legend.nth(1).press("Space")
    assert not legend.nth(1).is_checked()
    assert marks(page) == 3
    legend.nth(0).click()
    assert marks(page) == 0
    assert page.locator("#figure-1 .empty").count() == 1
    legend.nth(0).click()
    legend.nth(1).click()
    assert page.inner_html("#figure-1 .axes") == before
    page.click("#figure-1 .tools button >> nth=0")
    zoomed = page.inner_html("#figure-1 .axes")
    assert zoomed != before
    page.focus("#figure-1 .mark >> nth=0")
    for _ in range(3):
        page.keyboard.press("+")
    assert marks(page) < 6
    page.keyboard.press("End")  # a point out of sight is brought into sight
    assert page.evaluate("document.activeElement.classList.contains('chosen')")
    page.keyboard.press("0")
    assert page.inner_html("#figure-1 .axes") == before
    page.locator("#figure-1 .panels > svg").scroll_into_view_if_needed()
    area = page.locator("#figure-1 .panels > svg").bounding_box()
    page.mouse.move(area["x"] + 100, area["y"] + 60)
    page.mouse.down()
    page.mouse.move(area["x"] + 400, area["y"] + 260)
    page.mouse.up()
    assert page.inner_html("#figure-1 .axes") not in (before, zoomed)


@pytest.mark.slow
def test_the_picture_is_one_key_away_and_is_what_is_printed(browser, page, report):
    picture, chart = "#figure-1 .enlarge svg", "#figure-1 .chart-body"
    assert not page.is_visible(picture)
    page.press("#figure-1 .tools button >> nth=3", "Enter")
    assert page.is_visible(picture)
    assert not page.is_visible(chart)
    page.press("#figure-1 .tools button >> nth=3", "Enter")
    page.emulate_media(media="print")
    assert page.is_visible(picture)
    assert not page.is_visible(chart)
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(report.as_uri())
    assert plain.is_visible(picture)
    assert not plain.is_visible("#figure-1 div.chart")
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.focus("#figure-1 .mark >> nth=0")
    assert violations(page) == []
    if scheme == "dark":  # a planted fault is seen
        page.evaluate("document.querySelector('.chart .mark').removeAttribute('aria-label')")
        page.evaluate("document.querySelector('.chart button').style.color = '#333333'")
        found = {rule for rule, _ in violations(page)}
        assert "color-contrast" in found
        assert found & {"role-img-alt", "svg-img-alt"}


@pytest.mark.slow
def test_the_pictures_of_the_guide_are_taken(browser, report, tmp_path):
    light, dark = (imread(path)[..., :3].mean() for path in take(browser, report, tmp_path))
    assert light > 0.8
    assert dark < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 1280])
def test_it_does_not_scroll_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
