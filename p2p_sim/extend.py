"""Everything that a plug-in needs to import: base classes, values and helpers."""

from p2p_sim.base import Config, InputError, Streams, bernoulli
from p2p_sim.exchange import Me, Protocol, Randomizer, Reply, Request
from p2p_sim.learning import Learner, Received, one_hot
from p2p_sim.mechanisms import (
    Column,
    Evidence,
    LabelRelease,
    LocalMechanism,
    Mechanism,
    ModelRelease,
    NoiseLaw,
    Outcome,
    Predictor,
    ProtocolConfig,
    RandomizedResponse,
    Setup,
)
from p2p_sim.network import GraphOverlay, InTransit, NetworkFault, edges_of
from p2p_sim.population import Examples, FiniteLaw, Population, Sample, Shard, Source, shards
from p2p_sim.privacy import Accountant, Bracket, PrivacyBound, local_delta, local_epsilon
from p2p_sim.privacy.rivals import SubmissionLaw

__all__ = [
    "Accountant",
    "Bracket",
    "Column",
    "Config",
    "Evidence",
    "Examples",
    "FiniteLaw",
    "GraphOverlay",
    "InTransit",
    "InputError",
    "LabelRelease",
    "Learner",
    "LocalMechanism",
    "Me",
    "Mechanism",
    "ModelRelease",
    "NetworkFault",
    "NoiseLaw",
    "Outcome",
    "Population",
    "Predictor",
    "PrivacyBound",
    "Protocol",
    "ProtocolConfig",
    "RandomizedResponse",
    "Randomizer",
    "Received",
    "Reply",
    "Request",
    "Sample",
    "Setup",
    "Shard",
    "Source",
    "Streams",
    "SubmissionLaw",
    "bernoulli",
    "edges_of",
    "local_delta",
    "local_epsilon",
    "one_hot",
    "shards",
]
