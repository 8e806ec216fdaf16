"""Conditions under which privacy bounds hold: each has an identifier and a text."""

from typing import Self

CLAIMED = "claimed"
"""Identifier of every condition that is a plain `str`, for example of a plug-in."""


class Condition(str):
    """A condition of a bound: a text with an identifier, which stays the same when the text is reworded.

    >>> condition = Condition("one-label", "every user draws one noisy label and repeats it")
    >>> condition.identifier, condition.startswith("every user")
    ('one-label', True)
    """

    identifier: str

    def __new__(cls, identifier: str, text: str) -> Self:
        """Make a condition. By convention the identifier is in lower case with hyphens, and the text has no full stop.
        Neither is checked.
        """
        condition = super().__new__(cls, text)
        condition.identifier = identifier
        return condition

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str has one argument
        return self.identifier, str(self)


SET_SEEN = Condition(
    "set-of-submissions", "the learner sees the set of submissions, not their arrival times or other traffic"
)
ONE_LABEL = Condition("one-label", "every user draws one noisy label and repeats it")
UNIFORM_PEERS = Condition(
    "one-label-uniform-peers",
    "every user draws one noisy label and repeats it; peers are drawn uniformly and independently",
)
LABEL_FREE = Condition("independent-of-labels", "clusters, availability and latencies do not depend on labels")
LABEL_FREE_CLUSTERS = Condition("clusters-independent-of-labels", "clusters do not depend on labels")
PASSIVE = Condition(
    "passive-members", "members are passive: whom they ask is drawn, not chosen, and they follow the protocol"
)
ASKED_BY_DRAW = Condition("passive-peer", "the peer is passive: whom the peer asks is drawn")
NO_RELEASE = Condition("release-unseen", "the peer does not see the release")
TIMES_FREE = Condition("times-independent-of-peers", "start times and latencies do not depend on whom a user asks")
REALISED_NETWORK = Condition(
    "realised-network",
    "conditional on the realised network: who was online and what arrived, all independent of labels",
)
SAME_SOURCES = Condition(
    "same-sources",
    "each submission was fetched uniformly and independently from the same sources; the target's bit is not known",
)
CAPPED_FETCHES = Condition(
    "capped-fetches", "fetches are independent; no submitter's fetch distribution exceeds her cap anywhere"
)
KNOWN_FETCHES = Condition(
    "known-fetch-distribution",
    "the learner sees the set of submissions and knows the fetch distribution, which does not depend on labels",
)
KNOWN_LAW = Condition("known-fetch-law", "the learner knows the fetch distribution, which does not depend on labels")
INDEPENDENT_FETCHES = Condition(
    "independent-fetches", "every user draws one noisy label and repeats it; fetches are independent of each other"
)
ONE_VECTOR = Condition("one-vector", "every user draws one noisy vector and repeats it")
FRESH = Condition("fresh-rounds", "noise, peers and subsamples are fresh in every exchange")
REAL_NOISE = Condition(
    "real-noise", "the noise is a real number: what floating-point arithmetic gives away is not counted"
)
WITHIN_ONE = {
    repeats.identifier: Condition(repeats.identifier, f"within one exchange, {repeats}")
    for repeats in (ONE_LABEL, ONE_VECTOR, UNIFORM_PEERS, INDEPENDENT_FETCHES)
}
"""Conditions that say that a user repeats her message, by identifier. Here they are reworded for several exchanges."""

PUBLIC_PRIOR = Condition("public-prior", "the prior is public and does not come from the labels")
PUBLIC_GRID = Condition(
    "public-grid", "the range and the grid of label values are public constants and do not come from the labels"
)

ONE_OWNER = Condition(
    "rows-of-one-organisation", "each row belongs to one organisation; which one, and its number of rows, are public"
)
RELEASED_ONCE = Condition(
    "released-once", "each organisation trains a model once and shows everybody the same one, however often it is sent"
)
BLIND_PARTS = Condition(
    "blind-parts", "an organisation parts its rows between its own model and its combination without looking at them"
)
ROW_FREE = Condition(
    "network-independent-of-rows", "who is online, what is lost and when anything arrives do not depend on rows"
)

IDEAL_NOISE = Condition("ideal-noise", "each user's noise is drawn once, independently, and stays secret")
LABEL_BEHIND_NOISE = Condition(
    "label-behind-noise", "her label enters the protocol only through her noisy label: processes never hold true labels"
)
REST_LABEL_FREE = Condition(
    "rest-label-free",
    "features, clusters, overlay, availability, faults, adversaries, settings depend on labels only through noisy ones",
)

DECLARED = Condition("declared-law", "the learner's view follows the law that the protocol declares")
PROTOCOL_CONDITIONS = (ONE_LABEL, LABEL_BEHIND_NOISE, REST_LABEL_FREE, IDEAL_NOISE)
LEARNER_CONDITIONS = (SET_SEEN, UNIFORM_PEERS, LABEL_FREE)
LOCAL_CONDITIONS = (ONE_LABEL,)
REALISED_CONDITIONS = (REALISED_NETWORK, SET_SEEN, ONE_LABEL)
FETCH_CONDITIONS = (KNOWN_FETCHES, INDEPENDENT_FETCHES)
MODEL_EXCHANGE_CONDITIONS = (ONE_OWNER, RELEASED_ONCE, BLIND_PARTS, ROW_FREE)
