"""The network of one replicate as it was observed: arrays by user, and numbers for a table."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, no_directory
from p2p_sim.exchange import LEARNER, ONE_PEER, REPLY, REQUEST, SUBMISSION, Messages, MessageTrace
from p2p_sim.mechanisms import LabelExchangeMechanism, ProtocolMechanism, exchange_of, user_epsilons
from p2p_sim.network import Overlay
from p2p_sim.privacy import PrivacyBound, whole, worst_bound
from p2p_sim.replicate import row
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.row import Row
from p2p_sim.replicate.run import Completed, exchange
from p2p_sim.scenario import Scenario

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class ObserverTraffic:
    """Messages that one observer saw: number, and bytes with headers. Only eavesdroppers see undelivered messages."""

    messages: int
    bytes: int


@dataclass(frozen=True, eq=False)
class Labels:
    """True and noisy labels of all n users, for pictures of a run. No observer sees all these labels.

    true: (n,) labels, 0..K-1. noisy: (n,) labels drawn once; -1 if messages carry no class. num_classes: K.
    flip_prob: α, the probability of a flip; None: labels are not flipped.
    exact: whether the law of what the learner sees is known exactly. This needs two classes, α > 0, a network without
        faults, and parameters that do not depend on labels. All users must follow the label exchange and ask one peer.
    """

    true: NDArray[np.int64]
    noisy: NDArray[np.int64]
    num_classes: int
    flip_prob: float | None
    exact: bool

    @staticmethod
    def of(case: Replicate, completed: Completed, mechanism: LabelExchangeMechanism | ProtocolMechanism) -> "Labels":
        """The labels of an exchange that has run. The noise is drawn again from the replicate's random streams."""
        people, noise = completed.population, mechanism.randomizer
        true = np.concatenate([people.labels_of(shard) for shard in people.shards])
        noisy = np.full(true.size, -1)
        # the same streams give the same noise again
        if noise.releases == "hard":
            for shard in people.shards:
                rng = case.streams.generator("flip", shard.index)
                noisy[shard.start : shard.stop] = noise.randomize(people.labels_of(shard), rng)
        situation = case.scenario.situation(people.num_classes)
        exchanged = isinstance(mechanism, LabelExchangeMechanism) and not mechanism.asking.several
        ideal = exchanged and mechanism.applies(situation) is None and not situation.oracle
        return Labels(
            true.astype(np.int64),
            noisy,
            people.num_classes,
            noise.parameters.get("flip_prob"),
            ideal and bool(noise.binary_flip_prob),
        )


@dataclass(frozen=True, eq=False)
class ObservedNetwork:
    """One replicate's network. Arrays have one entry for each of n users, (n,), unless stated otherwise.

    name, replicate, deadline_s, delta: values of the scenario and the replicate. sampling_rate: θ; None: users follow
        another protocol.
    protocol: words for the users' protocol; None: the label exchange in which each user asks one peer. counts: the
        columns of the result row about the network.
    cluster_offsets: (C+1,) first user of each of C clusters, then n. messages: every delivered message. overlay: who
        may ask whom; None: everybody may ask everybody.
    answered_s: seconds at which a user first got a noisy label that was not late, or infinity.
    submitted_s: seconds at which the learner accepted the user's submission, or infinity.
    handled, handled_bytes: delivered messages that a user sent or received, and their bytes. answers: number of the
        user's delivered replies. member: whether the user tells the learner what she sees. own: whether the user got no
        reply and her own noisy label reached the learner, in time or late. held: whether a member received this
        user's noisy label; False for members.
    source: the user whose noisy label she submitted; -1 if she submitted none, or `protocol` is not None.
    reached: whether her submission came to the learner. The learner sees a late submission, but drops it.
    epsilon: certified ε of her label against a learner who sees the set of submissions. epsilon_local: ε₀, the ε of the
        noise on one label alone.
    statement: the privacy statement with the largest ε of any user.
    observers: the traffic that the learner, the eavesdropper and, if there is one, the coalition saw.
    trace: messages as sent, expired requests, and users' periods online. labels: true and noisy labels.
    """

    name: str
    replicate: int
    sampling_rate: float | None
    protocol: str | None
    deadline_s: float | None
    delta: float
    counts: Row
    cluster_offsets: Counts
    messages: Messages
    overlay: Overlay | None
    answered_s: Floats
    submitted_s: Floats
    handled: Counts
    handled_bytes: Counts
    answers: Counts
    member: Bools
    own: Bools
    held: Bools
    source: Counts
    reached: Bools
    epsilon: Floats
    epsilon_local: float
    statement: PrivacyBound
    observers: dict[str, ObserverTraffic]
    trace: MessageTrace
    labels: Labels

    @property
    def num_users(self) -> int:
        """The number of users, n."""
        return len(self.handled)

    @property
    def cluster_sizes(self) -> Counts:
        """Users in each cluster (C,)."""
        return np.diff(self.cluster_offsets)

    @property
    def submissions(self) -> Counts:
        """Submissions that the learner accepted from each cluster (C,)."""
        return np.add.reduceat(np.isfinite(self.submitted_s).astype(np.int64), self.cluster_offsets[:-1])

    @property
    def worst(self) -> int:
        """The user with the largest certified ε; the first if several have it."""
        return int(np.argmax(self.epsilon))

    def cluster(self, user: int) -> int:
        """The number of the cluster that a user is in."""
        return int(np.searchsorted(self.cluster_offsets, user, side="right")) - 1


