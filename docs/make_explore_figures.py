"""Takes the pictures of docs/explore.md, the explorer's pages in light and dark: `python -m docs.make_explore_figures`.

It needs Playwright and a Chromium on the path.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from docs.chromium import chromium
from p2p_sim import Scenario, sweep
from p2p_sim.results.lock import locked

OUT = Path(__file__).parent / "figures"
PAGES = ("private", "worth", "watch", "played")
SCHEMES = ("light", "dark")
WIDTH, HEIGHT, HIGHER = 1280, 900, 1700


@contextmanager
def explorer(*directories: Path) -> Iterator[str]:
    """The address of a running explorer."""
    command = [sys.executable, "-c", "from p2p_sim.cli.main import main; main()", "explore", "--no-open", "--quiet"]
    process = subprocess.Popen([*command, *map(str, directories)], env=os.environ, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)


def swept(folder: Path, users: int, points: int) -> Path:
    """A small sweep, of which not all rows are there yet."""
    scenario = Scenario.from_tree(
        {
            "name": "noise",
            "engine": "vectorised",
            "population": {"kind": "synthetic", "users": users, "num_clusters": 2},
            "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.5},
        }
    )
    noise = [round(0.4 * (place + 1) / points, 4) for place in range(points)]
    sweep(scenario, {"mechanism.flip_prob": noise, "mechanism.sampling_rate": [0.2, 0.5, 1.0]}, 2, folder / "noise")
    return folder / "noise"


def take(page: Any, address: str, directory: Path, names: Sequence[str], scheme: str, out: Path) -> list[Path]:
    """Pictures of pages in one scheme of colours."""
    written = []
    for name in names:
        page.goto(address + ("" if name == "private" else name))
        if name == "private":
            page.wait_for_selector("#curve svg")
        elif name == "worth":
            page.focus("svg.chart .mark[tabindex='0']")
            page.keyboard.press("ArrowRight")
            page.wait_for_selector("#point:not([hidden])")
            page.evaluate("scrollTo(0, 0)")
        elif name == "watch":
            _follow(page, directory)
        else:
            _play(page, "learner" if scheme == "light" else "did")
        path = out / f"explore-{name}-{scheme}.png"
        page.screenshot(path=path)
        with Image.open(path) as picture:
            picture.convert("RGB").save(path, optimize=True)
        written.append(path)
    return written


def _follow(page: Any, directory: Path) -> None:
    """Some more rows arrive while the page looks on."""
    rows = directory / "rows.jsonl"
    lines = rows.read_bytes().splitlines(keepends=True)
    with locked(directory):
        rows.write_bytes(b"".join(lines[: len(lines) // 2]))
        page.reload()
        page.wait_for_selector("#rows tr")
        page.wait_for_timeout(1500)
        rows.write_bytes(b"".join(lines[: 2 * len(lines) // 3]))
        page.wait_for_timeout(2500)
    rows.write_bytes(b"".join(lines))


def _play(page: Any, view: str) -> None:
    """A film in the thick of it, below what was chosen."""
    page.set_viewport_size({"width": WIDTH, "height": HIGHER})
    page.select_option("#scenario", "network/retry")
    page.fill("#changes", "population.users=120\npopulation.num_clusters=5")
    page.click("button[type=submit]")
    film = page.frame_locator("iframe")
    film.locator("#view").select_option(view)
    film.locator("#slider").fill("700")
    film.locator("#slider").evaluate("slider => slider.blur()")
    page.evaluate("scrollTo(0, 0)")


def main(out: Path = OUT, small: bool = False) -> list[Path]:
    """Take all pictures; `small` takes those of two pages, for the tests."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        directory = swept(Path(folder), 100 if small else 1000, 4 if small else 30)
        written = []
        with explorer(*([Path(folder)] if small else [])) as published, explorer(Path(folder)) as own:
            for scheme in SCHEMES:
                shape: Any = {"width": WIDTH, "height": HEIGHT}
                page = browser.new_context(color_scheme=scheme, viewport=shape).new_page()
                page.set_default_timeout(120_000)
                for name in ("watch", "played") if small else PAGES:
                    address = own if name == "watch" else published
                    written += take(page, address, directory, [name], scheme, out)
    return written


if __name__ == "__main__":
    main()
