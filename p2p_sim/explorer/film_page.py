"""The page that plays an exchange as a film (an animation in the browser), and the faults that its fields set."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from p2p_sim.base import InputError, check_either, find_scenario, parse_override, parsed, read_toml, set_key, shipped
from p2p_sim.film import film_html
from p2p_sim.replicate import observe
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps import is_here
from p2p_sim.sweeps.catalogue import catalogue, keys_within

LONGEST_TEXT, MOST_CHANGES, MOST_USERS = 8_000, 50, 20_000
"""Largest number of characters of a scenario from a browser, of changed keys, and of users in a population."""


def offered() -> list[dict[str, str]]:
    """The name, purpose ("shows") and text of each shipped scenario that can run here and is not too large."""
    return [
        {"name": entry.name, "shows": entry.shows, "text": entry.path.read_text(encoding="utf-8")}
        for entry in catalogue()
        if not entry.sweep
        and all(is_here(need) is not False for need in entry.needs)
        and not _refusal(read_toml(entry.path).get("population", {}).get("users"))
    ]


def _refusal(users: object) -> str:
    """The message that an exchange has too many users for an animation. The message is empty for at most 20,000 users,
    and if `users` is no whole number.
    """
    if not isinstance(users, int) or users <= MOST_USERS:
        return ""
    return f"population.users = {users:,}: at most {MOST_USERS:,} in the explorer; p2p-sim network takes more"


def film(fields: Mapping[str, str]) -> dict[str, Any]:
    """A film of one replicate (random repetition) of a scenario's exchange. "name" is the scenario's name. "film" is a
    whole HTML page that animates the messages.

    Args:
        fields: texts from the browser, by name. scenario: a shipped scenario's name. text: a scenario in TOML instead.
        loss, retry, attempts, timeout: faults of the network, as in `set_faults`. changes: lines of KEY=VALUE, which
        are applied last. replicate: index of the replicate, from 0; empty: 0.

    Raises:
        InputError: there is no such scenario, or it is not valid, names files, or sends no messages.
    """
    scenario = chosen(fields)
    index = fields.get("replicate", "").strip() or "0"
    if not index.isdecimal() or len(index) > 9:
        raise InputError(f"replicate {index[:20]}: must be a whole number from 0 on")
    return {"name": scenario.name, "film": film_html(observe(scenario, int(index)))}


def chosen(fields: Mapping[str, str]) -> Scenario:
    """The scenario that a browser's fields describe. The engine becomes "events", which simulates every message. Only
    the engine "processes" stays, because it simulates every message, too.

    Args:
        fields: texts by name. scenario: a shipped scenario's name. text: a scenario in TOML instead. loss, retry,
        attempts, timeout: as in `set_faults`. changes: lines of KEY=VALUE, which are applied last.

    Raises:
        InputError: there is no such scenario, or it is not valid, or names files.
    """
    # the scenario comes from the browser's text or a shipped file; only a shipped file may name other files
    text, name = fields.get("text", ""), fields.get("scenario", "")
    if len(text) > LONGEST_TEXT:
        raise InputError(f"scenario: has {len(text):,} characters, at most {LONGEST_TEXT:,} are read from a browser")
    if text.strip():
        try:
            tree, folder = parsed(text), None
        except ValueError as error:
            raise InputError(f"scenario: not valid TOML ({error})") from None
    elif name in shipped():
        path = find_scenario(shipped()[name])
        tree, folder = read_toml(path), path.parent
    else:
        raise InputError(f"scenario {name[:60]}: nothing of p2p-sim has this name")
    if "axes" in tree:
        raise InputError("scenario: this is a sweep; a film shows one scenario")
    # the fields for faults are applied first, then the changed keys
    set_faults(tree, fields)
    for key, value in _changes(fields.get("changes", "")):
        _check_no_file({key.split(".")[-1]: value})
        set_key(tree, key, value)
    if folder is None:
        _check_no_file(tree)
    if tree.get("engine") != "processes":  # protocols other than the label exchange need the engine "processes"
        tree["engine"] = "events"
    scenario = Scenario.from_tree(tree) if folder is None else Scenario.from_tree(tree, folder)
    if refusal := _refusal(getattr(scenario.population, "users", None)):
        raise InputError(refusal)
    return scenario


def _changes(text: str) -> list[tuple[str, Any]]:
    """The dotted keys and values in a text with lines of KEY=VALUE.

    Raises:
        InputError: there are too many lines, or some are wrong; the message names every wrong line.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > MOST_CHANGES:
        raise InputError(f"changes: {len(lines)} lines, at most {MOST_CHANGES} are read")
    changes, wrong = [], []
    for number, line in lines:
        try:
            changes.append(parse_override(line))
        except InputError as error:
            # the message begins with an option of the command line, which the page does not have
            mistake = str(error).removeprefix("--set ")
            if comma := re.search(r"=\s*(-?\d+),(\d+)\s*$", line):
                mistake = f"{line.strip()}: use a point, {comma[1]}.{comma[2]}"
            wrong.append(f"line {number}, {mistake}")
    if wrong:
        raise InputError("; ".join(wrong))
    try:
        check_either(changes)
    except InputError as error:
        raise InputError(str(error).replace("--set ", "")) from None
    return changes


