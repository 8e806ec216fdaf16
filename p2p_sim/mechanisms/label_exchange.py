"""The peer-to-peer label exchange (Algorithm 2 of the clustering paper) as a mechanism."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from p2p_sim.base import Extended, InputError
from p2p_sim.exchange import NOBODY, ONE_PEER, AdversariesConfig, Asking, EngineName, Exchange, Message
from p2p_sim.mechanisms.deployment import Accounted, Deployment, Setup
from p2p_sim.mechanisms.exchange_accounting import (
    cluster_privacy,
    clusters_to_evaluate,
    coalition_advantage,
    facts_of,
    observed,
    worst_account,
)
from p2p_sim.mechanisms.label_values import ValueMessage
from p2p_sim.mechanisms.mechanism import SAMPLING_RATE, Column
from p2p_sim.mechanisms.message_payloads import OF_MESSAGES, MessagesConfig, flipped_labels
from p2p_sim.mechanisms.noise_law import Evidence, NoiseLaw, ValueLaw, of_messages
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome, ReleaseKind
from p2p_sim.mechanisms.randomized_response import FLIP_PROB, FlippedLabelsConfig, RandomizedResponse
from p2p_sim.mechanisms.realised_accountants import NoiseAlone
from p2p_sim.network import Network, NetworkConfig
from p2p_sim.population import ClustersConfig, People
from p2p_sim.privacy import (
    LEARNER_CONDITIONS,
    LOCAL_CONDITIONS,
    Accountant,
    Condition,
    LossLaw,
    PrivacyBound,
    Situation,
    Stated,
    WorstOf,
    coarse_law,
    epsilons,
    first_failure,
    worst_bound,
)
from p2p_sim.privacy.exchange import (
    calibrate_flip_prob,
    lemma9_stated,
    peer_weights,
    smallest_flip_prob,
    theorem3_stated,
)
from p2p_sim.privacy.exchange.majority_exchange import LARGEST_CLUSTER


class LabelExchangeConfig(FlippedLabelsConfig, Extended):
    """Users flip their labels, fetch noisy labels of random peers, and submit the majority reply with probability θ."""

    kind: Literal["label_exchange"] = "label_exchange"
    later: ClassVar[tuple[str, ...]] = ("peers", "missing")
    sends: ClassVar[bool] = True
    by_shard: ClassVar[bool] = True
    described: ClassVar[str] = "label exchange"
    conditions: ClassVar[tuple[str, ...]] = LEARNER_CONDITIONS
    columns: ClassVar[tuple[Column, ...]] = (FLIP_PROB, SAMPLING_RATE, *OF_MESSAGES)
    flip_prob: float | None = Field(default=None, ge=0, le=1)
    """α: probability that a noisy label differs from the true one, 0 to (K-1)/K for K classes. Give this or
    `target_epsilon`."""
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε at the scenario's δ, above 0 and at most 100. The least noise (smallest α, or largest ε₀ of the randomizer) is
    chosen that certifies this ε in every cluster.
    """
    sampling_rate: float = Field(default=1.0, ge=1e-9, le=1)
    """θ: probability that a user passes the label she fetched on to the learner, 1e-9 to 1."""
    peers: int | dict[str, float] = 1
    """k: number of peers whom a user asks in parallel, with replacement; odd, 1 to 41. She passes on the most frequent
    reply. Or a table of such numbers and their probabilities, from which each user draws k: { 1 = 0.5, 5 = 0.5 }."""
    missing: Literal["silent", "answered"] = "silent"
    """What a user does if some of her peers' replies never come. "silent": she submits nothing. "answered": she submits
    the majority of the replies that came, if any came. Without `network.request_timeout_s` she waits for ever.
    """
    debias: bool = False
    """Undo the flips on average: each label becomes K signed weights. This is possible because α is public."""
    randomizer: MessagesConfig | None = None
    """Randomizer of messages that carry no flipped label: kind = "vector_approximation", "alibi" or "rr_with_prior";
    for labels that are numbers, "rr_on_bins" or "unbiased_values"."""

    @property
    def releases(self) -> ReleaseKind:
        if self.randomizer is not None:
            return self.randomizer.releases
        return "signed" if self.debias else "hard"

    @field_validator("peers", mode="before")
    @classmethod
    def _odd(cls, value: Any) -> Any:
        table = {str(k): share for k, share in value.items()} if isinstance(value, Mapping) else value
        try:
            peer_weights({int(k): share for k, share in table.items()} if isinstance(table, dict) else table)
        except (ValueError, TypeError):
            raise ValueError(
                "must be an odd number from 1 to 41, or a table of such numbers with probabilities that sum to one"
            ) from None
        return table

    @property
    def asking(self) -> Asking:
        """How many peers each user asks (a fixed number, or probabilities of several numbers), and what she does if
        replies are missing.
        """
        answered = self.missing == "answered"
        if isinstance(self.peers, int):
            return Asking(((self.peers, 1.0),), answered)
        return Asking(peer_weights({int(k): share for k, share in self.peers.items()}), answered)

    @model_validator(mode="after")
    def _one_noise(self) -> Self:
        message, key, noise = self.randomizer, "flip_prob", self.flip_prob
        if message is not None:
            if self.flip_prob is not None or self.debias:
                beyond = "flip_prob" if self.flip_prob is not None else "debias"
                raise ValueError(f"{beyond} is for flipped labels; leave it out, or randomizer.kind = {message.kind!r}")
            key, noise = "randomizer.epsilon", message.epsilon
        if (noise is None) == (self.target_epsilon is None):
            raise ValueError(f"give either {key} or target_epsilon")
        if self.asking.several and (message is not None or self.debias):
            beyond = "debias" if message is None else "randomizer"
            raise ValueError(
                f"{beyond}: is for one peer; with several peers, users submit a majority of flipped labels"
            )
        return self

    def check(self, num_classes: int) -> None:
        super().check(num_classes)
        if self.randomizer is not None:
            self.randomizer.check(num_classes)

    def check_surroundings(
        self, clusters: ClustersConfig, network: NetworkConfig, adversaries: AdversariesConfig
    ) -> None:
        """Checks that the exchange can run in this network and with these adversaries.

        Raises:
            InputError: a target ε is given, but with these network faults or adversaries no way to meet it is known. Or
            adversaries answer with a class, but messages carry something else. Or adversaries answer with the next
            class, but messages are not flipped labels.
        """
        beyond = (*network.faults, *adversaries.active)
        if self.asking.several and self.target_epsilon is not None and beyond:
            raise InputError(
                f"mechanism.target_epsilon = {self.target_epsilon:g}: with several peers this can be met only "
                f"if nothing fails and everybody follows the protocol; with {beyond[0]}, give flip_prob"
            )
        if (lying := adversaries.lying) and self.releases not in ("hard", "signed"):
            raise InputError(
                f"adversaries.{lying[0]}: answers with a class; messages carry {self.releases}; leave it out"
            )
        # flips treat all classes alike, so an answer with the next class still hides other users' flipped labels;
        # with a randomizer that uses a prior, the next class may be one that nobody else sends
        if self.randomizer is not None and adversaries.inverting:
            raise InputError(
                f"adversaries.{adversaries.inverting[0]}.answer = 'inverted': known to hide others only if "
                "messages are flipped labels; with mechanism.randomizer, give 'zero' or 'one'"
            )
        spoilt = network.uncalibrated | {f"adversaries.{role}" for role in adversaries.hiding_nobody}
        if self.target_epsilon is not None and spoilt:
            raise InputError(
                f"mechanism.target_epsilon = {self.target_epsilon:g}: can be met only if users ask anybody, "
                f"noisy labels come back, and nobody uses her own label instead; with {min(spoilt)}, give "
                + ("flip_prob" if self.randomizer is None else "randomizer.epsilon")
            )

    def sufficient(self, epsilon: float, setup: Setup) -> float:
        def certified(alpha: float, size: int) -> bool:
            noise = RandomizedResponse(alpha, setup.num_classes)
            model = LabelExchangeMechanism(noise, self.sampling_rate, asking=self.asking).protection(size)
            return model.satisfies(epsilon, setup.delta)

        if self.asking.several:
            return smallest_flip_prob(certified, setup.sizes.tolist(), setup.num_classes, epsilon)
        return calibrate_flip_prob(setup.sizes, setup.num_classes, self.sampling_rate, epsilon, setup.delta)

    def deployed(self, setup: Setup) -> "LabelExchangeMechanism":
        noise: Message = (
            self.flips(setup)
            if self.randomizer is None
            else self.randomizer.calibrated(self.target_epsilon, self.sampling_rate, setup)
        )
        if self.debias:
            flipped_labels(noise, "debiasing").debiased(np.zeros(0, dtype=np.uint8))  # refuses α = (K-1)/K
        return LabelExchangeMechanism(
            noise, self.sampling_rate, setup.engine, setup.adversaries, debias=self.debias, asking=self.asking
        )


