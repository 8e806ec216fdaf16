"""The explorer in a browser when something is odd: damaged results, a restart, answers that are no JSON, a flood."""

import signal
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from p2p_sim.explorer.serve import forwarding
from tests.browser import violations
from tests.explorer.test_explore_browser import Page, started
from tests.explorer.test_explore_damaged import ODD, REASONS, made

NEW_ADDRESS = "The explorer was restarted: open its new address."


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """The address of an explorer of one results directory of each odd kind, and a whole one."""
    root = tmp_path_factory.mktemp("odd") / "results"
    root.mkdir()
    for name, make in ODD.items():
        make(root / name)
    made(root / "whole")
    process, address = started(root)
    yield address
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0


def names(page, where):
    return page.locator(where).all_inner_texts()


def test_every_page_has_the_same_lines_and_opens_with_what_is_whole(browser, odd):
    worth = Page(browser, odd + "worth")
    worth.page.wait_for_selector("#chart svg .mark")
    for name in ODD:  # the table has the lines in sight alone
        worth.page.fill("#find", name)
        lines = [" ".join(line.split()) for line in names(worth.page, "tr[aria-rowindex]:has([name=results])")]
        assert sum(line.startswith(name) and REASONS[name] in line for line in lines) == 1, (name, lines)
    worth.page.fill("#find", "half a manifest")
    assert violations(worth.page) == []
    assert worth.page.is_disabled("tr[aria-rowindex] [name=results]")
    watch = Page(browser, odd + "watch")
    watch.page.wait_for_selector("#of:not(:empty)")
    own = [line.strip() for line in names(watch.page, "#results option")]
    for name in ODD:
        assert sum(line.startswith(f"{name} ({REASONS[name]}") for line in own) == 1, name
    assert "whole" in own
    watch.page.select_option("#results", label=next(line for line in own if line.startswith("a pipe of rows")))
    watch.until("document.getElementById('error').textContent.startsWith('a pipe of rows: damaged: rows.jsonl')")
    assert not watch.page.is_visible("#seen")  # which is of the directory before
    assert violations(watch.page) == []
    for one in (worth, watch):
        one.said[:] = [text for text in one.said if "400 (Bad Request)" not in text]
        one.close(odd)


@pytest.mark.parametrize("name", ["", "worth", "watch", "played"])
def test_an_answer_that_is_no_json_is_never_shown_as_such(browser, odd, name):
    """A status with text, an answer of another program, none at all, and a token of before a restart."""
    one = Page(browser, odd + name)
    shown = {
        "": "#answer:not([hidden])",
        "worth": "#chart svg .mark",
        "watch": "#of:not(:empty)",
        "played": "#shows:not(:empty)",
    }
    one.page.wait_for_selector(shown[name])
    again = {"": "document.getElementById('cluster_size').dispatchEvent(new Event('input', {bubbles: true}))",
             "worth": "document.getElementById('x').dispatchEvent(new Event('change', {bubbles: true}))",
             "watch": "document.getElementById('results').dispatchEvent(new Event('change', {bubbles: true}))",
             "played": "document.getElementById('choice').requestSubmit()"}  # fmt: skip
    answers = []
    one.page.route("**/api/**", lambda route: route.fulfill(**answers[0]) if answers[0] else route.abort())
    for answer, said in (
        ({"status": 503, "body": "Service Unavailable"}, "answer cannot be read (status 503)"),
        ({"status": 200, "body": "<html>another program"}, "answer cannot be read (status 200)"),
        ({"status": 403, "body": "refused"}, NEW_ADDRESS),
        (None, "The explorer does not answer. If it was restarted: open its new address"),
    ):
        answers[:] = [answer]
        one.page.evaluate(again[name])
        one.until(f"document.getElementById('error').textContent.includes({said!r})")
        assert "Unexpected token" not in one.page.inner_text("body")
    one.page.context.close()


@pytest.mark.slow
def test_an_old_tab_after_a_restart_says_so(browser, tmp_path):
    made(tmp_path / "results" / "s")
    process, old = started(tmp_path / "results")
    try:
        one = Page(browser, old + "watch")
        one.page.wait_for_selector("#rows tr", state="attached")
        process.send_signal(signal.SIGINT)
        process.wait(10)
        one.until("document.getElementById('error').textContent.startsWith('The explorer does not answer.')")
        process, new = started(tmp_path / "results", "--port", urlsplit(old).port)
        assert new != old
        one.until(f"document.getElementById('error').textContent === {NEW_ADDRESS!r}")
        one.page.reload()
        assert "If the explorer was restarted: open its new address" in one.page.inner_text("body")
        one.page.context.close()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)


def test_a_browser_is_forwarded_by_the_file_of_its_owner(browser, odd):
    with forwarding(odd) as file:
        one = Page(browser, file.as_uri())
        one.page.wait_for_selector("#answer:not([hidden])")
        assert one.page.url.startswith(odd)
        one.page.context.close()


@pytest.mark.slow
def test_the_owners_page_works_beside_a_flood(browser, odd):
    with ExitStack() as held:
        for _ in range(300):
            made_ = socket.create_connection(("127.0.0.1", urlsplit(odd).port), timeout=30)
            held.enter_context(made_).sendall(b"G")
        one = Page(browser, odd + "worth")
        one.page.wait_for_selector("#chart svg .mark")
        one.page.goto(odd)
        one.page.wait_for_selector("#answer:not([hidden])")
        one.close(odd)
