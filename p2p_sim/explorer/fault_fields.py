"""Fields of the page "The exchange, played" for lost messages and retries, which need several keys of a scenario."""

from collections.abc import Callable, Mapping
from typing import Any

from p2p_sim.base.errors import InputError
from p2p_sim.base.toml import set_key

RETRIES = ("never", "same_peer", "redraw")
ATTEMPTS, TIMEOUT_S = 3, 0.5
"""Requests in all, and seconds until a request expires, where neither a field nor the scenario says so."""


def set_faults(tree: dict[str, Any], fields: Mapping[str, str]) -> None:
    """Set the keys of a scenario `tree` that fields ask for; an empty field leaves them as they are.

    Args:
        tree: the scenario, changed in place.
        fields: loss, the share of messages that are lost; retry, one of RETRIES; attempts, requests in all, the first
            included; timeout, seconds until a request expires.

    Raises:
        InputError: a field is wrong; it names every such field.
    """
    given = {name: fields.get(name, "").strip() for name in ("loss", "retry", "attempts", "timeout")}
    wrong: list[str] = []
    loss = _number("Loss", given["loss"], "at least 0 and below 1", lambda value: 0.0 <= value < 1.0, wrong)
    timeout = _number("Time limit", given["timeout"], "above 0, in seconds", lambda value: 0.0 < value <= 1e9, wrong)
    attempts = _number(
        "Requests in all", given["attempts"], "a whole number from 2 to 10", lambda value: value in range(2, 11), wrong
    )
    retry = given["retry"]
    if retry not in ("", *RETRIES):
        wrong.append(f"Retry: {retry[:20]} must be {', '.join(RETRIES[:-1])} or {RETRIES[-1]}")
    if attempts is not None and retry in ("", "never"):
        wrong.append("Requests in all: choose under Retry whom a user asks again")
    if wrong:
        raise InputError("; ".join(wrong))
    if loss is not None:
        set_key(tree, "network.loss", loss)
    if timeout is not None:
        set_key(tree, "network.request_timeout_s", timeout)
    if retry == "never":
        set_key(tree, "network.on_timeout.retry", "never")
        set_key(tree, "network.on_timeout.attempts", 1)
    elif retry:
        _retry(tree, retry, attempts)


def _retry(tree: dict[str, Any], retry: str, attempts: float | None) -> None:
    """Let users ask again; what neither the field nor the scenario says is set."""
    set_key(tree, "network.on_timeout.retry", retry)
    network = tree["network"]
    if attempts is not None or network["on_timeout"].get("attempts", 1) == 1:
        set_key(tree, "network.on_timeout.attempts", ATTEMPTS if attempts is None else int(attempts))
    if network.get("request_timeout_s") is None:
        set_key(tree, "network.request_timeout_s", TIMEOUT_S)


def _number(label: str, text: str, allowed: str, fits: Callable[[float], bool], wrong: list[str]) -> float | None:
    """The number of a field, or None if it is empty; a line is added to `wrong` if it does not fit."""
    if not text:
        return None
    shown = text[:20]
    try:
        value = float(text)
    except ValueError:
        point = "; use a point" if text.replace(",", "", 1).isdecimal() and "," in text else ""
        wrong.append(f"{label}: {shown} must be a number{point}")
        return None
    if not fits(value):
        wrong.append(f"{label}: {shown} must be {allowed}")
        return None
    return value