@dataclass(frozen=True)
class LabelExchangeMechanism(Deployment):
    """The label exchange with its parameters fixed.

    Args:
        randomizer: the local noise. sampling_rate: θ, probability that a user submits the label she fetched. engine:
        "events" or "processes" send messages over the network; "vectorised" draws the result at once, from the same
        law. adversaries: which users do not follow the protocol, and how. debias: whether signed weights that undo α on
        average are released instead of flipped labels. asking: how many peers each user asks.
    """

    trust = "nobody"

    randomizer: Message
    sampling_rate: float
    engine: EngineName = "events"
    adversaries: AdversariesConfig = NOBODY
    debias: bool = False
    asking: Asking = ONE_PEER

    @property
    def parameters(self) -> dict[str, float]:
        """The randomizer's parameters (α for flipped labels) and the sampling rate θ, by the names of their results
        columns.
        """
        return {**self.randomizer.parameters, "sampling_rate": self.sampling_rate}

    def release_on(
        self, opened: Network, population: People, record: bool = False, part: tuple[int, int] | None = None
    ) -> Outcome:
        sent = Exchange(self.randomizer, self.sampling_rate, self.engine, self.adversaries, asking=self.asking).run(
            population, opened, record, part
        )
        release = LabelRelease(sent.user, self.randomizer.released(sent.payload), self.randomizer.releases)
        if self.debias:
            noisy = sent.payload.astype(np.uint8, copy=False)
            release = LabelRelease(sent.user, flipped_labels(self.randomizer, "debiasing").debiased(noisy), "signed")
        return Outcome(
            release, sent.traffic, sent.transcript, sent.arrival_s, realised=sent.realised, overlay=opened.overlay
        )

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """The learner's bound of ε at δ for each cluster size, if nothing fails and everybody follows the protocol. For
        flipped labels the bound may have a lower end above 0: no smaller ε holds. With several peers, this needs two
        classes. With more than 16 sizes, most sizes get the lower end 0 and a smaller size's upper end, which is also
        valid. This saves work.

        Args:
            sizes: distinct cluster sizes, ascending. delta: δ.
        """
        return epsilons([self.protection(int(n)) for n in sizes], delta)

    def protection(self, size: int) -> Accountant:
        """The accountant for the learner in a cluster of `size` users, if nothing fails and everybody follows the
        protocol.
        """
        if not self.asking.several:
            return self.randomizer.exchanged(size, self.sampling_rate)
        noise = flipped_labels(self.randomizer, "the majority of several peers")
        if noise.flip_prob == 0.0 or size > LARGEST_CLUSTER:
            return NoiseAlone(noise, "no figure is known for majorities without noise, or in clusters so large")
        return noise.majority(size, self.sampling_rate, self.asking.shares)

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float:
        return self.randomizer.local_epsilon

    def account(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, delta: float
    ) -> Accounted:
        """The privacy bounds of a finished run. For each cluster, the result has the learner's bound of ε at δ. For all
        users, it has bounds by results column, and counts of users in some roles. If nothing could fail, the bounds
        follow from the ideal protocol. Otherwise they are conditional on what happened on the network of this run.

        Args:
            outcome: the result of the run, with what was recorded about its network. cluster_sizes: (C,), users of each
            cluster, in the population's order. situation: network faults, users who break the protocol, and who
            observes. delta: δ.
        """
        if self.applies(situation) is None or outcome.realised is None:
            return super().account(outcome, cluster_sizes, situation, delta)
        chosen = clusters_to_evaluate(outcome.realised)
        summed = outcome.realised[0].users is not None  # then an entry stands for several users
        clusters = list(cluster_privacy(outcome.realised, self.randomizer, delta, chosen if summed else None))
        deciding = clusters if summed else list(itertools.compress(clusters, chosen))
        worst = worst_bound([cluster.learner for cluster in deciding])
        return Accounted(
            tuple(cluster.learner for cluster in clusters),
            {**self.stated(worst, np.unique(cluster_sizes), situation), **observed(deciding)},
            facts_of(outcome.realised, deciding),
        )

    def accountant_of(self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation) -> Accountant:
        if self.applies(situation) is None:
            return WorstOf(tuple(self.protection(n) for n in np.unique(cluster_sizes).tolist()))
        if outcome.realised is None:
            raise InputError("mechanism: no ε can be stated, since the run recorded nothing about its network")
        return worst_account(outcome.realised, self.randomizer)

    def learner_law(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, learner: PrivacyBound
    ) -> LossLaw:
        """A distribution of the privacy loss that dominates the learner's loss about every user of the run. The loss is
        the log-ratio of the probabilities, under two labels of a user, of what the learner sees. Upper bounds of δ at
        any ε, and of guessing a label, follow from the distribution. If only the noise is known to protect some users,
        the distribution follows from that noise.

        Args:
            outcome: the result of the run. cluster_sizes: (C,), users of each cluster, in the population's order.
            situation: network faults, users who break the protocol, and who observes. learner: the learner's bound of ε
            at δ for the worst cluster.
        """
        model = self.accountant_of(outcome, cluster_sizes, situation)
        models = model.models if isinstance(model, WorstOf) else ()
        return coarse_law(next((each for each in models if isinstance(each, NoiseAlone)), model), learner)

    def local_advantage(self, num_classes: int) -> float | None:
        return self.randomizer.advantage(num_classes)

    def network_advantages(self, outcome: Outcome, num_classes: int) -> dict[str, float]:
        """An upper bound of the coalition's guessing advantage, under the results column "advantage_coalition". The
        coalition is the learner and all colluding users. The advantage is how much the run raises the probability that
        the coalition guesses another user's label right. Beforehand, all K labels are equally likely. The result is
        empty if nobody colludes, or if the run recorded nothing about its network.

        Args:
            outcome: the result of the run. num_classes: K.
        """
        shards = outcome.realised
        if shards is None or not any(shard.member.any() for shard in shards):
            return {}
        return {"advantage_coalition": coalition_advantage(shards, self.randomizer, num_classes)}

    def without_adversaries(self) -> "LabelExchangeMechanism | None":
        return None if self.adversaries == NOBODY else replace(self, adversaries=NOBODY)

    def noise_law(self, outcome: Outcome) -> NoiseLaw | None:
        """The public probabilities (K, K) of a released label, given the true label of the random user from whom it was
        fetched. The law holds for users who follow the protocol. None if users submit the majority of several labels,
        or if messages carry no class.

        Args:
            outcome: the result of the run; not used.
        """
        transition = self.randomizer.transition
        return None if transition is None or self.asking.several else NoiseLaw.common(transition, "cluster")

    def value_law(self, outcome: Outcome) -> ValueLaw | None:
        """Public probabilities of a released number, given the label of a random cluster member. None if labels are
        classes.
        """
        return self.randomizer.published("cluster") if isinstance(self.randomizer, ValueMessage) else None

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """Scores of the K classes for each released label, (m, K), for estimates of a predictor's accuracy without true
        labels. The mean of the scores over the noise is the one-hot vector of a random cluster member's label. For
        this, no message may fail, and every user must answer with her noisy label. None if no scores are known, as for
        majorities of several labels.

        Args:
            outcome: the result of the run, with the m released labels. cluster_offsets: (C+1,); cluster c holds users
            cluster_offsets[c]..cluster_offsets[c+1]-1.
        """
        if outcome.labels.kind == "hard":
            return super().evidence(outcome, cluster_offsets)
        return of_messages(outcome.labels, self.randomizer, "cluster")

    @property
    def remaining_flip_prob(self) -> float | None:
        """The flip probability α of the released labels of two classes. If the release undoes the flips on average
        (debiasing), the value is 0 for any number of classes. Otherwise it is None if messages are not flipped labels
        of two classes, or if users submit a majority of several labels.
        """
        if self.asking.several:
            return None
        return 0.0 if self.debias else self.randomizer.binary_flip_prob

    @property
    def local_conditions(self) -> tuple[str, ...]:
        """The conditions, as sentences, under which ε₀ holds: the ε of one noisy label against an observer who knows
        its owner.
        """
        return (*LOCAL_CONDITIONS, *self.randomizer.caveats)

    def situation(self, surroundings: Situation) -> Situation:
        """The situation with two further facts: what a message carries (such as a flipped label), and whether users ask
        several peers. The situation decides which bounds hold.

        Args:
            surroundings: the scenario's network faults, adversaries, number of classes and rounds, and who observes.
        """
        return replace(surroundings, message=self.randomizer.kind, several=self.asking.several)

    def applies(self, situation: Situation) -> Condition | None:
        return first_failure(self.protection(2).requires, self.situation(situation))

    def papers(self, situation: Situation, sizes: NDArray[np.int64], delta: float) -> dict[str, Stated]:
        exchange, theta = self.situation(situation), self.sampling_rate
        alpha = self.randomizer.binary_flip_prob or 0.0  # other messages are refused below
        # the largest ε over cluster sizes, or the first reason why the formula gives no ε
        lemma9 = [lemma9_stated(int(n), alpha, theta, delta, exchange) for n in sizes]
        failed = next((stated for stated in lemma9 if stated.epsilon is None), None)
        return {
            "epsilon_paper_lemma9": failed or max(lemma9, key=lambda stated: stated.epsilon or 0.0),
            "epsilon_paper_theorem3": theorem3_stated(int(sizes.min()), alpha, theta, delta, exchange),
        }


def exchange_of(mechanism: object, purpose: str, several: bool = False) -> LabelExchangeMechanism:
    """Returns the mechanism if it is a label exchange, for analyses that need a label exchange.

    Args:
        mechanism: any mechanism. purpose: name of the analysis, for the error's text. several: whether the analysis
        also allows users who ask several peers.

    Raises:
        InputError: the mechanism is not a label exchange, or users ask several peers and the analysis does not allow
        this.
    """
    if not isinstance(mechanism, LabelExchangeMechanism):
        raise InputError(f"mechanism.kind: {purpose} needs kind = 'label_exchange'")
    if mechanism.asking.several and not several:
        raise InputError(f"mechanism.peers: {purpose} is known only if every user asks one peer")
    return mechanism
