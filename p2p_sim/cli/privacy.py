"""The commands that ask how private an exchange is: they parse and print; the answers come from `questions`."""

from typing import Annotated

import typer

from p2p_sim.cli.options import AsJson, Quiet, one_of

Delta = Annotated[float | None, typer.Option(metavar="D", help="δ, above 0 and below 1; prints ε.")]
ClusterSize = Annotated[
    int | None,
    typer.Option(metavar="N", help="Users in the cluster, at least 2.  [required but for eavesdropper]"),
]

Observer = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="learner, learner-times, peer, coalition or eavesdropper.",
        autocompletion=one_of("learner", "learner-times", "peer", "coalition", "eavesdropper"),
    ),
]
Members = Annotated[int | None, typer.Option(metavar="C", help="Users in the coalition.  [required for coalition]")]


def privacy(
    flip_prob: Annotated[float, typer.Option(metavar="A", help="α, the probability of a flip.", show_default=False)],
    cluster_size: ClusterSize = None,
    sampling_rate: Annotated[float, typer.Option(metavar="T", help="θ, above 0 and at most 1.")] = 1.0,
    delta: Delta = None,
    epsilon: Annotated[float | None, typer.Option(metavar="E", help="ε, at least 0; prints δ.")] = None,
    observer: Observer = "learner",
    members: Members = None,
    rounds: Annotated[int, typer.Option(metavar="R", help="Exchanges with the same noisy labels.")] = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="Fresh noise in every round; rounds compose.")] = False,
    num_classes: Annotated[int, typer.Option(metavar="K", help="Classes of the label.")] = 2,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print how private the exchange is: ε at a given δ, or δ at a given ε, for a named observer.

    Example: p2p-sim privacy --cluster-size 1000 --flip-prob 0.1 --sampling-rate 0.5 --delta 1e-6
    """
    from p2p_sim.cli.printing.privacy import print_privacy
    from p2p_sim.cli.questions import Question, answer

    question = Question(cluster_size, flip_prob, sampling_rate, observer, members, rounds, fresh, num_classes)
    print_privacy(question, answer(question, delta, epsilon), json_)


def calibrate(
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
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print a flip probability that certifies (ε, δ) against an observer in clusters of the given sizes.

    It is the smallest of three digits, or that of the noise on a label alone, rounded up to four, if none is smaller.

    Example: p2p-sim calibrate --cluster-size 100 --cluster-size 250 --epsilon 0.5 --delta 1e-6 --sampling-rate 0.5
    """
    from p2p_sim.cli.printing.privacy import print_calibration
    from p2p_sim.cli.questions import calibrated

    found = calibrated(cluster_size, num_classes, sampling_rate, epsilon, delta, observer, members)
    print_calibration(found, json_)
