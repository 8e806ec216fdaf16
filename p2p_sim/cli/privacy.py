"""The commands that say how private an exchange is, and the command that attacks a mechanism."""

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from p2p_sim.base import InputError, check_new, write_whole, writing
from p2p_sim.cli.options import (
    FIGURES,
    AsJson,
    DataDir,
    Overrides,
    Quiet,
    ScenarioFile,
    check_file,
    one_of,
)
from p2p_sim.cli.scenarios import load

Delta = Annotated[float | None, typer.Option(metavar="D", help="δ, above 0 and below 1; prints ε.")]
ClusterSize = Annotated[
    int | None,
    typer.Option(metavar="N", help="Users in the cluster, at least 2.  [required, except for eavesdropper]"),
]

FlipProb = Annotated[float, typer.Option(metavar="A", help="α, the probability of a flip.", show_default=False)]
Rounds = Annotated[int, typer.Option(metavar="R", help="Exchanges with the same noisy labels.")]
Observer = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="learner, learner-times, peer, coalition or eavesdropper.",
        autocompletion=one_of("learner", "learner-times", "peer", "coalition", "eavesdropper"),
    ),
]
Degree = Annotated[
    int | None,
    typer.Option(metavar="G", help="Neighbours whom each user may ask, on a regular overlay.  [default: everybody]"),
]
Peers = Annotated[int, typer.Option(metavar="K", help="Peers whom each user asks; she submits what most say.")]
Members = Annotated[int | None, typer.Option(metavar="C", help="Users in the coalition.  [required for coalition]")]


def privacy(
    *,
    flip_prob: FlipProb,
    cluster_size: ClusterSize = None,
    sampling_rate: Annotated[float, typer.Option(metavar="T", help="θ, above 0 and at most 1.")] = 1.0,
    delta: Delta = None,
    epsilon: Annotated[float | None, typer.Option(metavar="E", help="ε, at least 0; prints δ.")] = None,
    observer: Observer = "learner",
    members: Members = None,
    rounds: Rounds = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="Fresh noise in every round; rounds compose.")] = False,
    num_classes: Annotated[int, typer.Option(metavar="K", help="Classes of the label.")] = 2,
    degree: Degree = None,
    peers: Peers = 1,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print how private the exchange is: ε at a given δ, or δ at a given ε, for a named observer.

    Example: p2p-sim privacy --cluster-size 1000 --flip-prob 0.1 --sampling-rate 0.5 --delta 1e-6
    """
    from p2p_sim.cli.printing.numbers import print_output
    from p2p_sim.cli.printing.privacy_answers import privacy_output
    from p2p_sim.privacy import Question, answer, exposed

    question = Question(
        cluster_size, flip_prob, sampling_rate, observer, members,
        rounds=rounds, fresh=fresh, num_classes=num_classes, degree=degree, peers=peers,
    )  # fmt: skip
    figures = answer(question, delta, epsilon)
    if beware := exposed(observer, cluster_size, delta, (members or 1) * rounds * peers):
        warnings.warn(beware, stacklevel=2)
    print_output(privacy_output(question, figures), json_)


def calibrate(
    *,
    cluster_size: Annotated[
        list[int], typer.Option(metavar="N", help="Users in a cluster; may be repeated.", show_default=False)
    ],
    epsilon: Annotated[float, typer.Option(metavar="E", help="Target ε, above 0.", show_default=False)],
    delta: Annotated[float, typer.Option(metavar="D", help="Target δ, above 0 and below 1.", show_default=False)],
    sampling_rate: Annotated[
        float | None,
        typer.Option(metavar="T", help="θ, above 0 and at most 1.  [required for learner and coalition]"),
    ] = None,
    num_classes: Annotated[int, typer.Option(metavar="K", help="Classes of the label.")] = 2,
    observer: Observer = "learner",
    members: Members = None,
    degree: Degree = None,
    peers: Annotated[
        list[int] | None,
        typer.Option(
            metavar="K",
            help="Peers whom each user asks; she submits what most say. If repeated, prints which "
            "number misses a cluster's majority least often.  [default: 1]",
            show_default=False,
        ),
    ] = None,
    majority: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Share of a cluster's users with its commoner label, for the comparison of several --peers.  "
            "[default: 0.6]",
        ),
    ] = None,
    flip_prob: Annotated[
        float | None, typer.Option(metavar="A", help="α; prints the smallest degree that suffices with this α.")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print a flip probability that certifies (ε, δ) against an observer in clusters of the given sizes.

    The result is the smallest α of three digits that is enough. If the noise on a label alone reaches ε with no larger
    α, the result is that α, rounded up to four digits.
    With several --peers, print which number of peers has the least error at the target, and each number's α.
    With --flip-prob, print the smallest number of neighbours instead, or that no number is enough.

    Example: p2p-sim calibrate --cluster-size 100 --cluster-size 250 --epsilon 0.5 --delta 1e-6 --sampling-rate 0.5
    """
    from p2p_sim.cli.printing.numbers import print_output
    from p2p_sim.cli.printing.privacy_answers import calibration_output, neighbours_output, peers_output
    from p2p_sim.privacy import Question, calibrated, compared_peers, enough_neighbours, exposed

    # with --flip-prob, the search is for the smallest number of neighbours in one cluster
    if flip_prob is not None:
        if degree is not None:
            raise InputError(f"--degree {degree}: does not go with --flip-prob, which asks for the smallest degree")
        if peers is not None and set(peers) != {1}:
            raise InputError(f"--peers {peers[0]}: does not go with --flip-prob, which asks for a degree")
        if len(cluster_size) > 1 or sampling_rate is None:
            raise InputError("--flip-prob: needs one --cluster-size and --sampling-rate; it prints a degree for these")
        question = Question(cluster_size[0], flip_prob, sampling_rate, observer, members, num_classes=num_classes)
        print_output(neighbours_output(enough_neighbours(question, epsilon, delta)), json_)
        return
    if peers is not None and len(set(peers)) > 1:
        if observer != "learner" or num_classes > 2 or degree is not None:
            raise InputError(
                "--peers: several are compared for --observer learner and two classes only, without --degree"
            )
        comparison = compared_peers(
            cluster_size, peers, sampling_rate,
            epsilon=epsilon, delta=delta, majority=0.6 if majority is None else majority,
        )  # fmt: skip
        print_output(peers_output(comparison), json_)
        return
    if majority is not None:
        raise InputError(f"--majority {majority:g}: is only for a comparison of several --peers")
    number = peers[0] if peers else 1
    calibration = calibrated(
        cluster_size, num_classes, sampling_rate, epsilon=epsilon, delta=delta,
        observer=observer, members=members, degree=degree, peers=number,
    )  # fmt: skip
    if beware := exposed(observer, max(cluster_size), delta, (members or 1) * number):
        warnings.warn(beware, stacklevel=2)
    print_output(calibration_output(calibration), json_)


