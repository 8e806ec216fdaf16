"""The film in a browser as a viewer meets it: it plays by itself, explains, can be stepped, and ends with the odds."""

import re
from itertools import pairwise

import numpy as np
import pytest

from p2p_sim.film import film_html, film_of
from p2p_sim.film.story import learned_of, protagonist, story_of
from p2p_sim.replicate.observed_network import observe
from tests.replicate.test_observed_network import COALITION, scenario

COVERED = """() => {
  const r = Math.floor(58 * scale), [x, y] = film.learner.map((value) => Math.round(value * scale) - r), wide = 2 * r;
  const pixels = pen.getImageData(x, y, wide, wide).data;
  for (let k = 0; k < wide * wide; k++)
    if (pixels[4 * k + 3] && Math.hypot(k % wide - r, Math.floor(k / wide) - r) < r) return true;
  return false;
}"""
"""Whether a message is drawn over the learner, whose name is inside of her circle."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """An ideal exchange and one with losses, each with its film in a file."""
    folder, kept = tmp_path_factory.mktemp("film"), {}
    for network in ("complete", "lossy"):
        kept[network] = observe(scenario(network)), folder / f"{network}.html"
        kept[network][1].write_text(film_html(kept[network][0]))
    return kept


@pytest.fixture
def opened(browser, runs):
    """Opens a film; at the end nothing has gone wrong on any page."""
    pages, faults = [], []

    def get(network="complete", motion="reduce", **settings):
        page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion=motion, **settings)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(runs[network][1].as_uri())
        pages.append(page)
        return page

    yield get
    assert faults == []
    for page in pages:
        page.close()


@pytest.mark.slow
def test_it_plays_from_the_begin_by_itself_but_not_where_reduced_motion_is_asked_for(opened, runs):
    still, moving = opened(), opened(motion="no-preference")
    moving.wait_for_timeout(300)
    assert 0 < moving.evaluate("clock") < 3000
    assert moving.inner_text("#play") == "Pause"
    moving.click("#play")
    assert moving.inner_text("#play") == "Play"
    still.wait_for_timeout(300)
    assert still.evaluate("clock") == 0
    assert still.inner_text("#play") == "Play"
    assert f"Ada (user {protagonist(film_of(runs['complete'][0]))}) has a secret label" in still.inner_text("#caption")


@pytest.mark.slow
def test_captions_come_in_the_order_of_the_story_and_its_coins_are_seen_to_land(opened, runs):
    page, story = opened(), story_of(film_of(runs["complete"][0]))
    at = 0.0
    for step in story.steps[:-1]:
        page.evaluate(f"jump({at + 0.99 * step.length_ms})")
        plain = re.sub(r"<[^>]+>", "", str(step.caption))
        assert re.sub(r"\s+", "", page.inner_text("#caption")) == re.sub(r"\s+", "", plain)
        at += step.length_ms
    page.evaluate("jump(begins[1] + 0.3 * tale.steps[1][1])")  # the coin turns: nothing is given away
    assert page.text_content("#story-alpha text") == "?"
    assert not page.is_visible("#caption .then")
    page.evaluate("jump(begins[1] + 0.7 * tale.steps[1][1])")
    assert page.text_content("#story-alpha text") == "flip"
    assert page.is_visible("#caption .then")


@pytest.mark.slow
def test_a_flip_is_seen_to_happen(opened, runs):
    page, run = opened(), runs["complete"][0]
    user = protagonist(film_of(run))
    drawn = []
    for share in np.linspace(0.5, 0.95, 46):
        page.evaluate(f"jump(begins[1] + {share} * tale.steps[1][1])")
        wide = float(re.search(r"scale\(([\d.]+)", page.get_attribute("#story-noisy", "transform"))[1])
        drawn.append((page.get_attribute("#story-noisy", "class"), wide))
    assert drawn[0] == (f"c-l{run.labels.true[user]}", 1)
    assert drawn[-1] == (f"c-l{run.labels.noisy[user]}", 1)
    assert [before != after for (before, _), (after, _) in pairwise(drawn)].count(True) == 1
    assert min(wide for _, wide in drawn) < 0.3  # it turns over
    outlines = {page.get_attribute(f"#l{label} path", "d") for label in (0, 1)}
    colours = {page.eval_on_selector(f".c-l{label}", "e => getComputedStyle(e).color") for label in (0, 1)}
    assert len(outlines) == len(colours) == 2


@pytest.mark.slow
def test_it_is_stepped_event_by_event_by_buttons_and_by_keys(opened, runs):
    page, run = opened("lossy"), runs["lossy"][0]
    page.click("#forward")
    assert "Coin α" in page.inner_text("#caption")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    assert "She asks" in page.inner_text("#caption")
    page.keyboard.press("ArrowLeft")
    assert "Coin α" in page.inner_text("#caption")
    page.evaluate("jump(ZOOMED)")
    sent = np.unique(run.trace.sent.sent_s)[:3]
    for moment in sent:
        before = page.evaluate("seconds(tickAt(clock))")
        while page.evaluate("seconds(tickAt(clock))") < moment - 1e-5:
            page.keyboard.press("ArrowRight")
        assert page.evaluate("seconds(tickAt(clock))") == pytest.approx(moment, abs=2e-6)
        assert before < moment
        assert re.search(r"User \d+: (asks|sends)", page.inner_text("#caption"))
    texts = page.evaluate("happened().map(([, text]) => text)")
    assert sum("her request expires" in text for text in texts) == run.counts["expired"] > 0
    assert sum("retry" in text and "copy" not in text for text in texts) == run.counts["retries"] > 0
    assert sum("gives up" in text for text in texts) == run.num_users - run.counts["answered"] > 0
    page.evaluate("jump(END)")
    page.click("#back")
    assert page.evaluate("clock < END")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("clock === END")


@pytest.mark.slow
def test_labels_are_shapes_and_the_learners_basket_is_the_runs(opened, runs):
    page, run = opened(), runs["complete"][0]
    page.evaluate("jump(END)")
    taken = np.isfinite(run.submitted_s)
    for label in (0, 1):
        count = int(np.count_nonzero(run.labels.noisy[run.source[taken]] == label))
        assert page.locator(f"#users .did3.c-l{label} use[href='#l{label}']").count() == count
        assert int(page.text_content(f"#basket text >> nth={label}")) == count


@pytest.mark.slow
def test_no_message_covers_the_word_learner(opened):
    page = opened("lossy")
    reaches = page.evaluate("m.end.filter((tick, i) => m.kind[i] === SUBMISSION && m.how[i] > OFFLINE && tick >= 0)")
    for tick in reaches[:30]:
        page.evaluate(f"jump(clockAt({tick - 500}))")
        assert not page.evaluate(COVERED)
    page.evaluate("film.learner_radius = -30; show()")  # the control: they end in its middle
    assert any(page.evaluate(f"(jump(clockAt({tick - 500})), ({COVERED})())") for tick in reaches[:30])


@pytest.mark.slow
def test_it_ends_with_what_the_learner_learned_of_her(opened, runs):
    page, run = opened(), runs["complete"][0]
    user = protagonist(film_of(run))
    learned, true = learned_of(run, user), run.labels.true[user]
    share = learned.posterior if true else 1.0 - learned.posterior
    assert page.get_attribute("#beliefs", "visibility") == "hidden"
    page.evaluate("jump(END)")
    assert page.get_attribute("#beliefs", "visibility") == "visible"
    assert f"{100 * share:.1f} %" in page.inner_text("#caption")
    text = page.inner_text("section[aria-labelledby=learned-title]")
    mean, most = re.search(
        r"at most ([\d.]+) percentage points.*advantage is at most ([\d.]+)\.", text, re.DOTALL
    ).groups()
    assert learned.advantage <= float(mean) / 100 <= float(most) / 100
    assert f"it is her noisy label with probability 1/{learned.users}" in text
    lossy = opened("lossy")
    lossy.evaluate("jump(END)")
    assert "her odds change by at most eε" in lossy.inner_text("#caption")
    assert lossy.get_attribute("#beliefs", "visibility") == "hidden"


@pytest.mark.slow
def test_one_cluster_of_several_says_so_on_the_stage(browser, tmp_path):
    path = tmp_path / "film.html"
    path.write_text(film_html(observe(scenario("complete", COALITION, 700))))
    page = browser.new_page(reduced_motion="reduce")
    page.goto(path.as_uri())
    page.evaluate("jump(END)")
    assert page.text_content(".shown-of").startswith("1 of 3 clusters:")
    assert "(1 of 3 clusters, cluster" in page.inner_text(".sample")
    page.close()


@pytest.mark.slow
def test_300_users_play_at_50_frames_a_second(browser, tmp_path):
    path = tmp_path / "film.html"
    path.write_text(film_html(observe(scenario("lossy", COALITION, 300))))
    page = browser.new_page(reduced_motion="reduce")
    page.goto(path.as_uri())
    frames = "for (let k = 0; k < 100; k++) { clock = k * END / 100; playing = true; show(); playing = false; }"
    spent = page.evaluate(
        f"() => {{ const begin = performance.now(); {frames} return (performance.now() - begin) / 100; }}"
    )
    assert spent < 20.0
    page.close()
