"""What the total variation of vectors is worth where messages are shuffled."""

from p2p_sim.privacy.rivals.shuffled_messages import ShuffledMessages
from p2p_sim.privacy.rivals.vector_approximation import bit_flip_prob_of, vector_delta

SOURCE = (
    "pytest --doctest-glob='*.md' docs/label-mechanisms.md",
    "exchange/test_exchanged_vectors.py::test_the_total_variation_is_that_of_the_law_and_the_bound_holds",
)

_beta = vector_delta(bit_flip_prob_of(1.0), epsilon=0.0).upper
_messages = ShuffledMessages(10_000, 1.0), ShuffledMessages(10_000, 1.0, total_variation=_beta)
_plain, _vectors = (message.epsilon(1e-6).epsilon_upper for message in _messages)
smaller = round(1.0 - _vectors / _plain, 1)
