"""The explorer's table of runs, and what follows in its pages by itself."""

import json
import os
import shutil

import pytest

from p2p_sim.explorer.directories import PUBLISHED, ReadableDirectories
from p2p_sim.explorer.page_results import MOST_PLACES, Tail
from p2p_sim.explorer.runs_page import RunsTable
from p2p_sim.results import rows as stored
from p2p_sim.results.lock import locked
from tests.browser import violations
from tests.explorer.in_process import Client
from tests.explorer.test_explore_browser import Page, started
from tests.written_sweeps import AXES, made_rows, manifest, write_sweep


def write_runs(folder, count, replicates=2):
    """Runs of one replicate each setting: directories with different α, and figures that are made up."""
    flips = [round(0.4 * (place + 1) / count, 5) for place in range(count)]
    rows = made_rows([{"keys": ["mechanism.flip_prob"], "values": [[flip] for flip in flips]}], replicates)
    for place, flip in enumerate(flips):
        directory = folder / f"run-{place:04d}"
        directory.mkdir(parents=True)
        tree = manifest([], replicates)
        tree["scenario"]["mechanism"]["flip_prob"] = flip
        (directory / "manifest.json").write_text(json.dumps(tree))
        mine = rows[place * replicates : (place + 1) * replicates]
        lines = [{key: cell for key, cell in row.items() if key != "mechanism.flip_prob"} for row in mine]
        (directory / "rows.jsonl").write_text("".join(json.dumps(line | {"flip_prob": flip}) + "\n" for line in lines))


@pytest.fixture
def runs(tmp_path):
    write_runs(tmp_path / "results", 5)
    write_sweep(tmp_path / "results" / "swept", AXES, 3, [{"point": "x", "replicate": 9, "error": "ValueError: no"}])
    return tmp_path / "results"


def by_name(found):
    return {run["name"]: run for run in found["runs"]}


def test_a_run_has_its_state_its_settings_and_the_figures_of_its_rows(runs):
    found = Client(runs).get("api/runs").json()
    run, sweep = by_name(found)["run-0002"], by_name(found)["swept"]
    assert (run["state"], run["done"], run["total"], run["failed"]) == ("finished", 2, 2, 0)
    assert run["cells"]["mechanism.flip_prob"] == ["0.24", 0.24]
    table = stored.stored_rows(runs / "run-0002")
    assert run["cells"]["accuracy"][1] == pytest.approx(1 - table["error_rate"].mean(), rel=1e-12)
    assert run["cells"]["epsilon_upper"][1] == table["epsilon_upper"].max() <= float(run["cells"]["epsilon_upper"][0])
    assert sweep["cells"]["mechanism.flip_prob"] == ["0.05 to 0.2", 0.05]
    assert (sweep["done"], sweep["total"], sweep["failed"]) == (18, 18, 1)
    names = [column["key"] for column in found["columns"]]
    assert names[: found["figures"]] == ["accuracy", "epsilon_upper", "excess_risk", "nonprivate_accuracy"]
    assert set(names[found["figures"] :]) == {"mechanism.flip_prob", "network.loss"}  # the keys that differ


def test_what_is_damaged_stopped_or_running_says_so(runs):
    (runs / "run-0000" / "rows.jsonl").write_text('{"error_rate": 0.1}\n[]\n')
    lines = (runs / "run-0001" / "rows.jsonl").read_text().splitlines(keepends=True)
    (runs / "run-0001" / "rows.jsonl").write_text(lines[0] + lines[1][:40])
    (runs / "run-0003" / "rows.jsonl").write_text(lines[0].replace('"epsilon_upper": ', '"epsilon_upper": "x", "_": '))
    with locked(runs / "run-0002"):
        found = by_name(Client(runs).get("api/runs").json())
    assert [found[f"run-000{place}"]["state"] for place in range(5)] == [
        "damaged", "incomplete", "running", "damaged", "finished"
    ]  # fmt: skip
    assert found["run-0000"]["why"] == "damaged: rows.jsonl: damaged (line 1 is no row)"
    assert found["run-0001"]["why"] == "incomplete: 1 of 2 rows"
    assert found["run-0003"]["why"].startswith("damaged: rows.jsonl: ")
    assert (found["run-0001"]["done"], found["run-0001"]["total"]) == (1, 2)