def _check_no_file(tree: Mapping[str, Any]) -> None:
    """Raise InputError if a scenario names a file. A browser must not make this machine read files. tree: the scenario,
    or some of its keys, as nested tables. The keys "path", "file" and "files" name files, at any depth.
    """
    for key, _ in keys_within(tree):
        if key in ("path", "file", "files"):
            raise InputError(f"{key}: a scenario from a browser must not name files; p2p-sim network takes files")


RETRIES = ("never", "same_peer", "redraw")
RULES: dict[str, tuple[str, str, Callable[[float], bool]]] = {
    "loss": ("Loss", "at least 0 and below 1", lambda share: 0.0 <= share < 1.0),
    "timeout": ("Time limit", "above 0, in seconds", lambda seconds: 0.0 < seconds <= 1e9),
    "attempts": ("Requests in all", "a whole number from 2 to 10", lambda requests: requests in range(2, 11)),
}
"""For each field: its label, the allowed numbers in words, and a test of a number."""
ATTEMPTS, TIMEOUT_S = 3, 0.5
"""Defaults: number of requests in all, including the first, and seconds until a request expires."""


def _checked_faults(texts: Mapping[str, str]) -> dict[str, float | None]:
    """The numbers in the fields loss, timeout and attempts; None for an empty field. The field retry is only checked.

    Raises:
        InputError: fields are wrong; the message names every wrong field.
    """
    wrong: list[str] = []
    numbers = {name: _number(texts[name], *rule, wrong) for name, rule in RULES.items()}
    if texts["retry"] not in ("", *RETRIES):
        wrong.append(f"Retry: {texts['retry'][:20]} must be {', '.join(RETRIES[:-1])} or {RETRIES[-1]}")
    if numbers["attempts"] is not None and texts["retry"] in ("", "never"):
        wrong.append("Requests in all: choose under Retry whom a user asks again")
    if wrong:
        raise InputError("; ".join(wrong))
    return numbers


def set_faults(tree: dict[str, Any], fields: Mapping[str, str]) -> None:
    """Set the network faults of a scenario, in place, as a page's fields say. An empty field changes nothing, with
    one exception. If `retry` makes users ask again, three requests replace a single one, and 0.5 seconds replace a
    missing time limit.

    Args:
        tree: the scenario as nested tables. fields: texts by name. loss: share of messages that are lost. retry:
        whether a user asks again after a time-out, and whom: "never", "same_peer" or "redraw" (a new random peer).
        attempts: number of requests in all, including the first; must be empty unless `retry` names whom to ask.
        timeout: seconds until a request expires.

    Raises:
        InputError: fields are wrong; the message names every wrong field.
    """
    texts = {name: fields.get(name, "").strip() for name in (*RULES, "retry")}
    numbers, retry = _checked_faults(texts), texts["retry"]
    attempts = numbers["attempts"]
    for name, key in (("loss", "network.loss"), ("timeout", "network.request_timeout_s")):
        if numbers[name] is not None:
            set_key(tree, key, numbers[name])
    if not retry:
        return
    set_key(tree, "network.on_timeout.retry", retry)
    if retry == "never":
        set_key(tree, "network.on_timeout.attempts", 1)
        return
    # users ask again: without a field, a single request becomes three, and a missing time limit gets a default
    if attempts is not None or tree["network"]["on_timeout"].get("attempts", 1) == 1:
        set_key(tree, "network.on_timeout.attempts", ATTEMPTS if attempts is None else int(attempts))
    if tree["network"].get("request_timeout_s") is None:
        set_key(tree, "network.request_timeout_s", TIMEOUT_S)


def _number(text: str, label: str, allowed: str, fits: Callable[[float], bool], wrong: list[str]) -> float | None:
    """The number in a field; None if the field is empty or wrong. A wrong field adds a message to `wrong`.

    Args:
        text: what the field contains. label: the field's name in the message. allowed: the allowed numbers in words.
        fits: whether a number is allowed. wrong: the list of messages.
    """
    if not text:
        return None
    try:
        if fits(value := float(text)):
            return value
    except ValueError:
        allowed = "a number" + "; use a point" * ("," in text and text.replace(",", "", 1).isdecimal())
    wrong.append(f"{label}: {text[:20]} must be {allowed}")
    return None
