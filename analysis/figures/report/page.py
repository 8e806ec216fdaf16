"""The whole page."""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from analysis.figures.report.listing import toml
from analysis.figures.report.pictures import pictures
from analysis.figures.report.points import Failure, per_point, standing
from analysis.figures.report.statement import rounded_up, statement
from analysis.figures.report.table import points_table, ranges
from analysis.figures.report.text import count, number, plain, with_interval
from analysis.figures.report.words import subtitle, unfinished, what_was_run

TEMPLATES = Path(__file__).parent / "templates"
MOST_FAILURES, LONGEST_ERROR, LONGEST_LISTING = 200, 1000, 200_000


def report_page(rows: pd.DataFrame, manifest: Mapping[str, Any], failures: Sequence[Failure] = ()) -> str:
    """The report on a run or a sweep: one HTML page that loads nothing; the same bytes for the same arguments.

    Args:
        rows: one line a point and replicate, sorted, with the columns of `points.NEEDED` and one column a swept key.
        manifest: what was run: name, identity, seed, replicates, scenario, axes, plots, versions, model_version.
        failures: replicates without a row: point, replicate, error and the swept keys.
    """
    axes = manifest.get("axes") or []
    keys = [key for axis in axes for key in axis["keys"] if key in rows]
    left = standing(failures, rows)
    points = per_point(rows, keys, left)
    name = plain(manifest["name"])
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    return _environment().get_template("page.html").render(
        name=name,
        subtitle=subtitle(points, keys),
        paragraphs=what_was_run(rows, points, axes),
        unfinished=unfinished(points, axes, manifest.get("replicates")),
        key_figures=_key_figures(points),
        privacy=statement(rows, points),
        pictures=pictures(rows, points, keys, manifest.get("plots") or [], name),
        table=points_table(points, keys),
        ranges=ranges(points),
        size=len(points),
        failures=[_failure(failure, keys) for failure in left[:MOST_FAILURES]],
        all_failures=len(left),
        base=_cut(toml(manifest["scenario"])),
        sweep=_cut(_sweep_listing(manifest)) if axes else "",
        provenance=_provenance(manifest),
        command=_command(name, bool(axes)),
        style=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip


def _environment() -> Environment:
    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["count"] = count
    environment.filters["svg"] = Markup
    return environment


def _key_figures(points: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Heading, figure and remark: ε, what is learned, what it would be without privacy."""
    exact = bool(points["excess_risk"].notna().any()) and bool(points["excess_risk"].notna().eq(points["replicates"] > 0).all())
    quality, heading = ("excess_risk", "excess risk, nats") if exact else ("accuracy", "accuracy")
    done = points[points["replicates"] > 0]
    epsilon = done["epsilon_upper"].fillna(math.inf)
    if len(done) == 1:
        line = done.iloc[0]
        ends = {n: with_interval(*(float(line[n + e]) for e in ("", "_low", "_high"))) for n in (quality, f"nonprivate_{quality}")}
        return [
            ("ε, learner, at most", rounded_up(float(epsilon.iloc[0])), f"δ = {number(float(line['delta']))}, worst cluster"),
            (heading, *ends[quality]),
            (f"{heading.split(',')[0]} without privacy", *ends[f"nonprivate_{quality}"]),
            ("ε₀, the noise alone", rounded_up(float(line["epsilon_local"])), "peers and eavesdroppers"),
        ]
    values = done[quality].astype(float)
    return [
        ("points", f"{len(done):,d}", f"{int(done['replicates'].sum()):,d} rows"),
        ("ε, learner, at most", f"{rounded_up(float(epsilon.min()))} to {rounded_up(float(epsilon.max()))}", "by point"),
        (heading, f"{number(float(values.min()))} to {number(float(values.max()))}", "means, by point"),
    ]


def _failure(failure: Failure, keys: Sequence[str]) -> tuple[str, str, str, str]:
    where = ", ".join(f"{plain(key)} = {plain(failure.get(key))}" for key in keys if key in failure)
    what = plain(failure.get("error"), LONGEST_ERROR)
    return plain(failure.get("point")), where, plain(failure.get("replicate")), what


def _sweep_listing(manifest: Mapping[str, Any]) -> str:
    """The sweep as a sweep file would say it, beside the base scenario saved as base.toml."""
    axes = []
    for axis in manifest["axes"]:
        keys, values, labels = axis["keys"], axis["values"], axis.get("labels")
        one = len(keys) == 1
        told = {"key": keys[0], "values": [value[0] for value in values]} if one else {"keys": keys, "values": values}
        axes.append({**told, "labels": labels})
    head = {"name": manifest["name"], "base": "base.toml", "replicates": manifest.get("replicates")}
    return toml({**head, "axes": axes, "plots": list(manifest.get("plots") or []), "until": manifest.get("until")})


def _provenance(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    names = (("identity", "identity (SHA-256)"), ("model_version", "model version"), ("seed", "seed"))
    found = [(text, plain(manifest[key])) for key, text in names if key in manifest]
    found.append(("replicates of each point", plain(manifest.get("replicates"))))
    return found + [(plain(name), plain(version)) for name, version in sorted((manifest.get("versions") or {}).items())]


def _command(name: str, swept: bool) -> str:
    return f"p2p-sim sweep {name}.toml" if swept else f"p2p-sim run {name}.toml"


def _cut(text: str) -> str:
    """A listing that a page can hold."""
    if len(text) <= LONGEST_LISTING:
        return text
    return text[:LONGEST_LISTING] + "\n# cut here; manifest.json has the rest"