def check(scenario: Scenario, replicate: int, directory: Path) -> None:
    """Refuse a scenario, replicate or directory with which `observe` or its figures would fail.

    Raises:
        InputError: the engine sends no messages, there is no such replicate, or the directory cannot be written.
    """
    if scenario.engine == "vectorised":
        raise InputError("engine = 'vectorised': sends no messages that could be recorded; set engine = 'events'")
    if replicate < 0:
        raise InputError(f"--replicate {replicate}: must be at least 0")
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    if not existing.is_dir():
        raise InputError(f"--out {directory}: {existing} {no_directory(existing)}")
    if not os.access(existing, os.W_OK):
        raise InputError(f"--out {directory}: cannot be written")


def observe(scenario: Scenario, replicate: int = 0, data_dir: Path | None = None) -> ObservedNetwork:
    """Run one replicate, record every message, and return the network.

    Args:
        scenario: with engine = "events" or "processes".
        replicate: its index, from 0.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
    """
    if getattr(scenario.mechanism, "asking", ONE_PEER).several:  # only "processes" notes which question a reply answers
        scenario = scenario.replace(engine="processes")
    return look(scenario, replicate, exchange(Replicate(scenario, replicate, data_dir), record=True))


def look(scenario: Scenario, replicate: int, completed: Completed) -> ObservedNetwork:
    """The observed network of a replicate whose exchange has run. The run must have recorded every message.

    Args:
        scenario: the scenario. replicate: the replicate's index, from 0. completed: the replicate's users and
        mechanism, and the outcome of its run with the transcript of all messages.
    """
    mechanism: ProtocolMechanism | LabelExchangeMechanism
    protocol: str | None = scenario.mechanism.described or scenario.mechanism.kind
    if isinstance(completed.mechanism, ProtocolMechanism):
        mechanism = completed.mechanism
    else:
        mechanism = exchange_of(completed.mechanism, "what happened on the network", several=True)
        protocol = f"asking {mechanism.asking.described} peers" if mechanism.asking.several else None
    outcome, users = completed.outcome, completed.population.num_users
    transcript, facts, arrival_s = outcome.transcript, outcome.realised, outcome.arrival_s
    trace = None if transcript is None else transcript.trace
    if transcript is None or trace is None or facts is None or arrival_s is None:
        raise ValueError("the exchange was not recorded: run it with record=True")
    m, noise = transcript.messages, mechanism.randomizer
    # bytes of each message; a request carries no label
    header, payload = scenario.network.header_bytes, -(-noise.payload_bits // 8)
    size = np.where(m.kind == REQUEST, header, header + payload).astype(np.int64)
    member = np.concatenate([shard.member for shard in facts])
    # when each user first got a label in time, and when the learner accepted her submission
    reply = m.kind == REPLY
    fetched = m.select(reply & ~m.late)
    answered, submitted = np.full(users, np.inf), np.full(users, np.inf)
    np.minimum.at(answered, fetched.receiver, fetched.time_s)
    np.minimum.at(submitted, outcome.labels.user, arrival_s)
    # whose noisy label came to a member of the coalition; an answer fixed beforehand contains no noisy label
    held = np.zeros(users, dtype=np.bool_)
    held[m.sender[reply & member[m.receiver]]] = True
    held &= ~member & ~np.concatenate([shard.constant for shard in facts])
    if protocol is not None:
        # all users of a cluster have the same ε: declared or proved for the protocol, or ε₀
        sizes, situation = completed.population.cluster_sizes, scenario.situation(completed.population.num_classes)
        bounds = mechanism.account(outcome, sizes, situation, scenario.privacy.delta).learner
        epsilon, statement = np.repeat([bound.epsilon_upper for bound in bounds], sizes), worst_bound(bounds)
        source = np.full(users, -1)
    else:
        epsilon, statement = user_epsilons(facts, noise, scenario.privacy.delta)
        source, rows = np.full(users, -1), trace.sent.kind == SUBMISSION
        source[trace.sent.sender[rows]] = trace.sent.whose[rows]
    counts = row.network(completed.population, outcome)
    return ObservedNetwork(
        name=scenario.name,
        replicate=replicate,
        sampling_rate=mechanism.sampling_rate if protocol is None else None,
        protocol=protocol,
        deadline_s=scenario.network.deadline_s,
        delta=scenario.privacy.delta,
        counts=counts,
        cluster_offsets=completed.population.cluster_offsets,
        messages=m,
        overlay=outcome.overlay,
        answered_s=answered,
        submitted_s=submitted,
        handled=_per_user(m, users),
        handled_bytes=_per_user(m, users, size),
        answers=np.bincount(m.sender[reply], minlength=users),
        member=member,
        own=np.concatenate([shard.own for shard in facts]),
        held=held,
        source=source,
        reached=np.isin(np.arange(users), m.sender[m.kind == SUBMISSION]),
        epsilon=epsilon,
        epsilon_local=noise.local_epsilon,
        statement=statement,
        observers=_observers(m, size, member, counts),
        trace=trace,
        labels=Labels.of(Replicate(scenario, replicate), completed, mechanism),
    )


def _per_user(m: Messages, users: int, weights: Counts | None = None) -> Counts:
    """For each of the users (n,), the number of delivered messages that she sent plus the number that she received.

    Args:
        m: the delivered messages. users: n. weights: a number for each message, such as its bytes; if given, messages
        count as their weights.
    """
    inner = m.receiver != LEARNER
    sent = np.bincount(m.sender, weights, users)
    received = np.bincount(m.receiver[inner], None if weights is None else weights[inner], users)
    return (sent + received).astype(np.int64)


def _observers(m: Messages, size: Counts, member: Bools, counts: Row) -> dict[str, ObserverTraffic]:
    """Number and bytes of the messages that each observer saw.

    The keys are "learner", "eavesdropper" and, if the coalition has members, "coalition".

    The learner saw what it received. A coalition also saw what its members sent or received. The eavesdropper saw all
    messages that were sent, even if they never arrived.

    Args:
        m: the delivered messages. size: the bytes of each of these messages, headers included. member: (n,) whether
        each user belongs to the coalition. counts: columns of the result row about the network, of which
        `messages_sent` and `bytes_sent` are read.
    """
    learner = m.receiver == LEARNER
    rows_of = {"learner": learner}
    if member.any():
        rows_of["coalition"] = learner | member[m.sender] | member[m.receiver]
    traffic = {
        who: ObserverTraffic(int(np.count_nonzero(rows)), int(size[rows].sum())) for who, rows in rows_of.items()
    }
    return {**traffic, "eavesdropper": ObserverTraffic(int(counts["messages_sent"]), int(counts["bytes_sent"]))}


def record(network: ObservedNetwork) -> dict[str, Any]:
    """The numbers of the table that `p2p-sim network` prints, by name; None: there is no such number.

    Some are about users, messages, requests, arrival times in seconds, and users' loads. Others are about observers'
    traffic, the coalition's labels, and ε: the statement with the largest ε, the median ε, and ε₀.
    """
    arrived = np.isfinite(network.submitted_s)
    # quantiles are not interpolated, so that each is the load of some user
    busiest, others = int(np.argmax(network.handled)), int(np.count_nonzero(~network.member))
    median, high = (int(np.quantile(network.handled, q, method="inverted_cdf")) for q in (0.5, 0.99))
    members = int(np.count_nonzero(network.member))
    return {
        "name": network.name,
        "replicate": network.replicate,
        "num_users": network.num_users,
        "num_clusters": len(network.cluster_sizes),
        "sampling_rate": network.sampling_rate,
        "effective_sampling_rate": float(arrived.mean()),
        **network.counts,
        **({} if network.sampling_rate is None else books(network.num_users, network.counts)),
        "arrival_last_s": float(network.submitted_s[arrived].max()) if arrived.any() else None,
        "deadline_s": network.deadline_s,
        "load_median": median,
        "load_p99": high,
        "load_max": int(network.handled.max()),
        "load_median_bytes": int(np.quantile(network.handled_bytes, 0.5, method="inverted_cdf")),
        "load_p99_bytes": int(np.quantile(network.handled_bytes, 0.99, method="inverted_cdf")),
        "load_max_bytes": int(network.handled_bytes.max()),
        "busiest_user": busiest,
        "busiest_cluster": network.cluster(busiest),
        "busiest_neighbours": int(network.overlay.degrees[busiest]) if network.overlay else None,
        "busiest_answers": int(network.answers[busiest]),
        "observers": {who: asdict(traffic) for who, traffic in network.observers.items()},
        "coalition_members": members,
        "held_labels": int(np.count_nonzero(network.held)) if members else None,
        "held_share": float(np.count_nonzero(network.held) / others) if members and others else None,
        **{key: value for key, value in whole(network.statement).items() if key != "epsilon_lower"},
        "epsilon_median_user": float(np.quantile(network.epsilon, 0.5, method="inverted_cdf")),
        "epsilon_local": network.epsilon_local,
    }


def books(users: int, counts: Row) -> Row:
    """Numbers of users by the fate of their requests, in an exchange in which each user asks for one label.

    The keys are users_answered, users_unanswered, users_departed and users_absent. Every user counts once. An answered
    user got a label. An unanswered user's last request expired or failed. A departed user went offline for good while
    her request was open. An absent user never asked.

    counts: the counts of messages and requests in a result row.
    """
    unanswered = counts["expired"] + counts["failed"] - counts["retries"] - counts["departed"]
    return {
        "users_answered": counts["answered"],
        "users_unanswered": unanswered,
        "users_departed": counts["departed"],
        "users_absent": users - (counts["fetches"] - counts["retries"]),
    }
