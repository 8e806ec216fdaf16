"""Takes the pictures of a report in docs/sweeps.md, in light and dark: `python -m docs.make_report_figures`.

It needs Playwright and a Chromium on the path.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from docs.make_explore_figures import CHROMIUM, OUT, SCHEMES, swept
from p2p_sim.outputs.report import write_report


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
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, CHROMIUM)))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = write_report(swept(Path(folder), 1000, 8))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        written = take(browser, report, out)
        browser.close()
    return written


if __name__ == "__main__":
    main()
