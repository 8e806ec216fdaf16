"""The explorer's page of a played exchange: its fields, and what a browser does with them."""

import pytest

from p2p_sim.base.errors import InputError
from p2p_sim.explorer.film_page import ATTEMPTS, TIMEOUT_S, chosen, offered
from tests.conftest import ROOT
from tests.explorer.in_process import Client

MINE = 'name = "mine"\npopulation = {kind = "synthetic", users = 40, num_clusters = 2}\nmechanism = {flip_prob = 0.1}\n'
RETRYING = (
    'network = {loss = 0.2, request_timeout_s = 0.3, on_timeout = {retry = "same_peer", attempts = 5, backoff = 1.5, '
    'fallback = "own_label"}}\n'
)


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        ("", {}, (0.0, None, "never", 1)),
        ("", {"loss": "0.1", "retry": "redraw"}, (0.1, TIMEOUT_S, "redraw", ATTEMPTS)),
        ("", {"retry": "same_peer", "attempts": "2", "timeout": "4"}, (0.0, 4.0, "same_peer", 2)),
        ("", {"loss": "0.1", "changes": "network.loss=0.3"}, (0.3, None, "never", 1)),
        (RETRYING, {}, (0.2, 0.3, "same_peer", 5)),
        (RETRYING, {"retry": "redraw"}, (0.2, 0.3, "redraw", 5)),
        (RETRYING, {"retry": "never", "loss": "0"}, (0.0, 0.3, "never", 1)),
    ],
)
def test_fields_of_losses_and_retries_set_all_keys_that_go_together(text, fields, expected):
    network = chosen({"text": MINE + text, **fields}).network
    rule = network.on_timeout
    assert (network.loss, network.request_timeout_s, rule.retry, rule.attempts) == expected
    assert rule.fallback == ("own_label" if text else "skip")


def test_every_scenario_that_is_offered_is_played(monkeypatch):
    names = [one["name"] for one in offered()]
    engines = {name: chosen({"scenario": name}).engine for name in names}
    assert {name for name, engine in engines.items() if engine != "events"} == {
        f"protocols/{name}" for name in ("gossip-averaging", "push", "relay", "walk")
    }
    with pytest.raises(InputError, match="at most 20,000 in the explorer"):
        chosen({"scenario": "network/million"})
    monkeypatch.setattr("p2p_sim.explorer.film_page.MOST_USERS", 10**9)  # the control: one rule for both
    assert {one["name"] for one in offered()} - set(names) == {
        *("network/million", "consistency/semi-supervised", "consistency/pcde")
    }
    assert chosen({"scenario": "network/million"})


def test_the_page_says_what_a_retry_has_if_nothing_says_it():
    client = Client()
    page = client.get("played").text
    assert f"If nothing says how many: {ATTEMPTS}." in page
    assert f"If a retry needs one: {TIMEOUT_S:g}." in page
    known = {one["name"]: one["text"] for one in client.get("api/scenarios").json()["scenarios"]}
    assert known["network/retry"] == (ROOT / "scenarios" / "network" / "retry.toml").read_text()
