"""The film in a browser: what it counts, keys alone, accessibility, and that nothing is fetched."""

import re

import numpy as np
import pytest

from p2p_sim.exchange.transcript import REPLY, REQUEST, SUBMISSION
from p2p_sim.film import film_html, film_of
from p2p_sim.replicate.observed_network import observe
from tests.browser import violations
from tests.replicate.test_observed_network import COALITION, scenario

SHOWN = "users => users.map(user => Number(user.getAttribute('class').match(/seen(\\d)/)[1]))"
NAMES = ("sent", "duplicated", "lost", "undelivered", "delivered", "submitted", "expired", "retries", "unanswered")


@pytest.fixture(scope="module")
def found():
    return observe(scenario("lossy", COALITION))


@pytest.fixture(scope="module")
def page_file(found, tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / "film.html"
    path.write_text(film_html(found))
    return path


@pytest.fixture
def page(browser, page_file):
    opened = browser.new_page(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    opened.faults, opened.asked = [], []
    opened.on("pageerror", lambda error: opened.faults.append(str(error)))
    opened.on("console", lambda said: opened.faults.append(said.text) if said.type == "error" else None)
    opened.on("request", lambda request: opened.asked.append(request.url))
    opened.goto(page_file.as_uri())
    yield opened
    assert opened.faults == []
    assert [url for url in opened.asked if not url.startswith(("file:", "data:"))] == []
    opened.close()


def counts(page, which):
    return {name: int(page.inner_text(f"#{which}-{name}").replace(",", "")) for name in NAMES}


def to(page, place):
    """Show the run when so many thousandths of it are over."""
    page.evaluate(f"jump(clockAt({place} / 1000 * film.end))")


@pytest.mark.slow
def test_the_counts_at_the_last_frame_are_the_runs(page, found):
    to(page, 0)
    before = counts(page, "now")
    to(page, 1000)
    run = counts(page, "run")
    assert counts(page, "now") == run != before
    assert run["sent"] == found.counts["messages_sent"]
    assert run["lost"] == found.counts["messages_lost"] > 0
    assert run["delivered"] == found.counts["messages_delivered"]
    assert run["retries"] == found.counts["retries"] > 0
    assert run["expired"] == found.counts["expired"] > 0
    assert run["unanswered"] == found.num_users - found.counts["answered"] > 0
    assert page.locator("#users .did4").count() == run["unanswered"]
    assert page.locator("#users .did1").count() == 0  # nobody waits


@pytest.mark.slow
def test_a_planted_miscount_shows(browser, page_file):
    page = browser.new_page(reduced_motion="reduce")
    text = page_file.read_text()
    begin = text.index('"how":[') + len('"how":[')
    end = text.index("]", begin)
    changed = text[begin:end].replace("2", "0", 1)  # a delivered message is called lost
    page.set_content(text[:begin] + changed + text[end:])
    to(page, 1000)
    now, run = counts(page, "now"), counts(page, "run")
    assert (now["lost"], now["delivered"]) == (run["lost"] + 1, run["delivered"] - 1)
    page.close()


@pytest.mark.slow
def test_it_plays_to_its_end_and_pauses(page):
    page.select_option("#speed", "4")
    page.click("#play")
    assert page.inner_text("#play") == "Pause"
    for _ in range(200):  # the page's policy forbids to wait for an expression
        page.wait_for_timeout(25)
        if int(page.input_value("#slider")) > 20:
            break
    page.click("#play")
    stopped = page.input_value("#slider")
    assert 20 < int(stopped) < 1000
    page.wait_for_timeout(120)
    assert page.input_value("#slider") == stopped


@pytest.mark.slow
def test_keys_alone_suffice(page):
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('user')"):
            break
    first = page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("ArrowRight")
    second = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert first != second
    page.keyboard.press("Enter")
    assert second.split(",")[0].removeprefix("user ") in page.inner_text("#one dd >> nth=0")
    page.keyboard.press("Escape")
    assert "No user is chosen" in page.inner_text("#one")
    page.focus("#slider")
    page.keyboard.press("End")
    assert counts(page, "now") == counts(page, "run")
    page.focus("#view")
    page.keyboard.press("End")
    assert page.input_value("#view") == "coalition"


@pytest.mark.slow
def test_a_chosen_users_story_and_epsilon_are_the_runs(page, found):
    user = int(found.messages.sender[found.messages.kind == 2][0])
    page.select_option("#user", str(user))
    text = page.inner_text("#one")
    assert "sends her noisy label to" in text
    assert float(text.split("at most ")[1].split(",")[0]) >= found.epsilon[user]
    assert "Her noisy label, and that it is hers" in text
    page.click("#one ol button >> nth=0")
    assert page.inner_text("#now") == page.inner_text("#one time >> nth=0")


def carriers_named(text, user):
    """The users in whose submissions the learner has a label, as the page says it of that label's owner."""
    where = r"in (her own submission)?(?: and )?(?:the submission of users? ([\d, ]+))?; not that"
    named = re.search(f"The learner: her noisy label, {where}", text)
    if named is None:
        return []
    others = [int(number) for number in named[2].split(",")] if named[2] else []
    return sorted([*others, *([user] if named[1] else [])])


@pytest.mark.slow
def test_the_page_names_whoever_could_see_a_label(page, found):
    """Three users: one whose label a member got, one whose label only the learner's submissions hold, one without."""
    carried = np.isin(np.arange(found.num_users), found.source[found.reached]) & ~found.member
    held = found.held & carried
    for user, coalition in (
        (int(np.argmax(held)), "her noisy label, and that it is hers, by a member who received it."),
        (int(np.argmax(carried & ~held)), "her noisy label, as the learner has it; no member received it from her."),
        (int(np.argmax(~carried & ~found.held & ~found.member)), "not her noisy label."),
    ):
        page.select_option("#user", str(user))
        text = page.inner_text("#one ul")
        carriers = np.flatnonzero(found.reached & (found.source == user)).tolist()
        assert ("The learner: not her noisy label" in text) == (not carriers)
        assert carriers == carriers_named(text, user)
        assert f"The coalition: {coalition}" in text
    everyone = np.arange(found.num_users)
    if (own := np.flatnonzero(found.reached & (found.source == everyone))).size:
        page.select_option("#user", str(own[0]))
        carriers = np.flatnonzero(found.reached & (found.source == own[0])).tolist()
        assert carriers_named(page.inner_text("#one ul"), int(own[0])) == carriers
    submitter = int(np.flatnonzero(found.reached & (found.source != everyone))[0])
    page.select_option("#user", str(submitter))
    label = f"the noisy label of user {found.source[submitter]}"
    assert f"It holds {label}, and does not say so." in page.inner_text("#one ul")
    assert f"submits {label}" in page.inner_text("#one ol")


@pytest.mark.slow
def test_colours_follow_what_an_observer_has_seen(page, found):
    to(page, 1000)
    page.select_option("#view", "learner")
    assert page.locator("#users .seen3").count() == int(found.submissions.sum())
    page.select_option("#view", "coalition")
    assert page.locator("#users .seen5").count() == int(found.member.sum())
    assert page.locator("#users .seen2").count() == int(found.held.sum())
    # a plain walk through the transcript: submissions to the learner; of members, the label they got says most
    end_s, m = film_of(found).end_s, found.messages
    for place in (100, 400):
        to(page, place)
        expected = {"learner": np.zeros(found.num_users), "coalition": np.zeros(found.num_users)}
        for kind in (REQUEST, SUBMISSION, REPLY):
            for row in np.flatnonzero((m.kind == kind) & (m.time_s <= place / 1000 * end_s) & (m.sender >= 0)):
                if kind == SUBMISSION:
                    expected["learner"][m.sender[row]] = kind
                if kind == SUBMISSION or found.member[m.receiver[row]]:
                    expected["coalition"][m.sender[row]] = kind
        expected["coalition"][found.member] = 5
        for watcher, states in expected.items():
            page.select_option("#view", watcher)
            assert page.eval_on_selector_all("#users .user", SHOWN) == states.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("address", "coloured"), [("HIDDEN_MEMBER", True), ("-2", False)])  # -2: somebody else
def test_a_label_that_a_member_outside_the_sample_got_is_coloured_so(page, found, address, coloured):
    page.evaluate(f"m.to = m.to.map((to) => to >= 0 && film.users.member[to] ? {address} : to)")
    page.select_option("#view", "coalition")
    to(page, 1000)
    assert page.locator("#users .seen2").count() == int(found.held.sum()) * coloured
    assert found.held.any()


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page, scheme, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    page.select_option("#user", "3")
    for clock in ("0", "begins[CROWD] - 1", "END"):
        page.evaluate(f"jump({clock})")
        assert violations(page) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 1280])
def test_it_does_not_scroll_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.select_option("#user", "3")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_without_javascript_it_shows_a_picture_and_counts(browser, page_file, found):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert page.locator("#users .user").count() == found.num_users
    assert page.inner_text("#run-sent") == f"{found.counts['messages_sent']:,}"
    assert not page.is_visible("#controls")
    assert page.is_visible("noscript p")
    context.close()
