"""Takes the pictures of a report in docs/sweeps.md, in light and dark: `python -m docs.make_report_figures`.

It needs Playwright and a Chromium on the path.
"""

import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from docs.chromium import chromium
from docs.make_explore_figures import OUT, SCHEMES, swept
from p2p_sim.report.results_report import write_report


def take(browser: Any, report: Path, out: Path) -> list[Path]:
    """Pictures of a report's first figure with a chosen point, in both schemes of colours."""
    written = []
    for scheme in SCHEMES:
        page = browser.new_page(color_scheme=scheme, viewport={"width": 1000, "height": 900})
        page.goto(report.as_uri())
        page.focus("#figure-1 .mark[tabindex='0']")
        page.keyboard.press("ArrowDown")
        path = out / f"report-{scheme}.png"
        page.locator("#figure-1").screenshot(path=path)
        with Image.open(path) as picture:
            picture.convert("RGB").save(path, optimize=True)
        written.append(path)
        page.close()
    return written


def main(out: Path = OUT) -> list[Path]:
    """Run a small sweep, write its report and take the pictures."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        return take(browser, write_report(swept(Path(folder), 1000, 8)), out)


if __name__ == "__main__":
    main()
