"""A network fails closed: every key is harmful until it is listed as harmless."""

from typing import Literal, get_args

import pytest
from pydantic import BaseModel, Field, create_model

from p2p_sim.base.configuration import differing
from p2p_sim.exchange.adversaries import NOBODY, AdversariesConfig
from p2p_sim.network.network_config import HARMLESS, NetworkConfig

HARMFUL = {
    "network": {
        *("overlay.kind", "overlay.degree", "overlay.rewire_prob", "overlay.attachments", "overlay.mean_degree"),
        *("overlay.radius", "overlay.path", "peers.kind", "peers.length", "peers.view_size", "peers.refresh_s"),
        *(
            "loss",
            "in_transit.kind",
            "distance_s",
            "learner_bandwidth_bps",
            "request_timeout_s",
            "deadline_s",
            "batch_submission",
        ),
        *("availability.kind", "availability.mean_on_s", "availability.mean_off_s", "availability.path"),
        *("availability.law", "availability.shape", "availability.join_window_s", "availability.late_share"),
        *("availability.leave_mean_s", "availability.leave_share"),
        *("on_timeout.retry", "on_timeout.attempts", "on_timeout.backoff", "on_timeout.fallback"),
    },
    "adversaries": {
        *("coalition.choice", "coalition.share", "coalition.users", "liars.share", "liars.answer"),
        *("free_riders.share", "sybil.share", "sybil.answer", "sybil.probe_every_s"),
    },
}
"""Keys that change whose label a user gets, whether a submission arrives, or who sees what."""


def keys_of(model: type[BaseModel], prefix: str = "") -> set[str]:
    """All dotted keys of a configuration, those of every kind of a part included."""
    found = set()
    for name, field in model.model_fields.items():
        parts = _models(field.annotation)
        if not parts:
            found.add(prefix + name)
        for part in parts:
            found |= keys_of(part, f"{prefix}{name}.")
    return found


def _models(annotation) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models(part)]


def unlisted(name: str, model: type[BaseModel]) -> set[str]:
    """Keys that are on neither list."""
    kinds = ("in_transit.",)  # whatever its kind, a further fault is harmful
    known = {key for key in keys_of(model) if f"{name}.{key}" in HARMLESS or key in HARMFUL[name]}
    return {key for key in keys_of(model) - known if not key.startswith(kinds)}


def test_every_key_of_the_network_and_of_the_adversaries_is_on_a_list():
    assert unlisted("network", NetworkConfig) == set()
    assert unlisted("adversaries", AdversariesConfig) == set()
    harmful = {f"{name}.{key}" for name, keys in HARMFUL.items() for key in keys}
    assert not HARMLESS & harmful


def test_no_list_names_a_key_that_does_not_exist():
    network = {f"network.{key}" for key in keys_of(NetworkConfig)}
    assert network >= HARMLESS
    assert keys_of(NetworkConfig) >= HARMFUL["network"]
    assert keys_of(AdversariesConfig) >= HARMFUL["adversaries"]


def test_a_new_key_that_nobody_lists_is_seen_and_makes_the_network_faulty():
    """The control: with the list of faults by hand, such a key left the network ideal."""
    planted = create_model("Planted", __base__=NetworkConfig, corruption=(float, Field(default=0.0)))
    assert unlisted("network", planted) == {"corruption"}
    assert planted().ideal
    assert planted(corruption=0.5).faults == ("network.corruption",)


def test_a_new_key_inside_a_harmless_part_is_harmful_too():
    class Slow(BaseModel):
        kind: Literal["slow"] = "slow"
        drops: float = 0.0

    planted = create_model("Planted", __base__=NetworkConfig, latency=(Slow, Slow()))
    assert planted(latency=Slow(drops=0.5)).faults == ("network.latency",)


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({"latency": {"kind": "constant", "value_s": 1.0}, "duplication": 0.5, "start_window_s": 2.0}, ()),
        ({"reordering": 0.2, "bandwidth_bps": 1e6, "header_bytes": 10}, ()),
        ({"loss": 0.1}, ("network.loss",)),
        ({"overlay": {"kind": "regular", "degree": 4}}, ("network.overlay",)),
        ({"peers": {"kind": "gossip"}}, ("network.peers",)),
        ({"request_timeout_s": 1.0, "on_timeout": {"fallback": "own_label"}}, None),
        ({"deadline_s": 9.0, "batch_submission": True}, None),
        ({"availability": {"kind": "on_off", "mean_on_s": 5.0, "mean_off_s": 1.0}}, ("network.availability",)),
    ],
)
def test_what_is_a_fault(change, faults):
    network = NetworkConfig(**change)
    assert network.faults == faults if faults is not None else len(network.faults) == 2
    assert network.ideal == (network.faults == ())


def test_every_role_that_somebody_plays_counts():
    assert NOBODY.active == ()
    for role in ("coalition", "liars", "free_riders", "sybil"):
        assert AdversariesConfig(**{role: {"share": 0.1}}).active == (f"adversaries.{role}",)


def test_differing_keys_are_found_at_any_depth():
    tree = NetworkConfig(latency={"kind": "constant", "value_s": 1.0}).model_dump()
    default = NetworkConfig().model_dump()
    assert set(differing("n", tree, default)) == {"n.latency.kind", "n.latency.value_s"}
    assert list(differing("n", default, default)) == []
    below = differing("n", {"a": {"b": {"c": 1}, "d": {}}, "e": 1}, {"a": None, "e": 1, "f": 2})
    assert list(below) == ["n.a.b.c", "n.a.d"]
