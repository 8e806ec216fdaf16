"""Checks the project's claims again by commands, and writes one page with a verdict on each claim.

Run as `python -m analysis.review` or `make review`; the review takes under an hour on two cores. The page is
build/review/index.html. The exit status is 1 if a verdict is not as published.
"""

import argparse
import base64
import html
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from analysis.comparison import __main__ as comparison
from analysis.study import PUBLISHED, ROOT, Frame
from p2p_sim.base import write_whole
from p2p_sim.privacy.claims import all_claims

PAPERS = ROOT / "docs" / "papers.md"
VERIFIER = "p2p_sim/privacy/certificates/verify_certificate.py"
TESTS: dict[str, tuple[str, str]] = {
    "ε of the exchange equals enumeration of all data sets and views": (
        "enumeration",
        "privacy/test_exact_accountant privacy/exchange/test_observers privacy/exchange/test_kary "
        "privacy/test_advantage privacy/exchange/test_corrected_theorem3",
    ),
    "ε of other mechanisms equals enumeration where outputs are finite": (
        "enumeration",
        "privacy/test_centralised privacy/test_resampled_classes mechanisms/test_noisy_aggregates "
        "mechanisms/test_rr_on_bins mechanisms/test_unbiased_values mechanisms/test_label_dp_pro "
        "privacy/test_private_selection",
    ),
    "both engines draw from the same law, which is the protocol's": (
        "simulation",
        "exchange/test_exact_law exchange/test_batched_exchange exchange/test_transit exchange/test_fetch_laws "
        "exchange/test_faults",
    ),
    "audits of sound mechanisms pass, and each planted fault is caught": (
        "audit",
        "audit/test_small_audits audit/test_planted_faults audit/test_one_run audit/test_realised_audit "
        "audit/test_pooled_audit audit/test_organisations_audit",
    ),
    "intervals of accuracy from released labels cover the truth": ("utility", "learning/test_released_accuracy"),
    "every number in the documentation comes from a command": ("documentation", "docs/test_numbers"),
}
"""Claims of this project. Each has the kind of its evidence and the files of its tests. Some tests plant mistakes on
purpose, and check that the project finds these mistakes."""


@dataclass(frozen=True)
class ReviewLine:
    """One claim on the page, with its evidence.

    Attributes:
        kind: the kind of evidence, or the paper that makes the claim. claim: the statement. evidence: the command that
        checks it. verdict: the result, in words. good: whether the verdict is as published.
    """

    kind: str
    claim: str
    evidence: str
    verdict: str
    good: bool


Step = Callable[[Path], Iterator[ReviewLine]]
"""A part of the review: a function that takes the folder of the page and yields lines of the page. Some parts leave the
folder unused."""
STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}"
    "table{border-collapse:collapse}td,th{border:1px solid #767676;padding:.3rem .6rem;text-align:left}"
    "td{vertical-align:top}.good td:first-child{background:#d9f2e6}.bad td{background:#fbdcdc}img{max-width:100%}"
)


def papers_claims(work: Path) -> Iterator[ReviewLine]:
    """Checks each numbered claim of the papers again, and compares the verdict with docs/papers.md.

    Yields one line for each claim. A claim is evaluated on many cases; the verdict is "holds" or "fails".
    """
    row = r"^\| .+? \| (.+?) \|.*\| (holds|fails) \|$"
    published = dict(re.findall(row, PAPERS.read_text(encoding="utf-8"), re.MULTILINE))
    for claim in all_claims():
        checked = claim.check()
        verdict, printed = "holds" if checked.holds else "fails", published.get(claim.name, "not on the page")
        text = f"{verdict} on {checked.cases:,} cases" + ("" if checked.holds else f"; instead: {checked.corrected}")
        if verdict != printed:
            text += f"; published: {printed}"
        yield ReviewLine(
            claim.paper, f"{claim.name}: {claim.statement}", "p2p-sim check-bounds", text, good=verdict == printed
        )


def certificates(work: Path) -> Iterator[ReviewLine]:
    """Checks all published certificates by a program that shares no code with the rest of the project.

    Yields one line. A certificate is a file from which a printed ε of the label exchange can be proved.
    """
    files = sorted((PUBLISHED / "certificates").glob("*.json"))
    bad = [path.name for path in files if _status([str(ROOT / VERIFIER), str(path)])]
    verdict = f"{len(files) - len(bad)} of {len(files)} are proved" + "".join(f"; {name} is not" for name in bad)
    yield ReviewLine(
        "certificate", "the printed ε of the exchange are proved",
        f"python {VERIFIER} results/published/certificates/…", verdict, bool(files) and not bad,
    )  # fmt: skip


