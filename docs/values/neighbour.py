"""How many labels somebody guesses right, with and without what users sent."""

from p2p_sim.privacy import Accountant, Coalition, Eavesdropper, LabelExchange, Peer, advantage
from p2p_sim.privacy.wording import of_hundred

USERS, ALPHA, THETA, MEMBERS, SMALL = 100, 0.1, 0.5, 3, 10
SOURCE = (
    f"p2p-sim privacy --cluster-size {USERS} --flip-prob {ALPHA} --sampling-rate {THETA} --delta 1e-6",
    "privacy/test_advantage.py::test_the_page_for_neighbours_says_what_the_accountants_say",
)
SHARE = 0.4
"""Of the rarer label in the page's second example."""

_learner = LabelExchange(USERS, ALPHA, THETA)


def _right(observer: Accountant, prior: float = 0.5) -> str:
    return of_hundred(1.0 - prior + advantage(observer, prior).upper, True)


users, small, members, true, false = USERS, SMALL, MEMBERS, f"{100 * (1 - ALPHA):g}", f"{100 * ALPHA:g}"
learner, peer, wire = _right(_learner), _right(Peer(USERS, ALPHA)), _right(Eavesdropper(ALPHA))
coalition, few = _right(Coalition(_learner, MEMBERS)), _right(LabelExchange(SMALL, ALPHA, THETA))
known, without = _right(_learner, SHARE), of_hundred(1.0 - SHARE, False)