def certify(
    *,
    cluster_size: Annotated[
        int, typer.Option(metavar="N", help="Users in the cluster, at least 2.", show_default=False)
    ],
    flip_prob: FlipProb,
    sampling_rate: Annotated[float, typer.Option(metavar="T", help="θ, above 0 and at most 1.", show_default=False)],
    delta: Annotated[float, typer.Option(metavar="D", help="δ, above 0 and below 1.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The certificate, a new file.", show_default=False)],
    epsilon: Annotated[
        float | None, typer.Option(metavar="E", help="ε, at least 0.  [default: what `privacy` prints, unrounded]")
    ] = None,
    rounds: Rounds = 1,
    verifier: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory to copy verify_certificate.py to.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a certificate of (ε, δ) for the learner; a single Python file proves the certificate without p2p-sim.

    The cluster has at most 65,536 users and labels of two classes. The certificate is proved before it is written.

    Example: p2p-sim certify --cluster-size 200 --flip-prob 0.1 --sampling-rate 0.5 --delta 1e-6 --out claim.json
    """
    from p2p_sim.cli.printing.privacy_answers import print_certified
    from p2p_sim.privacy import Question, certified, verifier_source

    # check first that both files are new: the proof may take long
    check_new("--out", out)
    program = None if verifier is None else verifier / verifier_source().name
    if program is not None:
        check_new("--verifier", program)
        if program.resolve() == out.resolve():
            raise InputError(f"--out {out}: is the file of --verifier too; choose another name")
    text = certified(Question(cluster_size, flip_prob, sampling_rate, rounds=rounds), delta, epsilon)
    with writing(out):
        write_whole(out, text.encode())
    if program is not None:
        with writing(program):
            write_whole(program, verifier_source().read_bytes())
    print_certified(out, program or verifier_source(), quiet)


def audit(
    scenario: ScenarioFile,
    *,
    overrides: Overrides = None,
    observer: Annotated[
        str, typer.Option(metavar="NAME", help="learner or coalition.", autocompletion=one_of("learner", "coalition"))
    ] = "learner",
    members: Annotated[
        int | None, typer.Option(metavar="C", help="Passive users in the coalition, 1 to 5.  [default: 1]")
    ] = None,
    trials: Annotated[
        int, typer.Option(metavar="N", help="Clusters in each of the two worlds, or targets in one run.")
    ] = 100_000,
    cluster_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Users in each of many copies of one cluster, 2 to 1,000,000 (curator: 200).  "
            "[default: the scenario's own clusters]",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="events or vectorised; overrides the scenario (clusters of at most 30 users: always events).",
            autocompletion=one_of("events", "processes", "vectorised"),
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            metavar="E", help="ε at which δ is tested, in small clusters.  [default: the one with most power]"
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the trade-off of an audit in one run (.png, .pdf, .svg)."),
    ] = None,
    data_dir: DataDir = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Attack what a mechanism releases; exit status 1 if the attack proves more than the bound allows.

    A view is all that the observer sees of a cluster. If users exchange labels in clusters of at most 30 users, and
    ask one peer each, the attack counts each view. Other exchanges are attacked in one run, on the scenario's engine.

    Example: p2p-sim audit quickstart --cluster-size 12
    """
    from p2p_sim.audit import audit as attack
    from p2p_sim.cli.printing.numbers import print_output
    from p2p_sim.cli.printing.small_audits import audit_output

    check_file("--figure", figure, FIGURES)  # before the attack, which may take minutes
    result = attack(
        load(scenario, overrides, engine), observer, members, trials=trials,
        cluster_size=cluster_size, epsilon=epsilon, data_dir=data_dir,
    )  # fmt: skip
    if figure is not None:
        from p2p_sim.cli.printing.one_run_audits import draw_one_run

        draw_one_run(result, figure)
    output = audit_output(result, size_requested=cluster_size is not None)
    print_output(output, json_)
    if not result.passed:
        print(f"p2p-sim: {output.failure}", file=sys.stderr)
        raise typer.Exit(1)
