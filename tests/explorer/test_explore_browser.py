"""The explorer in a browser: what it shows, by keyboard too, and that it asks nobody but itself."""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from docs import make_explore_figures
from p2p_sim.cli.printing import numbers as values
from p2p_sim.explorer.film_page import chosen
from p2p_sim.film.film_record import COUNTS
from p2p_sim.replicate.observed_network import observe
from tests.browser import violations
from tests.commands import command
from tests.conftest import ROOT
from tests.written_sweeps import AXES, write_sweep

RUN = "from p2p_sim.cli.main import main; main()"
FIGURES = "([...document.querySelectorAll('#lines tr')].map((row) => row.innerText.split('\\t')))"


@pytest.fixture(autouse=True)
def whole_lines(monkeypatch):
    """Commands print each sentence in one line."""
    monkeypatch.setattr(values, "PIPED", 10_000)


def started(*arguments):
    """A process of the explorer, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "explore", "--no-open", "--quiet", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return process, process.stdout.readline().strip()


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    """The address of an explorer of two results directories, which ends without a word."""
    results = tmp_path_factory.mktemp("explorer") / "results"
    write_sweep(results / "made", AXES, 3, [{"point": "x", "replicate": 0, "error": "ValueError: a fault"}])
    process, address = started(results)
    yield address
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0


class Page:
    """One page of the explorer, with all that it asked for and said."""

    def __init__(self, browser, address, **settings):
        self.page = browser.new_context(**settings).new_page()
        self.asked, self.said = [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.set_default_timeout(20_000)
        self.page.goto(address)

    def close(self, address):
        """No request left 127.0.0.1, and nothing went wrong."""
        here = address.split("/", 3)[2]
        assert [url for url in self.asked if not url.startswith((f"http://{here}/", "data:", "blob:"))] == []
        assert self.said == []
        self.page.context.close()

    def ask(self, **fields):
        """Fill in fields of the first page and wait for their answer."""
        for name, text in fields.items():
            if name == "observer":
                self.page.select_option("#observer", text)
            else:
                self.page.fill(f"#{name}", text)
        shown = "Object.fromEntries(new URLSearchParams(document.getElementById('answer').dataset.query))"
        end = time.monotonic() + 60
        while (self.page.evaluate(shown).items() & fields.items()) != fields.items():
            assert time.monotonic() < end, fields
            self.page.wait_for_timeout(5)
        return self.page.evaluate(FIGURES)

    def until(self, expression):
        """Wait until an expression is true; the page's policy forbids the browser to do this by itself."""
        end = time.monotonic() + 30
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, expression
            self.page.wait_for_timeout(5)


def printed(fields):
    """The lines of `p2p-sim privacy`."""
    options = [part for name, text in fields.items() for part in (f"--{name.replace('_', '-')}", text)]
    lines = command("privacy", *options)[1].splitlines()
    return [" ".join(line.split()) for line in lines]


def test_the_first_page_answers_by_keyboard_alone_and_passes_axe(browser, explorer):
    one = Page(browser, explorer)
    one.page.wait_for_selector("#answer:not([hidden])")
    one.page.focus("#cluster_size")
    one.page.keyboard.press("Tab")  # to its slider
    with one.page.expect_response(lambda answer: "cluster_size=1800" not in answer.url and "/api/told?" in answer.url):
        one.page.keyboard.press("End")
        one.page.keyboard.press("Home")
    assert one.page.input_value("#cluster_size") == "2"
    fields = {"cluster_size": "57", "flip_prob": "0.23", "sampling_rate": "0.31", "delta": "1e-5"}
    shown = [" ".join(" ".join(line).split()) for line in one.ask(**fields)]
    assert shown == printed(fields)[: len(shown)]
    one.page.wait_for_selector("#curve svg")
    one.page.click("#needed button[type=submit]")
    one.page.wait_for_selector("#needed-answer:not([hidden])")
    assert "n = 57, learner, θ = 0.31" in one.page.inner_text("#needed-asked")
    assert violations(one.page) == []
    one.page.focus("#cluster_size")
    one.page.keyboard.press("ArrowUp")
    assert one.page.input_value("#cluster_size") == "58"
    assert not one.page.is_visible("#needed-answer")  # it was for another n
    one.page.fill("#flip_prob", "0,7")
    one.until("document.getElementById('error').textContent")
    assert one.page.inner_text("#error") == "Flip probability, α 0,7: must be a number; use a point, not a comma."
    assert violations(one.page) == []
    one.page.evaluate("document.querySelector('#flip_prob').insertAdjacentHTML('afterend', '<input id=planted>')")
    assert [name for name, _ in violations(one.page)] == ["label"]  # the control
    one.said[:] = [text for text in one.said if "400 (Bad Request)" not in text]  # which the console reports
    one.close(explorer)