def truth(work: Path) -> Iterator[ReviewLine]:
    """Compares 300 random bounds, each an ε at a δ, with results of arithmetic with 50 digits; yields one line."""
    command = ["-m", "tests.validation.truth", "--points", "300", "--seed", "7"]
    good = _status(command) == 0
    verdict = "no bound is below the truth" if good else "a bound is below the truth"
    yield ReviewLine("arithmetic", "300 random ε and δ hold in 50 digits", "python " + " ".join(command), verdict, good)


def tests(work: Path) -> Iterator[ReviewLine]:
    """Runs the tests that check this project's own claims.

    Yields one line for each claim. The claims are about ε, simulation, audits, accuracy and documentation.
    """
    for claim, (kind, names) in TESTS.items():
        files = [f"tests/{name}.py" for name in names.split()]
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        last = (run.stdout.strip() or "nothing ran").splitlines()[-1]
        yield ReviewLine(kind, claim, "pytest " + " ".join(files), last, run.returncode == 0)


def figure(work: Path) -> Iterator[ReviewLine]:
    """Runs the comparison of all mechanisms again at reduced size.

    The study compares accuracy at equal ε. Yields one line. The new figure goes to the folder `work` as reduced.png.
    The page shows the new figure beside the published one.
    """
    drawn = comparison.main(Frame(work / "figure", work / "work", workers=1, small=True))
    next(path for path in drawn if path.suffix == ".png").replace(work / "reduced.png")
    yield ReviewLine(
        "figure", "the comparison can be run again",
        "python -m analysis.comparison", "drawn at reduced size, below", True,
    )  # fmt: skip


STEPS: tuple[Step, ...] = (papers_claims, certificates, truth, tests, figure)


def review(work: Path, steps: tuple[Step, ...] = STEPS) -> list[ReviewLine]:
    """Runs all parts of the review and prints a line for each claim. Writes the page of verdicts to index.html and the
    page's lines to review.json. Returns the lines.

    Args:
        work: the folder of both files, and of files that the parts write. steps: the parts. Each is a function that
        takes this folder and yields a line for each claim, with evidence and verdict. By default there are five: claims
        of the papers, certificates, exact arithmetic, tests, and a figure.
    """
    lines: list[ReviewLine] = []
    work.mkdir(parents=True, exist_ok=True)
    for number, step in enumerate(steps, 1):
        begin = time.monotonic()
        for line in step(work):
            lines.append(line)
            sign = "ok " if line.good else "BAD"
            print(f"[{number}/{len(steps)}] {sign} {line.claim[:70]}: {line.verdict[:60]}", file=sys.stderr, flush=True)
        title = next(iter((step.__doc__ or "").splitlines()), "")
        print(f"[{number}/{len(steps)}] {title} {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    write_whole(work / "index.html", page(lines, work).encode())
    write_whole(work / "review.json", json.dumps([vars(line) for line in lines], indent=1).encode())
    return lines


def page(lines: list[ReviewLine], work: Path) -> str:
    """The page as HTML, with a row for each claim. A row begins with "✗ differs" if its verdict is not as published,
    else with "✓". The new figure stands beside the published one.

    work: the folder with the new figure.
    """
    bad = sum(not line.good for line in lines)
    summary = (
        f"{bad} of {len(lines)} verdicts are not as published" if bad else f"all {len(lines)} verdicts are as published"
    )
    # every text is escaped, because a verdict may hold the output of a command
    body = "".join(
        f'<tr class="{"good" if line.good else "bad"}"><td>{"✓" if line.good else "✗ differs"}</td>'
        + "".join(f"<td>{html.escape(text)}</td>" for text in (line.kind, line.claim, line.verdict))
        + f"<td><code>{html.escape(line.evidence)}</code></td></tr>"
        for line in lines
    )
    pictures = "".join(
        f'<figure><img alt="{caption}" src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}">'
        f"<figcaption>{caption}</figcaption></figure>"
        for path, caption in (
            (work / "reduced.png", "Run again at reduced size"),
            (PUBLISHED / "comparison" / "comparison.png", "As published"),
        )
        if path.exists()
    )
    heads = "".join(f"<th>{name}</th>" for name in ("verdict", "evidence or paper", "claim", "result", "command"))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Review of p2p-sim</title>'
        f"<style>{STYLE}</style></head><body><main><h1>Review of p2p-sim</h1><p><strong>{summary}.</strong></p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{pictures}</main></body></html>\n"
    )


def _status(command: list[str]) -> int:
    """The exit status of a Python command; the command's output is dropped."""
    quiet = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, check=False, env=quiet).returncode


def main() -> int:
    """Runs the review and writes its page. Returns the exit status: 1 if a verdict is not as published, else 0."""
    parser = argparse.ArgumentParser(
        description="Checks the project's claims again and writes one page of verdicts.", allow_abbrev=False
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "review", help="where the page goes")
    out = parser.parse_args().out
    lines = review(out)
    print(out / "index.html")
    return int(not all(line.good for line in lines))


if __name__ == "__main__":
    sys.exit(main())
