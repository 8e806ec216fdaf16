"""What a choice of settings may look at, and what it costs."""

from collections.abc import Sequence

from p2p_sim.base.errors import InputError
from p2p_sim.scenario import Scenario

COSTS = {
    "public": "rehearsal on a synthetic or public data set; the choice costs no ε",
    "released": "choices after a release; they cost no ε",
    "curator": "private selection by a curator; its ε includes the choice",
    "oracle": "looks at true labels that no ε counts; no ε of this search protects them",
}
"""The four kinds of search, and what each costs."""
LOOKS = tuple(COSTS)


def check_look(look: str, scenario: Scenario, keys: Sequence[str]) -> None:
    """Refuse a search that would look at more than it declares.

    Args:
        look: what the search declares. scenario: whose population is searched. keys: that the search varies.

    Raises:
        InputError: one line.
    """
    if look not in LOOKS:
        raise InputError(f"--look {look}: must be one of {', '.join(LOOKS)}")
    if look == "public" and scenario.population.own:
        raise InputError(
            f"--look public: population.kind = {scenario.population.kind!r} is your own data, with private labels; "
            "search on a synthetic or public data set, or name the unpaid look: --look oracle"
        )
    if look == "released":
        _check_released(keys)
    if look == "curator":
        raise InputError(
            "--look curator: a search cannot be private selection yet: that needs settings drawn independently from a "
            "fixed law and a private score; choose public or oracle"
        )


def _check_released(keys: Sequence[str]) -> None:
    """After a release only the learner may be chosen, and the score must come from released labels."""
    further = [key for key in keys if not key.startswith("learner.")]
    if further:
        raise InputError(
            f"--look released: {further[0]} changes the release, and each further release costs ε; search keys of the "
            "learner only"
        )
    raise InputError(
        "--look released: the accuracy in the rows is measured on true labels; a search cannot be scored by released "
        "labels yet; choose public or oracle"
    )
