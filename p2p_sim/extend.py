"""Everything that a plug-in needs to import: base classes, values and helpers."""

from p2p_sim.base.configuration import Config
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams, bernoulli
from p2p_sim.exchange.protocol import Me, Protocol, Reply, Request
from p2p_sim.exchange.randomizer import Randomizer
from p2p_sim.learning.learner import Learner, Received, one_hot
from p2p_sim.mechanisms.channels import LocalMechanism
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.mechanism import Column, Mechanism
from p2p_sim.mechanisms.noise_law import Evidence, NoiseLaw
from p2p_sim.mechanisms.outcome import LabelRelease, ModelRelease, Outcome, Predictor
from p2p_sim.mechanisms.protocol_mechanism import ProtocolConfig
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.faults import InTransit, NetworkFault
from p2p_sim.network.overlay import GraphOverlay, edges_of
from p2p_sim.population.population import Examples, FiniteLaw, Population, Sample, Shard, Source, shards
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Bracket, PrivacyBound
from p2p_sim.privacy.randomized_response import local_delta, local_epsilon
from p2p_sim.privacy.rivals.declared_protocols import SubmissionLaw

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
