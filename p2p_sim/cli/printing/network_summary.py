"""The output of `p2p-sim network`, and the lines of `p2p-sim run` about messages."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from p2p_sim.base import count
from p2p_sim.cli.printing.numbers import ODDITIES, Line, Output, at_most, number, two_columns
from p2p_sim.measures import means
from p2p_sim.privacy import PrivacyBound


def network_output(record: dict[str, Any], figures: Sequence[Path], statement: PrivacyBound) -> Output:
    """The output of `p2p-sim network`: a table of one replicate (random repetition), the privacy bound with its
    conditions, and the paths of the pictures. The table shows what happened on the network.

    Args:
        record: the numbers of the table by name, and the scenario's name and the replicate's number. figures: picture
        files that were drawn. statement: the replicate's privacy bound: ε and δ against the learner, with the
        conditions.
    """
    title = f"{record['name']}: the network of replicate {record['replicate']}"
    table = two_columns(title, *(part(record) for part in (_messages, _arrivals, _load, _observers, _privacy)))
    return Output({**record, "figures": [str(path) for path in figures]}, [table, statement, *figures])


def oddities(record: Mapping[str, Any]) -> dict[str, str]:
    """The counts in a record that show something unusual about the overlay (the graph of who may ask whom). The
    names are "isolated_users", "disconnected_clusters" and "dropped_edges". Each count is a text under its name. Counts
    of 0 are left out.
    """
    return {column: f"{record[column]:,}" for column in ODDITIES if record[column]}


def _messages(r: dict[str, Any]) -> list[Line]:
    timed = " in time" if r["expired"] else ""  # without a time-out no request expires
    lines = [
        ("users, clusters", f"{count(r['num_users'], 'user')} in {count(r['num_clusters'], 'cluster')}"),
        ("messages sent by users", f"{r['messages_sent']:,} ({count(r['bytes_sent'], 'byte')})"),
        ("  and duplicated by the network", f"{r['messages_duplicated']:,}"),
        ("  of these lost on the way", f"{r['messages_lost']:,}"),
        ("  undelivered: receiver offline", f"{r['messages_undelivered']:,}"),
        ("  delivered", f"{r['messages_delivered']:,}"),
        ("requests made", f"{r['fetches']:,}, of which {r['retries']:,} retries"),
        ("  answered, expired, failed", f"{r['answered']:,}, {r['expired']:,}, {r['failed']:,}"),
        ("  late replies, dropped", f"{r['late_replies']:,}"),
    ]
    if "users_answered" not in r:  # in a plug-in's protocol, a user may ask for several labels
        return lines
    own = f", of whom {r['fallbacks']:,} passed on their own label" if r["fallbacks"] else ""
    return [
        *lines,
        (f"users who got a label{timed}", f"{r['users_answered']:,}"),
        (f"users who got no label{timed}", f"{r['users_unanswered']:,}{own}"),
        ("users who went offline for good", f"{r['users_departed']:,}"),
        ("users who never asked: never online", f"{r['users_absent']:,}"),
    ]


def _arrivals(r: dict[str, Any]) -> list[Line]:
    effective = number(r["effective_sampling_rate"])
    if r["sampling_rate"] is not None:
        effective += f" (θ = {r['sampling_rate']:g})"
    return [
        ("effective sampling rate", effective),
        *((f"  {percent}% of submissions taken by", _seconds(r[f"arrival_p{percent}_s"])) for percent in (50, 90, 99)),
        ("  all", _seconds(r["arrival_last_s"])),
        *([] if r["deadline_s"] is None else [("  deadline", _seconds(r["deadline_s"]))]),
    ]


def _load(r: dict[str, Any]) -> list[Line]:
    neighbours = "" if r["busiest_neighbours"] is None else f", {count(r['busiest_neighbours'], 'neighbour')}"
    return [
        ("messages a user handled: median", f"{r['load_median']:,} ({count(r['load_median_bytes'], 'byte')})"),
        ("  99% of users at most", f"{r['load_p99']:,} ({count(r['load_p99_bytes'], 'byte')})"),
        ("  most", f"{r['load_max']:,} ({count(r['load_max_bytes'], 'byte')})"),
        ("  by", f"user {r['busiest_user']} of cluster {r['busiest_cluster']}{neighbours}"),
    ]


def _observers(r: dict[str, Any]) -> list[Line]:
    observers = r["observers"]
    lines = [
        (f"the {who} saw", f"{count(observers[who]['messages'], 'message')} ({count(observers[who]['bytes'], 'byte')})")
        for who in ("learner", "coalition", "eavesdropper")
        if who in observers
    ]
    if r["held_labels"] is not None:
        share = "" if r["held_share"] is None else f", {r['held_share']:.1%} of all others"
        lines.append(("noisy labels sent to a member", f"labels of {count(r['held_labels'], 'non-member')}{share}"))
    return lines


def _privacy(r: dict[str, Any]) -> list[Line]:
    return [
        (f"ε, learner, at δ = {r['delta']:g}: worst user", f"{at_most(r['epsilon_upper'])}  ({r['basis']})"),
        ("  median user", at_most(r["epsilon_median_user"])),
        ("  noisy label alone, ε₀", at_most(r["epsilon_local"])),
    ]


def _seconds(value: float | None) -> str:
    return "nothing arrived" if value is None else f"{value:.4g} s"


def message_lines(rows: Any, verbose: bool) -> list[Line]:
    """Lines about the messages of a run, each a label and a text: the share of requests that were answered. With
    `verbose`, the lines also state the submissions per user, and when half and 99% of all submissions had arrived. If
    organisations exchange models, the times are for models. Without simulated messages or requests, the list is empty.

    Args:
        rows: a data frame with the run's results, a row for each replicate (random repetition). verbose: whether to add
        the lines about submissions.
    """
    values = means(rows)
    # no messages were simulated, or nobody asked, for example a single organisation
    if "completion_time_s" not in values or rows["fetches"].sum() == 0:
        return []
    requests, answered = rows["fetches"].sum(), rows["answered"].sum()
    lines = [("requests answered", f"{answered / requests:.2%} of {requests:,d}, all replicates")]
    if requests > answered:
        why = ": request and reply can each be lost" if rows["messages_lost"].sum() > 0 else ""
        lines.append(("  not answered", f"{requests - answered:,d} ({(requests - answered) / requests:.1%}){why}"))
    if verbose and "effective_sampling_rate" in values:
        lines.append(("submissions for each user", f"{values['effective_sampling_rate']}"))
    if verbose and "arrival_p99_s" in values:
        messages = "submissions" if "effective_sampling_rate" in values else "models"
        lines += [
            (f"half of the {messages} arrived within", f"{values['arrival_p50_s'].value:.3g} s"),
            (f"99% of the {messages} arrived within", f"{values['arrival_p99_s'].value:.3g} s"),
        ]
    return lines