def test_a_directory_is_read_once_until_it_changes(runs, monkeypatch):
    read = []
    before, lines = stored.read_manifest, []
    monkeypatch.setattr("p2p_sim.explorer.runs_page.read_manifest", lambda path: read.append(path.name) or before(path))
    table = RunsTable(ReadableDirectories((runs,), None))
    found = table.table()
    assert sorted(read) == [f"run-000{place}" for place in range(5)] + ["swept"]
    assert table.table(found["version"]) == {"version": found["version"]}
    assert len(read) == 6
    path = runs / "run-0004" / "rows.jsonl"
    last = path.read_text().splitlines()[-1]
    added = Tail.added
    monkeypatch.setattr(Tail, "added", lambda tail, path: (lines.append(line) or line for line in added(tail, path)))
    lines.clear()
    with path.open("a") as file:
        file.write(json.dumps(json.loads(last) | {"replicate": 2, "error_rate": 0.9, "epsilon_upper": 7.0}) + "\n")
    changed = table.table(found["version"])
    assert read[6:] == ["run-0004"]
    assert len(lines) == 1  # the line that was added; whether the directory is damaged is another question
    run = by_name(changed)["run-0004"]
    assert (run["done"], run["cells"]["epsilon_upper"][0]) == (3, "7")
    path.write_text(path.read_text())  # written anew: from its beginning
    os.utime(path)
    assert by_name(table.table())["run-0004"]["done"] == 3


def test_results_are_read_once_for_all_questions_about_them(runs, monkeypatch):
    from p2p_sim.explorer import runs_page as module

    read, before = [], module.read_results
    monkeypatch.setattr(module, "read_results", lambda path: read.append(path.name) or before(path))
    client = Client(runs)
    keys = [run["key"] for run in client.get("api/runs").json()["runs"]]
    first = client.get("api/worth", {"results": keys}).json()
    client.get("api/worth", {"results": keys, "x": "mechanism.flip_prob"})
    client.get("api/point", {"results": keys, "point": first["shown"]["lines"][0]["points"][0]["key"]})
    assert sorted(read) == [f"run-000{place}" for place in range(5)] + ["swept"]
    with (runs / "run-0004" / "rows.jsonl").open("a") as file:
        file.write(json.dumps(made_rows([], 3)[2] | {"scenario": f"{4:016x}"}) + "\n")
    client.get("api/worth", {"results": keys})
    assert read[6:] == ["run-0004"]


def test_too_many_runs_at_a_time_are_one_line(tmp_path):
    write_runs(tmp_path / "results", MOST_PLACES + 1, 1)
    client = Client(tmp_path / "results")
    keys = [run["key"] for run in client.get("api/runs").json()["runs"]]
    said = client.get("api/worth", {"results": keys}).json()["error"]
    assert said == "results: 101 directories are chosen, at most 100 are shown at a time"
    shown = client.get("api/worth", {"results": keys[1:]}).json()["shown"]
    assert (shown["title"], shown["joined"]) == ("100 runs: excess risk against ε", False)


# -- panels and colours ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="there are no published studies outside a checkout")
def test_every_published_study_is_shown_or_has_a_button_that_shows_it():
    client, suggested = Client(published=PUBLISHED), []
    for run in client.get("api/runs").json()["runs"]:
        found = client.get("api/worth", {"results": run["key"]}).json()
        if found["shown"] is None:
            suggested.append(run["name"])
            assert found["suggested"]
        for choice in found.get("suggested", ()):
            fields = {name: column for name, column in choice.items() if name != "text"}
            assert client.get("api/worth", {"results": run["key"], **fields}).json()["shown"], choice
    assert suggested  # some have too many lines