PLAYED = """name = "played"
replicates = 1
population = {kind = "synthetic", users = 30, num_clusters = 2}
mechanism = {flip_prob = 0.1, sampling_rate = 0.7}
network = {loss = 0.15, availability = {kind = "on_off", mean_on_s = 2.0, mean_off_s = 0.5}}
"""


def counts(frame):
    """The counts that a film shows now."""
    names = (*COUNTS, "submitted", "unanswered")
    return {name: int(frame.inner_text(f"#now-{name}").replace(",", "")) for name in names}


@pytest.mark.slow
def test_a_film_is_played_in_the_page(browser, explorer):
    """By keys alone; then by mouse. Its last counts are those of the run itself.

    It takes 12 processor seconds, of the browser and of the process that runs the scenario: too long for each change.
    """
    run = observe(chosen({"text": PLAYED, "loss": "0.1", "retry": "redraw"}))
    one = Page(browser, explorer + "played", viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page, keys = one.page, one.page.keyboard
    page.wait_for_selector("#shows:not(:empty)")
    page.focus("#scenario + p + details summary")
    keys.press("Enter")
    assert 'name = "quickstart"' in page.inner_text("#file")
    page.focus("#loss")
    for expected in ("0", "0.05", "0.1", "0.15"):
        keys.press("ArrowUp")
        assert page.input_value("#loss") == expected
    keys.press("ArrowDown")
    keys.press("Tab")
    keys.type("ask another")
    page.focus("#own summary")
    keys.press("Enter")
    keys.press("Tab")
    keys.insert_text(PLAYED)
    keys.press("Tab")
    keys.press("Enter")  # the button that runs it
    page.wait_for_selector("iframe")
    frame = page.frame_locator("iframe").locator("body").element_handle().owner_frame()
    keys.press("Tab")
    while frame.evaluate("document.activeElement.id") != "play":
        keys.press("Tab")
    keys.press("Space")
    end = time.monotonic() + 30
    while int(frame.input_value("#slider")) < 20:
        assert time.monotonic() < end
        page.wait_for_timeout(10)
    keys.press("Space")
    begun = counts(frame)
    assert frame.inner_text("#play") == "Play"
    while frame.evaluate("document.activeElement.id") != "slider":
        keys.press("Tab")
    keys.press("End")
    ended = counts(frame)
    assert ended == {
        **{name: run.counts[column] for name, column in COUNTS.items()},
        "submitted": int(run.submissions.sum()),
        "unanswered": run.num_users - run.counts["answered"],
    }
    assert begun["sent"] < ended["sent"]
    assert 0 < ended["lost"] < ended["delivered"]
    while "user" not in (frame.evaluate("document.activeElement.getAttribute('class')") or ""):
        keys.press("Tab")
    keys.press("Enter")
    assert f"of cluster {run.cluster(0)}" in frame.inner_text("#one")
    frame.click("#users .user >> nth=7")
    facts = frame.inner_text("#one")
    assert facts.startswith("user\n7 of cluster")
    assert float(facts.split("at most ")[1].split(",")[0]) >= run.epsilon[7]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page, iframes=False) == []
        assert violations(frame) == []
    frame.evaluate("Object.assign(document.querySelector('#play').style, {color: '#888', background: '#999'})")
    assert [name for name, _ in violations(frame)] == ["color-contrast"]  # the control
    one.close(explorer)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["", "worth", "watch", "played"])
