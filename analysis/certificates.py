"""Certificates of the learner's ε that README and guides print, for clusters of at most 4,096 users.

A certificate is a file with a claim about ε. `verify_certificate.py` proves this claim. `figures` lists what is
certified. Run as `python -m analysis.certificates` or by `make published`; it takes one or two CPU minutes.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pandas as pd

from analysis.internet_scale.growth import DELTA, FLIP_PROB
from analysis.study import PUBLISHED, ROOT, SWEEPS, Frame, command
from p2p_sim import load_scenario
from p2p_sim.base import write_whole
from p2p_sim.mechanisms import LabelExchangeConfig
from p2p_sim.privacy import LabelExchange, certificate
from p2p_sim.replicate import Replicate
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps import load_sweep

NUMBER = re.compile(r"[0-9.]+")
NAME, LARGEST = "certificates", 4096
EXAMPLES = ((40, 0.1, 0.5, 1, 1e-5), (200, 0.1, 0.5, 1, 1e-6), (200, 0.1, 0.5, 5, 1e-6))
"""Examples that the texts print but no table contains: cluster size n, flip probability α, sampling rate θ, number of
rounds, and δ."""
TABLES = {"brackets": "epsilon_upper", "complete": "epsilon_exact", "paper": "epsilon_exact"}
"""Tables of `analysis.privacy_tables`, each with the name of the column that holds the learner's ε."""
FILES = ("quickstart.toml",)
PLANS = ("heterogeneity.toml", "users.toml")
"""Shipped scenarios (`FILES`) and sweeps (`PLANS`) with a published ε. The smallest cluster has the largest ε, which is
the published one."""


@dataclass(frozen=True)
class CertifiedFigure:
    """One published ε of an exchange.

    Attributes:
        exchange: the exchange with a published ε at the learner. delta: δ of the published ε. where: the table or text
        that prints ε. target: the ε to certify; None: the smallest ε that can be certified.
    """

    exchange: LabelExchange
    delta: float
    where: str
    target: float | None = None

    def certificate(self) -> str:
        """The certificate of the ε, as the text of its file."""
        return certificate(self.exchange, self.delta, self.target)


def main(frame: Frame) -> list[Path]:
    """Writes a certificate for each published ε of the label exchange in a cluster of at most 4,096 users. Also writes
    a table of what each certificate claims, and returns the table's file.

    Args:
        frame: runs the study and writes its files; a reduced study certifies only examples and small clusters.
    """
    wanted = {_name(figure): figure for figure in figures(frame.small)}
    lines = []
    for (name, figure), text in zip(
        wanted.items(), frame.each(CertifiedFigure.certificate, wanted.values()), strict=True
    ):
        write_whole(frame.path(name), text.encode())
        written = json.loads(text)
        lines.append({"file": name, **written["claim"], "intervals": len(written["cover"]), "where": figure.where})
    return [frame.table("table.csv", lines)]


def figures(small: bool = False) -> Iterator[CertifiedFigure]:
    """Yields every published ε to certify.

    Args:
        small: whether to yield only `EXAMPLES`, which no table contains, and of `TABLES` only the rows for clusters of
        at most 100 users.
    """
    for n, alpha, theta, rounds, delta in EXAMPLES:
        yield CertifiedFigure(LabelExchange(n, alpha, theta, rounds), delta, "examples")
    for name in TABLES:
        table = pd.read_csv(PUBLISHED / "privacy" / f"{name}.csv")
        for row in table[table["n"] <= (100 if small else LARGEST)].to_dict("records"):
            exchange = LabelExchange(int(row["n"]), row["flip_prob"], row["sampling_rate"])
            yield CertifiedFigure(exchange, row["delta"], f"privacy/{name}.csv")
    if not small:
        for file in FILES:
            yield _worst(Path(file).stem, load_scenario(ROOT / "scenarios" / file))
        for plan in (load_sweep(SWEEPS / file) for file in PLANS):
            yield from (_worst(plan.name, plan.scenario(point)) for point in plan.points())
        yield from _internet_scale()


def _internet_scale() -> Iterator[CertifiedFigure]:
    """Yields every ε to certify from results/published/internet-scale, for clusters of at most 4,096 users."""
    where = "internet-scale/table.csv"
    table = pd.read_csv(PUBLISHED / where)
    for row in table[(table["part"] == "learner") & (table["at"] <= LARGEST)].to_dict("records"):
        [rate] = NUMBER.findall(row["setting"])
        exchange = LabelExchange(int(row["at"]), FLIP_PROB, float(rate))
        yield CertifiedFigure(exchange, DELTA, f"{where}, learner")
    for row in table[(table["quantity"] == "smallest_cluster") & (table["value"] <= LARGEST)].to_dict("records"):
        alpha, rate = NUMBER.findall(row["setting"])
        exchange = LabelExchange(int(row["value"]), float(alpha), float(rate))
        yield CertifiedFigure(exchange, DELTA, f"{where}, cluster sizes", target=row["at"])


def _worst(name: str, scenario: Scenario) -> CertifiedFigure:
    """The published ε of a shipped scenario, or of one point of a sweep: the learner's ε in the smallest cluster of all
    replicates. The scenario is a label exchange with a given α.
    """
    smallest = min(int(Replicate(scenario, r).people().cluster_sizes.min()) for r in range(scenario.replicates))
    mechanism = cast(LabelExchangeConfig, scenario.mechanism)  # FILES, PLANS: exchanges with a given α
    return CertifiedFigure(
        LabelExchange(smallest, cast(float, mechanism.flip_prob), mechanism.sampling_rate),
        scenario.privacy.delta,
        f"shipped/table.csv, {name}",
    )


def _name(figure: CertifiedFigure) -> str:
    """The certificate's file name, such as n40-a0.1-t0.5-r5-d1e-05.json: n, α, θ, the rounds (if several), and δ."""
    e = figure.exchange
    rounds = f"-r{e.rounds}" if e.rounds > 1 else ""
    return f"n{e.cluster_size}-a{e.flip_prob:g}-t{e.sampling_rate:g}{rounds}-d{figure.delta:g}.json"


if __name__ == "__main__":
    command(NAME, main)