def test_panels_and_colours_show_all_points(tmp_path):
    axes = [*AXES, {"keys": ["clusters.min_size"], "values": [[size] for size in range(2, 30)]}]
    write_sweep(tmp_path / "results" / "wide", axes, 2)
    write_sweep(tmp_path / "results" / "made", AXES, 2)
    client = Client(tmp_path / "results")
    keys = {run["name"]: run["key"] for run in client.get("api/runs").json()["runs"]}
    found = client.get("api/worth", {"results": keys["wide"], "x": "network.loss"}).json()
    assert "put an axis on --facet or use --heat" in found["error"]
    fields = {
        "results": keys["wide"],
        "x": "mechanism.flip_prob",
        "facet": "network.loss",
        "only.clusters.min_size": "3.0",
    }
    shown = client.get("api/worth", fields).json()["shown"]
    assert shown["panels"] == ["loss = 0", "loss = 0.1"]
    assert [point["panel"] for line in shown["lines"] for point in line["points"]].count(1) == 3
    heat = {"results": keys["made"], "heat": "epsilon_upper"}
    shown = client.get("api/worth", heat).json()["shown"]
    assert (shown["x"]["names"], shown["y"]["names"]) == (["0.05", "0.1", "0.2"], ["0", "0.1"])
    assert [(cell["x"], cell["y"]) for cell in shown["heat"]["cells"]] == [(x, y) for x in range(3) for y in range(2)]
    assert all(float(cell["text"]) >= cell["value"] for cell in shown["heat"]["cells"])  # an ε is rounded up
    point = client.get("api/point", {**heat, "point": shown["heat"]["cells"][5]["key"]}).json()
    assert "loss = 0.1" in point["scenario"]
    for fields in (heat, {"results": keys["made"], "facet": "network.loss"}):
        assert client.get("api/download", {**fields, "format": "png"}).content[1:4] == b"PNG"
    assert (
        "heat map needs two axes"
        in client.get("api/worth", {**heat, "x": "network.loss", "y": "network.loss"}).json()["error"]
    )


# -- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture
def explorer(tmp_path):
    """The address of an explorer of many runs and a sweep, and where they are."""
    write_runs(tmp_path / "results", 1_000)
    write_sweep(tmp_path / "results" / "swept", AXES, 3)
    (tmp_path / "results" / "run-0007" / "rows.jsonl").write_text("[]\n")
    process, address = started(tmp_path / "results")
    yield address, tmp_path / "results"
    process.terminate()
    process.wait(10)


def listed(one):
    return one.page.locator("#lines tr:not(.gap) th").all_inner_texts()


COST = """() => {
  const times = [], find = document.getElementById("find"), box = document.getElementById("runs");
  const time = (act) => {
    const begin = performance.now();
    act();
    times.push(box.offsetHeight && performance.now() - begin);
  };
  for (const text of ["r", "ru", "run", "run-0", "run-09", "finished", "accuracy>0.7", ""])
    time(() => { find.value = text; find.dispatchEvent(new Event("input")); });
  for (let place = 0; place < 5; place++) time(() => document.querySelectorAll("#heads button")[place % 3].click());
  for (let top = 0; top < 30000; top += 3000)
    time(() => { box.scrollTop = top; box.dispatchEvent(new Event("scroll")); });
  return times;
}"""


@pytest.mark.slow
def test_a_thousand_runs_sort_search_filter_and_stay_smooth(browser, explorer):
    address, _ = explorer
    one = Page(browser, address + "worth", viewport={"width": 1280, "height": 900})
    page = one.page
    page.wait_for_selector("#chart svg .mark")
    total = page.inner_text("#counted").split()[0]  # with the published studies
    assert page.inner_text("#counted") == f"{total} of {total} listed, 1 chosen"
    assert page.locator("#lines tr").count() < 60  # the lines in sight alone
    page.click("#heads button >> text=accuracy")
    page.click("#heads button >> text=accuracy")
    cells = [float(text) for text in page.locator("#lines tr:not(.gap) td:nth-child(3)").all_inner_texts()]
    assert cells == sorted(cells, reverse=True)
    assert page.get_attribute("#heads th:nth-child(3)", "aria-sort") == "descending"
    page.fill("#find", "run-00 α<0.01")
    assert page.inner_text("#counted").startswith(f"24 of {total} listed")
    page.fill("#find", "nothing<3")
    assert page.inner_text("#runs-error") == "There is no column nothing."
    page.fill("#find", "")
    page.click("#more summary")
    page.select_option("#state", "damaged")
    assert listed(one) == ["run-0007"]
    assert "a line is no row" in page.inner_text("#lines td >> nth=0")
    page.select_option("#state", "")
    page.uncheck("#offered input[value=state]")
    page.check("#offered input[value='mechanism.flip_prob']")
    heads = page.locator("#heads th").all_inner_texts()
    page.reload()  # what is chosen stays
    page.wait_for_selector("#chart svg .mark")
    assert page.locator("#heads th").all_inner_texts() == heads
    assert "status" not in heads
    assert any(head.startswith("α") for head in heads)
    times = page.evaluate(COST)
    assert page.evaluate("document.getElementById('runs').scrollTop") == 27_000
    assert len(listed(one)) > 10
    print(f"a letter, a sort or a step of 1,001 runs: at most {max(times):.0f} ms of {len(times)}")
    assert max(times) < 400  # on any machine; 100 ms are smooth
    one.close(address)