def test_every_page_passes_axe_and_does_not_scroll_sideways(browser, explorer, name, width, scheme):
    one = Page(browser, explorer + name, color_scheme=scheme, viewport={"width": width, "height": 900})
    one.page.wait_for_selector(
        {"": "#curve svg", "worth": "#chart svg .mark", "watch": "#rows tr", "played": "#shows:not(:empty)"}[name]
    )
    if name == "worth":
        one.page.focus("svg.chart .mark[tabindex='0']")
        one.page.wait_for_selector("#point:not([hidden])")
    assert violations(one.page) == []
    assert one.page.evaluate("document.documentElement.scrollWidth") <= width
    one.close(explorer)


@pytest.mark.slow
def test_points_axes_groups_and_downloads(browser, explorer, tmp_path):
    one = Page(browser, explorer + "worth")
    page = one.page
    page.wait_for_selector("#chart svg .mark")
    page.select_option("#x", "mechanism.flip_prob")
    page.select_option("#group", "network.loss")
    one.until("document.getElementById('chart').dataset.query.includes('flip_prob&group=network.loss')")
    page.focus("svg.chart .mark[tabindex='0']")
    before = page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    now = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert "loss = 0," in before
    assert "loss = 0.1" in now
    one.until(f"document.getElementById('point-name').textContent === '{now}'")
    assert "flip_prob = 0.1" in page.inner_text("#point-scenario")
    page.uncheck(".legend input >> nth=0")
    assert page.locator("svg.chart .mark").count() == 3
    assert page.locator("#table tr").count() == 6
    page.check("#each")
    assert page.locator("#table tr").count() == 2
    assert page.inner_text("#lead").startswith("The 95% intervals of loss = 0")
    page.fill("#limit", "0.05")
    assert "each=yes" in page.evaluate("location.hash")
    one.page.reload()
    page.wait_for_selector("#chart svg .mark")
    one.until("document.querySelectorAll('#table tr').length === 2")
    assert page.is_checked("#each")
    assert page.input_value("#limit") == "0.05"
    assert all("0.05" in row for row in page.locator("#table tr").all_inner_texts())
    for name in ("png", "svg", "csv"):
        with page.expect_download() as waiting:
            page.click(f"#{name}")
        path = tmp_path / f"figure.{name}"
        waiting.value.save_as(path)
        assert path.stat().st_size > 1000
    one.close(explorer)


@pytest.mark.slow
def test_fifty_settings_to_the_last_printed_digit(browser, explorer):
    one = Page(browser, explorer)
    one.page.wait_for_selector("#answer:not([hidden])")
    one.page.click("summary")
    rng = random.Random(1)
    for _ in range(50):
        observer = rng.choice(["learner", "learner", "learner-times", "peer", "coalition", "eavesdropper"])
        classes = rng.choice(["2", "2", "3", "10"]) if observer in ("learner", "eavesdropper") else "2"
        fields = {
            "observer": observer,
            "cluster_size": str(rng.choice([2, 7, 30, 111, 400, 2048] if classes == "2" else [5, 40, 2048])),
            "flip_prob": f"{rng.uniform(0.01, 0.5):.4g}",
            "sampling_rate": f"{rng.uniform(0.05, 1.0):.3g}",
            "delta": f"{10 ** rng.uniform(-9, -3):.2g}",
            "num_classes": classes,
        }
        if observer == "coalition":
            fields = {**fields, "cluster_size": "60", "members": str(rng.choice([1, 3, 8]))}
        shown = [" ".join(" ".join(line).split()) for line in one.ask(**fields)]
        assert shown == printed(fields)[: len(shown)], fields
        assert len(shown) >= 6
    one.said = [text for text in one.said if " 400 (" not in text and " 409 (" not in text]  # halfway to a setting
    one.close(explorer)


