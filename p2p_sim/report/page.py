"""The report as one HTML page."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from p2p_sim.base import count
from p2p_sim.privacy import Terms
from p2p_sim.report.charts import Chart, embedded
from p2p_sim.report.columns import Failure, choices, plain, standing, with_failures
from p2p_sim.report.description import key_figures, learned_nothing, subtitle, unfinished, what_was_run
from p2p_sim.report.point_table import groups_table, points_table, ranges
from p2p_sim.report.privacy_statement import Mechanisms, statement
from p2p_sim.report.scenario_listing import base_file, blocks, scenario_in_order, sweep_file

SCRIPTS, STYLES = ("chart.js", "page.js"), ("page.css", "chart.css")
TEMPLATES = Path(__file__).parent / "templates"
MOST_FAILURES, LONGEST_ERROR, LONGEST_LISTING = 200, 1000, 200_000


@dataclass(frozen=True)
class Picture:
    """A figure of the report.

    caption: what the figure shows, and from how many replicates; for a figure that could not be drawn, also the reason.
    svg: the text of an SVG file; empty if the figure could not be drawn. chart: values from `p2p_sim.report.charts`; a
    browser shows the values at the pointer. None: there are no values.
    """

    caption: str
    svg: str = ""
    chart: Chart | None = None


def report_page(
    rows: pd.DataFrame,
    manifest: Mapping[str, Any],
    failures: Sequence[Failure] = (),
    *,
    pictures: Sequence[Picture] = (),
    mechanisms: Mechanisms = MappingProxyType({}),
    terms: Mapping[str, Terms] = MappingProxyType({}),
) -> str:
    """The report on a run or a sweep: one HTML page that loads no other file. Equal arguments give an equal text.

    Args:
        rows: one line for each point and replicate, sorted. The columns are the swept keys and all other columns that a
        report reads (`columns.NEEDED`). manifest: what was run, with the entries name, identity, seed, replicates,
        scenario, axes, plots, versions (of packages) and model_version. failures: replicates that failed, each with
        its point, replicate, error and swept keys. pictures: the figures, in their order. mechanisms: descriptions of
        mechanisms, by kind. terms: the conditions under which the values of ε hold, by the rows' column `statement`.
    """
    # a failure counts only without a row; a replicate with a row was run again with success
    axes = manifest.get("axes") or []
    keys = [key for axis in axes for key in axis["keys"]]
    unresolved = standing(failures, rows)
    points = with_failures(rows, keys, unresolved)
    name = plain(manifest["name"])
    script, style = (
        "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names) for names in (SCRIPTS, STYLES)
    )
    script = script.replace("\nexport ", "\n")  # both modules become one script
    # identity, model version, seed and replicates of the results, and the versions of the packages
    about = (("identity", "identity (SHA-256)"), ("model_version", "model version"), ("seed", "seed"))
    provenance = {heading: plain(manifest[key]) for key, heading in about if key in manifest}
    provenance["replicates of each point"] = plain(manifest.get("replicates"))
    versions = sorted((manifest.get("versions") or {}).items())
    content = {
        "name": name,
        "subtitle": subtitle(points, keys),
        "paragraphs": what_was_run(rows, points, axes, mechanisms, manifest["scenario"]),
        "learned_nothing": learned_nothing(rows),
        "choices": choices(rows),
        "unfinished": unfinished(points, axes, manifest.get("replicates")),
        "key_figures": key_figures(points),
        "privacy": statement(rows, points, mechanisms, terms),
        "pictures": _embed(pictures),
        "table": points_table(points, keys),
        "ranges": ranges(points),
        "groups": groups_table(points, keys),
        "size": len(points),
        "failures": [_failure(failure, keys) for failure in unresolved[:MOST_FAILURES]],
        "all_failures": len(unresolved),
        **_listings(manifest, name),
        "provenance": provenance | {plain(package): plain(version) for package, version in versions},
        "style": Markup(style),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    return _environment().get_template("page.html").render(content)


def _environment() -> Environment:
    """Jinja's settings, files and filters for the report's template. All texts are escaped."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    # a line may break after a dot or an underscore of a key
    environment.filters |= {
        "count": count, "breakable": lambda text: Markup(re.sub(r"([._])", r"\1<wbr>", str(escape(text)))),
    }  # fmt: skip
    return environment


def _embed(pictures: Sequence[Picture]) -> list[list[str]]:
    """Each figure as three texts: caption, <svg> element, and chart as JSON. The element is empty if the figure could
    not be drawn. The JSON text is empty if the figure has no chart.
    """
    embeddings = []
    for number, picture in enumerate(pictures, 1):
        alt = plain(picture.caption, LONGEST_ERROR)
        # identifiers in the element begin with "figure-" and the figure's number
        svg = Markup(embedded(picture.svg, f"figure-{number}-", alt) if picture.svg else "")
        values = json.dumps(picture.chart, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        embeddings.append([alt, svg, values if picture.chart else ""])
    return embeddings


def _failure(failure: Failure, keys: Sequence[str]) -> list[str]:
    """The cells of a failed replicate's line: point, swept values, number of the replicate, and error."""
    where = ", ".join(f"{plain(key)} = {plain(failure.get(key))}" for key in keys if key in failure)
    error = plain(failure.get("error"), LONGEST_ERROR)
    return [plain(failure.get("point")), where, plain(failure.get("replicate")), error]


def _listings(manifest: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The parts of the page on how to run the study again: the name of the base scenario's file, the scenario, the
    sweep, and the command. The scenario and the sweep are lists of texts, one for each TOML table. A run has no sweep.

    Args:
        manifest: what was run, as stored with the results. name: the study's name, and the file's name in the command.
    """
    swept = bool(manifest.get("axes"))
    return {
        "base_file": plain(base_file(manifest)),
        "base": _cut(blocks(scenario_in_order(manifest["scenario"]))),
        "sweep": _cut(blocks(sweep_file(manifest))) if swept else [],
        "command": f"p2p-sim {'sweep' if swept else 'run'} {name}.toml",
    }


def _cut(listing: list[str]) -> list[str]:
    """The first blocks of a listing, together at most 200,000 characters. A note follows if blocks are left out."""
    sized = zip(listing, accumulate(map(len, listing)), strict=True)
    fitting = [block for block, size in sized if size <= LONGEST_LISTING]
    return fitting if len(fitting) == len(listing) else [*fitting, "# cut here; manifest.json has the rest"]