@pytest.mark.slow
def test_the_chart_is_twelve_stops_away_and_runs_are_chosen_by_keys(browser, explorer):
    address, _ = explorer
    one = Page(browser, address + "worth", viewport={"width": 1280, "height": 900})
    page = one.page
    page.wait_for_selector("#chart svg .mark")
    page.evaluate("document.activeElement.blur()")
    stops = []
    while not (stops and "mark" in stops[-1].split()):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.getAttribute('class') ?? document.activeElement.id"))
        assert len(stops) <= 12, stops
    page.focus("#runs [tabindex='0']")
    for _ in range(40):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('tr').textContent").startswith("run-0039")
    page.keyboard.press("Space")
    assert page.inner_text("#counted").endswith("2 chosen")
    one.until("document.getElementById('chart-heading').textContent.startsWith('run-0000, run-0039')")
    page.focus("#runs [tabindex='0']")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.closest('tr').ariaRowIndex") == page.get_attribute(
        "#runs table", "aria-rowcount"
    )
    one.close(address)


SMALL = """() => {
  const texts = [], targets = [], shown = (node) => node.checkVisibility({ visibilityProperty: true });
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode()); ) {
    const parent = node.parentElement;
    if (!node.data.trim() || !shown(parent) || parent.closest("script, style, option, title")) continue;
    const svg = parent.closest("svg"), scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    if (parseFloat(getComputedStyle(parent).fontSize) * scale < 11) texts.push(node.data.trim().slice(0, 40));
  }
  for (const node of document.querySelectorAll("a, button, input, select, summary, textarea, [role=button]")) {
    const target = node.matches("input[type=checkbox], input[type=radio]") ? node.closest("label") : node;
    const { width, height } = target.getBoundingClientRect();
    if (shown(node) && !node.matches(".skip") && (width < 24 || height < 24))
      targets.push(`${node.outerHTML.slice(0, 80)}: ${width} by ${height}`);
  }
  return { texts, targets };
}"""