@pytest.mark.slow
def test_a_slider_answers_soon(browser, explorer):
    """The median from a step of the slider to the figure on the page; printed, as it depends on the machine."""
    one = Page(browser, explorer)
    one.page.wait_for_selector("#answer:not([hidden])")
    times = []
    for n in (50, 300, 1000, 2048):
        one.ask(cluster_size=str(n))
        one.page.focus("[data-for=flip_prob]")
        for _ in range(10):
            before = one.page.inner_text("#command")
            begin = time.perf_counter()
            one.page.keyboard.press("ArrowRight")
            one.until(f"document.getElementById('command').textContent !== {json.dumps(before)}")
            times.append(time.perf_counter() - begin)
    print(f"a slider's answer: median {1e3 * statistics.median(times):.0f} ms of {len(times)}, n from 50 to 2,048")
    assert statistics.median(times) < 5.0  # a hang, on any machine
    one.close(explorer)


BASE = """
name = "watched"
replicates = 1
engine = "vectorised"
population = {kind = "synthetic", users = 200, num_clusters = 2}
mechanism = {flip_prob = 0.1, sampling_rate = 0.5}
"""


@pytest.mark.slow
def test_a_sweep_with_two_hundred_points_is_watched_from_start_to_end(browser, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    (tmp_path / "base.toml").write_text(BASE)
    values = json.dumps([round(0.002 * k, 4) for k in range(1, 201)])
    (tmp_path / "s.toml").write_text(
        f'name = "s"\nbase = "base.toml"\n[[axes]]\nkey = "mechanism.flip_prob"\nvalues = {values}\n'
    )
    process, address = started(results)
    try:
        one = Page(browser, address + "watch")
        one.page.wait_for_selector("#none:not([hidden])")
        sweep = subprocess.Popen(
            [sys.executable, "-c", RUN, "sweep", "s.toml", "--workers", "1", "--quiet", "--out", str(results / "s")],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        counts, states = [], set()
        while "finished" not in "".join(states):
            one.page.wait_for_timeout(300)
            if len(counts) == 20:
                one.page.reload()  # it goes on where it was
            if text := one.page.inner_text("#done"):
                counts.append(int(text))
                states.add(one.page.inner_text("#state"))
            assert len(counts) < 2000
        assert sweep.wait(60) == 0
        assert counts == sorted(counts)
        assert (counts[-1], "of 200 replicates (200 points)") == (200, one.page.inner_text("#of"))
        assert any("running" in state for state in states)
        assert len([count for count in set(counts) if 0 < count < 200]) >= 3
        assert one.page.locator("#rows tr").count() == 30
        one.page.reload()
        one.until("document.getElementById('done').textContent === '200'")
        one.close(address)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)


@pytest.mark.slow
def test_nothing_listens_on_another_address(explorer):
    """The list of the system's listening sockets has the explorer's port on 127.0.0.1 alone."""
    port = int(explorer.split(":")[2].split("/")[0])
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    listening = {fields[1] for fields in lines if fields[3] == "0A" and fields[1].endswith(f":{port:04X}")}
    assert listening == {f"0100007F:{port:04X}"}


@pytest.mark.slow
def test_the_pictures_of_the_guide_are_taken(tmp_path):
    from matplotlib.image import imread

    with ThreadPoolExecutor(1) as beside:  # a thread may have one Playwright, and this one has the fixture's
        taken = beside.submit(make_explore_figures.main, tmp_path, small=True).result()
    shown = {path.stem: imread(path)[..., :3] for path in taken}
    assert list(shown) == [f"explore-{page}-{scheme}" for scheme in ("light", "dark") for page in ("watch", "played")]
    for page, height in (("watch", 900), ("played", 1700)):
        light, dark = (shown[f"explore-{page}-{scheme}"] for scheme in ("light", "dark"))
        assert light.shape == dark.shape == (height, 1280, 3)
        assert light.mean() > 0.7 > 0.3 > dark.mean()
