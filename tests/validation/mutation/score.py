"""What a judged sample says: the share of mutants killed among those that are not equivalent, and its interval."""

import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from tests.validation.mutation import PACKAGES

ENOUGH = 0.9
"""Least share of the mutants that are not equivalent to be killed."""
VERDICTS = Path(__file__).with_name("verdicts.toml")


def explained() -> dict[str, str]:
    """What is said of survivors in `verdicts.toml`: "equivalent" or "weak", by mutant."""
    table = tomllib.loads(VERDICTS.read_text(encoding="utf-8"))
    found = {}
    for verdict in ("equivalent", "weak"):
        for entry in table.get(verdict, []):
            assert entry["reason"], entry
            found |= dict.fromkeys(entry["mutants"], verdict)
    return found


@dataclass(frozen=True)
class Score:
    """A judged sample.

    rows: one a mutant; verdicts: of survivors; places: where a mutant can be; seed: of the draw, None if it was a list;
    gone: mutants of the list whose line is no more.
    """

    rows: Sequence[dict[str, Any]]
    verdicts: dict[str, str]
    places: int
    seed: int | None
    gone: int = 0

    def verdict(self, row: dict[str, Any]) -> str:
        """What is said of a survivor: "equivalent", "weak" or "unexplained"."""
        return self.verdicts.get(row["mutant"], "unexplained")

    def counts(self, rows: Sequence[dict[str, Any]], column: str = "result") -> tuple[int, int]:
        """Killed, and not equivalent, where a survivor without a verdict counts as not equivalent."""
        killed = sum(row[column] != "survived" for row in rows)
        return killed, len(rows) - sum(
            row["result"] == "survived" and self.verdict(row) == "equivalent" for row in rows
        )

    @property
    def share(self) -> float:
        """Killed among those that are not equivalent."""
        killed, counted = self.counts(self.rows)
        return killed / counted if counted else 1.0

    def summary(self) -> dict[str, Any]:
        """All figures, as printed and written."""
        survivors = [row for row in self.rows if row["result"] == "survived"]
        return {
            "seed": self.seed,
            "places": self.places,
            "drawn": len(self.rows),
            "gone": self.gone,
            "results": dict(Counter(row["result"] for row in self.rows).most_common()),
            "survivors": dict(Counter(self.verdict(row) for row in survivors).most_common()),
            "killed": _share(*self.counts(self.rows)),
            "killed_when_first_judged": _share(*self.counts(self.rows, "first")),
            "by_package": {
                package: _share(*self.counts([row for row in self.rows if row["mutant"].startswith(package)]))
                for package in PACKAGES
            },
            "seconds": round(sum(row["seconds"] for row in self.rows)),
        }


def _share(killed: int, counted: int) -> dict[str, Any]:
    """A share with its 95% interval (Clopper-Pearson)."""
    if not counted:
        return {"killed": 0, "of": 0}
    interval = binomtest(killed, counted).proportion_ci(0.95, "exact")
    return {"killed": killed, "of": counted, "share": round(killed / counted, 4),
            "interval": [round(float(interval.low), 4), round(float(interval.high), 4)]}  # fmt: skip


def lines(score: Score) -> list[str]:
    """For people."""
    found = score.summary()
    how = "of a list" if found["seed"] is None else f"drawn with seed {found['seed']}"
    text = [f"{found['drawn']} mutants {how}, among {found['places']} places"]
    text += [f"  of the list, no such line any more: {found['gone']}"] if found["gone"] else []
    text += [f"  {name}: {count}" for name, count in found["results"].items()]
    text += [f"  survivors, {name}: {count}" for name, count in found["survivors"].items()]
    shares = {"killed": found["killed"], "killed when first judged": found["killed_when_first_judged"]}
    for name, share in (shares | found["by_package"]).items():
        if share["of"]:
            low, high = share["interval"]
            of = f"{share['killed']} of {share['of']} that are not equivalent"
            text.append(f"{name}: {of}, {share['share']:.1%} (95% interval {low:.1%} to {high:.1%})")
    return [*text, f"{found['seconds']} seconds of the processor"]