@pytest.mark.slow
def test_on_a_phone_texts_and_targets_are_large_and_epsilon_stays_in_sight(browser, tmp_path):
    write_sweep(tmp_path / "results" / "swept", AXES, 3)
    process, address = started(tmp_path / "results")
    ready = {"": "#curve svg", "worth": "#chart svg .mark", "watch": "#rows tr", "played": "#shows:not(:empty)"}
    try:
        for name, selector in ready.items():
            one = Page(browser, address + name, viewport={"width": 390, "height": 844}, has_touch=True)
            one.page.wait_for_selector(selector)
            for summary in one.page.locator("summary").all():
                summary.click()
            if name == "worth":
                one.page.locator("#chart .mark").nth(2).tap(force=True)
                one.page.wait_for_selector("#point:not([hidden])")
            assert one.page.evaluate(SMALL) == {"texts": [], "targets": []}, name
            if name == "":
                one.page.locator("[data-for=delta]").scroll_into_view_if_needed()
                for slider in ("flip_prob", "sampling_rate", "delta"):
                    one.page.locator(f"[data-for={slider}]").scroll_into_view_if_needed()
                    value, handle = (
                        one.page.locator(part).bounding_box() for part in ("#glance", f"[data-for={slider}]")
                    )
                    assert 0 <= value["y"] < value["y"] + value["height"] <= handle["y"] < 844
                assert one.page.inner_text("#glance-value") == one.page.inner_text("#big")
                one.page.evaluate("document.querySelector('summary').innerHTML = '<small>planted</small>'")
                one.page.evaluate("document.querySelector('small').style = 'font-size: 9px'")
                one.page.evaluate("document.querySelector('#use').style = 'all: unset; font-size: 12px'")
                one.page.evaluate("document.querySelector('#needed-answer').hidden = false")
                found = one.page.evaluate(SMALL)  # the control
                assert (found["texts"], len(found["targets"])) == (["planted"], 1)
            one.close(address)
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.slow
def test_a_click_shows_the_scenario_beside_its_point(browser, explorer):
    address, _ = explorer
    one = Page(browser, address + "worth", viewport={"width": 1280, "height": 900})
    page = one.page
    page.wait_for_selector("#chart svg .mark")
    page.fill("#find", "swept")
    page.click("#clear")
    page.check("#lines input")
    one.until("document.querySelectorAll('#chart .mark').length === 6")
    marks = page.locator("#chart .mark")
    for place in range(6):
        marks.nth(place).focus()
        name = marks.nth(place).get_attribute("aria-label").split(": ")[-1]
        one.until(f"document.getElementById('point-name').textContent === {json.dumps(name)}")
        page.wait_for_timeout(50)
        mark, card, stage = (
            page.locator(part).bounding_box() for part in ("#chart .mark.chosen .dot", "#point", "#stage")
        )
        gap = max(card["x"] - mark["x"] - mark["width"], mark["x"] - card["x"] - card["width"])
        assert 0 <= gap < 40  # beside it, and not over it
        assert stage["y"] <= card["y"] < card["y"] + card["height"] <= stage["y"] + stage["height"] + 1
    box = marks.nth(4).locator(".dot").bounding_box()
    page.keyboard.press("Escape")
    assert not page.is_visible("#point")
    page.mouse.click(box["x"] + box["width"] / 2 + 6, box["y"] + box["height"] / 2)  # near it
    page.wait_for_selector("#point:not([hidden])")
    assert "flip_prob = " in page.inner_text("#point-scenario")
    page.click("#close")
    assert not page.is_visible("#point")
    one.close(address)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_panels_colours_and_the_open_table_pass_axe(browser, tmp_path, width, scheme):
    write_sweep(tmp_path / "results" / "swept", AXES, 3)
    process, address = started(tmp_path / "results")
    try:
        one = Page(browser, address + "worth", color_scheme=scheme, viewport={"width": width, "height": 900})
        page = one.page
        page.wait_for_selector("#chart svg .mark")
        page.click("#more summary")
        page.select_option("#facet", "network.loss")
        one.until("document.querySelectorAll('#chart .panels > svg').length === 2")
        assert violations(page) == []
        page.select_option("#heat", "accuracy")
        page.wait_for_selector("#chart .cell")
        page.locator("#chart .cell").first.click()
        page.wait_for_selector("#point:not([hidden])")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        one.close(address)
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.slow
def test_the_page_of_a_running_sweep_turns_to_a_new_one_and_the_table_follows(browser, tmp_path):
    results = tmp_path / "results"
    for name in ("first", "second", "third"):
        write_sweep(results / name, AXES, 3)
    process, address = started(results)
    try:
        one = Page(browser, address + "watch")
        page = one.page
        with locked(results / "first"):
            one.until("document.getElementById('state').textContent.includes('running')")
            assert page.input_value("#results") == page.get_attribute("#results option:has-text('first')", "value")
        one.until("document.getElementById('state').textContent.includes('finished')")
        with locked(results / "second"):
            one.until("document.getElementById('followed').textContent")
            assert page.inner_text("#followed") == "second has started, and this page has turned to it."
            one.until("document.getElementById('results').selectedOptions[0].textContent === 'second (running)'")
        page.uncheck("#follow")
        one.until("!document.getElementById('results').textContent.includes('running')")
        with locked(results / "third"):
            one.until("document.getElementById('results').textContent.includes('third (running)')")
            assert "second" in page.inner_text("#followed")  # the control: who does not want to follow stays
        table = Page(browser, address + "worth")
        table.page.wait_for_selector("#chart svg .mark")
        shutil.copytree(results / "first", results / "fourth")
        table.until("document.getElementById('lines').textContent.includes('fourth')")
        for page in (one, table):
            page.close(address)
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.slow
def test_a_film_survives_a_reload(browser, tmp_path):
    (tmp_path / "results").mkdir()
    process, address = started(tmp_path / "results")
    try:
        one = Page(browser, address + "played")
        one.page.wait_for_selector("#shows:not(:empty)")
        one.page.select_option("#scenario", "network/loss")
        one.page.fill("#changes", "population.users=400")
        one.page.click("button[type=submit]")
        film = one.page.get_attribute("iframe", "src")
        one.page.reload()
        assert one.page.get_attribute("iframe", "src") == film  # the same one, which is not run again
        assert one.page.input_value("#changes") == "population.users=400"
        one.said[:] = [text for text in one.said if "frame" not in text]
        one.close(address)
    finally:
        process.terminate()
        process.wait(10)
